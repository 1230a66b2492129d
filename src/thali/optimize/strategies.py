"""How the time of a search is spent: on which costs, and at which temperatures.

No single way is best for all tables. With many components, the fewest errors are found by
searching first among covers without a wrong entry, and by allowing wrong entries later; with few
components, that is a dead end. So every strategy is tried for a part of the time, and in what is
left, the best factors are improved by kicks, with the costs of the strategy that found them.
"""

from __future__ import annotations

from typing import NamedTuple

NEVER = 1e6
"""How many times its cost a wrongly covered entry is counted where none may be."""


class Phase(NamedTuple):
    """A part of a strategy: temperatures fall from ``hot`` to ``cold``, in ones per component."""

    multiple: float  # of the cost of a wrongly covered entry
    hot: float
    cold: float
    share: float  # of the time of the strategy
    depth: float = 0.0  # sweeps after every kick; 0: no kicks


UNDER_FIRST = (Phase(NEVER, 0.15, 0.002, 0.7), Phase(1.0, 0.02, 0.002, 0.3))
COSTLY_FIRST = (Phase(3.0, 0.1, 0.01, 0.6), Phase(1.0, 0.03, 0.002, 0.4))
PLAIN = (Phase(1.0, 0.3, 0.002, 1.0),)

FROZEN = 0.08
"""Lowest temperature, in costs of an entry: below it, hardly any swap for the worse is kept."""

FREE = (PLAIN, UNDER_FIRST, COSTLY_FIRST)
"""Strategies if wrongly covered entries are allowed."""

UNDER = tuple((Phase(NEVER, hot, 0.002, 1.0),) for hot in (0.03, 0.1, 0.3))
"""Strategies if they are not."""

TRIAL = 0.07
"""Part of the time in which a strategy is tried."""

_KICKED = 4
"""Rounds after the trials: searchers share what is best between them."""


DEPTH = 1.0
"""Sweeps after every kick."""


class Leg(NamedTuple):
    """What one searcher does in one round."""

    strategy: int
    phases: tuple[Phase, ...]
    is_fresh: bool  # begins with nothing, instead of the best factors so far


def rounds(n_strategies: int) -> list[float]:
    """Return the part of the time that every round takes."""
    rest = 1.0 - TRIAL * n_strategies
    return [TRIAL] * n_strategies + [rest / _KICKED] * _KICKED


def leg(
    strategies: tuple[tuple[Phase, ...], ...], number: int, searcher: int, winner: int, *,
    is_stuck: bool,
) -> Leg:  # fmt: skip
    """Return what a searcher does in a round, given the strategy that is ahead.

    While strategies are tried, searchers do different ones. Then all kick the best factors so
    far: that finds more than to begin anew, and more than to cross the factors of several trials.
    But if kicks have found nothing for a whole round, every other searcher does begin anew.
    """
    n = len(strategies)
    if number < n:
        strategy = (number + searcher) % n
        return Leg(strategy, strategies[strategy], is_fresh=True)
    if is_stuck and searcher % 2:
        return Leg(winner, strategies[winner], is_fresh=True)
    return Leg(winner, kicks(strategies[winner]), is_fresh=False)


def kicks(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Return the phases of a strategy with kicks, at their lowest temperature."""
    return tuple(phase._replace(hot=phase.cold, depth=DEPTH) for phase in phases)
