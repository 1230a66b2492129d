# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Draws of the levels of rows and columns, given the factors (eq. 28 to 30).

A spread or mean is drawn with the levels it belongs to summed out, and these levels are drawn
right after it. Given the levels, a spread could hardly move, and the absence of effects could
hardly be entered or left.
"""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import pack
from thali.engines.base import Cover
from thali.sites import LevelIndex, Site, site_of
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine
    from thali.model.effects import Effects, Grids, Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


_LEAST = -690.0
"""Logarithm of likelihoods, relative to the largest, that are as good as zero: 1e-300."""

CHUNK = 1 << 11
"""Lines that one thread does at a time, and that are added up together."""

_NEGLIGIBLE = 50.0
"""What is less probable by this much, in logarithms, is never drawn."""

_SMALL = 1e-30
"""Smaller probabilities are not multiplied with those of seven other lines."""

_OFFSET_EVERY = 8
"""The offset is drawn together with the levels of rows in one of so many sweeps."""


def draw_levels(
    stream: Stream,
    state: State,
    target: Target,
    prior: Effects | None = None,
    *,
    is_jump_held: bool = False,
    is_column_held: bool = False,
) -> Levels:
    """Draw spreads, means, levels and jumps: rows first, then columns, then jumps.

    A start may have another ``prior``, with fewer effects, and may hold jumps, or columns as well.
    """
    noise: Levels = state.noise
    prior = noise.prior if prior is None else prior
    engine, grids = target.engine, noise.prior.grids
    uniforms = stream.uniforms(Site.LEVEL_PRIORS, len(LevelIndex)).tolist()
    if prior.rows:
        noise = _draw_rows(stream, state, target, uniforms[LevelIndex.ROW_SPREAD])
    if is_column_held:
        return noise
    hyper, jumps = noise.hyper, noise.jumps
    levels, classes = noise.row_classes
    counts = count_lines(state, target, 1, classes)
    of_rows = grids.rows[levels] + grids.offsets[hyper.offset]

    if prior.columns or hyper.column_spread:
        columns, mean, spread = _draw_columns(engine, stream, noise, counts, prior, uniforms)
    else:  # one level for all columns
        spread, mean = 0, _pick(_weigh_level(noise, counts), uniforms[LevelIndex.COLUMN_MEAN])
        columns = np.full(len(jumps), mean)
    hyper = hyper._replace(column_mean=mean, column_spread=spread)
    if is_jump_held:
        return _moved(noise.with_columns(columns, jumps, hyper), counts, prior, uniforms)

    occurring, of_columns = np.unique(columns, return_inverse=True)
    spread = hyper.jump_spread
    if prior.jumps or spread:
        softplus = np.stack(
            [_softplus(grids.jumps, None, of_rows + b)[0] for b in grids.columns[occurring]]
        )
        table = _table(engine, counts, softplus, counts.n_ones[:, 1], grids.jumps, of_columns)
        relative = _relative(engine, table)
        log_sums = sum_out(engine, relative, grids.of_jumps[:, spread])
        mean = _pick(log_sums, uniforms[LevelIndex.JUMP_MEAN])
        spread = _pick(
            sum_out(engine, relative, grids.of_jumps[mean]), uniforms[LevelIndex.JUMP_SPREAD]
        )
        jumps = _draw(
            engine, stream, site_of(Site.JUMPS, 1), relative, grids.of_jumps[mean, spread]
        )
    else:  # one jump for all columns
        _, covered = _count_groups(counts.free, counts.known, of_columns, len(occurring))
        odds = np.add.outer(grids.columns[occurring], of_rows)
        log_weights = counts.n_ones[:, 1].sum() * grids.jumps
        log_weights -= _sum_softplus(covered, odds, grids.jumps)
        mean = _pick(log_weights, uniforms[LevelIndex.JUMP_MEAN])
        jumps = np.full(len(columns), mean)
    hyper = hyper._replace(jump_mean=mean, jump_spread=spread)
    return _moved(noise.with_columns(columns, jumps, hyper), counts, prior, uniforms)


def _draw_rows(stream: Stream, state: State, target: Target, u: float) -> Levels:
    """Draw the spread of rows and the offset of all log odds at once, then the levels of rows.

    Given the levels, an offset could hardly move. It moves by whole numbers of ``_fine`` steps
    here, because every offset has its own likelihoods of rows, and in some sweeps only.
    """
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    levels, of_jumps, classes = noise.column_classes
    counts = count_lines(state, target, 0, classes)
    engine, n_ones = target.engine, counts.n_ones.sum(axis=1)
    is_offset_held = int(stream.sweep) % _OFFSET_EVERY > 0

    def likelihoods(offset: int) -> Likelihoods:
        odds = grids.columns[levels] + grids.offsets[offset]
        softplus = _softplus(grids.rows, odds, odds + grids.jumps[of_jumps])
        return _relative(engine, _table(engine, counts, softplus, n_ones, grids.rows))

    fine = _fine(grids)
    offsets = range(hyper.offset % fine, len(grids.offsets), fine)
    if is_offset_held:
        offsets = range(hyper.offset, hyper.offset + 1)
    total = int(counts.n_ones.sum())
    log_sums = np.empty((len(offsets), len(grids.spreads)))
    for k, offset in enumerate(offsets):
        given = likelihoods(offset)
        log_sums[k] = sum_out(engine, given, grids.of_rows) + given.largest
        log_sums[k] += total * grids.offsets[offset]
    k, spread = divmod(_pick(log_sums.ravel(), u), len(grids.spreads))
    offset = offsets[k]
    given = given if len(offsets) == 1 else likelihoods(offset)
    rows = _draw(engine, stream, site_of(Site.LEVELS, 0), given, grids.of_rows[spread])
    return noise.with_rows(rows, hyper._replace(row_spread=spread, offset=offset))


def _draw_columns(
    engine: Engine, stream: Stream, noise: Levels, counts: LineCounts, prior: Effects,
    uniforms: list[float],
) -> tuple[Index, int, int]:  # fmt: skip
    """Draw mean and spread of the levels of columns, and the levels themselves."""
    grids, hyper = noise.prior.grids, noise.hyper
    of_rows = grids.rows[noise.row_classes[0]] + noise.offset
    occurring, of_jumps = np.unique(noise.jumps, return_inverse=True)
    softplus = np.stack(
        [_softplus(grids.columns, of_rows, of_rows + jump)[0] for jump in grids.jumps[occurring]]
    )
    n_ones = counts.n_ones.sum(axis=1)
    table = _table(engine, counts, softplus, n_ones, grids.columns, of_jumps)
    relative = _relative(engine, table)
    log_sums = sum_out(engine, relative, grids.of_columns[:, hyper.column_spread])
    mean = _pick(log_sums, uniforms[LevelIndex.COLUMN_MEAN])
    spread = hyper.column_spread
    if prior.columns:
        log_sums = sum_out(engine, relative, grids.of_columns[mean])
        spread = _pick(log_sums, uniforms[LevelIndex.COLUMN_SPREAD])
    log_prior = grids.of_columns[mean, spread]
    return _draw(engine, stream, site_of(Site.LEVELS, 1), relative, log_prior), mean, spread


def _weigh_level(noise: Levels, counts: LineCounts) -> NDArray[np.float64]:
    """Return the log likelihood of a level that all columns have, up to a constant."""
    grids = noise.prior.grids
    of_rows = grids.rows[noise.row_classes[0]] + noise.offset
    occurring, of_jumps = np.unique(noise.jumps, return_inverse=True)
    uncovered, covered = _count_groups(counts.free, counts.known, of_jumps, len(occurring))
    odds = np.add.outer(np.zeros(len(occurring)), of_rows)
    log_weights: NDArray[np.float64] = counts.n_ones.sum() * grids.columns
    log_weights -= _sum_softplus(uncovered, odds, grids.columns)
    log_weights -= _sum_softplus(covered, odds + grids.jumps[occurring][:, None], grids.columns)
    return log_weights


def _moved(noise: Levels, counts: LineCounts, prior: Effects, uniforms: list[float]) -> Levels:
    """Draw the offset given all levels, then shift rows against columns.

    If rows have levels of their own, only offsets between two coarse ones are in question.
    """
    grids, hyper = noise.prior.grids, noise.hyper
    fine = _fine(grids) if prior.rows else len(grids.offsets)
    first = hyper.offset // fine * fine
    some = grids.offsets[first : first + fine]
    if len(some) > 1:
        log_weights = _weigh_offsets(noise, counts, some)
        noise = noise.with_offset(first + _pick(log_weights, uniforms[LevelIndex.OFFSET]))
    return _shifted(noise, uniforms)


def _weigh_offsets(
    noise: Levels, counts: LineCounts, offsets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log likelihood of offsets given all levels, up to a constant."""
    log_weights: NDArray[np.float64] = counts.n_ones.sum() * offsets
    _, _, of_columns = noise.column_classes
    n_classes = noise.log_odds.shape[1]
    groups = _count_groups(counts.free, counts.known, of_columns, n_classes)
    for covered, n in enumerate(groups):
        odds = noise.log_odds[:, :, covered].T - noise.offset
        log_weights -= _sum_softplus(n, np.ascontiguousarray(odds), offsets)
    return log_weights


