# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""All levels of rows in one call, and all that columns have in another one (eq. 28 to 30).

They do what :mod:`thali.sampler.levels` does, with the same functions, for a matrix with so few
rows and columns that calls cost more than work. ``counts`` are
:class:`thali.engines.base.LineCounts` as a plain tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.model.classes import rank_values as ranks
from thali.sampler.level_arrays import all_at, every, repeated, shifted, take
from thali.sampler.level_shifts import draw_shift
from thali.sampler.level_weights import (
    BLOCK,
    means_together,
    merge_classes,
    pick,
    tables_of_terms,
    weigh_common,
)
from thali.sampler.level_windows import (
    CHUNK,
    KEPT,
    add_parts,
    sum_all_levels,
    sum_windows,
)
from thali.sites import LevelIndex, Site, site_of

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.level_likelihoods import Likelihoods
    from thali.sampler.level_tables import Pair, Table
    from thali.sampler.level_weights import Points

    Counts: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32], Index]
    Values: TypeAlias = NDArray[np.float64]
    Positions: TypeAlias = tuple[int, int, int, int, int, int]

_0 = np.uint64(0)
_START = np.int64(0)  # a plain zero would be a type of its own
_ROWS, _COLUMNS = (np.uint64(site_of(Site.LEVELS, mode)) for mode in range(2))
_JUMPS = np.uint64(site_of(Site.JUMPS, 1))
_ROW_SPREAD = int(LevelIndex.ROW_SPREAD)
_COLUMN_MEAN, _COLUMN_SPREAD = int(LevelIndex.COLUMN_MEAN), int(LevelIndex.COLUMN_SPREAD)
_JUMP_MEAN, _JUMP_SPREAD = int(LevelIndex.JUMP_MEAN), int(LevelIndex.JUMP_SPREAD)
_OFFSET, _SHIFT = int(LevelIndex.OFFSET), int(LevelIndex.SHIFT)


# --- sums and draws over lines -----------------------------------------------------------------


@inner
def _given(
    counts: Counts, n_ones: Index, odds: Values, grid: Values, near: Index, which: Index,
    points: Points,
) -> Likelihoods:  # fmt: skip
    """Return what :meth:`thali.sampler.level_likelihoods.Likelihoods.of` does."""
    uncovered, known, _ = counts
    covered, change, common, with_room = tables_of_terms(odds, grid, known, points)
    of_lines = known if known.shape[0] > 1 else known[:0]
    n_levels, n = grid.shape[0], n_ones.shape[0]
    if n * with_room.shape[0] > KEPT:
        n = 0
    return (
        uncovered, of_lines, n_ones, which, near, covered, change, common, with_room, n_levels,
        np.zeros((n, 2), np.int64), np.empty(n), np.empty((n, n_levels + BLOCK)),
    )  # fmt: skip


