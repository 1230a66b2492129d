"""Draws of the levels of the lines of all modes, given the factors (eq. 28 to 30).

A spread or mean is drawn with the levels it belongs to summed out, and these levels are drawn
right after it. Given the levels, a spread could hardly move, and the absence of effects could
hardly be entered or left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.model.classes import ranks
from thali.patience import Patience
from thali.sampler.level_counts import count_lines
from thali.sampler.level_draws import draw_mode
from thali.sampler.level_likelihoods import (
    Likelihoods,
    draw_lines,
    draw_with_prior,
    merge,
    sum_out,
)
from thali.sampler.level_pairs import draw_pairs
from thali.sampler.level_shifts import draw_shift
from thali.sampler.level_weights import means_together, pick, weigh_common
from thali.sampler.level_windows import CHUNK
from thali.sampler.matrix_levels import draw_matrix
from thali.sites import LevelIndex, Site, site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine, LineCounts
    from thali.model.effects import Effects
    from thali.model.level_grids import Grids
    from thali.model.levels import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_FEW_LINES = 4 * CHUNK
"""A matrix with fewer rows and columns is one thread's work. From there on, processes share it."""

PATIENCE = Patience(15_000)
"""How many draws are done step by step before they are done in two calls, which take 10 s
longer to compile and save 0.6 ms."""

_OFFSET_EVERY = 8
"""The offset is drawn together with the levels of rows in one of so many draws."""

_PAIRS_EVERY = 8
"""Levels and jumps of columns are drawn together in one of so many draws, with a number that is
odd: draws with an even number have most of the rest to do."""


def draw_levels(
    stream: Stream,
    state: State,
    target: Target,
    prior: Effects | None = None,
    *,
    number: int | None = None,
    is_jump_held: bool = False,
    is_column_held: bool = False,
) -> Levels:
    """Draw spreads, means, levels and jumps: rows first, then columns, then jumps.

    The levels of all further modes of a tensor, whose mean is zero like that of rows, come after
    those of rows.

    A start may have another ``prior``, with fewer effects, and may hold jumps, or columns as well.
    The ``number`` of the draw decides whether the offset is drawn with the rows, and which means
    of jumps are in question; by default, it is that of the sweep.
    """
    noise: Levels = state.noise
    prior = noise.prior if prior is None else prior
    engine, grids = target.engine, noise.prior.grids
    uniforms = _uniforms(stream, 0)
    number = int(stream.sweep) if number is None else number
    is_offset_held = number % _OFFSET_EVERY > 0
    number *= state.n_components > 0  # otherwise the data say nothing about jumps
    if number % _PAIRS_EVERY == 1 and not (is_jump_held or is_column_held):
        noise = draw_pairs(stream, state, target, prior)
        state = state._replace(noise=noise)
    if _is_small(noise) and PATIENCE.ends(1, draw_mode):
        return draw_matrix(
            stream, state, target, prior, np.array(uniforms), _fine(grids),
            _groups(grids, prior, uniforms),
            number, is_offset_held=is_offset_held, is_jump_held=is_jump_held,
            is_column_held=is_column_held,
        )  # fmt: skip
    if prior.rows:
        u = uniforms[LevelIndex.ROW_SPREAD]
        noise = _draw_rows(stream, state, target, u, is_offset_held=is_offset_held)
    if is_column_held:
        return noise
    for mode in range(2, len(noise.lines)):
        if prior.columns or noise.hyper.spread_of(mode):
            noise = _draw_more(stream, state, target, noise, mode)
    hyper, jumps = noise.hyper, noise.jumps
    counts = count_lines(state, target, 1, noise.across(1).classes)

    if prior.columns or hyper.column_spread:
        columns, mean, spread = _draw_columns(engine, stream, noise, counts, prior, uniforms)
    else:  # one level for all columns
        spread, mean = 0, pick(_weigh_level(noise, counts), uniforms[LevelIndex.COLUMN_MEAN])
        columns = np.full(len(jumps), mean)
    hyper = hyper._replace(column_mean=mean, column_spread=spread)
    if is_jump_held:
        return _moved(stream, noise.with_columns(columns, jumps, hyper), counts, prior, uniforms)

    noise = noise.with_columns(columns, jumps, hyper)
    has_own = prior.jumps and grids.of_jumps.shape[1] > 0
    jumps, mean, spread = _draw_jumps(
        engine, stream, noise, counts, uniforms, number, has_own=has_own
    )
    hyper = hyper._replace(jump_mean=mean, jump_spread=spread)
    return _moved(stream, noise.with_columns(columns, jumps, hyper), counts, prior, uniforms)


