# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""A draw of mean and spread of jumps with jumps and levels of columns summed out, then of both.

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
from thali.sampler.level_weights import pick, place
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
"""With more columns, one thread would take too long to look at all pairs of each of them."""

_TINY = 40.0
"""Terms of a sum that are smaller than the largest by this factor, as a logarithm, are left out:
together they are less than what rounding does to it. Most pairs of a level and a jump are."""

_UNSURE = 1e-200
"""A sum of products below this may have lost terms that were too small for a number."""

_PAIRS = np.uint64(Site.LEVEL_PAIRS)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


def draw_pairs(stream: Stream, state: State, target: Target, prior: Effects) -> Levels:
    """Draw mean and spread of the jumps, then jumps and levels of columns.

    The mean stays if all columns share one jump.
    """
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    is_possible = prior.jumps and prior.columns and grids.of_jumps.shape[1] > 0
    if not is_possible or len(noise.columns) > _MOST_COLUMNS or len(grids.lattice.softplus) == 0:
        return noise
    values, _, classes = noise.across(1)
    uncovered, known, n_ones = count_lines(state, target, 1, classes)
    first = grids.first_spread
    present = hyper.jump_spread - first + 1 if hyper.jump_spread else 0
    uniforms = stream.uniforms(site_of(Site.LEVEL_PRIORS, 0), len(LevelIndex))
    mean, spread, columns, jumps = _draw(
        *stream, uniforms[LevelIndex.PAIRS_MEAN], uniforms[LevelIndex.PAIRS_SPREAD], uncovered,
        known, n_ones, values + noise.offset, grids.columns, grids.jumps, grids.stride,
        grids.of_columns[hyper.column_mean, hyper.column_spread], grids.of_jumps,
        hyper.jump_mean, present, tuple(grids.lattice),
    )  # fmt: skip
    hyper = hyper._replace(jump_mean=mean, jump_spread=first + spread - 1 if spread else 0)
    return noise.with_columns(columns, jumps, hyper)


@inner
def _list_sums(
    levels: NDArray[np.float64], sizes: NDArray[np.float64], points: Points
) -> tuple[Index, Index]:
    """Return the different sums of a level and a jump, and which of them each pair has.

    Sums are counted in points of the lattice, from the lowest on.
    """
    lowest, n_levels = levels[0] + sizes.min(), levels.shape[0]
    n = floor((levels[n_levels - 1] + sizes.max() - lowest) * points[1] + 0.5) + 1
    numbers, sums = np.full(n, -1), np.empty(n, np.int64)
    of_pairs = np.empty((sizes.shape[0], n_levels), np.int64)
    n_sums = 0
    for k in range(sizes.shape[0]):
        for level in range(n_levels):
            at = floor((levels[level] + sizes[k] - lowest) * points[1] + 0.5)
            if numbers[at] < 0:
                numbers[at] = n_sums
                sums[n_sums] = at
                n_sums += 1
            of_pairs[k, level] = numbers[at]
    return sums[:n_sums], of_pairs