def _fine(grids: Grids) -> int:
    """Return how many offsets there are between two coarse ones, of which there are about ten."""
    return -(-len(grids.offsets) // 11)


def _shifted(noise: Levels, uniforms: list[float]) -> Levels:
    """Draw how far all rows go down while columns or the offset go up, or the other way round.

    The likelihood depends on sums of a level of a row, a level of a column and the offset only, so
    their priors alone decide. Without this step, rows that lie below zero on average would stay
    there: with columns at their levels, no single row can move. The mean of the columns goes with
    them.
    """
    grids, hyper = noise.prior.grids, noise.hyper
    if not noise.prior.rows or grids.steps.of_columns == 0:
        return noise
    rows, columns = noise.rows.astype(np.int64), noise.columns.astype(np.int64)
    shifts = _possible_shifts(noise, rows, columns)
    downs, ups, _ = np.array(shifts).T
    of_columns = grids.of_columns[hyper.column_mean + ups, hyper.column_spread]
    log_priors = _log_priors(rows, grids.of_rows[[hyper.row_spread]], -downs)
    log_priors += _log_priors(columns, of_columns, ups)
    down, up, aside = shifts[_pick(log_priors, uniforms[LevelIndex.SHIFT])]
    if down == up == aside == 0:
        return noise
    hyper = hyper._replace(column_mean=hyper.column_mean + up, offset=hyper.offset + aside)
    return noise.with_both(rows - down, columns + up, hyper)


def _possible_shifts(noise: Levels, rows: Index, columns: Index) -> list[tuple[int, int, int]]:
    """Return by how many steps rows can go down, columns up and the offset up, sums unchanged."""
    grids, hyper = noise.prior.grids, noise.hyper
    of_columns, of_rows = grids.steps
    low, high = int(columns.min()), int(columns.max())
    ups = range(-min(low, hyper.column_mean), len(grids.columns) - max(high, hyper.column_mean))
    asides = [0]
    if of_rows:
        before, after = hyper.offset // of_rows, (len(grids.offsets) - 1 - hyper.offset) // of_rows
        asides = list(range(-before, after + 1))
    return [
        (down, up, aside * of_rows)
        for up in ups
        for aside in asides
        for down in [up * of_columns + aside]
        if int(rows.max()) - len(grids.rows) < down <= int(rows.min())
    ]


def _log_priors(
    levels: Index, log_prior: NDArray[np.float64], shifts: Index
) -> NDArray[np.float64]:
    """Return the log prior of all lines after each shift; every shift may have its own prior."""
    numbers = np.bincount(levels)
    occurring = np.flatnonzero(numbers)
    which = np.arange(len(log_prior))[:, None]
    after: NDArray[np.float64] = log_prior[which, occurring + shifts[:, None]]
    return after @ numbers[occurring].astype(np.float64)


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


def _softplus(
    grid: NDArray[np.float64],
    uncovered: NDArray[np.float64] | None,
    covered: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return log(1 + exp(log odds)) by class, cover and level, ``(1, n_classes, 2, n_levels)``.

    Where the level does not matter, that is for entries without cover, it is zero.
    """
    table = np.zeros((1, len(covered), 2, len(grid)))
    if uncovered is not None:
        table[0, :, 0] = np.logaddexp(0.0, uncovered[:, None] + grid)
    table[0, :, 1] = np.logaddexp(0.0, covered[:, None] + grid)
    return table


def _table(
    engine: Engine,
    counts: LineCounts,
    softplus: NDArray[np.float64],
    n_ones: Index,
    grid: NDArray[np.float64],
    which: Index | None = None,
) -> NDArray[np.float64]:
    """Return ones times level minus the sum of counts times softplus, for every line and level."""
    n_lines = len(counts.free)
    if which is None:
        which = np.zeros(n_lines, np.int64)
    table = np.empty((n_lines, len(grid)))
    engine.over_rows(
        _fill_table, n_lines, counts.free, counts.known, softplus, n_ones, grid, which, table,
        step=CHUNK,
    )  # fmt: skip
    return table


@jit
def _fill_table(
    lo: int, hi: int, free: Index, known: Index, softplus: NDArray[np.float64], n_ones: Index,
    grid: NDArray[np.float64], which: Index, table: NDArray[np.float64],
) -> None:  # fmt: skip
    n_classes = free.shape[1]
    n_levels = grid.shape[0]
    for i in range(lo, hi):
        out = table[i]
        out[:] = 0.0
        for c in range(n_classes):
            n_known = known[i, c, 0] + known[i, c, 1]
            if n_known == 0:
                continue
            n_free = free[i, c, 0] + free[i, c, 1]
            n_uncovered, n_covered = np.float64(n_free), np.float64(n_known - n_free)
            uncovered, covered = softplus[which[i], c, 0], softplus[which[i], c, 1]
            if n_covered == 0.0:
                for level in range(n_levels):
                    out[level] -= n_uncovered * uncovered[level]
            else:
                for level in range(n_levels):
                    out[level] -= n_uncovered * uncovered[level] + n_covered * covered[level]
        for level in range(n_levels):
            out[level] += n_ones[i] * grid[level]


@jit
def _count_groups(free: Index, known: Index, of_lines: Index, n: int) -> tuple[Index, Index]:
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
def _sum_softplus(
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


class Likelihoods(NamedTuple):
    """Likelihood of every level of a line, relative to its likeliest."""

    largest: float  # sum over lines of the log likelihood of the likeliest level
    logs: NDArray[np.float64]  # (n_lines, n_levels)
    relative: NDArray[np.float64]  # with impossible levels, to a multiple of four


def _relative(engine: Engine, table: NDArray[np.float64]) -> Likelihoods:
    """Return likelihoods given log likelihoods, which are changed in place."""
    n_lines, n_levels = table.shape
    relative = np.empty((n_lines, (n_levels + 3) // 4 * 4))
    largest = float(table.max(axis=1).sum())
    engine.over_rows(_exponentials, n_lines, table, relative, step=CHUNK)
    return Likelihoods(largest, table, relative)


@jit
def _exponentials(
    lo: int, hi: int, table: NDArray[np.float64], relative: NDArray[np.float64]
) -> None:
    for i in range(lo, hi):
        largest = table[i].max()
        relative[i] = 0.0
        for level in range(table.shape[1]):
            table[i, level] -= largest
            if table[i, level] > _LEAST:
                relative[i, level] = exp(table[i, level])


def sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of every prior, with the levels of all lines summed out (eq. 30).

    ``log_prior`` is ``(n_priors, n_levels)``. What all priors have in common is left out.
    """
    prior = np.zeros((given.relative.shape[1], len(log_prior)))
    prior[: log_prior.shape[1]] = np.exp(log_prior).T
    n_lines = len(given.logs)
    parts = np.zeros((-(-n_lines // CHUNK), len(log_prior)))  # whatever the number of threads
    engine.over_rows(_sum_out, n_lines, given.relative, prior, parts, step=CHUNK)
    sums: NDArray[np.float64] = parts.sum(axis=0)
    if sums.max() > _LEAST + _NEGLIGIBLE:
        return sums  # what is too small for these numbers is at most exp(_LEAST)
    for k in np.flatnonzero(np.isinf(sums)):  # too small for these numbers, but not impossible
        level = log_prior[k].argmax()
        if np.isinf(log_prior[k]).sum() == log_prior.shape[1] - 1:
            sums[k] = given.logs[:, level].sum()
        else:
            own = np.zeros(len(parts))
            engine.over_rows(_log_sum_out, n_lines, given.logs, log_prior[k], own, step=CHUNK)
            sums[k] = own.sum()
    return sums


@jit
def _log_sum_out(
    lo: int, hi: int, logs: NDArray[np.float64], log_prior: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> None:  # fmt: skip
    """Compute the same for one prior, so that nothing is too small."""
    for i in range(lo, hi):
        largest = -np.inf
        for level in range(logs.shape[1]):
            largest = max(largest, logs[i, level] + log_prior[level])
        sum_ = 0.0
        for level in range(logs.shape[1]):
            sum_ += exp(logs[i, level] + log_prior[level] - largest)
        parts[i // CHUNK] += largest + log(sum_)


@jit
def _sum_out(
    lo: int, hi: int, relative: NDArray[np.float64], prior: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out some lines; every part is the sum of so many lines, ``(n_parts, n_priors)``."""
    n_levels, n = prior.shape
    totals = np.empty(n)
    products = np.ones(n)  # of some lines, so that few logarithms are needed
    for i in range(lo, hi):
        sums = parts[i // CHUNK]
        totals[:] = 0.0
        for level in range(0, n_levels, 4):  # four at a time take half the time
            some, of_some = relative[i, level : level + 4], prior[level : level + 4]
            v0, v1, v2, v3 = some[0], some[1], some[2], some[3]
            if v0 + v1 + v2 + v3 == 0.0:
                continue
            p0, p1, p2, p3 = of_some[0], of_some[1], of_some[2], of_some[3]
            for k in range(n):
                totals[k] += p0[k] * v0 + p1[k] * v1 + p2[k] * v2 + p3[k] * v3
        for k in range(n):
            if totals[k] < _SMALL:
                sums[k] += log(totals[k]) if totals[k] > 0.0 else -np.inf
            else:
                products[k] *= totals[k]
        if i & 7 == 7 or i == hi - 1:
            for k in range(n):
                sums[k] += log(products[k])
                products[k] = 1.0


def _pick(log_weights: NDArray[np.float64], u: float) -> int:
    """Draw a position with probability proportional to the exponential of its weight."""
    cumulated = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(min(np.searchsorted(cumulated, u * cumulated[-1], "right"), len(cumulated) - 1))


def _draw(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64]
) -> Index:
    """Draw the level of every line (eq. 28 and 29)."""
    n_lines = len(given.logs)
    if np.isinf(log_prior).sum() == len(log_prior) - 1:  # no spread: all lines have one level
        return np.full(n_lines, log_prior.argmax())
    levels = np.empty(n_lines, np.int64)
    engine.over_rows(
        _draw_lines, n_lines, *stream, np.uint64(site), *given[1:], log_prior, np.exp(log_prior),
        levels, step=CHUNK,
    )  # fmt: skip
    return levels


@jit
def _draw_lines(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64,
    logs: NDArray[np.float64], relative: NDArray[np.float64], log_prior: NDArray[np.float64],
    prior: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    n_levels = logs.shape[1]
    weights = np.empty(n_levels)
    for i in range(lo, hi):
        total = 0.0
        for level in range(n_levels):
            weights[level] = relative[i, level] * prior[level]
            total += weights[level]
        if total < _SMALL:
            largest = (logs[i] + log_prior).max()
            total = 0.0
            for level in range(n_levels):
                weights[level] = exp(logs[i, level] + log_prior[level] - largest)
                total += weights[level]
        left = uniform(key, sweep, site, np.uint64(i), np.uint64(0)) * total
        chosen = n_levels - 1
        for level in range(n_levels):
            left -= weights[level]
            if left < 0.0:
                chosen = level
                break
        levels[i] = chosen
