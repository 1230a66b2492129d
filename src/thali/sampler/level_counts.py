# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Counts of entries by line and by class, from which levels are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import LineCounts
    from thali.sampler.state import State
    from thali.sampler.target import Target


def count_lines(state: State, target: Target, mode: int, classes: Index) -> LineCounts:
    """Count the entries of all lines of a mode."""
    return target.engine.count_lines(mode, state.factors, classes)


@inner
def add_groups(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], of_lines: Index, n: int
) -> Index:
    """Count entries by group of lines, class of column and cover, ``(n, n_classes, 2)``."""
    groups = np.zeros((n, uncovered.shape[1], 2), np.int64)
    for i in range(uncovered.shape[0]):
        group = groups[of_lines[i]]
        of_known = known[i] if known.shape[0] > 1 else known[0]
        for c in range(uncovered.shape[1]):
            group[c, 0] += np.int64(uncovered[i, c])
            group[c, 1] += np.int64(of_known[c]) - np.int64(uncovered[i, c])
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
