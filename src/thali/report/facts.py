"""The statements of the page as plain values and sentences, without markup."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.model.noise_kinds import noise_kind
from thali.posterior.answer import answer
from thali.posterior.answer_words import (
    are_apart,
    coverage_in_words,
    shared_in_words,
    spreads_in_words,
)
from thali.posterior.beyond import NOTHING, beyond_in_words
from thali.sentences import Face, listed, n_of, numbered

if TYPE_CHECKING:
    from thali.model.noise_kinds import NoiseKind
    from thali.posterior import Posterior

_HOW_SURE = ((0.95, "almost certainly"), (0.8, "very probably"), (0.5, "probably"))

_MANY_CHAINS = 8  # number of chains beyond which their numbers are not listed

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

    def one_chain(self, chain: int) -> str:
        """Name a chain."""
        return f"chain {numbered(chain)}"


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
    covers: str  # what the components explain, in words
    are_apart: bool  # whether several chains disagree
    by_chain: list[dict[str, Any]]  # what every chain says by itself
    shared_by_chains: str  # what all chains have, in words, if they disagree
    part: str | None  # which chain of how many it is, if the page is about one of several


def facts(posterior: Posterior) -> Facts:
    """Collect the statements of the draws about the data as a whole."""
    found = answer(posterior, PAGE)
    number, noise, wrong = found["n_components"], found["noise"], found["wrong_entries"]
    kind = noise_kind(noise["kind"], len(posterior.shape))
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
        coverage_in_words(found),
        are_apart(found),
        found["by_chain"],
        shared_in_words(found),
        _part(posterior),
    )


def headline(known: Facts) -> str:
    """Say how many components there are, and how certain that is.

    "Almost certainly" means a probability of at least 0.95, "very probably" of at least 0.8,
    "probably" of at least 0.5, and "most likely" only that no other number is more probable. If
    the chains disagree, the headline says so, with the number of each; if they cannot be trusted
    for another reason, it says "perhaps".
    """
    told = _headline(known)
    return f"{known.part}: {told[0].lower()}{told[1:]}" if known.part else told


def _headline(known: Facts) -> str:
    told = n_of(known.number, "component")
    if known.are_apart:
        numbers = [chain["n_components"]["mode"] for chain in known.by_chain]
        apart = f"The {len(numbers)} chains disagree"
        if len(set(numbers)) == 1:
            return f"{apart}, though each has {n_of(numbers[0], 'component')}."
        if len(numbers) > _MANY_CHAINS:
            return f"{apart}: they have from {min(numbers)} to {max(numbers)} components."
        return f"{apart}: they have {listed([str(number) for number in numbers])} components."
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
    n_wrong = round(known.wrong.mean)
    entries = f"{n_of(n_wrong, 'known entry')} ({known.share_wrong:.2%})"
    wrong, s = f"On average over the draws, {entries}", "s" * (n_wrong == 1)
    if known.noise.spreads:  # a one that no component covers need not be an error
        told.append(f"{wrong} read{s} one outside all components, or zero inside one.")
        return told
    told.append(f"{wrong} contradict{s} the components.")
    return told


def agreement(posterior: Posterior, known: Facts) -> str:
    """Say whether the chains agree."""
    if known.verdict is not None:
        return known.verdict
    if known.part:
        return (
            f"This page is about one chain ({known.part.lower()}). Whether the chains agree with "
            "each other is on the page about all of them."
        )
    if posterior.n_chains == 1:
        return "Only one chain was run, so agreement between chains could not be checked."
    several = "Both" if posterior.n_chains == 2 else f"All {posterior.n_chains}"
    return f"{several} give the same answer, with enough effective draws."


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


def _part(posterior: Posterior) -> str | None:
    n_run = posterior.settings.chains
    if posterior.n_chains == n_run:
        return None
    which = listed([str(numbered(index)) for index in posterior.chain_indices])
    return f"Chain {which} of {n_run}"


def _plain(pmf: dict[str, float]) -> dict[int, float]:
    return {int(number): share for number, share in pmf.items()}


def _range(found: dict[str, Any]) -> Range:
    return Range(found["mean"], *found["interval"])
