"""What the page says, as plain values: no markup."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.model.noise_kinds import NOISE_KINDS
from thali.posterior.answer import answer
from thali.posterior.diagnostics import WORDS
from thali.sentences import Face

if TYPE_CHECKING:
    from thali.model.noise_kinds import NoiseKind
    from thali.posterior import Posterior

_HOW_SURE = ((0.95, "almost certainly"), (0.8, "very probably"), (0.5, "probably"))

_WORDS = ("row", "column", "layer")  # what modes without names have

BY = " \N{MULTIPLICATION SIGN} "
"""Between the lengths of modes."""


class _Page(Face):
    """Neither Python nor commands: who reads a page may have neither the run nor the data."""

    def setting(self, name: str, value: Any) -> str:
        """Write a setting as a number of things."""
        return f"{value:,} {'sweeps' if name == 'warmup' else name}"

    def take_draws(self, draws: int) -> str:
        """Say how to get more draws per chain."""
        return f"go on to {draws:,} draws per chain"


PAGE = _Page()


class Range(NamedTuple):
    """A quantity: its mean over all draws, and where 90% of them lie."""

    mean: float
    low: float
    high: float


class Facts(NamedTuple):
    """The answer in numbers: those of :func:`thali.posterior.answer.answer`."""

    number: int  # of components, the most probable
    probability: float  # of that number
    low: int  # with `high`, the range in which 90% of the draws are
    high: int
    every: dict[int, float]  # probability of each number
    shared: dict[int, float]  # the same for components of two rows or more
    noise: NoiseKind
    rates: dict[str, Range]  # of the noise, by name of the quantity
    wrong: Range  # known entries that the components of a draw get wrong
    share_wrong: float  # their mean share
    point_error: float  # share of known entries that the point estimate gets wrong
    verdict: str | None
    is_fixed: bool  # the number of components was given
    n_entries: int
    n_known: int
    share_of_ones: float


def facts(posterior: Posterior) -> Facts:
    """Gather what the draws say about the data as a whole."""
    found = answer(posterior, PAGE, quantity_words(posterior))
    number, noise, wrong = found["n_components"], found["noise"], found["wrong_entries"]
    kind = NOISE_KINDS[noise["kind"]]
    every, shared = (_plain(found[name]["pmf"]) for name in ("n_components", "shared_components"))
    low, high = number["interval"]
    return Facts(
        number["mode"],
        every[number["mode"]],
        low,
        high,
        every,
        shared,
        kind,
        {quantity.name: _range(noise[quantity.name]) for quantity in kind.quantities},
        _range(wrong),
        wrong["share"],
        posterior.point_estimate().error,
        found["warning"],
        found["alpha"] is None,
        prod(found["shape"]),
        found["observed"],
        found["ones"] / found["observed"],
    )


def headline(known: Facts) -> str:
    """Say how many components there are, and how sure that is.

    "Almost certainly" means a probability of at least 0.95, "very probably" of 0.8, "probably"
    of 0.5, and "most likely" only that no other number is more probable. Where the chains cannot
    be trusted it is "perhaps".
    """
    told = n_of(known.number, "component")
    if known.is_fixed:
        return f"{told}, as asked for."
    how = next((words for least, words in _HOW_SURE if known.probability >= least), "most likely")
    how = "perhaps" if known.verdict else how
    return f"{how[0].upper()}{how[1:]} {told}."


def details(known: Facts) -> list[str]:
    """Say in some sentences what the headline leaves out."""
    told = []
    if known.noise.name == "as-published":
        told.append("The error rates were updated as published: this is not a posterior.")
    if not known.is_fixed:
        share = "share of the draws with" if known.verdict else "probability of"
        sure = f"The {share} {known.number} is {percent(known.probability)}"
        if known.low < known.high:
            sure += f"; 90% have between {known.low} and {known.high}"
        told.append(f"{sure}.")
        often = max(known.shared, key=known.shared.__getitem__)
        if known.shared != known.every:
            told.append(
                f"Counting only those that two rows or more share, {often} "
                f"{'is' if often == 1 else 'are'} most frequent ({percent(known.shared[often])})."
            )
    told.append(
        f"The components get {n_of(round(known.wrong.mean), 'known entry')} wrong on average over "
        f"the draws, {known.share_wrong:.2%}."
    )
    return told


def agreement(posterior: Posterior, known: Facts) -> str:
    """Say whether the chains agree."""
    if known.verdict is not None:
        return known.verdict
    if posterior.n_chains == 1:
        return "There is only one: whether others agree is not known."
    return f"All {posterior.n_chains} say the same, and have enough independent draws."


def mode_words(posterior: Posterior) -> list[str]:
    """Return what a row of each mode is called: row, column, layer where modes have no names."""
    return [
        name if name != f"mode_{mode}" else _WORDS[mode] if mode < 3 else f"mode-{mode} row"
        for mode, name in enumerate(posterior.mode_names)
    ]


def n_of(number: int, noun: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> n_of(1, "component"), n_of(12000, "entry")
    ('1 component', '12,000 entries')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def plural(noun: str) -> str:
    """Write what several are called; names that end in "s" are taken for plurals.

    Examples
    --------
    >>> [plural(noun) for noun in ("row", "obs", "var", "genes", "entry", "day", "box")]
    ['rows', 'obs', 'vars', 'genes', 'entries', 'days', 'boxes']
    """
    if noun.endswith("s") or not noun[-1:].isalpha():
        return noun
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("x", "z", "ch", "sh")) else f"{noun}s"


def percent(share: float) -> str:
    """Write a share so that neither 0% nor 100% is said of what is not quite so.

    Examples
    --------
    >>> percent(0.5), percent(0.0234), percent(0.99999), percent(0.00001), percent(1.0)
    ('50%', '2.3%', 'over 99.9%', 'under 0.1%', '100%')
    """
    if share in (0.0, 1.0) or 0.1 <= share <= 0.9:
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}"


def quantity_words(posterior: Posterior) -> dict[str, str]:
    """Return what the quantities that have diagnostics are called, by name."""
    words = zip(posterior.mode_names, mode_words(posterior), strict=True)
    densities = {f"density_{name}": f"the density of {plural(word)}" for name, word in words}
    return WORDS | densities


def _plain(pmf: dict[str, float]) -> dict[int, float]:
    return {int(number): share for number, share in pmf.items()}


def _range(found: dict[str, Any]) -> Range:
    return Range(found["mean"], *found["interval"])
