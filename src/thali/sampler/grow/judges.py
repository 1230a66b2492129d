"""Judges, which say which of two starts is better.

Where codes are long, the evidence for the memberships decides. In a narrow table, memberships are
uncertain, and the memberships of one state stand for few of the many that matter. There, some
entries are hidden during the start, and the start that predicts them better is better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from thali.bits import Factor, pack, unpack
from thali.sampler.grow.evidence import log_evidence
from thali.sampler.step import step
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sampler.grow.growth import Growth
    from thali.sampler.state import State
    from thali.sampler.target import Target

NARROW = 100
"""Number of columns below which starts are judged by hidden entries."""

_SHARE = 0.05
"""Share of the entries that are hidden."""

_LEAST = 50
"""Smallest number of hidden entries to judge by; with fewer, the evidence decides."""

_SWEEPS = 30
"""Number of sweeps after which hidden entries are predicted, by the second half of them."""


class Judged(NamedTuple):
    """A state of a start, and what the judge says of it."""

    state: State
    value: float  # log evidence, or log score of the hidden entries
    scores: NDArray[np.float64] | None = None  # log score of every hidden entry

    @property
    def n_shared(self) -> int:
        """Number of components with two or more users."""
        return int((self.state.factors[0].sizes() > 1).sum())


class Judge(Protocol):
    """Says which of two starts is better."""

    target: Target  # on which starts grow
    name: str
    n_tries: int  # how often components are removed and regrown in a round

    def judge(self, growth: Growth) -> Judged:
        """Judge the present state of a start."""

    def prefers(self, one: Judged, other: Judged) -> bool:
        """Return whether one start is better than another."""


class ByEvidence:
    """Judges by the evidence for the memberships, with the codes summed out."""

    name = "evidence"
    n_tries = 12

    def __init__(self, target: Target) -> None:
        self.target = target

    def judge(self, growth: Growth) -> Judged:
        """Estimate the evidence of the present state."""
        value = log_evidence(growth)
        return Judged(growth.state, value)

    def prefers(self, one: Judged, other: Judged) -> bool:
        """Return whether the evidence is greater."""
        return one.value > other.value


class ByHiddenEntries:
    """Judges by the log score of entries that are hidden from the start."""

    name = "hidden entries"
    n_tries = 4  # to judge takes many sweeps

    def __init__(self, target: Target, hidden: NDArray[np.bool_], data: NDArray[np.bool_]) -> None:
        schedule = replace(target.schedule, warmup=1 << 30)
        engine = target.engine.hide(pack(hidden))  # type: ignore[attr-defined]
        self.target = target._replace(engine=engine, schedule=schedule)
        self._where = np.nonzero(hidden)
        self._data = data[self._where]

    def judge(self, growth: Growth) -> Judged:
        """Do some sweeps, and predict the hidden entries by the later ones."""
        growth.settle()
        state = growth.state
        chances = np.zeros(len(self._data))
        for number in range(_SWEEPS):
            growth.clock += 1
            state, _ = step(growth.key, state._replace(sweep=growth.clock), self.target)
            if number >= _SWEEPS // 2:
                chances += self._predict(state)
        growth.state = state
        chances /= _SWEEPS - _SWEEPS // 2
        scores = np.log(np.where(self._data, chances, 1.0 - chances))
        return Judged(state, float(scores.sum()), scores)

    def prefers(self, one: Judged, other: Judged) -> bool:
        """Return whether hidden entries are predicted better, or as well by fewer components.

        As well means that the mean difference is within one standard error.
        """
        assert one.scores is not None
        assert other.scores is not None
        gap = one.scores - other.scores
        error = gap.std() / np.sqrt(len(gap))
        if abs(gap.mean()) > error:
            return bool(gap.mean() > 0.0)
        return one.n_shared < other.n_shared

    def _predict(self, state: State) -> NDArray[np.float64]:
        rows, columns = self._where
        users, codes = (factor.dense() for factor in state.factors)
        covered = (users[rows] & codes[columns]).any(axis=1)
        chances: NDArray[np.float64] = state.noise.reads_one(covered)
        return np.clip(chances, 1e-12, 1.0 - 1e-12)


def choose_judge(key: np.uint64, target: Target) -> Judge:
    """Return the judge for the shape of the data."""
    n_rows, n_columns = target.shape
    if n_columns >= NARROW or target.totals.n_known * _SHARE < _LEAST:
        return ByEvidence(target)
    stream = Stream(key, np.uint64(0))
    chosen = [stream.uniforms(Site.HIDDEN, n_columns, row=row) < _SHARE for row in range(n_rows)]
    free = target.engine.uncovered([Factor.empty(n) for n in target.shape])  # type: ignore[attr-defined]
    ones, zeros = (unpack(words, n_columns) for words in free.of_rows(slice(None)))
    return ByHiddenEntries(target, np.array(chosen) & (ones | zeros), ones)