@inner
def _fill(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index,
    odds: NDArray[np.float64], levels: NDArray[np.float64], sizes: NDArray[np.float64],
    log_prior: NDArray[np.float64], points: Points, pairs: NDArray[np.float64],
    by_size: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write log p(data of a column, level | jump) by column, jump and level, and its sums.

    The sums are over levels (eq. 26, 28).
    """
    sums, of_pairs = _list_sums(levels, sizes, points)
    for j in range(uncovered.shape[0]):
        _fill_column(
            j, uncovered, known, n_ones, odds, levels, sizes, log_prior, points, sums, of_pairs,
            pairs[j],
        )  # fmt: skip
        for k in range(sizes.shape[0]):
            by_size[j, k] = _log_sum(pairs[j, k])


@inner
def _fill_column(
    j: int, uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index,
    odds: NDArray[np.float64], levels: NDArray[np.float64], sizes: NDArray[np.float64],
    log_prior: NDArray[np.float64], points: Points, sums: Index, of_pairs: Index,
    pairs: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write what :func:`_fill` does for one column, by jump and level.

    Entries with cover depend on the sum of both, which many pairs share (:func:`_list_sums`).
    """
    terms, covered = points[0], np.zeros(sums.shape[0])
    lowest, of_known = levels[0] + sizes.min(), known[j if known.shape[0] > 1 else 0]
    for c in range(odds.shape[0]):
        n = np.float64(of_known[c]) - np.float64(uncovered[j, c])
        if n > 0.0:
            first = place(odds[c] + lowest, points)
            for at in range(sums.shape[0]):
                covered[at] += n * terms[first + sums[at]]
    for level in range(levels.shape[0]):
        value = log_prior[level] + np.float64(n_ones[0, j]) * levels[level]
        for c in range(odds.shape[0]):
            if uncovered[j, c]:
                at = place(odds[c] + levels[level], points)
                value -= np.float64(uncovered[j, c]) * terms[at]
        for k in range(sizes.shape[0]):
            of_ones = np.float64(n_ones[1, j]) * (levels[level] + sizes[k])
            pairs[k, level] = value + of_ones - covered[of_pairs[k, level]]


@inner
def _log_sum(values: NDArray[np.float64]) -> float:
    largest = -np.inf
    for k in range(values.shape[0]):
        largest = max(largest, values[k])
    total = 0.0
    for k in range(values.shape[0]):
        if values[k] > largest - _TINY:
            total += exp(values[k] - largest)
    return largest + log(total)


@inner
def _weigh_means(
    by_size: NDArray[np.float64], of_means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of every mean, given log priors of jumps, with these summed out.

    Of a mean that all sizes of some column are too far from, it is minus infinity.
    """
    n_means, n_own = of_means.shape
    priors, likelihoods = np.exp(of_means), np.empty(n_own)
    log_sums = np.zeros(n_means)
    for j in range(by_size.shape[0]):
        largest = -np.inf
        for k in range(n_own):
            largest = max(largest, by_size[j, k])
        for k in range(n_own):
            likelihoods[k] = exp(by_size[j, k] - largest)
        for mean in range(n_means):
            total = 0.0
            for k in range(n_own):
                total += priors[mean, k] * likelihoods[k]
            log_sums[mean] += log(total) if total > 0.0 else -np.inf
    return log_sums


@inner
def _weigh_spreads(
    by_size: NDArray[np.float64], of_spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of a common jump, and of every spread, with jumps summed out."""
    n_spreads, n_own = of_spreads.shape
    log_sums, weights = np.zeros(1 + n_spreads), np.empty(n_own)
    priors, likelihoods = np.exp(of_spreads), np.empty(n_own)
    for j in range(by_size.shape[0]):
        log_sums[0] += by_size[j, n_own]
        largest = by_size[j, :n_own].max()
        for k in range(n_own):
            likelihoods[k] = exp(by_size[j, k] - largest)
        for spread in range(n_spreads):
            total = 0.0
            for k in range(n_own):
                total += priors[spread, k] * likelihoods[k]
            if total > _UNSURE:
                log_sums[1 + spread] += largest + log(total)
                continue
            for k in range(n_own):
                weights[k] = of_spreads[spread, k] + by_size[j, k]
            log_sums[1 + spread] += _log_sum(weights)
    return log_sums


@jit
def _draw(
    key: np.uint64, sweep: np.uint64, to_mean: float, to_spread: float,
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index,
    odds: NDArray[np.float64], levels: NDArray[np.float64], jumps: NDArray[np.float64],
    stride: int, log_prior: NDArray[np.float64], of_jumps: NDArray[np.float64], mean: int,
    present: int, points: Points,
) -> tuple[int, int, Index, Index]:  # fmt: skip
    """Draw the numbers of a mean and a spread, and the level and the jump of every column.

    Parameters
    ----------
    to_mean, to_spread
        Random numbers; those of columns are read where they are used.
    uncovered, known, n_ones
        Counts of columns by class of row (:class:`thali.engines.base.LineCounts`).
    odds
        Log odds of the rows of every class, with the offset.
    levels, jumps, stride
        Grids of levels and of jumps; those of single columns are every so many of the latter.
    log_prior, of_jumps
        Log priors of levels, and of jumps by mean and spread.
    mean, present
        The present mean and the number of the present spread; zero is a jump that all share.
    """
    n, n_own = uncovered.shape[0], of_jumps.shape[2]
    pairs, by_size = np.empty((n, n_own + 1, levels.shape[0])), np.empty((n, n_own + 1))
    _fill(
        uncovered, known, n_ones, odds, levels, jumps[::stride], log_prior, points,
        pairs[:, :n_own], by_size[:, :n_own],
    )  # fmt: skip
    if present:
        mean = pick(_weigh_means(by_size[:, :n_own], of_jumps[:, present - 1]), to_mean)
    _fill(  # the jump that all columns may share
        uncovered, known, n_ones, odds, levels, jumps[mean : mean + 1], log_prior, points,
        pairs[:, n_own:], by_size[:, n_own:],
    )  # fmt: skip
    chosen = pick(_weigh_spreads(by_size, of_jumps[mean]), to_spread)
    columns, found, weights = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n_own)
    for j in range(n):
        size, found[j] = n_own, mean
        if chosen:
            for k in range(n_own):
                weights[k] = of_jumps[mean, chosen - 1, k] + by_size[j, k]
            size = pick(weights, uniform(key, sweep, _PAIRS, np.uint64(j), _ZERO))
            found[j] = stride * size
        columns[j] = pick(pairs[j, size], uniform(key, sweep, _PAIRS, np.uint64(j), _ONE))
    return mean, chosen, columns, found
