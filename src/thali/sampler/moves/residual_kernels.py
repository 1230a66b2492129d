# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Kernels of the residual moves: they draw a code and its users, and weigh them (eq. 22)."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.moves.proposal import CHUNK
from thali.sites import Site
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_SURE = 45.0
"""Log odds beyond which no uniform random number matters: the smallest is 2^-53."""
_NOTHING_LEFT = 746.0
"""The exponential of a number below minus this is zero in floating point."""
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


@jit
def code_like(
    key: np.uint64, sweep: np.uint64, number: np.uint64, free: Words, ones: Words,
    odds_of: NDArray[np.float64], n_columns: int,
) -> Words:  # fmt: skip
    """Draw a code from the uncovered entries of a row."""
    rates = 1.0 / (1.0 + np.exp(-odds_of))
    code = np.zeros(free.shape[0], np.uint64)
    for column in range(n_columns):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        kind = 2
        if free[w] & bit != _ZERO:
            kind = 0 if ones[w] & bit != _ZERO else 1
        if uniform(key, sweep, _RESIDUAL_CODES, number, np.uint64(column)) < rates[kind]:
            code[w] |= bit
    return code


@jit
def residual_users(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool,
    users: Words, rate: float, gains: NDArray[np.float64], counts: Index, sizes: Index,
    odds_of: NDArray[np.float64], sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Draw the users of a proposed code in a range of rows, or weigh given users.

    Parameters
    ----------
    lo, hi
        Range of rows; it starts at the beginning of a chunk.
    is_drawn
        Whether the users are drawn, or given.
    users
        The users as one line of words; filled if they are drawn.
    rate
        Probability to join if there is nothing to gain.
    gains
        ``(n_rows, 1)``: log likelihood that every row would gain.
    counts
        ``(n_rows, 2, 2)``: uncovered ones and zeros of every row inside and outside the code.
    sizes
        Number of columns inside and outside the code.
    odds_of
        Log odds that a proposed code contains a column with an uncovered one, an uncovered zero,
        or neither.
    sums
        Filled for every chunk: the log likelihood gained by the component; the log probability of
        these users; then, over the rows from which the code could have been proposed, the largest
        log probability of the code and the sum of the probabilities relative to the largest.
    """
    log_on = np.empty(3)
    log_off = np.empty(3)
    for kind in range(3):
        log_on[kind] = -_softplus(-odds_of[kind])
        log_off[kind] = -_softplus(odds_of[kind])
    log_rate_odds = log(rate) - log1p(-rate)
    log_code = np.empty(min(CHUNK, hi - lo))
    for start in range(lo, hi, CHUNK):
        stop = min(start + CHUNK, hi)
        gain = 0.0
        log_joins = 0.0
        for row in range(start, stop):
            inside, outside = counts[row, 0], counts[row, 1]
            log_code[row - start] = (
                inside[0] * log_on[0]
                + inside[1] * log_on[1]
                + (sizes[0] - inside[0] - inside[1]) * log_on[2]
                + outside[0] * log_off[0]
                + outside[1] * log_off[1]
                + (sizes[1] - outside[0] - outside[1]) * log_off[2]
            )
            row_gain = gains[row, 0]
            odds = log_rate_odds + row_gain
            w = row >> 6
            bit = _ONE << np.uint64(row & 63)
            if is_drawn and odds > -_SURE:
                if odds > _SURE:
                    users[w] |= bit
                else:
                    u = uniform(key, sweep, _RESIDUAL_ROWS, number, np.uint64(row))
                    if u < exp(-_softplus(-odds)):
                        users[w] |= bit
            joins = users[w] & bit != _ZERO
            gain += row_gain if joins else 0.0
            log_joins -= _softplus(-odds if joins else odds)
        largest = -np.inf
        for i in range(stop - start):
            largest = max(largest, log_code[i])
        total = 0.0
        for i in range(stop - start):
            if log_code[i] - largest > -_NOTHING_LEFT:
                total += exp(log_code[i] - largest)
        part = sums[start // CHUNK]
        part[0], part[1], part[2], part[3] = gain, log_joins, largest, total


@jit
def add_up(sums: NDArray[np.float64], n_rows: int) -> tuple[float, float]:
    """Return the gain, and the log probability of code and users, summed over seed rows."""
    gain, log_joins, total = 0.0, 0.0, 0.0
    largest = -np.inf
    for part in sums:
        largest = max(largest, part[2])
    for part in sums:
        gain += part[0]
        log_joins += part[1]
        total += part[3] * exp(part[2] - largest)
    return gain, largest + log(total) - log(n_rows) + log_joins


@inner
def _softplus(x: float) -> float:
    if abs(x) > _NOTHING_LEFT:
        return max(x, 0.0)
    return max(x, 0.0) + log1p(exp(-abs(x)))
