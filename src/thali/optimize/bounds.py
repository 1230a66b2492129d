"""Lower bounds on the errors of a given number of components, by counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits.words import count_ones

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.optimize.searcher import Problem

_MOST_COMPONENTS = 40  # 2**40 rows are more than there are


def lower_bound(problem: Problem, *, is_under: bool) -> float:
    """Return a loss that no factors are below.

    Of k components, at most 2**k different rows are unions, one of them the empty row. A row that
    is not among these has at least one error, and so have columns. Without covered zeros,
    k components also cover at most k times the ones of the largest rectangle. A rectangle of n
    rows is no wider than the n-th fullest row, nor than the number of columns with n ones, where
    unknown entries count as ones.
    """
    inside, outside = problem.costs
    cheapest = outside if is_under else min(inside, outside)
    widths = problem.shape[::-1]
    n_wrong = max(
        _beyond_patterns(*both, problem.n_components)
        for both in zip(problem.ones, problem.zeros, widths, strict=True)
    )
    bound = cheapest * n_wrong
    if is_under:
        sizes = [n - count_ones(zeros) for zeros, n in zip(problem.zeros, widths, strict=True)]
        area = _largest_area(*sizes)
        bound = max(bound, outside * (problem.n_ones - problem.n_components * area))
    return bound


def _beyond_patterns(ones: Words, zeros: Words, width: int, n_components: int) -> int:
    """Count the fully known rows that differ from every row that components can make."""
    if n_components >= _MOST_COMPONENTS:
        return 0
    is_whole = count_ones(ones) + count_ones(np.broadcast_to(zeros, ones.shape).copy()) == width
    is_wanted = is_whole & ones.any(axis=1)  # the empty row is always among them
    if not is_wanted.any():
        return 0
    _, counts = np.unique(ones[is_wanted], axis=0, return_counts=True)
    return int(np.sort(counts)[::-1][(1 << n_components) - 1 :].sum())


def _largest_area(of_rows: NDArray[np.int64], of_columns: NDArray[np.int64]) -> int:
    """Return the most ones that a rectangle of ones can have, given how full the lines are."""
    heights = np.arange(1, len(of_rows) + 1)
    widths = np.sort(of_rows)[::-1]
    n_tall_enough = len(of_columns) - np.searchsorted(np.sort(of_columns), heights)
    return int((heights * np.minimum(widths, n_tall_enough)).max())
