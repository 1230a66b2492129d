# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Counts of entries by line and by class, from which levels are drawn."""

from __future__ import annotations

from math import exp, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import LineCounts
    from thali.sampler.state import State
    from thali.sampler.target import Target


def count_lines(state: State, target: Target, mode: int, classes: Index) -> LineCounts:
    """Count the entries of all lines of a mode."""
    return target.engine.count_lines(mode, state.factors, classes)


def count_groups(counts: LineCounts, of_lines: Index, n: int) -> tuple[Index, Index]:
    """Count the uncovered and the covered entries by group of lines and class of column."""
    covered, uncovered = _add_groups(counts.uncovered, counts.known, of_lines, n)
    return uncovered, covered


@jit
def _add_groups(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], of_lines: Index, n: int
) -> Index:
    groups = np.zeros((2, n, uncovered.shape[1]), np.int64)
    for i in range(uncovered.shape[0]):
        of_known = known[i] if known.shape[0] > 1 else known[0]
        for c in range(uncovered.shape[1]):
            groups[0, of_lines[i], c] += np.int64(of_known[c]) - np.int64(uncovered[i, c])
            groups[1, of_lines[i], c] += np.int64(uncovered[i, c])
    return groups


@jit
def add_by_class(counts: Index, classes: Index, n: int) -> Index:
    """Add up the counts of rows, ``(n_rows, n_column_classes, 2)``, of ``n`` classes."""
    table = np.zeros((n, counts.shape[1], 2), np.int64)
    for i in range(counts.shape[0]):
        for c in range(counts.shape[1]):
            table[classes[i], c, 0] += counts[i, c, 0]
            table[classes[i], c, 1] += counts[i, c, 1]
    return table


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
