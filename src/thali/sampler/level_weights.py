# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Terms log(1 + exp(log odds)) of likelihoods of levels, and draws by weight.

Log odds are given without the level in question, ``(n_groups, n_classes, 2)``: by group of lines,
class of their columns, and cover. Where they do not depend on the level, as those of entries
without cover do not depend on a jump, they are minus infinity, and such entries do not count.
Columns with jumps of their own have many classes, but few different log odds
(:func:`merge_classes`).

If the grids have a lattice (:class:`thali.model.level_grids.Lattice`), the terms are read from its
table. It comes as a plain tuple: named ones cost microseconds per call.
"""

from __future__ import annotations

from math import exp, floor, log1p
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from thali._jit import inlined, inner, jit
from thali.bits.words import copy_line
from thali.sampler.level_counts import add_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index

    Points: TypeAlias = tuple[NDArray[np.float64], float, float]

BLOCK = 8
"""Levels that are computed at once, in the lanes of a processor's vectors."""

_FIRST = np.int64(0)  # a plain zero would be a type of its own

_MEANS, _ALL_MEANS = 16, 8
"""Means of jumps that are in question together: to sum out all jumps under each takes time. In one
of so many draws, all are."""


@inlined
def softplus(x: float) -> float:
    """Return log(1 + exp(x))."""
    return max(x, 0.0) + log1p(exp(-abs(x)))


@inlined
def place(x: float, points: Points) -> int:
    """Return the number of a point of the lattice."""
    return floor((x - points[2]) * points[1] + 0.5)


@inner
def _steps(grid: NDArray[np.float64], points: Points) -> Index:
    """Return how many points of the lattice every level is above the first."""
    steps = np.empty(grid.shape[0], np.int64)
    for level in range(grid.shape[0]):
        steps[level] = floor((grid[level] - grid[0]) * points[1] + 0.5)
    return steps


@inner
def _fill_terms(
    x: float, grid: NDArray[np.float64], steps: Index, points: Points, out: NDArray[np.float64]
) -> None:
    """Write the term of every level at log odds ``x``."""
    if points[0].shape[0]:
        terms = points[0][place(x + grid[0], points) :]
        for level in range(grid.shape[0]):
            out[level] = terms[steps[level]]
    else:
        for level in range(grid.shape[0]):
            out[level] = softplus(x + grid[level])


@jit
def tables_of_terms(
    odds: NDArray[np.float64], grid: NDArray[np.float64], known: NDArray[np.uint32], points: Points
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
]:  # fmt: skip
    """Return the tables of :class:`thali.sampler.level_likelihoods.Likelihoods`, and the grid.

    All have room for a block that begins at the last level.
    """
    n_tables, n_classes, _ = odds.shape
    n_levels = grid.shape[0]
    steps = _steps(grid, points)
    covered = np.zeros((n_tables, n_classes, n_levels + BLOCK))
    change = np.zeros((n_tables, n_classes, n_levels + BLOCK))
    common = np.zeros((n_tables, n_levels + BLOCK))
    for t in range(n_tables):
        for c in range(n_classes):
            if odds[t, c, 1] > -np.inf:
                _fill_terms(odds[t, c, 1], grid, steps, points, covered[t, c])
            if odds[t, c, 0] > -np.inf:
                _fill_terms(odds[t, c, 0], grid, steps, points, change[t, c])
            n = np.float64(known[0, c]) if known.shape[0] == 1 else 0.0
            for level in range(n_levels):
                change[t, c, level] -= covered[t, c, level]
                common[t, level] += n * covered[t, c, level]
        for level in range(n_levels, n_levels + BLOCK):
            common[t, level] = np.inf  # there are no such levels
    with_room = np.zeros(n_levels + BLOCK)
    copy_line(grid, with_room)
    return covered, change, common, with_room


@inner
def _number_odds(odds: NDArray[np.float64], points: Points) -> tuple[Index, int]:
    """Return the number of every class and cover among those of equal log odds, and how many."""
    numbers = np.empty(odds.shape, np.int64)
    lowest = highest = place(odds[0, 0], points)
    for c in range(odds.shape[0]):
        for k in range(2):
            numbers[c, k] = place(odds[c, k], points)
            lowest, highest = min(lowest, numbers[c, k]), max(highest, numbers[c, k])
    of_places = np.full(highest - lowest + 1, -1)
    n = 0
    for c in range(odds.shape[0]):
        for k in range(2):
            at = numbers[c, k] - lowest
            if of_places[at] < 0:
                of_places[at] = n
                n += 1
            numbers[c, k] = of_places[at]
    return numbers, n


@jit
def number_odds(odds: NDArray[np.float64], points: Points) -> tuple[Index, NDArray[np.float64]]:
    """Return the number of every class and cover among those of equal log odds, and these.

    The log odds are those of one group of lines, given and returned as :func:`tables_of_terms`
    takes them. Where they are not much fewer than the classes, or there is no lattice, there are
    no numbers.
    """
    n_classes = odds.shape[1]
    if points[0].shape[0] == 0:
        return np.empty((0, 2), np.int64), odds
    numbers, n = _number_odds(odds[0], points)
    if 5 * n > 4 * n_classes:
        return numbers[:0], odds
    of_merged = np.full((1, n, 2), -np.inf)
    for c in range(n_classes):
        of_merged[0, numbers[c, 0], 0] = odds[0, c, 0]
        of_merged[0, numbers[c, 1], 0] = odds[0, c, 1]
    return numbers, of_merged


