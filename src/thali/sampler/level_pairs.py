# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""A draw of the spread of jumps with jumps and levels of columns summed out, then of both.

Levels and jumps of columns make up for each other: a covered entry depends on their sum. Given
levels that belong to different jumps, a common jump is next to impossible, and the other way
round, so that chains would keep what they begin with. Columns are independent given the rows, and
all pairs of a level and a jump are few.
"""

from __future__ import annotations

from math import exp, floor, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.level_counts import count_lines
from thali.sampler.level_weights import pick
from thali.sites import LevelIndex, Site, site_of
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model.effects import Effects
    from thali.model.levels import Levels
    from thali.sampler.level_weights import Points
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_MOST_COLUMNS = 1024
"""Where columns are more, each has to be in tune with all others, and pairs take too long."""

_PAIRS = np.uint64(Site.LEVEL_PAIRS)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


def draw_pairs(stream: Stream, state: State, target: Target, prior: Effects) -> Levels:
    """Draw the spread of jumps, then jumps and levels of columns, given their means."""
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    is_possible = prior.jumps and prior.columns and grids.of_jumps.shape[1] > 0
    if not is_possible or len(noise.columns) > _MOST_COLUMNS or len(grids.lattice.softplus) == 0:
        return noise
    values, _, classes = noise.across(1)
    uncovered, known, n_ones = count_lines(state, target, 1, classes)
    sizes = np.append(grids.jumps[:: grids.stride], grids.jumps[hyper.jump_mean])
    u = float(stream.uniforms(site_of(Site.LEVEL_PRIORS, 0), len(LevelIndex))[LevelIndex.PAIRS])
    spread, columns, jumps = _draw(
        *stream, u, uncovered, known, n_ones, values + noise.offset, grids.columns, sizes,
        grids.of_columns[hyper.column_mean, hyper.column_spread], grids.of_jumps[hyper.jump_mean],
        tuple(grids.lattice),
    )  # fmt: skip
    if spread == 0:
        jumps = np.full(len(jumps), hyper.jump_mean)
    else:
        jumps, spread = grids.stride * jumps, grids.first_spread + spread - 1
    return noise.with_columns(columns, jumps, hyper._replace(jump_spread=spread))


@inner
def _place(x: float, points: Points) -> int:
    return floor((x - points[2]) * points[1] + 0.5)


@inner
def _fill_pairs(
    j: int, uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index,
    odds: NDArray[np.float64], levels: NDArray[np.float64], sizes: NDArray[np.float64],
    log_prior: NDArray[np.float64], points: Points, covered: NDArray[np.float64],
    pairs: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write log p(data of a column, level | jump) for every level and jump of it (eq. 26, 28)."""
    terms = points[0]
    for at in range(covered.shape[0]):
        covered[at] = 0.0
    lowest = levels[0] + min(sizes[0], sizes[sizes.shape[0] - 1])
    of_known = known[j if known.shape[0] > 1 else 0]
    for c in range(odds.shape[0]):
        n = np.float64(of_known[c]) - np.float64(uncovered[j, c])
        if n > 0.0:
            first = _place(odds[c] + lowest, points)
            for at in range(covered.shape[0]):
                covered[at] += n * terms[first + at]
    for level in range(levels.shape[0]):
        value = log_prior[level] + np.float64(n_ones[0, j]) * levels[level]
        for c in range(odds.shape[0]):
            if uncovered[j, c]:
                place = _place(odds[c] + levels[level], points)
                value -= np.float64(uncovered[j, c]) * terms[place]
        for k in range(sizes.shape[0]):
            x = levels[level] + sizes[k]
            at = floor((x - lowest) * points[1] + 0.5)
            pairs[k, level] = value + np.float64(n_ones[1, j]) * x - covered[at]


@inner
def _log_sum(values: NDArray[np.float64]) -> float:
    largest = -np.inf
    for k in range(values.shape[0]):
        largest = max(largest, values[k])
    total = 0.0
    for k in range(values.shape[0]):
        total += exp(values[k] - largest)
    return largest + log(total)


@jit
def _draw(
    key: np.uint64, sweep: np.uint64, u: float, uncovered: NDArray[np.uint32],
    known: NDArray[np.uint32], n_ones: Index, odds: NDArray[np.float64],
    levels: NDArray[np.float64], sizes: NDArray[np.float64], log_prior: NDArray[np.float64],
    of_jumps: NDArray[np.float64], points: Points,
) -> tuple[int, Index, Index]:  # fmt: skip
    """Draw the number of a spread, and the level and the jump of every column.

    Parameters
    ----------
    u
        Random number of the spread; those of columns are read where they are used.
    uncovered, known, n_ones
        Counts of columns by class of row (:class:`thali.engines.base.LineCounts`).
    odds
        Log odds of the rows of every class, with the offset.
    levels, sizes
        Grids of levels and of jumps; the last size is that of a jump that all columns share, and
        the spread of number zero stands for it.
    log_prior, of_jumps
        Log priors of levels, and of jumps by spread.
    """
    n, n_own = uncovered.shape[0], sizes.shape[0] - 1
    largest = levels[levels.shape[0] - 1] + max(sizes[n_own - 1], sizes[n_own])
    lowest = levels[0] + min(sizes[0], sizes[n_own])
    covered = np.empty(floor((largest - lowest) * points[1] + 0.5) + 1)
    pairs = np.empty((n, n_own + 1, levels.shape[0]))
    by_size = np.empty((n, n_own + 1))
    log_sums, weights = np.zeros(1 + of_jumps.shape[0]), np.empty(n_own)
    for j in range(n):
        _fill_pairs(
            j, uncovered, known, n_ones, odds, levels, sizes, log_prior, points, covered, pairs[j]
        )
        for k in range(n_own + 1):
            by_size[j, k] = _log_sum(pairs[j, k])
        log_sums[0] += by_size[j, n_own]
        for spread in range(of_jumps.shape[0]):
            for k in range(n_own):
                weights[k] = of_jumps[spread, k] + by_size[j, k]
            log_sums[1 + spread] += _log_sum(weights)
    chosen = pick(log_sums, u)
    columns, jumps = np.empty(n, np.int64), np.empty(n, np.int64)
    for j in range(n):
        size = n_own
        if chosen:
            for k in range(n_own):
                weights[k] = of_jumps[chosen - 1, k] + by_size[j, k]
            size = pick(weights, uniform(key, sweep, _PAIRS, np.uint64(j), _ZERO))
        jumps[j] = size
        columns[j] = pick(pairs[j, size], uniform(key, sweep, _PAIRS, np.uint64(j), _ONE))
    return chosen, columns, jumps