def _is_small(noise: Levels) -> bool:
    """Whether a single thread draws the levels of a matrix."""
    return not noise.more and max(map(len, noise.lines)) < _FEW_LINES


def _uniforms(stream: Stream, mode: int) -> list[float]:
    """Return the random numbers of a draw that do not belong to single lines."""
    numbers: list[float] = stream.uniforms(
        site_of(Site.LEVEL_PRIORS, mode), len(LevelIndex)
    ).tolist()
    return numbers


def _draw_rows(
    stream: Stream, state: State, target: Target, u: float, *, is_offset_held: bool
) -> Levels:
    """Draw the spread of rows and the offset of all log odds at once, then the levels of rows.

    Given the levels, an offset could hardly move. It moves by whole numbers of ``_fine`` steps
    here, because every offset has its own likelihoods of rows, and in some draws only.
    """
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    engine, counts = target.engine, count_lines(state, target, 0, noise.across(0).classes)

    of_offset = line_likelihoods(engine, noise, counts, 0)

    def likelihoods(offset: int) -> Likelihoods:
        return of_offset(float(grids.offsets[offset]))

    site = site_of(Site.LEVELS, 0)
    if is_offset_held:
        spread, rows = draw_with_prior(
            engine, stream, site, likelihoods(hyper.offset), grids.of_rows, hyper.row_spread,
            lambda log_sums: pick(log_sums, u),
        )  # fmt: skip
        return noise.with_rows(rows, hyper._replace(row_spread=spread))
    fine, total = _fine(grids), int(counts.n_ones.sum())
    offsets = range(hyper.offset % fine, len(grids.offsets), fine)
    log_sums = np.empty((len(offsets), len(grids.spreads)))
    for k, offset in enumerate(offsets):
        log_sums[k] = sum_out(engine, likelihoods(offset), grids.of_rows)
        log_sums[k] += total * grids.offsets[offset]
    k, spread = divmod(pick(log_sums.ravel(), u), len(grids.spreads))
    offset = offsets[k]
    rows = draw_lines(engine, stream, site, likelihoods(offset), grids.of_rows[spread])
    return noise.with_rows(rows, hyper._replace(row_spread=spread, offset=offset))


def _draw_more(stream: Stream, state: State, target: Target, noise: Levels, mode: int) -> Levels:
    """Draw the spread and the levels of a third or later mode."""
    grids, hyper = noise.prior.grids, noise.hyper
    counts = count_lines(state, target, mode, noise.across(mode).classes)
    given = line_likelihoods(target.engine, noise, counts, mode)(noise.offset)
    site = site_of(Site.LEVELS, mode)
    u = _uniforms(stream, mode)[LevelIndex.ROW_SPREAD]
    spread, levels = draw_with_prior(
        target.engine, stream, site, given, grids.of_rows, hyper.spread_of(mode),
        lambda log_sums: pick(log_sums, u),
    )  # fmt: skip
    return noise.with_lines(mode, levels, hyper.with_spread(mode, spread))


def _draw_columns(
    engine: Engine, stream: Stream, noise: Levels, counts: LineCounts, prior: Effects,
    uniforms: list[float],
) -> tuple[Index, int, int]:  # fmt: skip
    """Draw mean and spread of the levels of columns, and the levels themselves."""
    grids, hyper = noise.prior.grids, noise.hyper
    given = column_likelihoods(noise, counts)
    log_sums = sum_out(engine, given, grids.of_columns[:, hyper.column_spread])
    mean = pick(log_sums, uniforms[LevelIndex.COLUMN_MEAN])
    site, spread, of_spreads = site_of(Site.LEVELS, 1), hyper.column_spread, grids.of_columns[mean]
    if not prior.columns:
        return draw_lines(engine, stream, site, given, of_spreads[spread]), mean, spread
    spread, columns = draw_with_prior(
        engine, stream, site, given, of_spreads, spread,
        lambda log_sums: pick(log_sums, uniforms[LevelIndex.COLUMN_SPREAD]),
    )  # fmt: skip
    return columns, mean, spread


