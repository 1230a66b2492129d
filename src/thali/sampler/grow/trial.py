"""Starts on trial: which of them predicts entries best that it has not seen.

Components and effects of rows and columns can each explain what the other does, and neither gives
way later. The log evidence of one state does not always tell which is right: where rows are short,
one state stands for few of the many that matter. So a few entries are hidden, every start is
followed for some sweeps, and their predictions are compared. Of starts that predict about equally
well, the one with the fewest components goes on. The same entries, predicted by the rates of rows
and columns alone, tell what components add.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import log_expit

from thali.bits.codes import is_covered
from thali.sampler.step import draw_noise, step
from thali.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.engines.base import Hidden, HostEngine
    from thali.sampler.state import State
    from thali.sampler.target import Target

_SHARE, _LARGEST_SHARE, _ENOUGH, _MOST = 0.05, 0.2, 4000, 50_000
"""Share of the known entries to hide; a larger one while they are not enough to tell two starts
apart; and their largest number."""

_SWEEPS, _USED = 60, 40
"""Number of sweeps of a trial, and how many of them, at the end, are used for predictions."""

_ALONE = 0.4
"""Share of both if there is one start: nothing is to be decided then, only told."""

_MARGIN, _WIDE_MARGIN = 1.0, 2.0
"""Standard errors by which a start with more components must predict better: if the evidence says
the same, and if it does not."""


class Tried(NamedTuple):
    """How well a start predicts entries that it has not seen."""

    score: float  # mean log probability of a hidden entry
    gain: float  # by how much this is higher than with row and column rates alone
    standard_error: float  # of the gain, from its variation between entries
    n_hidden: int


class Trial(NamedTuple):
    """What a start has shown."""

    state: State  # after the last sweep
    scores: NDArray[np.float64]  # log probability of every hidden entry
    n_components: float  # mean number of components with more than one row

    @property
    def score(self) -> float:
        """Mean log probability of a hidden entry."""
        return float(self.scores.sum()) / max(1, len(self.scores))

    def against(self, baseline: NDArray[np.float64]) -> Tried:
        """Compare the scores of the hidden entries, one by one, with others."""
        n_hidden = len(self.scores)
        if n_hidden == 0:
            return Tried(0.0, 0.0, 0.0, 0)
        gains = self.scores - baseline
        error = float(gains.std()) / n_hidden**0.5
        return Tried(self.score, float(gains.mean()), error, n_hidden)


def hide(key: np.uint64, target: Target) -> tuple[Target, Hidden]:
    """Return a target that does not know some entries, and these entries."""
    n_known = max(1, target.totals.n_known)
    share = min(max(_SHARE, _ENOUGH / n_known), _LARGEST_SHARE, _MOST / n_known)
    host = cast("HostEngine", target.engine)
    engine, hidden = host.hide(Stream(key, np.uint64(0)), share)
    return target._replace(engine=engine), hidden


def on_trial(
    key: np.uint64, target: Target, state: State, hidden: Hidden, *, is_alone: bool = False
) -> Trial:
    """Follow a start for some sweeps, and predict the hidden entries."""
    target = target._replace(schedule=replace(target.schedule, warmup=1 << 30))
    state = target.recount(state)
    chance, n_components = np.zeros(len(hidden.values)), 0.0
    share = _ALONE if is_alone else 1.0
    n_sweeps, n_used = ceil(share * _SWEEPS), ceil(share * _USED)
    for number in range(n_sweeps):
        state, _ = step(key, state._replace(sweep=number), target)
        if number >= n_sweeps - n_used:
            chance += np.exp(_log_scores(state, hidden)) / n_used
            n_components += float((state.factors[0].sizes() > 1).sum()) / n_used
    return Trial(state, np.log(np.maximum(chance, 1e-300)), n_components)


def rates_alone(
    key: np.uint64, target: Target, state: State, hidden: Hidden
) -> NDArray[np.float64]:
    """Return the log probability of every hidden entry by row and column rates alone.

    Levels are drawn as often as on trial, but no component is ever born: sweeps from a start
    without components may find some.
    """
    assert state.n_components == 0
    chance = np.zeros(len(hidden.values))
    for number in range(_SWEEPS):
        state = state._replace(sweep=number)
        noise = draw_noise(Stream(key, np.uint64(number)), state, target)
        state = state._replace(noise=noise)
        if number >= _SWEEPS - _USED:
            chance += np.exp(_log_scores(state, hidden)) / _USED
    return np.log(np.maximum(chance, 1e-300))


def choose(trials: list[Trial], evidence: list[float] | None = None) -> int:
    """Return the number of the start that goes on: fewest components among the best.

    A start that predicts best must do so by more than chance, compared with one that has fewer
    components; if the evidence is against it, by more than twice as much.
    """
    evidence = [trial.score for trial in trials] if evidence is None else evidence
    best = max(range(len(trials)), key=lambda k: trials[k].score)
    for k in sorted(range(len(trials)), key=lambda k: (trials[k].n_components, k)):
        gain = trials[best].scores - trials[k].scores  # entry by entry
        margin = _MARGIN if evidence[best] > evidence[k] else _WIDE_MARGIN
        # The sum of the differences against its standard error; without hidden entries, a tie.
        if len(gain) == 0 or gain.sum() <= margin * gain.std() * np.sqrt(len(gain)):
            return k
    return best


def _log_scores(state: State, hidden: Hidden) -> NDArray[np.float64]:
    """Return the log probability of every hidden entry, given a state (eq. 25)."""
    odds = state.noise.entry_odds(hidden.positions, is_covered(state.factors, hidden.positions))
    scores: NDArray[np.float64] = log_expit(np.where(hidden.values, odds, -odds))
    return scores