@inner
def _sum_out(given: Likelihoods, log_prior: Values, prior: Values) -> Values:
    """Return the log probability of every prior, with the levels of all lines summed out."""
    n_lines, n = given[2].shape[0], log_prior.shape[0]
    n_parts = -(-n_lines // CHUNK)
    parts, least = np.zeros((n_parts, n)), np.ones((n_parts, n))
    nothing, nobody = given[8], given[3][:0]
    sum_windows(_START, n_lines, _0, _0, _0, given, prior, parts, least, nothing, nothing, nobody)
    sums, is_unsure = add_parts(parts, least)
    n_unsure = 0
    for k in range(n):
        n_unsure += is_unsure[k]
    if n_unsure:
        some, of_some = np.empty((n_unsure, log_prior.shape[1])), np.zeros((n_parts, n_unsure))
        at = 0
        for k in range(n):
            if is_unsure[k]:
                copy_line(log_prior[k], some[at])
                at += 1
        sum_all_levels(_START, n_lines, given, some, of_some)
        at = 0
        for k in range(n):
            if is_unsure[k]:
                sums[k] = of_some[0, at]
                for part in range(1, n_parts):
                    sums[k] += of_some[part, at]
                at += 1
    return sums


@inner
def _draw_lines(
    key: np.uint64, sweep: np.uint64, site: np.uint64, given: Likelihoods, log_prior: Values,
    plain: Values,
) -> Index:  # fmt: skip
    """Draw the level of every line."""
    n_possible, possible = 0, 0
    for level in range(log_prior.shape[0]):
        if log_prior[level] > -np.inf:
            n_possible += 1
            possible = level
    levels = all_at(possible, given[2].shape[0])
    if n_possible == 1:  # no spread: all lines have one level
        return levels
    nothing, parts = np.empty((0, 0)), np.empty((-(-levels.shape[0] // CHUNK), 0))
    sum_windows(
        _START, levels.shape[0], key, sweep, site, given, nothing, parts, parts, log_prior, plain,
        levels,
    )  # fmt: skip
    return levels


@inner
def _log_odds(of_lines: Values, of_classes: Values, jumps: Values, by_class: bool) -> Values:
    """Return log odds by group of lines, class of their columns, and cover.

    There is a jump for every class of columns, or for every group of lines.
    """
    odds = np.empty((of_lines.shape[0], of_classes.shape[0], 2))
    for k in range(of_lines.shape[0]):
        for c in range(of_classes.shape[0]):
            odds[k, c, 0] = of_lines[k] + of_classes[c]
            odds[k, c, 1] = odds[k, c, 0] + jumps[c if by_class else k]
    return odds


@inner
def _all_ones(counts: Counts) -> Index:
    """Return the number of ones of every line."""
    n_ones = np.empty(counts[2].shape[1], np.int64)
    for i in range(n_ones.shape[0]):
        n_ones[i] = counts[2][0, i] + counts[2][1, i]
    return n_ones


# --- rows --------------------------------------------------------------------------------------


@inner
def _draw_rows(
    key: np.uint64, sweep: np.uint64, u: float, counts: Counts, values: Values, jumps: Values,
    rows: Index, offset: int, fine: int, grid: Values, offsets: Values, points: Points,
    table: Table,
) -> tuple[Index, int, int, Index, Index]:  # fmt: skip
    """Draw the spread of rows, and the offset if ``fine`` is not zero, then the levels of rows.

    ``values`` and ``jumps`` are those of the classes of columns. Returns levels, spread and
    offset, the levels that occur, and the number of every row's level among them.
    """
    n_ones, which = _all_ones(counts), all_at(0, 1)
    log_prior, prior, plain = table
    n_spreads = log_prior.shape[1]
    of_zero = _log_odds(repeated(0.0, 1), values, jumps, True)
    uncovered, known, of_zero = merge_classes(counts[0], counts[1], of_zero, points)
    merged = uncovered, known, counts[2]
    if fine:
        total = 0
        for i in range(n_ones.shape[0]):
            total += n_ones[i]
        first = offset % fine
        n = -(-(offsets.shape[0] - first) // fine)
        log_sums = np.empty(n * n_spreads)
        for k in range(n):
            own = offsets[first + fine * k]
            given = _given(merged, n_ones, of_zero + own, grid, rows, which, points)
            sums = _sum_out(given, log_prior[0], prior[0])
            for s in range(n_spreads):
                log_sums[n_spreads * k + s] = sums[s] + np.float64(total) * own
        chosen = pick(log_sums, u)
        offset, spread = first + fine * (chosen // n_spreads), chosen % n_spreads
    given = _given(merged, n_ones, of_zero + offsets[offset], grid, rows, which, points)
    if not fine:
        spread = pick(_sum_out(given, log_prior[0], prior[0]), u)
    levels = _draw_lines(key, sweep, _ROWS, given, log_prior[0, spread], plain[0, spread])
    occurring, classes = ranks(levels)
    return levels, spread, offset, occurring, classes


# --- columns and all else ----------------------------------------------------------------------


@inner
def _draw_columns(
    key: np.uint64, sweep: np.uint64, uniforms: Values, is_drawn: bool, counts: Counts,
    values: Values, columns: Index, jumps: Index, offset: float, spread: int, grid: Values,
    sizes: Values, points: Points, by_spread: Pair, by_mean: Table,
) -> tuple[Index, int, int]:  # fmt: skip
    """Draw mean and spread of the levels of columns, and the levels themselves."""
    occurring, of_jumps = ranks(jumps)
    of_groups = repeated(offset, occurring.shape[0])
    odds = _log_odds(of_groups, values, take(sizes, occurring, 0.0), False)
    uncovered, known, n_ones = counts
    if not is_drawn and spread == 0:  # one level for all columns
        weights = weigh_common(uncovered, known, n_ones, of_jumps, odds, grid, points)
        mean = pick(weights, uniforms[_COLUMN_MEAN])
        return all_at(mean, jumps.shape[0]), mean, spread
    given = _given(counts, _all_ones(counts), odds, grid, columns, of_jumps, points)
    mean = pick(
        _sum_out(given, by_spread[0][spread], by_spread[1][spread]), uniforms[_COLUMN_MEAN]
    )
    log_prior, prior, plain = by_mean
    if is_drawn:
        spread = pick(_sum_out(given, log_prior[mean], prior[mean]), uniforms[_COLUMN_SPREAD])
    levels = _draw_lines(key, sweep, _COLUMNS, given, log_prior[mean, spread], plain[mean, spread])
    return levels, mean, spread


@inner
def _draw_mean(
    u: float, given: Likelihoods, mean: int, spread: int, number: int, log_prior: Values,
    plain: Values,
) -> int:  # fmt: skip
    """Draw the mean of jumps that have a spread, with the jumps summed out."""
    lo, hi = means_together(mean, number, log_prior.shape[0])
    n, n_levels = hi - lo, log_prior.shape[2]
    of_means, prior = np.empty((n, n_levels)), np.zeros((n_levels + BLOCK, n))
    for k in range(n):
        for level in range(n_levels):
            of_means[k, level] = log_prior[lo + k, spread, level]
            prior[level, k] = plain[lo + k, spread, level]
    return lo + pick(_sum_out(given, of_means, prior), u)


@inner
def _draw_jumps(
    key: np.uint64, sweep: np.uint64, uniforms: Values, number: int, is_drawn: bool,
    counts: Counts, values: Values, columns: Index, jumps: Index, offset: float, mean: int,
    spread: int, grid: Values, sizes: Values, own: tuple[int, int], points: Points,
    by_mean: Table,
) -> tuple[Index, int, int]:  # fmt: skip
    """Draw mean and spread of the jumps of columns, and the jumps themselves."""
    occurring, of_columns = ranks(columns)
    of_groups = take(grid, occurring, offset)
    odds = _log_odds(of_groups, values, repeated(0.0, occurring.shape[0]), False)
    for k in range(odds.shape[0]):
        for c in range(odds.shape[1]):
            odds[k, c, 0] = -np.inf  # a jump does not matter without cover
    uncovered, known, n_ones = counts
    of_common = weigh_common(uncovered, known, n_ones, of_columns, odds, sizes, points)
    if spread == 0 or not is_drawn:
        mean = pick(of_common, uniforms[_JUMP_MEAN])
    if not is_drawn:
        return all_at(mean, columns.shape[0]), mean, 0
    (stride, first), near = own, np.empty(columns.shape[0], np.int64)
    for i in range(near.shape[0]):
        near[i] = jumps[i] // stride
    given = _given(counts, n_ones[1], odds, every(sizes, stride), near, of_columns, points)
    log_prior, prior, plain = by_mean
    if spread > 0:
        u = uniforms[_JUMP_MEAN]
        mean = _draw_mean(u, given, mean, spread - first, number, log_prior, plain)
    sums = _sum_out(given, log_prior[mean], prior[mean])
    log_sums = np.empty(sums.shape[0] + 1)
    log_sums[0] = of_common[mean]
    copy_line(sums, log_sums[1:])
    chosen = pick(log_sums, uniforms[_JUMP_SPREAD])
    if chosen == 0:
        return all_at(mean, columns.shape[0]), mean, 0
    at = chosen - 1
    levels = _draw_lines(key, sweep, _JUMPS, given, log_prior[mean, at], plain[mean, at])
    for i in range(levels.shape[0]):
        levels[i] *= stride
    return levels, mean, first + at


@inner
def _draw_offset(
    uniforms: Values, width: int, shift: int, counts: Counts, values: Values, levels: Values,
    jumps: Values, of_columns: Index, offset: int, offsets: Values, points: Points,
) -> int:  # fmt: skip
    """Draw the offset given all levels, out of a group of so many offsets."""
    start = (offset + shift) // width * width - shift
    first, end = max(start, 0), min(start + width, offsets.shape[0])
    if end - first < 2:
        return offset
    odds = _log_odds(levels, values, jumps, False)
    uncovered, known, n_ones = counts
    some = offsets[first:end]
    weights = weigh_common(uncovered, known, n_ones, of_columns, odds, some, points)
    return first + pick(weights, uniforms[_OFFSET])


@inner
def _list_pairs(columns: Index, jumps: Index, n_jumps: int) -> tuple[Index, Index, Index]:
    """Return levels and jumps that occur together, and the number of every column's pair."""
    both = np.empty(columns.shape[0], np.int64)
    for i in range(both.shape[0]):
        both[i] = n_jumps * columns[i] + jumps[i]
    pairs, classes = ranks(both)
    levels, sizes = np.empty(pairs.shape[0], np.int64), np.empty(pairs.shape[0], np.int64)
    for i in range(pairs.shape[0]):
        levels[i], sizes[i] = pairs[i] // n_jumps, pairs[i] % n_jumps
    return levels, sizes, classes


@jit
def draw_mode(
    mode: int, key: np.uint64, sweep: np.uint64, uniforms: Values, number: int,
    is_drawn: tuple[bool, bool, bool, bool], fine: int, width: int, shift: int,
    counts: Counts, values: Values, sizes: Values, rows: Index, columns: Index, jumps: Index,
    hyper: Positions, grids: tuple[Values, Values, Values, Values], own: tuple[int, int],
    points: Points, steps: tuple[int, int], of_rows: Table, of_columns: tuple[Pair, Table],
    of_jumps: Table,
) -> tuple[Index, Index, int, Positions, Index, Index, Index]:  # fmt: skip
    """Draw the levels of rows with their spread; or those of columns, and all else.

    That is: levels and jumps of columns, their means and spreads, the offset, and shifts. Both are
    one function, which takes less time to compile than two that share most of what they do.

    Parameters
    ----------
    number
        Number of the draw.
    is_drawn
        Whether columns have levels of their own, whether jumps are drawn at all, whether columns
        have jumps of their own, and whether rows are shifted against columns.
    fine
        Number of offsets between two coarse ones, if one of these is drawn with the rows, or 0.
    width, shift
        How many offsets are in question together afterwards, and by how many groups are shifted.
    values, sizes
        Levels and jumps of the classes of lines of the other mode.
    hyper, grids
        Positions of :class:`thali.model.levels.Hyper`; grids of rows, columns, jumps and offsets.
    own
        Stride and first spread of the jumps of columns (:class:`thali.model.level_grids.Grids`).
    of_rows, of_columns, of_jumps
        Priors; those of columns by spread, and by mean.

    Returns
    -------
    levels, jumps
        Positions on their grids.
    down
        By how many steps rows go down.
    hyper
        All positions.
    occurring, of_occurring, classes
        The levels that occur, with the jumps of columns, and the number of every line's.
    """
    row_spread, column_mean, column_spread, jump_mean, jump_spread, offset = hyper
    of_levels, grid, all_sizes, offsets = grids
    if mode == 0:
        levels, row_spread, offset, occurring, classes = _draw_rows(
            key, sweep, uniforms[_ROW_SPREAD], counts, values, sizes, rows, offset, fine,
            of_levels, offsets, points, of_rows,
        )  # fmt: skip
        found = row_spread, column_mean, column_spread, jump_mean, jump_spread, offset
        return levels, jumps, 0, found, occurring, occurring, classes
    has_columns, has_jump, has_jumps, is_shifted = is_drawn
    columns, column_mean, column_spread = _draw_columns(
        key, sweep, uniforms, has_columns, counts, values, columns, jumps, offsets[offset],
        column_spread, grid, all_sizes, points, of_columns[0], of_columns[1],
    )  # fmt: skip
    if has_jump:
        jumps, jump_mean, jump_spread = _draw_jumps(
            key, sweep, uniforms, number, has_jumps, counts, values, columns, jumps,
            offsets[offset], jump_mean, jump_spread, grid, all_sizes, own, points, of_jumps,
        )  # fmt: skip
    occurring, of_occurring, classes = _list_pairs(columns, jumps, all_sizes.shape[0])
    offset = _draw_offset(
        uniforms, width, shift, counts, values, take(grid, occurring, 0.0),
        take(all_sizes, of_occurring, 0.0), classes, offset, offsets, points,
    )  # fmt: skip
    down = 0
    if is_shifted:
        down, up, aside = draw_shift(
            rows, columns, of_rows[0][0, row_spread], of_columns[1][0], column_mean,
            column_spread, offset, offsets.shape[0], steps[0], steps[1], uniforms[_SHIFT],
        )  # fmt: skip
        columns, occurring = shifted(columns, up), shifted(occurring, up)
        column_mean, offset = column_mean + up, offset + aside
    found = row_spread, column_mean, column_spread, jump_mean, jump_spread, offset
    return columns, jumps, down, found, occurring, of_occurring, classes
