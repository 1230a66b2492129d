# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""The columns that tell two parts of a component apart, refined by the rows of either part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inlined, inner, lean
from thali.bits.words import WORD, popcount
from thali.engines.cpu.counters import TILE, add_eight, read_out_lanes
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_GROUP = 8  # lines of rows that are counted together
_SIDE = _GROUP + 16  # lines of a part: those, and its counters
_SEVEN, _EIGHT, _T = np.uint64(7), np.uint64(8), np.uint64(TILE)
_COUNTERS, _SECOND = np.uint64(_GROUP * TILE), np.uint64(_SIDE * TILE)


@lean
def _fits(marks: Words, free: Words, has: Words, w1: float, w0: float) -> tuple[float, float]:
    """Return the log likelihood that a row gains by the marks of the first and of the second."""
    gain_first, gain_second = 0.0, 0.0
    for side in range(2):
        n_free, n_ones = _ZERO, _ZERO
        for w in range(marks.shape[1]):
            n_free += popcount(free[w] & marks[side, w])
            n_ones += popcount(has[w] & marks[side, w])
        c1 = np.int64(n_ones)
        gain = log_odds(0.0, w1, w0, c1, np.int64(n_free) - c1)
        if side == 0:
            gain_first = gain
        else:
            gain_second = gain
    return gain_first, gain_second


@inner
def sharpen(marks: Words, free: Words, has: Words, w1: float, w0: float) -> None:
    """Refine the marks by the rows that clearly belong to one of the two parts."""
    s = np.empty(2 * _SIDE * TILE, np.uint64)
    n_planes = _count_parts(marks, free, has, w1, w0, s)
    counts = s.view(np.uint8)
    _mark_columns(marks, counts, n_planes, w1, w0)


@lean
def _count_parts(
    marks: Words, free: Words, has: Words, w1: float, w0: float, s: Words
) -> np.uint64:
    """Count the ones and the free entries of the rows that clearly belong to either part.

    Each of the parts has bit-sliced counters of columns (:mod:`thali.engines.cpu.counters`), of
    ones in the first words of a line and of free entries in the others. Returns the number of
    their planes.
    """
    n_words = np.uint64(marks.shape[1])
    n_lanes = n_words + n_words
    n_planes = np.uint64(3)
    while (_ONE << n_planes) <= np.uint64(free.shape[0]):
        n_planes += _ONE
    for k in range(np.uint64(s.shape[0])):
        s[k] = _ZERO
    n_first, n_second = _ZERO, _ZERO
    for i in range(free.shape[0]):
        to_first, to_second = _fits(marks, free[i], has[i], w1, w0)
        if to_first > 0.0 and to_second > 0.0:
            continue
        is_first = to_first >= to_second
        line = (n_first & _SEVEN) * _T if is_first else _SECOND + (n_second & _SEVEN) * _T
        for w in range(n_words):
            s[line + w] = has[i, w]
            s[line + n_words + w] = free[i, w]
        if is_first:
            n_first += _ONE
            if n_first & _SEVEN == _ZERO:
                _add(s, _ZERO, n_lanes, n_planes)
        else:
            n_second += _ONE
            if n_second & _SEVEN == _ZERO:
                _add(s, _SECOND, n_lanes, n_planes)
    for side in range(2):
        group = _SECOND if side else _ZERO
        n_left = (n_second if side else n_first) & _SEVEN
        if n_left > _ZERO:
            for k in range(group + n_left * _T, group + _COUNTERS):
                s[k] = _ZERO
            _add(s, group, n_lanes, n_planes)
        read_out_lanes(s, group + _COUNTERS, n_lanes, n_planes)
    return n_planes


@lean
def _add(s: Words, group: np.uint64, n_lanes: np.uint64, n_planes: np.uint64) -> None:
    """Add eight rows to the counters behind them; three copies of this would be compiled."""
    add_eight(s, group, group + _COUNTERS, n_lanes, n_planes)


@lean
def _mark_columns(
    marks: Words, counts: NDArray[np.uint8], n_planes: np.uint64, w1: float, w0: float
) -> None:
    """Mark the columns that would gain by one part and not by the other."""
    for w in range(marks.shape[1]):
        first, second = _ZERO, _ZERO
        for i in range(WORD):
            at = 8 * (_GROUP * TILE + (i & 7) * TILE + w) + (i >> 3)  # byte of the column
            bit = _ONE << np.uint64(i)
            first |= bit if _gain(counts, at, marks.shape[1], n_planes, w1, w0) > 0.0 else _ZERO
            at += 8 * _SIDE * TILE
            second |= bit if _gain(counts, at, marks.shape[1], n_planes, w1, w0) > 0.0 else _ZERO
        marks[0, w] = free_word(first, second)
        marks[1, w] = free_word(second, first)


@inlined
def _gain(
    counts: NDArray[np.uint8], at: int, n_words: int, n_planes: np.uint64, w1: float, w0: float
) -> float:
    """Return the log likelihood that the counted rows gain by a column."""
    c1, n_free = np.int64(counts[at]), np.int64(counts[at + 8 * n_words])
    if n_planes > _EIGHT:
        at += 8 * 8 * TILE
        c1 += np.int64(counts[at]) << 8
        n_free += np.int64(counts[at + 8 * n_words]) << 8
    return log_odds(0.0, w1, w0, c1, n_free - c1)
