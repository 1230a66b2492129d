"""The statements of the page as plain values and sentences, without markup."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.model.noise_kinds import NOISE_KINDS
from thali.posterior.answer import answer, spreads_in_words
from thali.posterior.beyond import NOTHING, beyond_in_words
from thali.posterior.diagnostics import WORDS
from thali.sentences import Face

if TYPE_CHECKING:
    from thali.model.noise_kinds import NoiseKind
    from thali.posterior import Posterior

_HOW_SURE = ((0.95, "almost certainly"), (0.8, "very probably"), (0.5, "probably"))

_WORDS = ("row", "column", "layer")  # words for one row of a mode without a name

BY = " \N{MULTIPLICATION SIGN} "
"""Sign written between the lengths of modes."""


class _Page(Face):
    """Advice without Python or commands, as readers may have neither the run nor the data."""

    def setting(self, name: str, value: Any) -> str:
        """Write a setting as a number with its unit."""
        return f"{value:,} {'sweeps' if name == 'warmup' else name}"

    def take_draws(self, draws: int) -> str:
        """Say how to get more draws per chain."""
        return f"go on to {draws:,} draws per chain"


PAGE = _Page()


class Range(NamedTuple):
    """The mean of a quantity over all draws, and the interval that contains 90% of them."""

    mean: float
    low: float
    high: float


class Facts(NamedTuple):
    """The answer in numbers, which are those of :func:`thali.posterior.answer.answer`."""

    number: int  # most probable number of components
    probability: float  # posterior probability of that number
    low: int  # 90% of the draws have between `low` and `high` components
    high: int
    every: dict[int, float]  # probability of each number of components
    shared: dict[int, float]  # the same, counting only components that at least two rows have
    matter: dict[int, float]  # and only components without which some prediction would change
    beyond: str | None  # what the components explain beyond row and column rates, in words
    noise: NoiseKind
    rates: dict[str, Range]  # quantities of the noise, by name
    spreads: dict[str, Range]  # the same of the effects of rows and columns, if there are any
    effects: str  # these in words
    wrong: Range  # number of known entries that contradict the components of a draw
    share_wrong: float  # mean share of these among the known entries
    point_error: float  # share of known entries that contradict the point estimate
    verdict: str | None  # reason not to trust the chains, if there is one
    is_fixed: bool  # whether the number of components was given
    n_entries: int
    n_known: int
    share_of_ones: float


def facts(posterior: Posterior) -> Facts:
    """Collect the statements of the draws about the data as a whole."""
    found = answer(posterior, PAGE, quantity_words(posterior))
    number, noise, wrong = found["n_components"], found["noise"], found["wrong_entries"]
    kind = NOISE_KINDS[noise["kind"]]
    every, shared, matter = (
        _plain(found[name]["pmf"])
        for name in ("n_components", "shared_components", "components_that_matter")
    )
    low, high = number["interval"]
    return Facts(
        number["mode"],
        every[number["mode"]],
        low,
        high,
        every,
        shared,
        matter,
        beyond_in_words(found["beyond_rates"]),
        kind,
        {quantity.name: _range(noise[quantity.name]) for quantity in kind.quantities},
        {quantity.name: _range(noise[quantity.name]) for quantity in kind.spreads},
        spreads_in_words(noise),
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
    """Say how many components there are, and how certain that is.

    "Almost certainly" means a probability of at least 0.95, "very probably" of at least 0.8,
    "probably" of at least 0.5, and "most likely" only that no other number is more probable. If
    the chains cannot be trusted, the headline says "perhaps".
    """
    told = n_of(known.number, "component")
    if known.beyond == NOTHING:
        return f"Perhaps n{NOTHING[1:]}" if known.verdict else NOTHING
    if known.is_fixed:
        return f"{told}, as asked for."
    how = next((words for least, words in _HOW_SURE if known.probability >= least), "most likely")
    how = "perhaps" if known.verdict else how
    return f"{how[0].upper()}{how[1:]} {told}."


def details(known: Facts) -> list[str]:
    """Return the sentences that follow the headline."""
    told = []
    if known.noise.name == "as-published":
        told.append("The error rates were set by the published rule, so this is not a posterior.")
    if not known.is_fixed:
        share = "share of the draws with" if known.verdict else "probability of"
        sure = f"The {share} {n_of(known.number, 'component')} is {percent(known.probability)}"
        if known.low < known.high:
            sure += f"; 90% of the draws have between {known.low} and {known.high}"
        told.append(f"{sure}.")
        often = max(known.shared, key=known.shared.__getitem__)
        if known.shared != known.every:
            told.append(
                "Counting only components that at least two rows share, the most frequent number "
                f"is {often} ({percent(known.shared[often])})."
            )
        often = max(known.matter, key=known.matter.__getitem__)
        if known.matter != known.every:
            told.append(
                "Counting only components that matter, without which some prediction would "
                f"change, it is {often} ({percent(known.matter[often])})."
            )
    if known.beyond is not None and known.beyond != NOTHING:  # which the headline says
        told.append(known.beyond)
    if known.effects:
        told.append(known.effects)
    if known.beyond == NOTHING:
        return told
    if known.noise.spreads:  # a one that no component covers need not be an error
        told.append(
            f"On average over the draws, {n_of(round(known.wrong.mean), 'known entry')} "
            f"({known.share_wrong:.2%}) read one outside all components, or zero inside one."
        )
        return told
    told.append(
        f"On average over the draws, {n_of(round(known.wrong.mean), 'known entry')} "
        f"({known.share_wrong:.2%}) contradict{'s' * (round(known.wrong.mean) == 1)} the "
        "components."
    )
    return told


def agreement(posterior: Posterior, known: Facts) -> str:
    """Say whether the chains agree."""
    if known.verdict is not None:
        return known.verdict
    if posterior.n_chains == 1:
        return "Only one chain was run, so agreement between chains could not be checked."
    return f"All {posterior.n_chains} give the same answer, with enough effective draws."


def mode_words(posterior: Posterior) -> list[str]:
    """Return the word for one row of each mode: its name, or row, column, layer without one."""
    return [
        name if name != f"mode_{mode}" else _WORDS[mode] if mode < 3 else f"mode-{mode} row"
        for mode, name in enumerate(posterior.mode_names)
    ]


def n_of(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or plural.

    Examples
    --------
    >>> n_of(1, "component"), n_of(12000, "entry")
    ('1 component', '12,000 entries')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun; nouns that end in "s" are taken for plurals.

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
    """Write a share as a percentage, with 0% and 100% only if it is exactly that.

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
    """Return the words for each quantity that has diagnostics, by its name."""
    words = zip(posterior.mode_names, mode_words(posterior), strict=True)
    densities = {f"density_{name}": f"the density of {plural(word)}" for name, word in words}
    return WORDS | densities


def _plain(pmf: dict[str, float]) -> dict[int, float]:
    return {int(number): share for number, share in pmf.items()}


def _range(found: dict[str, Any]) -> Range:
    return Range(found["mean"], *found["interval"])
