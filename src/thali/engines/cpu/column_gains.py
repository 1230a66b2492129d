# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, PLR0912
"""Gains of columns by classes of rows, 64 columns to a word, if all entries have equal weights.

Classes of rows are disjoint and often small. So every row of a class is looked at once, and what
its other components leave uncovered is added to bit-sliced counters of columns
(:mod:`thali.engines.cpu.counters`). The time does not depend on the number of classes, and rows in
no class take none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from thali._jit import inlined, inner, lean
from thali.bits.words import lowest, popcount
from thali.engines.cpu.counters import TILE, add_eight, read_out_lanes
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Data

    Room: TypeAlias = tuple[Words, Index, Words, Words, NDArray[np.uint8]]

_0, _1, _2, _3, _4, _8 = map(np.uint64, (0, 1, 2, 3, 4, 8))
_NOTHING, _256 = np.float32(0.0), np.float32(256.0)
_SIX = np.uint64(6)
_T = np.uint64(TILE)
_WORDS = 4
"""Number of words of columns that are counted together."""

_LANES = np.uint64(2 * _WORDS)  # free entries, then the ones among them
_GROUP = np.uint64(8)  # rows that are added together, one line each
_PLANES = _GROUP * _T  # where the counters begin
_MOST_PLANES = 16
_BYTES = np.uint64(8 * _WORDS)
_ONES = 8 * _WORDS  # bytes from the count of free entries to that of the ones among them
_HIGH = 8 * 8 * TILE  # bytes from the low byte of a count to the high byte

MOST_ROWS = (1 << _MOST_PLANES) - 1
"""Counters can count so many rows."""


@inner
def gains_of_columns(
    data: Data, codes: Words, users: Words, is_counted: NDArray[np.bool_], classes: Words,
    one: float, zero: float,
) -> NDArray[np.float64]:  # fmt: skip
    """Return what all columns gain by covering their free entries in classes of rows.

    Parameters
    ----------
    codes, users, is_counted
        Components, and those of them that cover entries.
    classes
        ``(n_classes, n_words)``: disjoint sets of rows.
    one, zero
        Gains by covering a one and a zero.

    Returns
    -------
    gains
        ``(n_classes, n_columns)``.
    """
    gains = np.zeros((classes.shape[0], data[2]))
    room = _room(codes.shape[0])
    for at in range(0, codes.shape[1], _WORDS):
        n_counted = _look(at, codes, is_counted, room)
        for k in range(classes.shape[0]):
            n_planes = _count(at, data, users, n_counted, classes[k], room)
            if n_planes > _0:
                _weigh(at, n_planes, room, one, zero, gains[k])
    return gains


@inner
def look_at_columns(
    first: int, n: int, data: Data, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    classes: Words, one: float, zero: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:  # fmt: skip
    """Return the same for ``n`` columns from ``first`` on, in single precision.

    Columns are in the order in which counters are read out, and some beside the ``n`` columns are
    among them. Also returns which of them count, and which classes have any rows, as
    :func:`thali.model.bounds.may_exceed` takes them.
    """
    start, stop = first >> 6, ((first + n - 1) >> 6) + 1
    n_parts = (stop - start + _WORDS - 1) // _WORDS
    gains = np.empty((classes.shape[0], n_parts, 64 * _WORDS), np.float32)
    counts = np.empty((n_parts, 64 * _WORDS), np.float32)
    room = _room(codes.shape[0])
    w1, w0 = np.float32(one), np.float32(zero)
    has_rows = 0
    for part in range(n_parts):
        at = start + part * _WORDS
        n_counted = _look(at, codes, is_counted, room)
        for k in range(classes.shape[0]):
            n_planes = _count(at, data, users, n_counted, classes[k], room)
            if n_planes > _0:
                has_rows |= 1 << k
                _weigh_bytes(n_planes, room, w1, w0, gains[k, part])
        _mark(64 * at - first, n, counts[part])
    return gains, counts, has_rows


@inner
def _room(n_components: int) -> Room:
    """Return memory for the words of components, their numbers, a word of users, and counters.

    The last is the memory of the counters as bytes.
    """
    s = np.empty((8 + _MOST_PLANES) * TILE, np.uint64)
    return (
        np.empty((n_components, _WORDS), np.uint64), np.empty(n_components, np.int64),
        np.empty(n_components, np.uint64), s, s.view(np.uint8),
    )  # fmt: skip


@lean
def _look(at: int, codes: Words, is_counted: NDArray[np.bool_], room: Room) -> int:
    """Copy the words from ``at`` on of components that have any of their columns."""
    window, counted, _, _, _ = room
    n = 0
    for component in range(codes.shape[0]):
        if not is_counted[component]:
            continue
        has = _0
        for t in range(_WORDS):
            window[n, t] = codes[component, at + t] if at + t < codes.shape[1] else _0
            has |= window[n, t]
        counted[n] = component
        n += has != _0
    return n


@lean
def _count(
    at: int, data: Data, users: Words, n_components: int, rows: Words, room: Room
) -> np.uint64:
    """Count the free entries, and the ones among them, of some rows; return the planes used."""
    ones, known, _ = data
    window, counted, use, s, _ = room
    size = _0
    for w in range(rows.shape[0]):
        size += popcount(rows[w])
    if size == _0:
        return _0
    n_planes = np.uint64(3)
    while (_1 << n_planes) <= size:
        n_planes += _1
    for plane in range(n_planes):
        for t in range(_LANES):
            s[_PLANES + plane * _T + t] = _0
    n_counted = np.uint64(n_components)
    n_words = np.uint64(ones.shape[1] - at)
    first = np.uint64(at)
    slot = _0
    for w in range(np.uint64(rows.shape[0])):
        left = rows[w]
        if left == _0:
            continue
        for i in range(n_counted):
            use[i] = users[counted[i], w]
        while left != _0:
            shift = np.uint64(lowest(left))
            left &= left - _1
            row = (w << _SIX) + shift
            a, b, c, d = _0, _0, _0, _0  # a loop over so few words would take longer
            for i in range(n_counted):
                mask = ~(((use[i] >> shift) & _1) - _1)  # no branch, which would be guessed
                a |= window[i, _0] & mask
                b |= window[i, _1] & mask
                c |= window[i, _2] & mask
                d |= window[i, _3] & mask
            line = slot * _T
            _put(row, first, ones, known, a, s, line)
            if n_words > _1:
                _put(row, first + _1, ones, known, b, s, line + _1)
            if n_words > _2:
                _put(row, first + _2, ones, known, c, s, line + _2)
            if n_words > _3:
                _put(row, first + _3, ones, known, d, s, line + _3)
            slot += _1
            if slot == _GROUP:
                add_eight(s, _0, _PLANES, _LANES, n_planes)
                slot = _0
    if slot > _0:
        for k in range(slot, _GROUP):
            for t in range(_LANES):
                s[k * _T + t] = _0
        add_eight(s, _0, _PLANES, _LANES, n_planes)
    return n_planes


@inlined
def _put(
    row: np.uint64, w: np.uint64, ones: Words, known: Words, covered: np.uint64, s: Words,
    to: np.uint64,
) -> None:  # fmt: skip
    """Write the free entries of a word, and the ones among them behind these."""
    free = free_word(known[row, w] if known.shape[0] else ~_0, covered)
    s[to] = free
    s[to + _4] = free & ones[row, w]


@lean
def _weigh(
    at: int, n_planes: np.uint64, room: Room, one: float, zero: float, gains: NDArray[np.float64]
) -> None:
    """Turn the counts of the words from ``at`` on into gains of columns."""
    _, _, _, s, counts = room
    read_out_lanes(s, _PLANES, _LANES, n_planes)
    for t in range(_WORDS):
        start = 64 * (at + t)
        for i in range(min(64, gains.shape[0] - start)):
            k = 8 * (np.int64(_PLANES) + (i & 7) * TILE + t) + (i >> 3)  # byte of the column
            n_free, n_ones = np.int64(counts[k]), np.int64(counts[k + _ONES])
            if n_planes > _8:
                n_free += np.int64(counts[k + _HIGH]) << 8
                n_ones += np.int64(counts[k + _HIGH + _ONES]) << 8
            gains[start + i] = log_odds(0.0, one, zero, n_ones, n_free - n_ones)


@lean
def _weigh_bytes(
    n_planes: np.uint64, room: Room, one: np.float32, zero: np.float32,
    gains: NDArray[np.float32],
) -> None:  # fmt: skip
    """Turn counts into gains of columns, in the order of the bytes."""
    _, _, _, s, counts = room
    read_out_lanes(s, _PLANES, _LANES, n_planes)
    for i in range(_8):
        to = i * _BYTES
        free = _8 * (_PLANES + i * _T)
        ones = free + _BYTES
        for b in range(_BYTES):
            n_ones, n_free = np.float32(counts[ones + b]), np.float32(counts[free + b])
            gains[to + b] = log_odds(_NOTHING, one, zero, n_ones, n_free - n_ones)
        if n_planes > _8:
            free += _8 * _8 * _T
            ones += _8 * _8 * _T
            for b in range(_BYTES):
                n_ones, n_free = np.float32(counts[ones + b]), np.float32(counts[free + b])
                gains[to + b] += _256 * log_odds(_NOTHING, one, zero, n_ones, n_free - n_ones)


@lean
def _mark(start: int, n: int, counts: NDArray[np.float32]) -> None:
    """Write a one for every column from number ``start`` on that is one of ``n``."""
    for i in range(64 * _WORDS):
        t, place = i >> 6, i & 63
        is_counted = 0 <= start + i < n
        counts[(place & 7) * 8 * _WORDS + 8 * t + (place >> 3)] = np.float32(is_counted)
