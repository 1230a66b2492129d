"""One searcher: its factors, what they cover, and the best it has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import n_words
from thali.compiling import clock
from thali.data.entries import every_column
from thali.optimize.cover import Side, cover_all
from thali.optimize.pace import ByClock, BySwaps
from thali.optimize.strategies import FROZEN
from thali.optimize.swaps import run_swaps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from thali.bits import Index, PackedTensor, Unfolding, Words
    from thali.optimize.pace import Pace
    from thali.optimize.strategies import Phase


NEVER_COVERED = 1e9
"""Cost of a covered zero where none may be: more than all ones of a row."""


def known_zeros(unfolding: Unfolding, width: int) -> Words:
    """Return the zeros of an unfolding; unknown entries are neither zeros nor ones."""
    known = every_column((1, width)) if unfolding.known is None else unfolding.known
    zeros: Words = known & ~unfolding.ones
    return zeros


class Problem(NamedTuple):
    """The data, and what is asked of the factors."""

    ones: tuple[Words, Words]  # packed along the columns, and along the rows
    zeros: tuple[Words, Words]
    shape: tuple[int, int]
    n_ones: int
    n_components: int
    costs: tuple[float, float]  # of a covered zero, and of a one that is not covered
    bound: float = 0.0  # no factors have a lower loss

    @classmethod
    def of(cls, tensor: PackedTensor, n_components: int, costs: tuple[float, float]) -> Problem:
        """Prepare data for searchers."""
        n_rows, n_columns = tensor.shape
        ones, zeros = [], []
        for mode, width in enumerate((n_columns, n_rows)):
            unfolding = tensor.unfoldings[mode]
            ones.append(unfolding.ones)
            zeros.append(known_zeros(unfolding, width))
        sides = (ones[0], ones[1]), (zeros[0], zeros[1])
        return cls(*sides, (n_rows, n_columns), tensor.n_ones, n_components, costs)

    def loss(self, errors: Index | Sequence[int]) -> float:
        """Return what two numbers of errors cost: covered zeros, and uncovered ones."""
        return self.costs[0] * int(errors[0]) + self.costs[1] * int(errors[1])

    def empty(self) -> tuple[Side, Side]:
        """Return both sides without components."""
        sides = []
        for ones, zeros, n in zip(self.ones, self.zeros, self.shape, strict=True):
            once, twice = np.zeros_like(ones), np.zeros_like(ones)
            lines = np.zeros((self.n_components, n_words(n)), np.uint64)
            has = np.zeros((n, n_words(self.n_components)), np.uint64)
            sides.append(Side(ones, zeros, once, twice, lines, has))
        return sides[0], sides[1]

    @property
    def nbytes(self) -> int:
        """Memory of one searcher in bytes, without the data."""
        per_entry = sum(2 * words.nbytes for words in self.ones)
        return 3 * per_entry + sum(n * self.n_components for n in self.shape)


class Searcher:
    """Searches with random numbers of its own; its work does not depend on other searchers."""

    def __init__(self, problem: Problem, key: np.uint64, start: float) -> None:
        self.problem = problem
        self.sides, self._copies = problem.empty(), (problem.empty(), problem.empty())
        self.best = self._lines()
        self.errors = np.array([0, problem.n_ones], np.int64)  # of the best factors of a leg
        self.lowest = self.loss  # of all legs
        self.trace: list[tuple[float, int, int]] = []
        self.done = self._before = 0.0  # parts of the leg that are done, and before this phase
        self._key, self._start, self._n_swaps = key, start, 0

    def _lines(self) -> tuple[Words, Words]:
        first, second = (side.lines.copy() for side in self.sides)
        return first, second

    @property
    def loss(self) -> float:
        """Loss of the best factors of this leg."""
        return self.problem.loss(self.errors)

    def begin(self, best: tuple[Words, Words] | None) -> None:
        """Begin a leg with the given factors, or with none."""
        for mode, side in enumerate(self.sides):
            side.lines[:] = 0 if best is None else best[mode]
        cover_all(self.sides[0], self.sides[1].lines)
        cover_all(self.sides[1], self.sides[0].lines)
        self.errors[:] = 0, self.problem.n_ones
        self.done = self._before = 0.0

    def best_so_far(self) -> tuple[tuple[Words, Words], Index]:
        """Return a copy of the best factors of this leg, and their errors."""
        return (self.best[0].copy(), self.best[1].copy()), self.errors.copy()

    def run(self, phases: tuple[Phase, ...], until: float | None, swaps: int, stop: Event) -> None:
        """Do the phases of a strategy, until a moment, or with some swaps in all."""
        seconds = None if until is None else max(0.0, until - clock())
        for phase in phases:
            if seconds is None:
                pace: Pace = BySwaps(max(1, round(swaps * phase.share)))
            else:
                pace = ByClock(seconds * phase.share)
            self._phase(phase, pace, stop)
            self._before += phase.share

    def _phase(self, phase: Phase, pace: Pace, stop: Event) -> None:
        problem = self.problem
        inside, outside = problem.costs
        costs = (inside * phase.multiple, outside)
        unit = outside * problem.n_ones / problem.n_components
        cold = max(unit * phase.cold, FROZEN * min(inside, outside))
        hot = max(unit * phase.hot, cold)
        depth = round(phase.depth * problem.n_components)
        is_settled = False
        while pace.done < 1.0 and self.loss > problem.bound and not stop.is_set():
            n_swaps = pace.next(least=max(1, depth))
            temperatures = tuple(hot * (cold / hot) ** at for at in (pace.done, pace.after))
            run_swaps(
                self.sides, *self._copies, self.best, self.errors, problem.costs, costs,
                self._key, self._n_swaps, n_swaps, temperatures, depth, is_settled,
            )  # fmt: skip
            pace.finish()
            is_settled = True
            self._n_swaps += n_swaps
            self.done = self._before + phase.share * pace.done
            if self.loss < self.lowest:
                self.lowest = self.loss
                seconds = clock() - self._start
                self.trace.append((seconds, int(self.errors[0]), int(self.errors[1])))
