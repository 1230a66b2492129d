"""What summing out the levels of rows and columns adds to the density at one draw of them.

A state has one level for every row and column, and the prior probability of exactly these levels
is the smaller, the more levels are possible: two states with the same components could differ by
hundreds of nats for the spread of levels alone. With levels summed out, they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.sampler.level_counts import count_lines
from thali.sampler.level_likelihoods import (
    log_likelihoods,
    softplus_table,
    sum_out,
    to_likelihoods,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine
    from thali.model.effects import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target


def summed_out(state: State, target: Target) -> float:
    """Return the log of p(data, levels summed out) / p(data | levels), given the factors.

    The identity is that of Chib (1995), with the levels of rows given those of columns, and of
    columns given those of rows: exact if only one of them has a spread.
    """
    noise: Levels = state.noise
    total = 0.0
    if noise.hyper.row_spread:
        total += _rows(state, target, noise)
    if noise.hyper.column_spread:
        total += _columns(state, target, noise)
    return total


def _rows(state: State, target: Target, noise: Levels) -> float:
    grids = noise.prior.grids
    levels, of_jumps, classes = noise.column_classes
    counts = count_lines(state, target, 0, classes)
    odds = grids.columns[levels] + noise.offset
    softplus = softplus_table(grids.rows, odds, odds + grids.jumps[of_jumps])
    n_ones = counts.n_ones.sum(axis=1)
    table = log_likelihoods(target.engine, counts, softplus, n_ones, grids.rows)
    log_prior = grids.of_rows[noise.hyper.row_spread]
    return _gain(target.engine, table, log_prior, noise.rows)


def _columns(state: State, target: Target, noise: Levels) -> float:
    grids, hyper = noise.prior.grids, noise.hyper
    levels, classes = noise.row_classes
    counts = count_lines(state, target, 1, classes)
    of_rows = grids.rows[levels] + noise.offset
    occurring, of_jumps = np.unique(noise.jumps, return_inverse=True)
    softplus = np.stack(
        [
            softplus_table(grids.columns, of_rows, of_rows + jump)[0]
            for jump in grids.jumps[occurring]
        ]
    )
    n_ones = counts.n_ones.sum(axis=1)
    table = log_likelihoods(target.engine, counts, softplus, n_ones, grids.columns, of_jumps)
    log_prior = grids.of_columns[hyper.column_mean, hyper.column_spread]
    return _gain(target.engine, table, log_prior, noise.columns)


def _gain(
    engine: Engine, table: NDArray[np.float64], log_prior: NDArray[np.float64], levels: Index
) -> float:
    """Return the log of the sum over levels of p(level) p(data | level) / p(data | this level)."""
    given = to_likelihoods(engine, table)
    of_these = given.logs[np.arange(len(levels)), levels].sum()
    return float(sum_out(engine, given, log_prior[None])[0] - of_these)
