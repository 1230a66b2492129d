# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""The row kernel in its vertical form: one component at a time, with 64 rows per word.

Parallel decomposition: a call does rows ``lo … hi-1`` (``lo`` is a multiple of 64). The inner loop
runs over words of 64 rows, ``TILE`` of them at a time.

For component l, only the columns of l are visited. In a column, the rows whose cover depends on l
alone are ``~(OR of the column's other components) & known``. Carry-save adders sum these words
into bit-sliced counters, eight columns at a time. No popcount is needed, the work is proportional
to the ones of the codes, and short rows are no special case. The bits drawn are those of
:mod:`thali.engines.cpu.horizontal`, because counts and random numbers are the same.

All working storage is one array ``s`` addressed by unsigned offsets: Numba then emits no
wrap-around tests, and LLVM sees that the planes do not overlap, so it vectorises the loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inlined, inner, jit, lean
from thali.bits.words import lowest, transpose64
from thali.decide import LIMIT
from thali.engines.cpu.counters import TILE, add_eight, read_out_lanes
from thali.engines.cpu.open_rows import draw_open, make_room
from thali.engines.cpu.visits import BITS, FREE, FREE_SUM, NONE, ONES, ONES_SUM
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data, Order
    from thali.engines.cpu.open_rows import Room

_T = np.uint64(TILE)

MAX_COLUMNS = 1 << 15
"""Largest number of columns, padding included: counters have 16 planes."""

_0, _1, _2, _3, _7, _8 = (np.uint64(k) for k in (0, 1, 2, 3, 7, 8))
_ALL = ~_0
_LINE, _LINES = _8 * _T, _8 * _8 * _T  # bytes of a line, and of eight lines
_ROUNDING = 2.0**-20
"""More than the rounding of a score in single precision, relative to the sum of its terms."""


class Counts(NamedTuple):
    """The counts of a component as bytes (:func:`thali.engines.cpu.counters.read_out_lanes`).

    Eight lines have the low bytes, eight more the high bytes. Byte b of word t of line i belongs
    to row 64t + 8b + i, so that what is said of every row by a one or a zero in its byte becomes a
    word of bits by shifting line i by i.
    """

    free: NDArray[np.uint8]  # columns that only this component can cover
    ones: NDArray[np.uint8]  # those of them that are one
    is_on: NDArray[np.uint8]  # whether the score is positive
    is_near: NDArray[np.uint8]  # whether it may lie within the limit
    on_words: Words  # both of these as words
    near_words: Words


@inner
def _make_counts(s: Words) -> Counts:
    """Return the counters in ``s`` as bytes, and storage for what is said of them."""
    all_bytes = s.view(np.uint8)
    said = np.empty((2, 8 * TILE), np.uint64)
    return Counts(
        all_bytes[_8 * FREE_SUM : _8 * FREE_SUM + _2 * _LINES],
        all_bytes[_8 * ONES_SUM : _8 * ONES_SUM + _2 * _LINES],
        said[0].view(np.uint8), said[1].view(np.uint8), said[0], said[1],
    )  # fmt: skip


@lean
def visit(
    s: Words, visits: Words, at: np.uint64, free: np.uint64, ones: np.uint64, n: np.uint64,
    unknown: np.uint64,
) -> np.uint64:  # fmt: skip
    """Write a column's free rows, and its free ones, to lines; return where the next visit is."""
    n_triples = visits[at]
    x = visits[at + _1]
    at += _2
    before = NONE
    for _ in range(_1, n_triples):
        a = visits[at]
        b = visits[at + _1]
        c = visits[at + _2]
        at += _3
        for t in range(n):
            s[free + t] = s[before + t] | s[a + t] | s[b + t] | s[c + t]
        before = free
    a = visits[at]
    b = visits[at + _1]
    c = visits[at + _2]
    for t in range(n):
        word = free_word(_ALL, s[before + t] | s[a + t] | s[b + t] | s[c + t])
        s[free + t] = word
        s[ones + t] = word & s[x + t]
    if unknown != _0:  # offset from a column's data to its unknown entries
        x += unknown
        for t in range(n):
            s[free + t] = free_word(s[free + t], s[x + t])
    return at + _3


@inner
def load_lines(
    source: Words, across: Words, rows: Index, start: int, stop: int, s: Words, to: np.uint64
) -> None:
    """Copy the data of up to ``64 * TILE`` rows to ``s``, one line of words per column."""
    n_tiles = (stop - start + 63) >> 6
    if across.shape[0] > 0:  # all rows of a matrix: the other unfolding has these lines
        first = start >> 6
        for column in range(across.shape[0]):
            line = across[column]
            for t in range(n_tiles):
                s[to + np.uint64(t)] = line[first + t]
            to += _T
        return
    square = np.empty(64, np.uint64)
    for t in range(n_tiles):
        height = min(64, stop - start - 64 * t)
        for w in range(source.shape[1]):
            for i in range(height):
                square[i] = source[rows[start + 64 * t + i], w]
            square[height:] = _0
            transpose64(square)
            line = to + np.uint64(w * 64) * _T + np.uint64(t)
            for i in range(64):
                s[line] = square[i]
                line += _T


@lean
def _count_component(
    s: Words, visits: Words, at: np.uint64, left: np.uint64, n: np.uint64, unknown: np.uint64
) -> np.uint64:
    """Count the free columns of a component in all rows; return the number of planes used."""
    n_planes = _3
    while (_1 << n_planes) <= left:
        n_planes += _1
    for k in range(n_planes * _T):
        s[FREE_SUM + k] = _0
        s[ONES_SUM + k] = _0
    while left > _0:
        n_slots = min(_8, left)
        for slot in range(n_slots):
            at = visit(s, visits, at, FREE + slot * _T, ONES + slot * _T, n, unknown)
        for k in range(n_slots * _T, _8 * _T):
            s[FREE + k] = _0
            s[ONES + k] = _0
        add_eight(s, FREE, FREE_SUM, n, n_planes)
        add_eight(s, ONES, ONES_SUM, n, n_planes)
        left -= n_slots
    return n_planes


@inlined
def _counts_of(i: int, is_long: bool, counts: Counts) -> tuple[int, int]:
    """Return the ones and zeros of a row that only the component can cover."""
    row = np.uint64(i)
    at = (row & _7) * _LINE + (row >> _3)
    c1, n_free = np.int64(counts.ones[at]), np.int64(counts.free[at])
    if is_long:
        c1 += np.int64(counts.ones[at + _LINES]) << 8
        n_free += np.int64(counts.free[at + _LINES]) << 8
    return c1, n_free - c1


@lean
def _compare(
    n: np.uint64, is_long: bool, counts: Counts, prior: np.float32, more: np.float32,
    zero: np.float32, limit: np.float32,
) -> None:  # fmt: skip
    """Say of every row whether its score is positive, and whether it may lie within the limit.

    Scores are computed in single precision, several rows in one instruction. ``more`` is what a
    one gains more than a zero.
    """
    free, ones, is_on, is_near, _, _ = counts
    for i in range(_8):
        first = i * _LINE
        if is_long:
            for k in range(first, first + _8 * n):
                c1 = np.float32(np.int32(ones[k]) + (np.int32(ones[k + _LINES]) << 8))
                n_free = np.float32(np.int32(free[k]) + (np.int32(free[k + _LINES]) << 8))
                score = prior + c1 * more + n_free * zero
                is_on[k] = score >= np.float32(0.0)
                is_near[k] = abs(score) < limit
        else:
            for k in range(first, first + _8 * n):
                score = prior + np.float32(ones[k]) * more + np.float32(free[k]) * zero
                is_on[k] = score >= np.float32(0.0)
                is_near[k] = abs(score) < limit


@lean
def _list_near(n_rows: int, has_singles: bool, singles: Index, counts: Counts, room: Room) -> int:
    """Write the bits that scores determine, and list the rows that are near; return how many."""
    n_near = 0
    for t in range(np.uint64((n_rows + 63) >> 6)):
        word = _0
        is_near = _0
        for i in range(_8):
            word |= counts.on_words[i * _T + t] << i
            is_near |= counts.near_words[i * _T + t] << i
        first = 64 * np.int64(t)
        if has_singles:  # these rows have other weights
            for i in range(min(64, n_rows - first)):
                is_near |= np.uint64(singles[first + i] > 0) << np.uint64(i)
        if n_rows - first < 64:
            is_row = (_1 << np.uint64(n_rows - first)) - _1
            word &= is_row
            is_near &= is_row
        room.drawn[np.int64(t)] = word
        while is_near != _0:
            room.open_rows[n_near] = first + lowest(is_near)
            is_near &= is_near - _1
            n_near += 1
    return n_near


@lean
def _draw_component(
    s: Words, n_planes: np.uint64, most: np.uint64, start: int, stop: int, component: int,
    order: Order, counts: Counts, room: Room,
) -> None:  # fmt: skip
    """Draw the bits of one component in rows ``start … stop-1`` of the order, given the counts.

    ``most`` is the largest number that a count can be.
    """
    all_rows, _, _, all_weights, all_singles, priors, _, _, _ = order
    weights = all_weights[0, 0]
    singles, rows = all_singles[start:stop], all_rows[start:stop]
    has_singles, is_long = weights.shape[0] > 1, n_planes > _8
    n = np.uint64((stop - start + 63) >> 6)
    read_out_lanes(s, FREE_SUM, n, n_planes)
    read_out_lanes(s, ONES_SUM, n, n_planes)
    prior, one, zero = priors[component], weights[0, 0], weights[0, 1]
    terms = np.float64(abs(prior)) + np.float64(most) * np.float64(abs(one) + 2 * abs(zero))
    limit = np.float32(np.float64(LIMIT) + _ROUNDING * terms)
    _compare(
        n, is_long, counts, np.float32(prior), np.float32(one - zero), np.float32(zero), limit
    )
    n_near = _list_near(stop - start, has_singles, singles, counts, room)
    n_open = 0
    for u in range(n_near):
        i = room.open_rows[u]
        c1, c0 = _counts_of(i, is_long, counts)
        k = singles[i] if has_singles else 0
        score = log_odds(prior, weights[k, 0], weights[k, 1], c1, c0)
        bit = np.uint64(i & 63)
        word = room.drawn[i >> 6] & ~(_1 << bit)
        room.drawn[i >> 6] = word | (np.uint64(score >= 0) << bit)
        room.open_rows[n_open] = i
        room.scores[n_open] = score
        n_open += abs(score) < LIMIT
    draw_open(n_open, rows, component, order, room)


@inner
def load_tile(
    data: Data, across: Data, order: Order, before: Words, start: int, stop: int, s: Words
) -> None:
    """Copy the factor and the data of up to ``64 * TILE`` rows to ``s``."""
    ones, known, _ = data
    across_ones, across_known, _ = across
    rows, codes, _, _, _, _, _, _, _ = order
    n_components, width = codes.shape
    n = np.uint64((stop - start + 63) >> 6)
    lines = BITS + np.uint64(n_components) * _T
    load_lines(ones, across_ones, rows, start, stop, s, lines)
    if known.shape[0] > 0:
        lines += np.uint64(width * 64) * _T
        load_lines(known, across_known, rows, start, stop, s, lines)
        for k in range(np.uint64(width * 64) * _T):
            s[lines + k] = ~s[lines + k]
    for component in range(n_components):
        line = BITS + np.uint64(component) * _T
        for t in range(n):
            s[line + t] = before[component, (start >> 6) + np.int64(t)]


@jit
def update_columns(
    lo: int, hi: int, data: Data, across: Data, order: Order, before: Words, after: Words,
    visits: Words, starts: Words,
) -> tuple[int, int]:  # fmt: skip
    """Draw the same bits as :func:`thali.engines.cpu.horizontal.update_rows`, 64 rows at a time.

    ``across`` is the unfolding of the other mode if the work order is for all rows of a matrix;
    otherwise it has no rows. ``visits, starts`` come from
    :func:`thali.engines.cpu.visits.list_visits`.
    """
    _, known, _ = data
    _, codes, is_held, _, _, _, _, _, _ = order
    n_components, width = codes.shape
    lines = BITS + np.uint64(n_components) * _T
    unknown = np.uint64(0)
    if known.shape[0] > 0:
        unknown = np.uint64(width * 64) * _T
    s = np.empty(np.int64(lines + np.uint64(width * 64) * _T + unknown), np.uint64)
    for t in range(_T):
        s[NONE + t] = _0
    room, counts = make_room(), _make_counts(s)
    drawn = room.drawn
    tp_gained = 0
    fp_gained = 0
    for start in range(lo, hi, 64 * TILE):
        stop = min(hi, start + 64 * TILE)
        n_tiles = (stop - start + 63) >> 6
        n = np.uint64(n_tiles)
        load_tile(data, across, order, before, start, stop, s)
        for component in range(n_components):
            line = BITS + np.uint64(component) * _T
            if is_held[component]:
                for t in range(n):
                    after[component, (start >> 6) + np.int64(t)] = s[line + t]
                continue
            n_planes = _count_component(
                s, visits, starts[component, 0], starts[component, 1], n, unknown
            )
            _draw_component(
                s, n_planes, starts[component, 1], start, stop, component, order, counts, room
            )
            for t in range(n_tiles):
                changed = s[line + np.uint64(t)] ^ drawn[t]
                while changed != _0:
                    i = lowest(changed)
                    changed &= changed - _1
                    sign = 1 if (drawn[t] >> np.uint64(i)) & _1 != _0 else -1
                    c1, c0 = _counts_of(64 * t + i, n_planes > _8, counts)
                    tp_gained += sign * c1
                    fp_gained += sign * c0
                s[line + np.uint64(t)] = drawn[t]
                after[component, (start >> 6) + t] = drawn[t]
    return tp_gained, fp_gained