@jit
def merge_lines(
    lo: int, hi: int, uncovered: NDArray[np.uint32], known: NDArray[np.uint32], numbers: Index,
    merged: NDArray[np.uint32],
) -> None:  # fmt: skip
    """Count the entries of a range of lines by their log odds instead of class and cover."""
    for i in range(lo, hi):
        line, own, of_known = merged[i], uncovered[i], known[i if known.shape[0] > 1 else 0]
        for n in range(line.shape[0]):
            line[n] = 0
        for c in range(own.shape[0]):
            line[numbers[c, 0]] += own[c]
            line[numbers[c, 1]] += of_known[c] - own[c]


@inner
def merge_classes(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], odds: NDArray[np.float64],
    points: Points,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:  # fmt: skip
    """Count entries by their log odds instead of class and cover, if these are fewer.

    The arguments are those of :func:`tables_of_terms` for one group of lines, and so are the
    results, in which all entries count as uncovered, each with the log odds that it has.
    """
    numbers, of_merged = number_odds(odds, points)
    if numbers.shape[0] == 0:
        return uncovered, known, odds
    n_lines, n = uncovered.shape[0], of_merged.shape[1]
    merged = np.empty((n_lines, n), np.uint32)
    merge_lines(_FIRST, n_lines, uncovered, known, numbers, merged)
    return merged, np.zeros((1, n), np.uint32), of_merged


@jit
def weigh_common(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index, of_lines: Index,
    odds: NDArray[np.float64], grid: NDArray[np.float64], points: Points,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the log likelihood of levels that all lines have in common, up to a constant.

    The first three arguments are those of :class:`thali.engines.base.LineCounts`; ``of_lines`` is
    the group of every line.
    """
    groups = add_groups(uncovered, known, of_lines, odds.shape[0])
    weights = np.zeros(grid.shape[0])
    if points[0].shape[0]:
        _subtract_points(groups.ravel(), odds.ravel(), grid, points, weights)
    else:
        _subtract_terms(groups.ravel(), odds.ravel(), grid, weights)
    for k in range(2):
        if odds[0, 0, k] > -np.inf:
            total = 0
            for line in range(n_ones.shape[1]):
                total += n_ones[k, line]
            for level in range(grid.shape[0]):
                weights[level] += np.float64(total) * grid[level]
    return weights


@inner
def _subtract_points(
    counts: Index, odds: NDArray[np.float64], grid: NDArray[np.float64], points: Points,
    weights: NDArray[np.float64],
) -> None:  # fmt: skip
    """Subtract counts times terms, with the counts added up first: many classes share log odds."""
    totals = np.zeros(points[0].shape[0])
    places = np.empty(counts.shape[0], np.int64)
    n_places = 0
    for cell in range(counts.shape[0]):
        if counts[cell] and odds[cell] > -np.inf:
            at = place(odds[cell] + grid[0], points)
            if totals[at] == 0.0:
                places[n_places] = at
                n_places += 1
            totals[at] += counts[cell]
    steps = _steps(grid, points)
    for at in places[:n_places]:
        n, terms = totals[at], points[0][at:]
        for level in range(grid.shape[0]):
            weights[level] -= n * terms[steps[level]]


@inner
def _subtract_terms(
    counts: Index, odds: NDArray[np.float64], grid: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:  # fmt: skip
    for cell in range(counts.shape[0]):
        if counts[cell] and odds[cell] > -np.inf:
            for level in range(grid.shape[0]):
                weights[level] -= counts[cell] * softplus(odds[cell] + grid[level])


@jit
def pick(log_weights: NDArray[np.float64], u: float) -> int:
    """Draw a position with probability proportional to the exponential of its weight."""
    largest = -np.inf
    for k in range(log_weights.shape[0]):
        largest = max(largest, log_weights[k])
    cumulated = np.empty(log_weights.shape[0])
    total = 0.0
    for k in range(log_weights.shape[0]):
        total += exp(log_weights[k] - largest)
        cumulated[k] = total
    for k in range(log_weights.shape[0] - 1):
        if cumulated[k] > u * total:
            return k
    return log_weights.shape[0] - 1


@jit
def means_together(mean: int, number: int, n: int) -> tuple[int, int]:
    """Return the first of the means that are in question together with this one, and their end.

    Groups of even and of odd draws have different limits, so that a mean can go anywhere, and in
    one of eight draws, all means are in question.
    """
    if number % _ALL_MEANS == 0:
        return 0, n
    shift = _MEANS // 2 * (number % 2)
    lo = (mean + shift) // _MEANS * _MEANS - shift
    return max(lo, 0), min(lo + _MEANS, n)
