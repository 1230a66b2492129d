# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
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

from thali._jit import inner, jit
from thali.bits.words import popcount, transpose64
from thali.decide import LIMIT, is_unlikely
from thali.engines.cpu.counters import TILE, add_eight, read_out
from thali.engines.cpu.visits import BITS, FREE, FREE_SUM, NONE, ONES, ONES_SUM
from thali.model.rule import free_word, log_odds
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data, Order

_T = np.uint64(TILE)

MAX_COLUMNS = 1 << 15
"""Largest number of columns, padding included: counters have 16 planes."""

_0, _1, _2, _3, _8 = (np.uint64(k) for k in (0, 1, 2, 3, 8))
_ALL = ~_0


class Room(NamedTuple):
    """Working storage for the draws of one component."""

    counts: NDArray[np.int32]  # (n_rows, 2): ones and zeros that only this component can cover
    open_rows: Index  # rows whose counts do not determine the bit
    scores: NDArray[np.int64]  # log odds of these rows
    uniforms: Words  # random numbers of these rows
    drawn: Words  # the bits


@inner
def make_room() -> Room:
    """Return working storage for ``TILE`` words of rows."""
    n = 64 * TILE
    return Room(
        np.empty((n, 2), np.int32), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.uint64), np.empty(TILE, np.uint64),
    )  # fmt: skip


@inner
def visit(
    s: Words, visits: Words, at: np.uint64, free: np.uint64, ones: np.uint64, n: np.uint64,
    unknown: np.uint64,
) -> np.uint64:  # fmt: skip
    """Write a column's free rows, and its free ones, to lines; return where the next visit is."""
    n_triples = visits[at]
    x = visits[at + _1]
    at += _2
    for k in range(n_triples):
        a = visits[at]
        b = visits[at + _1]
        c = visits[at + _2]
        at += _3
        if k == _0:
            for t in range(n):
                s[free + t] = s[a + t] | s[b + t] | s[c + t]
        else:
            for t in range(n):
                s[free + t] |= s[a + t] | s[b + t] | s[c + t]
    for t in range(n):
        word = free_word(_ALL, s[free + t])
        s[free + t] = word
        s[ones + t] = word & s[x + t]
    if unknown != _0:  # offset from a column's data to its unknown entries
        x += unknown
        for t in range(n):
            s[free + t] = free_word(s[free + t], s[x + t])
    return at


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


@inner
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


@inner
def _draw_component(
    s: Words, n_planes: np.uint64, start: int, stop: int, component: int, order: Order,
    room: Room,
) -> None:  # fmt: skip
    """Draw the bits of one component in rows ``start … stop-1`` of the order, given the counts."""
    free_counts = np.zeros(16, np.uint64)
    ones_counts = np.zeros(16, np.uint64)
    free_bytes = free_counts.view(np.uint8)
    ones_bytes = ones_counts.view(np.uint8)
    all_rows, _, _, all_weights, all_singles, priors, _, _, _ = order
    weights = all_weights[0, 0]
    counts, drawn = room.counts, room.drawn
    singles, rows = all_singles[start:stop], all_rows[start:stop]
    prior = priors[component]
    n_rows = stop - start
    has_singles = weights.shape[0] > 1
    one_weight = weights[0, 0]
    zero_weight = weights[0, 1]
    n_open = 0
    for t in range(np.uint64((n_rows + 63) >> 6)):
        read_out(s, FREE_SUM, t, n_planes, free_counts)
        read_out(s, ONES_SUM, t, n_planes, ones_counts)
        first = 64 * np.int64(t)
        word = _0
        is_open = _0
        for i in range(min(64, n_rows - first)):
            k = ((i & 7) << 3) | (i >> 3)
            c1 = np.int64(ones_bytes[k])
            c0 = np.int64(free_bytes[k]) - c1
            if n_planes > _8:
                high = np.int64(ones_bytes[64 + k]) << 8
                c1 += high
                c0 += (np.int64(free_bytes[64 + k]) << 8) - high
            if has_singles:
                one_weight = weights[singles[first + i], 0]
                zero_weight = weights[singles[first + i], 1]
            score = log_odds(prior, one_weight, zero_weight, c1, c0)
            counts[first + i, 0] = c1
            counts[first + i, 1] = c0
            word |= np.uint64(score >= 0) << np.uint64(i)
            is_open |= np.uint64(abs(score) < LIMIT) << np.uint64(i)
        drawn[np.int64(t)] = word
        while is_open != _0:
            lowest = is_open & (~is_open + _1)
            is_open ^= lowest
            room.open_rows[n_open] = first + np.int64(popcount(lowest - _1))
            n_open += 1
    for u in range(n_open):
        i = room.open_rows[u]
        k = singles[i] if has_singles else 0
        room.scores[u] = log_odds(prior, weights[k, 0], weights[k, 1], counts[i, 0], counts[i, 1])
    draw_open(n_open, rows, component, order, room)


@inner
def draw_open(n_open: int, rows: Index, component: int, order: Order, room: Room) -> None:
    """Draw the bits of the rows whose scores do not determine them.

    These rows are few. They are drawn together, because the processor can compute independent
    random numbers side by side.
    """
    _, _, _, _, _, _, key, sweep, site = order
    index = np.uint64(component)
    for u in range(n_open):
        row = np.uint64(rows[room.open_rows[u]])
        room.uniforms[u] = uniform64(key, sweep, site, row, index)
    for u in range(n_open):
        i = room.open_rows[u]
        is_other = np.uint64(is_unlikely(room.scores[u], room.uniforms[u]))
        room.drawn[i >> 6] ^= is_other << np.uint64(i & 63)


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
    room = make_room()
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
            _draw_component(s, n_planes, start, stop, component, order, room)
            for t in range(n_tiles):
                changed = s[line + np.uint64(t)] ^ drawn[t]
                while changed != _0:
                    lowest = changed & (~changed + _1)
                    changed ^= lowest
                    i = 64 * t + np.int64(popcount(lowest - _1))
                    sign = 1 if drawn[t] & lowest != _0 else -1
                    tp_gained += sign * room.counts[i, 0]
                    fp_gained += sign * room.counts[i, 1]
                s[line + np.uint64(t)] = drawn[t]
                after[component, (start >> 6) + t] = drawn[t]
    return tp_gained, fp_gained
