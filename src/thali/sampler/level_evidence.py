"""What summing out levels and jumps of rows and columns adds to the density at one draw of them.

A state has one level for every row and column, and one jump for every column. The prior
probability of exactly these is the smaller, the more of them are possible: two states with the
same components could differ by hundreds of nats for the spread of levels alone. With levels summed
out, they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.sampler.level_counts import count_lines
from thali.sampler.level_likelihoods import log_likelihood, sum_out
from thali.sampler.levels import column_likelihoods, jump_likelihoods, line_likelihoods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine
    from thali.model.levels import Levels
    from thali.sampler.level_likelihoods import Likelihoods
    from thali.sampler.state import State
    from thali.sampler.target import Target


def summed_out(state: State, target: Target) -> float:
    """Return the log of p(data, levels summed out) / p(data | levels), given the factors.

    The identity is that of Chib (1995), with the levels of rows given those of columns, and of
    columns given those of rows, and the jumps given both: exact if only one of them has a spread.
    """
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    total = 0.0
    if hyper.row_spread:
        counts = count_lines(state, target, 0, noise.across(0).classes)
        given = line_likelihoods(target.engine, noise, counts, 0)(noise.offset)
        total += _gain(target.engine, given, grids.of_rows[hyper.row_spread], noise.rows)
    if hyper.column_spread or hyper.jump_spread:
        counts = count_lines(state, target, 1, noise.across(1).classes)
    if hyper.column_spread:
        given = column_likelihoods(noise, counts)
        log_prior = grids.of_columns[hyper.column_mean, hyper.column_spread]
        total += _gain(target.engine, given, log_prior, noise.columns)
    if hyper.jump_spread:
        given = jump_likelihoods(noise, counts)
        log_prior = grids.of_jumps[hyper.jump_mean, hyper.jump_spread - grids.first_spread]
        total += _gain(target.engine, given, log_prior, noise.jumps // grids.stride)
    return total


def _gain(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64], levels: Index
) -> float:
    """Return the log of the sum over levels of p(level) p(data | level) / p(data | this level)."""
    total = float(sum_out(engine, given, log_prior[None])[0])
    return total - log_likelihood(engine, given, levels)
