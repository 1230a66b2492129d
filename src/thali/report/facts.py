"""What the page says, as plain values: no markup."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from thali.posterior import Posterior

_HOW_SURE = ((0.95, "almost certainly"), (0.8, "very probably"), (0.5, "probably"))
_MASS = 0.95

BY = " \N{MULTIPLICATION SIGN} "
"""Between the lengths of modes."""


class Rate(NamedTuple):
    """An error rate: the middle of its posterior, and where 90% of it lie."""

    low: float
    middle: float
    high: float


class Facts(NamedTuple):
    """The answer in numbers."""

    number: int  # of components, the most probable
    probability: float  # of that number
    low: int  # with `high`, the shortest range with a probability of 95%
    high: int
    every: dict[int, float]  # probability of each number
    shared: dict[int, float]  # the same for components of two rows or more
    spurious: Rate
    dropped: Rate
    error: float  # share of known entries that the point estimate gets wrong
    verdict: str | None
    is_fixed: bool  # the number of components was given
    is_posterior: bool  # false for error rates as published
    n_entries: int
    n_known: int
    share_of_ones: float


def facts(posterior: Posterior) -> Facts:
    """Gather what the draws say about the data as a whole."""
    every, shared = (_plain(posterior.n_components_table(n)) for n in (1, 2))
    number = max(every, key=every.__getitem__)  # of equally probable ones the smallest
    tensor = posterior.tensor
    low, high = shortest_range(every)
    return Facts(
        number,
        every[number],
        low,
        high,
        every,
        shared,
        _rate(posterior.spurious),
        _rate(posterior.dropped),
        posterior.point_estimate().error,
        posterior.verdict(),
        posterior.settings.model.is_finite,
        posterior.settings.model.noise != "as-published",
        prod(tensor.shape),
        tensor.n_known,
        tensor.n_ones / tensor.n_known,
    )


def shortest_range(shares: dict[int, float]) -> tuple[int, int]:
    """Return the shortest range of numbers that has 95% of the probability.

    Examples
    --------
    >>> shortest_range({3: 0.01, 4: 0.6, 5: 0.37, 9: 0.02})
    (4, 5)
    """
    values = sorted(shares)
    ranges = [
        (high - low, -total, low, high)
        for i, low in enumerate(values)
        for high in values[i:]
        if (total := sum(shares[v] for v in values if low <= v <= high)) >= _MASS - 1e-9
    ]
    return min(ranges)[2:]


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
    if not known.is_posterior:
        told.append("The error rates were updated as published: this is not a posterior.")
    if not known.is_fixed:
        share = "share of the draws with" if known.verdict else "probability of"
        sure = f"The {share} {known.number} is {percent(known.probability)}"
        if known.low < known.high:
            sure += f"; 95% have between {known.low} and {known.high}"
        told.append(f"{sure}.")
        often = max(known.shared, key=known.shared.__getitem__)
        if known.shared != known.every:
            told.append(
                f"Counting only those that two rows or more share, {often} "
                f"{'is' if often == 1 else 'are'} most frequent ({percent(known.shared[often])})."
            )
    told.append(
        "One draw that stands for all (the point estimate) gets "
        f"{percent(known.error)} of the known entries wrong."
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
    """Return what a row of each mode is called: rows and columns where modes have no names."""
    usual = ["row", "column"] if len(posterior.shape) == 2 else ["row", *posterior.mode_names[1:]]
    return [
        word if name == f"mode_{mode}" else name
        for mode, (name, word) in enumerate(zip(posterior.mode_names, usual, strict=True))
    ]


def n_of(number: int, noun: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> n_of(1, "component"), n_of(12000, "entry")
    ('1 component', '12,000 entries')
    """
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


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


def _plain(table: pd.Series[float]) -> dict[int, float]:
    return dict(zip(table.index.to_numpy().tolist(), table.to_numpy().tolist(), strict=True))


def _rate(draws: NDArray[np.float64]) -> Rate:
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95]).tolist()
    return Rate(low, middle, high)
