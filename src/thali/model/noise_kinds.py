"""Names of the quantities that describe noise, and the words in which they are reported.

Code that summarizes draws loops over these descriptions, so it need not know which quantities a
noise model consists of.
"""

from __future__ import annotations

from typing import NamedTuple


class NoiseQuantity(NamedTuple):
    """A number that describes the noise, and what it is called."""

    name: str  # in tables, files and JSON
    phrase: str  # within a sentence
    title: str  # above its value
    base: str  # which entries it is a share of
    draws: tuple[str, ...]  # the quantities of a draw that have this value


class NoiseKind(NamedTuple):
    """How the noise of a model is reported."""

    name: str
    quantities: tuple[NoiseQuantity, ...]
    has_interval: bool  # False if an interval over the draws would not express uncertainty
    sentence: str  # with a replacement field for each quantity
    spreads: tuple[NoiseQuantity, ...] = ()  # of the effects of rows and columns, if it has any
    without: str = ""  # the sentence if there are no components, where it differs


SPURIOUS = NoiseQuantity(
    "spurious",
    "the rate of spurious ones",
    "Spurious ones",
    "of the entries that no component covers",
    ("spurious",),
)

DROPPED = NoiseQuantity(
    "dropped",
    "the rate of dropped ones",
    "Dropped ones",
    "of the entries that a component covers",
    ("dropped",),
)

FLIP = NoiseQuantity(
    "flip",
    "the rate of flipped entries",
    "Flipped entries",
    "of all entries",
    ("spurious", "dropped"),
)

UNEQUAL = NoiseKind(
    "unequal",
    (SPURIOUS, DROPPED),
    has_interval=True,
    sentence=(
        "Outside the components {spurious} of the entries read one by error; inside {dropped} "
        "read zero."
    ),
)

EQUAL = NoiseKind(
    "equal", (FLIP,), has_interval=True, sentence="Entries are flipped at a rate of {flip}."
)

FIXED = NoiseKind(
    "fixed",
    (SPURIOUS, DROPPED),
    has_interval=False,
    sentence="Error rates were given: {spurious} spurious ones, {dropped} dropped ones.",
)

AS_PUBLISHED = NoiseKind(
    "as-published",
    (FLIP,),
    has_interval=False,
    sentence="Entries are flipped at a rate of {flip}, set as published: this is not a posterior.",
)

# Where rows and columns differ, a one outside the components need not be an error.
_OUTSIDE = SPURIOUS._replace(
    title="Ones outside components", base="of the entries of an average row and column"
)
_INSIDE = DROPPED._replace(title="Zeros inside components", base=_OUTSIDE.base)
SPREADS = tuple(
    NoiseQuantity(
        f"{name}_spread",
        f"the spread of the {what}",
        f"Spread of {what}",
        "in log odds",
        (f"{name}_spread",),
    )
    for name, what in (("row", "row levels"), ("column", "column levels"), ("jump", "jumps"))
)

EFFECTS = NoiseKind(
    "effects",
    (_OUTSIDE, _INSIDE),
    has_interval=True,
    sentence=(
        "In an average row and column, {spurious} of the entries outside the components read one; "
        "inside {dropped} read zero."
    ),
    spreads=SPREADS,
    without="In an average row and column, {spurious} of the entries read one.",
)

_SPREADS_OF_TENSORS = tuple(
    NoiseQuantity(
        f"mode_{mode}_spread",
        f"the spread of the levels of mode {mode + 1}",
        f"Spread of levels of mode {mode + 1}",
        "in log odds",
        (f"mode_{mode}_spread",),
    )
    for mode in range(2, 64)
)

NOISE_KINDS = {kind.name: kind for kind in (UNEQUAL, EQUAL, FIXED, AS_PUBLISHED, EFFECTS)}
"""Every kind of noise by name."""


def noise_kind(name: str, arity: int) -> NoiseKind:
    """Return a kind of noise; with effects, every mode of a tensor has a spread.

    Examples
    --------
    >>> [quantity.name for quantity in noise_kind("effects", 3).spreads]
    ['row_spread', 'column_spread', 'jump_spread', 'mode_2_spread']
    """
    kind = NOISE_KINDS[name]
    return kind._replace(spreads=spreads_of(arity)) if kind.spreads else kind


def spreads_of(arity: int) -> tuple[NoiseQuantity, ...]:
    """Return the spreads of the levels of all modes, and that of the jumps."""
    return *SPREADS, *_SPREADS_OF_TENSORS[: arity - 2]
