# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Draws of the levels of rows and columns, given the factors (eq. 28 to 30).

A spread or mean is drawn with the levels it belongs to summed out, and these levels are drawn
right after it. Given the levels, a spread could hardly move, and the absence of effects could
hardly be entered or left.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.engines.base import Cover
from thali.model.effects import Levels
from thali.sampler.gains import class_masks
from thali.sites import LevelIndex, Site, site_of
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model.effects import Effects
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


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
    grids = noise.prior.grids
    uniforms = stream.uniforms(Site.LEVEL_PRIORS, len(LevelIndex)).tolist()
    hyper, rows, columns, jumps = noise.hyper, noise.rows, noise.columns, noise.jumps

    if prior.rows:
        pairs = noise.column_classes
        counts = line_counts(state, target, 0, pairs[2], len(pairs[0]))
        odds = grids.columns[pairs[0]]
        table = _table(counts, _softplus(grids.rows, odds, odds + grids.jumps[pairs[1]]))
        table += counts.sum(axis=1)[:, :, 0].sum(axis=1)[:, None] * grids.rows
        log_sums = sum_out(table, grids.of_rows)
        spread = _pick(log_sums, uniforms[LevelIndex.ROW_SPREAD])
        rows = _draw(stream, site_of(Site.LEVELS, 0), table, grids.of_rows[spread])
        hyper = hyper._replace(row_spread=spread)

    if is_column_held:
        return Levels(noise.prior, rows, columns, jumps, hyper)
    levels, classes = np.unique(rows, return_inverse=True)
    counts = line_counts(state, target, 1, classes, len(levels))
    of_rows = grids.rows[levels]
    n_ones = counts.sum(axis=1)[:, :, 0]  # uncovered, covered

    occurring, of_jumps = np.unique(jumps, return_inverse=True)
    softplus = np.stack(
        [_softplus(grids.columns, of_rows, of_rows + jump)[0] for jump in grids.jumps[occurring]]
    )
    table = _table(counts, softplus, of_jumps) + n_ones.sum(axis=1)[:, None] * grids.columns
    log_sums = sum_out(table, grids.of_columns[:, hyper.column_spread])
    mean = _pick(log_sums, uniforms[LevelIndex.COLUMN_MEAN])
    spread = hyper.column_spread
    if prior.columns:
        log_sums = sum_out(table, grids.of_columns[mean])
        spread = _pick(log_sums, uniforms[LevelIndex.COLUMN_SPREAD])
    columns = _draw(stream, site_of(Site.LEVELS, 1), table, grids.of_columns[mean, spread])
    hyper = hyper._replace(column_mean=mean, column_spread=spread)
    if is_jump_held:
        return Levels(noise.prior, rows, columns, jumps, hyper)

    occurring, of_columns = np.unique(columns, return_inverse=True)
    softplus = np.stack(
        [_softplus(grids.jumps, None, of_rows + level)[0] for level in grids.columns[occurring]]
    )
    table = _table(counts, softplus, of_columns) + n_ones[:, 1:] * grids.jumps
    log_sums = sum_out(table, grids.of_jumps[:, hyper.jump_spread])
    mean = _pick(log_sums, uniforms[LevelIndex.JUMP_MEAN])
    spread = hyper.jump_spread
    if prior.jumps:
        log_sums = sum_out(table, grids.of_jumps[mean])
        spread = _pick(log_sums, uniforms[LevelIndex.JUMP_SPREAD])
    jumps = _draw(stream, site_of(Site.JUMPS, 1), table, grids.of_jumps[mean, spread])
    hyper = hyper._replace(jump_mean=mean, jump_spread=spread)
    return Levels(noise.prior, rows, columns, jumps, hyper)