def _draw_jumps(
    engine: Engine, stream: Stream, noise: Levels, counts: LineCounts, uniforms: list[float],
    number: int, *, has_own: bool,
) -> tuple[Index, int, int]:  # fmt: skip
    """Draw mean and spread of the jumps of columns, and the jumps themselves.

    Without a spread, all columns have one jump, which is the mean and may be any size.
    """
    grids, hyper, u = noise.prior.grids, noise.hyper, uniforms[LevelIndex.JUMP_MEAN]
    mean, spread, first = hyper.jump_mean, hyper.jump_spread, grids.first_spread
    of_common = _weigh_jump(noise, counts)
    if spread == 0 or not has_own:
        mean = pick(of_common, u)
    if not has_own:
        return np.full(len(noise.jumps), mean), mean, 0
    given = jump_likelihoods(noise, counts)
    if spread:
        lo, hi = means_together(mean, number, len(grids.jumps))
        mean = lo + pick(sum_out(engine, given, grids.of_jumps[lo:hi, spread - first]), u)
    log_sums = np.append(of_common[mean], sum_out(engine, given, grids.of_jumps[mean]))
    chosen = pick(log_sums, uniforms[LevelIndex.JUMP_SPREAD])
    if chosen == 0:
        return np.full(len(noise.jumps), mean), mean, 0
    site, log_prior = site_of(Site.JUMPS, 1), grids.of_jumps[mean, chosen - 1]
    own = draw_lines(engine, stream, site, given, log_prior)
    return grids.stride * own, mean, first + chosen - 1


def line_likelihoods(
    engine: Engine, noise: Levels, counts: LineCounts, mode: int
) -> Callable[[float], Likelihoods]:
    """Return the likelihoods, by offset, of the levels of a mode that has no mean and no jumps."""
    values, jumps, _ = noise.across(mode)
    odds, grid, near = _log_odds(np.zeros(1), values, jumps), noise.grid(mode), noise.lines[mode]
    counts, odds = merge(engine, counts, odds, noise.lattice)
    return lambda offset: _likelihoods(noise, counts, odds + offset, grid, near)


def column_likelihoods(noise: Levels, counts: LineCounts) -> Likelihoods:
    """Return the likelihoods of the levels of all columns, given those of rows."""
    odds, of_jumps = _odds_by_jump(noise)
    return _likelihoods(noise, counts, odds, noise.prior.grids.columns, noise.columns, of_jumps)


def jump_likelihoods(noise: Levels, counts: LineCounts) -> Likelihoods:
    """Return the likelihoods of the jumps of all columns, if they have their own."""
    odds, of_columns = _odds_by_column(noise)
    grids, n_ones = noise.prior.grids, counts.n_ones[1]
    sizes = np.ascontiguousarray(grids.jumps[:: grids.stride])
    near = np.asarray(noise.jumps, np.int64) // grids.stride
    return Likelihoods.of(counts, n_ones, odds, sizes, near, of_columns, noise.lattice)


def _likelihoods(
    noise: Levels, counts: LineCounts, odds: NDArray[np.float64], grid: NDArray[np.float64],
    near: Index, which: Index | None = None,
) -> Likelihoods:  # fmt: skip
    n_ones = counts.n_ones[0] + counts.n_ones[1]
    return Likelihoods.of(counts, n_ones, odds, grid, near, which, noise.lattice)


def _weigh_level(noise: Levels, counts: LineCounts) -> NDArray[np.float64]:
    """Return the log likelihood of a level that all columns have, up to a constant."""
    odds, of_jumps = _odds_by_jump(noise)
    return _weigh(noise, counts, of_jumps, odds, noise.prior.grids.columns)


def _weigh_jump(noise: Levels, counts: LineCounts) -> NDArray[np.float64]:
    """Return the log likelihood of a jump that all columns have, up to a constant."""
    odds, of_columns = _odds_by_column(noise)
    return _weigh(noise, counts, of_columns, odds, noise.prior.grids.jumps)


