# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Counts of entries by line and by class, from which levels are drawn."""

from __future__ import annotations

from math import exp, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import pack
from thali.engines.base import Cover

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.state import State
    from thali.sampler.target import Target


class LineCounts(NamedTuple):
    """Entries by line of a mode and class of column."""

    free: Index  # (n_lines, n_classes, 2): uncovered ones and zeros
    known: Index  # (n_lines, n_classes, 2): all known ones and zeros
    n_ones: Index  # (n_lines, 2): uncovered and covered ones


def count_lines(state: State, target: Target, mode: int, classes: Index) -> LineCounts:
    """Count the entries of all lines of a mode."""
    own, other = state.factors[mode], state.factors[1 - mode]
    every, lines = pack(np.ones((1, other.n_rows), np.bool_)), (0, own.n_rows)
    n = state.n_components
    free, known = (
        target.engine.count_by_class(mode, lines, Cover(other, own, is_counted), every, classes)
        for is_counted in (np.ones(n, np.bool_), np.zeros(n, np.bool_))
    )
    return LineCounts(free, known, _count_ones(free, known))


@jit
def _count_ones(free: Index, known: Index) -> Index:
    n_ones = np.zeros((free.shape[0], 2), np.int64)
    for i in range(free.shape[0]):
        for c in range(free.shape[1]):
            n_ones[i, 0] += free[i, c, 0]
            n_ones[i, 1] += known[i, c, 0] - free[i, c, 0]
    return n_ones


@jit
def count_groups(free: Index, known: Index, of_lines: Index, n: int) -> tuple[Index, Index]:
    """Count the uncovered and the covered entries by group of lines and class of column."""
    uncovered = np.zeros((n, free.shape[1]), np.int64)
    covered = np.zeros((n, free.shape[1]), np.int64)
    for i in range(free.shape[0]):
        for c in range(free.shape[1]):
            n_free = free[i, c, 0] + free[i, c, 1]
            uncovered[of_lines[i], c] += n_free
            covered[of_lines[i], c] += known[i, c, 0] + known[i, c, 1] - n_free
    return uncovered, covered


@jit
def sum_softplus(
    counts: Index, odds: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of counts times log(1 + exp(log odds + level)), for every level."""
    sums = np.zeros(grid.shape[0])
    for i in range(counts.shape[0]):
        for c in range(counts.shape[1]):
            if counts[i, c] == 0:
                continue
            for level in range(grid.shape[0]):
                x = odds[i, c] + grid[level]
                sums[level] += counts[i, c] * (max(x, 0.0) + log1p(exp(-abs(x))))
    return sums
