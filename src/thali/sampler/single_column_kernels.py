# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What a column says about its level, without and with a component of its own."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.level_weights import softplus
from thali.sampler.trade_kernels import term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.level_weights import Points

_STEPS = 4
"""How often the share of users is improved at each level."""

_ONE, _ZERO = np.uint64(1), np.uint64(0)
CLOSED = 2
"""The kind of an entry that is unknown or covered by others; of an open one it is the datum."""


@jit
def count_kinds(
    data: Index, users: Words, is_covering: NDArray[np.bool_], classes: Index, n_classes: int
) -> tuple[Index, Index]:
    """Sort the entries of a column.

    Parameters
    ----------
    data
        ``(n_rows, 2)``: whether an entry is a one, and whether it is a zero.
    users, is_covering
        Rows of all components, and which of them cover the column.
    classes
        Class of every row.

    Returns
    -------
    kinds
        Of every row: the datum of an open entry, or ``CLOSED``.
    counts
        ``(n_classes, 2, 2)``: known entries by class of row, cover and datum.
    """
    n_rows = data.shape[0]
    kinds = np.full(n_rows, CLOSED)
    counts = np.zeros((n_classes, 2, 2), np.int64)
    for row in range(n_rows):
        if data[row, 0] + data[row, 1] == 0:
            continue
        w, bit = row >> 6, _ONE << np.uint64(row & 63)
        cover = 0
        for k in range(users.shape[0]):
            if is_covering[k] and users[k, w] & bit != _ZERO:
                cover = 1
                break
        datum = 1 if data[row, 0] > 0 else 0
        counts[classes[row], cover, datum] += 1
        if cover == 0:
            kinds[row] = datum
    return kinds, counts


@jit
def weigh_levels(
    counts: Index, n_rows: int, values: NDArray[np.float64], grid: NDArray[np.float64],
    jump: float, log_prior: NDArray[np.float64], points: Points,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Weigh all levels of a column (:mod:`thali.sampler.single_columns`).

    Parameters
    ----------
    counts
        Known entries by class of row, cover and datum.
    n_rows
        Number of rows, whose entries need not all be known.
    values
        Log odds of a one in the classes of rows, without the level of the column.
    grid, jump, log_prior
        Levels that the column may have, its jump, and the log prior of every level.
    points
        The lattice of all log odds, as a plain tuple.

    Returns
    -------
    alone, shared
        Log weights of all levels, without and with a component.
    shares
        The share of users at every level.
    """
    n_levels, n_classes = grid.shape[0], counts.shape[0]
    alone, shared, shares = np.empty(n_levels), np.empty(n_levels), np.empty(n_levels)
    n_zeros = n_ones = middle = 0.0
    for c in range(n_classes):
        n_zeros += counts[c, 0, 0]
        n_ones += counts[c, 0, 1]
        middle += values[c] * (counts[c, 0, 0] + counts[c, 0, 1])
    middle /= max(n_zeros + n_ones, 1.0)
    of_one = exp(jump)
    for level in range(n_levels):
        share = _share(n_zeros, n_ones, middle + grid[level], jump)
        share = min(max(share, 0.5 / n_rows), 1.0 - 0.5 / n_rows)
        of_zeros = of_ones = log_prior[level]
        for c in range(n_classes):
            x = values[c] + grid[level]
            plain, lifted = term(x, points), term(x + jump, points)
            known = counts[c, 1, 1] * (x + jump) + counts[c, 0, 1] * x
            known -= (counts[c, 1, 0] + counts[c, 1, 1]) * lifted
            known -= (counts[c, 0, 0] + counts[c, 0, 1]) * plain
            of_zeros += known
            of_ones += known
            if counts[c, 0, 0] + counts[c, 0, 1]:
                lift = exp(plain - lifted)  # of the probability of a zero
                of_ones += counts[c, 0, 0] * log(1.0 - share + share * lift)
                of_ones += counts[c, 0, 1] * log(1.0 - share + share * lift * of_one)
        alone[level], shared[level], shares[level] = of_zeros, of_ones, share
    return alone, shared, shares


@inner
def _share(n_zeros: float, n_ones: float, odds: float, jump: float) -> float:
    """Estimate the share of users if all rows had these log odds."""
    lift = exp(softplus(odds) - softplus(odds + jump))
    of_one = lift * exp(jump)
    share = (n_ones + 0.5) / (n_zeros + n_ones + 1.0)
    for _ in range(_STEPS):
        users = n_zeros * share * lift / (1.0 - share + share * lift)
        users += n_ones * share * of_one / (1.0 - share + share * of_one)
        share = (users + 0.5) / (n_zeros + n_ones + 1.0)
    return share