def _weigh_offsets(
    noise: Levels, counts: LineCounts, offsets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log likelihood of offsets given all levels, up to a constant."""
    grids, (levels, jumps, of_columns) = noise.prior.grids, noise.column_classes
    of_rows = noise.across(1).values
    odds = _log_odds(grids.columns[levels], of_rows, grids.jumps[jumps][:, None])
    return _weigh(noise, counts, of_columns, odds, offsets)


def _weigh(
    noise: Levels, counts: LineCounts, of_lines: Index, odds: NDArray[np.float64],
    grid: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    log_weights: NDArray[np.float64] = weigh_common(
        *counts, of_lines, odds, grid, tuple(noise.lattice)
    )
    return log_weights


# --- log odds without the level in question, as level_weights.py takes them --------------------


def _odds_by_jump(noise: Levels) -> tuple[NDArray[np.float64], Index]:
    """Return log odds without the level of the column, and the number of every column's jump."""
    grids, (occurring, of_jumps) = noise.prior.grids, ranks(noise.jumps)
    of_rows = noise.across(1).values
    offsets = np.full(len(occurring), noise.offset)
    return _log_odds(offsets, of_rows, grids.jumps[occurring][:, None]), of_jumps


def _odds_by_column(noise: Levels) -> tuple[NDArray[np.float64], Index]:
    """Return log odds without the jump, and the number of every column's level."""
    grids, (occurring, of_columns) = noise.prior.grids, ranks(noise.columns)
    of_rows = noise.across(1).values
    odds = _log_odds(grids.columns[occurring] + noise.offset, of_rows, 0.0)
    odds[:, :, 0] = -np.inf  # a jump does not matter without cover
    return odds, of_columns


def _log_odds(
    of_lines: NDArray[np.float64], of_classes: NDArray[np.float64],
    jumps: NDArray[np.float64] | float,
) -> NDArray[np.float64]:  # fmt: skip
    """Return log odds by group of lines, class of their columns, and cover."""
    odds = np.empty((len(of_lines), len(of_classes), 2))
    np.add(of_lines[:, None], of_classes, out=odds[:, :, 0])
    np.add(odds[:, :, 0], jumps, out=odds[:, :, 1])
    return odds


# --- the offset, and shifts --------------------------------------------------------------------


def _moved(
    stream: Stream, noise: Levels, counts: LineCounts, prior: Effects, uniforms: list[float]
) -> Levels:
    """Draw the offset given all levels, then shift rows against columns.

    If rows have levels of their own, only the offsets of a group are in question. A group is wider
    than what data of some thousand entries leave open: in a narrow one the offset would crawl, and
    with it the rate of spurious ones, because jumps follow it.
    """
    grids, hyper = noise.prior.grids, noise.hyper
    width, shift = _groups(grids, prior, uniforms)
    first = max((hyper.offset + shift) // width * width - shift, 0)
    last = (hyper.offset + shift) // width * width - shift + width
    some = grids.offsets[first:last]
    if len(some) > 1:
        log_weights = _weigh_offsets(noise, counts, some)
        noise = noise.with_offset(first + pick(log_weights, uniforms[LevelIndex.OFFSET]))
    noise = _shifted(noise, 0, uniforms[LevelIndex.SHIFT])
    for mode in range(2, len(noise.lines)):
        noise = _shifted(noise, mode, _uniforms(stream, mode)[LevelIndex.SHIFT])
    return noise


def _groups(grids: Grids, prior: Effects, uniforms: list[float]) -> tuple[int, int]:
    """Return how many offsets a group has, and by how many the groups are shifted.

    Every other time the groups are others, so that an offset can leave its own.
    """
    if not prior.rows:
        return len(grids.offsets), 0
    width = 4 * _fine(grids)
    return width, width // 2 if uniforms[LevelIndex.GROUPS] < 0.5 else 0


def _fine(grids: Grids) -> int:
    """Return how many offsets there are between two coarse ones, of which there are about ten."""
    return -(-len(grids.offsets) // 11)


def _shifted(noise: Levels, mode: int, u: float) -> Levels:
    """Draw how far all rows go down while columns or the offset go up, or the other way round.

    In a tensor, any mode but the second stands for the rows.

    The likelihood depends on sums of a level of a row, a level of a column and the offset only, so
    their priors alone decide. Without this step, rows that lie below zero on average would stay
    there: with columns at their levels, no single row can move. The mean of the columns goes with
    them.
    """
    grids, hyper = noise.prior.grids, noise.hyper
    has_levels = noise.prior.columns if mode else noise.prior.rows
    if not has_levels or grids.steps.of_columns == 0:
        return noise
    rows, columns = (np.asarray(noise.lines[m], np.int64) for m in (mode, 1))
    down, up, aside = draw_shift(
        rows, columns, grids.of_rows[hyper.spread_of(mode)], grids.of_columns, hyper.column_mean,
        hyper.column_spread, hyper.offset, len(grids.offsets), *grids.steps, u,
    )  # fmt: skip
    if down == up == aside == 0:
        return noise
    hyper = hyper._replace(column_mean=hyper.column_mean + up, offset=hyper.offset + aside)
    return noise.with_both(mode, rows - down, columns + up, hyper)
