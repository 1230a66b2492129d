"""Birth and death from what is left of the rows, compiled (eq. 22)."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


@jit
def code_like(
    key: np.uint64, sweep: np.uint64, number: np.uint64, row: int, ones: Words, known: Words,
    users: Words, codes: Words, bit_odds: NDArray[np.float64], n_columns: int,
) -> Words:  # fmt: skip
    """Draw a code from what no component covers in a row."""
    width = codes.shape[1]
    covered = np.zeros(width, np.uint64)
    for component in range(codes.shape[0]):
        if (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            covered |= codes[component]
    rates = 1.0 / (1.0 + np.exp(-bit_odds))
    code = np.zeros(width, np.uint64)
    for column in range(n_columns):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        is_free = covered[w] & bit == _ZERO
        if known.shape[0] > 0:
            is_free = is_free and known[row, w] & bit != _ZERO
        kind = 2
        if is_free:
            kind = 0 if ones[row, w] & bit != _ZERO else 1
        if uniform(key, sweep, _RESIDUAL_CODES, number, np.uint64(column)) < rates[kind]:
            code[w] |= bit
    return code


@jit
def residual_users(
    key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool, users: Words,
    rate: float, n_rows: int, counts: Index, sizes: Index, bit_odds: NDArray[np.float64],
    w1: float, w0: float,
) -> tuple[float, float]:  # fmt: skip
    """Draw who uses a component with a proposed code, or weigh those who do.

    Parameters
    ----------
    users
        One line of words; filled if they are to be drawn.
    rate
        Probability to join where there is nothing to gain.
    counts
        ``(n_rows, 2, 2)``: free ones and zeros of every row inside and outside the code.
    sizes
        Columns inside and outside.
    bit_odds
        Log odds that a proposed code has a column: of a free one, a free zero, neither.

    Returns
    -------
    gain, log_proposal
        What it gains in likelihood; the log probability of having proposed code and users,
        whichever row was the seed.
    """
    log_on = np.empty(3)
    log_off = np.empty(3)
    for kind in range(3):
        log_on[kind] = -_softplus(-bit_odds[kind])
        log_off[kind] = -_softplus(bit_odds[kind])
    log_code = np.empty(n_rows)
    gain = 0.0
    log_joins = 0.0
    for row in range(n_rows):
        inside, outside = counts[row, 0], counts[row, 1]
        log_code[row] = (
            inside[0] * log_on[0]
            + inside[1] * log_on[1]
            + (sizes[0] - inside[0] - inside[1]) * log_on[2]
            + outside[0] * log_off[0]
            + outside[1] * log_off[1]
            + (sizes[1] - outside[0] - outside[1]) * log_off[2]
        )
        row_gain = inside[0] * w1 + inside[1] * w0
        odds = log(rate) - log1p(-rate) + row_gain
        w = row >> 6
        bit = _ONE << np.uint64(row & 63)
        if is_drawn:
            u = uniform(key, sweep, _RESIDUAL_ROWS, number, np.uint64(row))
            if u < exp(-_softplus(-odds)):
                users[w] |= bit
        joins = users[w] & bit != _ZERO
        gain += row_gain if joins else 0.0
        log_joins -= _softplus(-odds if joins else odds)
    largest = log_code.max()
    total = 0.0
    for row in range(n_rows):
        total += exp(log_code[row] - largest)
    return gain, largest + log(total) - log(n_rows) + log_joins


@jit
def _softplus(x: float) -> float:
    return max(x, 0.0) + log1p(exp(-abs(x)))