def line_counts(state: State, target: Target, mode: int, classes: Index, n_classes: int) -> Index:
    """Count entries by line of a mode, class of column, cover and datum.

    Returns ``(n_lines, n_classes, 2, 2)``: uncovered before covered, ones before zeros.
    """
    own, other = state.factors[mode], state.factors[1 - mode]
    masks, lines = class_masks(classes, n_classes), (0, own.n_rows)
    n = state.n_components
    free = target.engine.count_by_class(
        mode, lines, Cover(other, own, np.ones(n, np.bool_)), masks
    )
    known = target.engine.count_by_class(
        mode, lines, Cover(other, own, np.zeros(n, np.bool_)), masks
    )
    return np.stack([free, known - free], axis=2)


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
    counts: Index, softplus: NDArray[np.float64], which: Index | None = None
) -> NDArray[np.float64]:
    """Return minus the sum of counts times softplus, for every line and level."""
    if which is None:
        which = np.zeros(len(counts), np.int64)
    table: NDArray[np.float64] = _fill_table(counts, softplus, which)
    return table


@jit
def _fill_table(counts: Index, softplus: NDArray[np.float64], which: Index) -> NDArray[np.float64]:
    n_lines, n_classes = counts.shape[0], counts.shape[1]
    n_levels = softplus.shape[3]
    table = np.zeros((n_lines, n_levels))
    for i in range(n_lines):
        of_line = softplus[which[i]]
        out = table[i]
        for c in range(n_classes):
            for f in range(2):
                n = np.float64(counts[i, c, f, 0] + counts[i, c, f, 1])
                if n > 0.0:
                    values = of_line[c, f]
                    for level in range(n_levels):
                        out[level] -= n * values[level]
    return table


def sum_out(table: NDArray[np.float64], log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log probability of every prior, with the levels of all lines summed out (eq. 30).

    ``table`` is ``(n_lines, n_levels)``, ``log_prior`` ``(n_priors, n_levels)``.
    """
    sums: NDArray[np.float64] = _sum_out(table, np.exp(log_prior))
    return sums


@jit
def _sum_out(table: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    n_lines, n_levels = table.shape
    sums = np.zeros(prior.shape[0])
    likelihood = np.empty(n_levels)
    for i in range(n_lines):
        largest = table[i].max()
        for level in range(n_levels):
            likelihood[level] = exp(table[i, level] - largest)
        for k in range(prior.shape[0]):
            total = 0.0
            for level in range(n_levels):
                total += prior[k, level] * likelihood[level]
            # No mass: less than exp(-700) of what another prior gives, since some prior is wide.
            sums[k] += log(total) if total > 0.0 else -np.inf
    return sums


def _pick(log_weights: NDArray[np.float64], u: float) -> int:
    """Draw a position with probability proportional to the exponential of its weight."""
    cumulated = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(min(np.searchsorted(cumulated, u * cumulated[-1], "right"), len(cumulated) - 1))


def _draw(
    stream: Stream, site: int, table: NDArray[np.float64], log_prior: NDArray[np.float64]
) -> Index:
    """Draw the level of every line (eq. 28 and 29)."""
    levels: Index = _draw_lines(*stream, np.uint64(site), table, log_prior)
    return levels


@jit
def _draw_lines(
    key: np.uint64, sweep: np.uint64, site: np.uint64, table: NDArray[np.float64],
    log_prior: NDArray[np.float64],
) -> Index:  # fmt: skip
    n_lines, n_levels = table.shape
    levels = np.empty(n_lines, np.int64)
    weights = np.empty(n_levels)
    for i in range(n_lines):
        largest = -np.inf
        for level in range(n_levels):
            weights[level] = table[i, level] + log_prior[level]
            largest = max(largest, weights[level])
        total = 0.0
        for level in range(n_levels):
            weights[level] = exp(weights[level] - largest)
            total += weights[level]
        left = uniform(key, sweep, site, np.uint64(i), np.uint64(0)) * total
        chosen = n_levels - 1
        for level in range(n_levels):
            left -= weights[level]
            if left < 0.0:
                chosen = level
                break
        levels[i] = chosen
    return levels
