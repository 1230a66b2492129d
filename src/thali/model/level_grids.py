"""The grids of levels as arrays, and tables that depend on them alone (eq. 25 and 26)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model.effects import Effects

_FINEST = 1000
"""Grids with steps that are finer than one in so many have no lattice."""

_LARGEST = 1 << 16
"""The largest number of points of a lattice: tables stay in a processor's cache."""


class Steps(NamedTuple):
    """How many steps of one grid are a step of another; 0 if it is not a whole number."""

    of_columns: int  # steps of row levels in a step of column levels
    of_rows: int  # steps of offsets in a step of row levels


class Lattice(NamedTuple):
    """Equally spaced numbers among which all log odds are, and log(1 + exp(log odds)) at each.

    Log odds are sums of one value of every grid. If all values are multiples of some unit, as
    those of the default grids are of 0.005, then so are the sums, and nothing has to be computed
    twice. Otherwise there are no points.
    """

    softplus: NDArray[np.float64]
    per_one: float  # points between two whole numbers
    lowest: float  # the first point


class Grids(NamedTuple):
    """Grids of levels, and the log priors of levels for every mean and spread (eq. 26)."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    jumps: NDArray[np.float64]
    offsets: NDArray[np.float64]
    spreads: NDArray[np.float64]
    of_rows: NDArray[np.float64]  # (n_spreads, n_levels)
    of_columns: NDArray[np.float64]  # (n_means, n_spreads, n_levels)
    of_jumps: NDArray[np.float64]  # (n_means, n_spreads - first_spread, n_sizes / stride)
    stride: int  # columns with jumps of their own have every so many of the sizes
    first_spread: int  # the smallest spread that jumps have, besides none
    steps: Steps
    lattice: Lattice


@lru_cache(maxsize=16)
def make_grids(prior: Effects) -> Grids:
    """Return the grids of a prior, and tables that depend on them alone."""
    rows, columns, jumps, offsets, spreads = (
        np.array(values, np.float64)
        for values in (
            prior.row_levels, prior.column_levels, prior.jump_sizes, prior.offsets, prior.spreads
        )
    )  # fmt: skip
    stride = prior.jump_stride or 1
    first = _first_spread(jumps[::stride], spreads, stride)
    return Grids(
        rows, columns, jumps, offsets, spreads,
        np.array([log_level_prior(rows, 0.0, s) for s in spreads]),
        _by_mean(columns, columns, spreads),
        _by_mean(jumps, jumps[::stride], spreads[first:]),
        stride, first,
        Steps(_ratio(rows, columns), _ratio(offsets, rows)),
        make_lattice(rows, columns, offsets, np.append(0.0, jumps)),
    )  # fmt: skip


@lru_cache(maxsize=16)
def lattice_of(prior: Effects, arity: int) -> Lattice:
    """Return the lattice of the log odds of a tensor: every mode adds a level."""
    grids = prior.grids
    of_modes = (grids.rows,) * (arity - 1)
    return make_lattice(*of_modes, grids.columns, grids.offsets, np.append(0.0, grids.jumps))


def make_lattice(*grids: NDArray[np.float64]) -> Lattice:
    """Return the lattice of all sums of one value of each grid, or one without points."""
    values = np.concatenate(grids)
    near = [Fraction(value).limit_denominator(_FINEST) for value in values.tolist()]
    errors = np.abs(values - np.array(near, np.float64))
    if np.any(errors > 4 * np.spacing(np.maximum(np.abs(values), 1.0))):  # more than rounding
        return NO_LATTICE
    per_one = lcm(*(value.denominator for value in near))
    if per_one > _LARGEST:
        return NO_LATTICE
    lowest, highest = (
        round(per_one * float(sum(edge(grid) for grid in grids))) for edge in (np.min, np.max)
    )
    if highest - lowest >= _LARGEST:
        return NO_LATTICE
    points = np.arange(lowest, highest + 1) / per_one
    return Lattice(np.logaddexp(0.0, points), float(per_one), lowest / per_one)


NO_LATTICE = Lattice(np.zeros(0), 1.0, 0.0)


def _ratio(fine: NDArray[np.float64], coarse: NDArray[np.float64]) -> int:
    """Return how many steps of one grid are a step of another, or 0."""
    if min(len(fine), len(coarse)) < 2:
        return 0
    steps, of_coarse = np.diff(fine), np.diff(coarse)
    ratio = round(of_coarse[0] / steps[0])
    is_whole = np.allclose(steps, steps[0]) and np.allclose(of_coarse, ratio * steps[0])
    return ratio if is_whole else 0


def _by_mean(
    means: NDArray[np.float64], grid: NDArray[np.float64], spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log prior of every level for every mean and every spread."""
    table = np.empty((len(means), len(spreads), len(grid)))
    for k, mean in enumerate(means.tolist()):
        for s, spread in enumerate(spreads.tolist()):
            table[k, s] = log_level_prior(grid, mean, spread)
    return table


def _first_spread(sizes: NDArray[np.float64], spreads: NDArray[np.float64], stride: int) -> int:
    """Return the smallest spread of jumps, which is no less than half a step between them.

    A smaller one would give all columns the size next to their mean, which then had no meaning.
    If a mean is one of the sizes, any spread will do.
    """
    least = np.diff(sizes).max(initial=0.0) / 2 if stride > 1 else 0.0
    return max(1, int(np.searchsorted(spreads, least)))


def log_level_prior(grid: NDArray[np.float64], mean: float, spread: float) -> NDArray[np.float64]:
    """Return the log prior of every level: a normal density, normalised over the grid (eq. 26).

    With a spread of zero, all mass is on the level nearest to the mean.
    """
    if spread == 0.0:
        return np.where(np.arange(len(grid)) == nearest(grid, mean), 0.0, -np.inf)
    log_density = -0.5 * ((grid - mean) / spread) ** 2
    log_prior: NDArray[np.float64] = log_density - logsumexp(log_density)
    return log_prior


def nearest(grid: NDArray[np.float64], value: float) -> int:
    """Return the position of the value on a grid that is nearest to a number."""
    return int(np.abs(grid - value).argmin())
