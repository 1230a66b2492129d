# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, FBT001
"""The vertical form of the row kernel if columns are of several classes.

Parallel decomposition, visits and working storage are those of :mod:`thali.engines.cpu.vertical`.
The columns of a component are visited in the order of their classes, and every class has counters
of its own: its free entries, and the ones among them.

A plane holds one bit of a counter for every row, and all bits of a plane are worth the same: what
two to the power of the bit's place gains in the plane's class. So a score is a sum over planes,
and four planes at a time are looked up in a table of the sums of their gains. Every kind of row
has its own tables; rows are of one kind if they have the same class and as many single-row
components that are integrated out.

If a one gains as much more than a zero in all classes, one counter of ones serves all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import lowest, popcount
from thali.decide import LIMIT
from thali.engines.cpu.counters import TILE, add_eight, add_three, read_out
from thali.engines.cpu.open_rows import draw_open, make_room
from thali.engines.cpu.vertical import load_tile, visit
from thali.engines.cpu.visits import BITS, FREE, ONES
from thali.model.rule import log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data, Kinds, Order, Segments
    from thali.engines.cpu.open_rows import Room

_T = np.uint64(TILE)
_0, _1, _3, _4, _8 = (np.uint64(k) for k in (0, 1, 3, 4, 8))
_LOW = np.uint64(15)
_HALF, _BYTE = np.uint64(16), np.uint64(32)  # entries of the tables of four and of eight planes


@jit
def number_kinds(classes: Index, singles: Index, weights: NDArray[np.int64]) -> Kinds:
    """Give a number to every kind of row that occurs.

    Returns the kind of every row; the weights of every kind, ``(n_kinds, n_column_classes, 2)``;
    and whether a one gains as much more than a zero in all classes of columns, for every kind.
    """
    n_row_classes, n_classes, n_integrated, _ = weights.shape
    numbers = np.full((n_row_classes, n_integrated), -1)
    kinds = np.empty(classes.shape[0], np.int64)
    n = 0
    for i in range(classes.shape[0]):
        if numbers[classes[i], singles[i]] < 0:
            numbers[classes[i], singles[i]] = n
            n += 1
        kinds[i] = numbers[classes[i], singles[i]]
    of_kinds = np.empty((n, n_classes, 2), np.int64)
    is_even = True
    for g in range(n_row_classes):
        for k in range(n_integrated):
            kind = numbers[g, k]
            if kind < 0:
                continue
            for c in range(n_classes):
                for d in range(2):
                    of_kinds[kind, c, d] = weights[g, c, k, d]
                more = of_kinds[kind, c, 0] - of_kinds[kind, c, 1]
                is_even &= more == of_kinds[kind, 0, 0] - of_kinds[kind, 0, 1]
    return kinds, of_kinds, is_even


@jit
def count_columns(codes: Words, segments: Segments, n_classes: int) -> Words:
    """Count the columns of every component by class: ``(n_components, n_classes)``."""
    words, masks, of_segments = segments
    sizes = np.zeros((codes.shape[0], n_classes), np.uint64)
    for component in range(codes.shape[0]):
        for k in range(words.shape[0]):
            sizes[component, of_segments[k]] += popcount(codes[component, words[k]] & masks[k])
    return sizes


@inner
def _planes_for(most: np.uint64) -> np.uint64:
    """Return the number of planes of a counter that has to count so far."""
    n = _0
    while (_1 << n) <= most:
        n += _1
    return n


@inner
def _fill_plan(sizes: Words, is_even: bool, plan: Index) -> int:
    """List the planes of a component's counters in order; return their number.

    A line of the plan has the class, the ones and the zeros that a bit of the plane stands for.
    A bit of a counter of ones turns zeros, as which all free entries are counted, into ones.
    """
    n = 0
    if is_even:  # the class does not matter
        for plane in range(max(_3, _planes_for(sizes.sum()))):
            plan[n, 0], plan[n, 1], plan[n, 2] = 0, 1 << plane, -(1 << plane)
            n += 1
    for c in range(sizes.shape[0]):
        n_planes = _planes_for(sizes[c])
        for plane in range(n_planes):
            plan[n, 0], plan[n, 1], plan[n, 2] = c, 0, 1 << plane
            n += 1
        if not is_even:
            for plane in range(n_planes):
                plan[n, 0], plan[n, 1], plan[n, 2] = c, 1 << plane, -(1 << plane)
                n += 1
    return n


@inner
def _fill_tables(plan: Index, weights: NDArray[np.int64], tables: NDArray[np.int64]) -> None:
    """Write what every pattern of four planes gains: ``(n_kinds, n_fours, 16)`` (eq. 27)."""
    for kind in range(weights.shape[0]):
        for i in range(plan.shape[0]):
            c, n_ones, n_zeros = plan[i]
            gain = log_odds(0, weights[kind, c, 0], weights[kind, c, 1], n_ones, n_zeros)
            four = tables[kind, i >> 2]
            bit = 1 << (i & 3)
            for pattern in range(bit):
                four[bit + pattern] = four[pattern] + gain


@inner
def _add(
    s: Words, group: np.uint64, planes: np.uint64, n_slots: np.uint64, n: np.uint64,
    n_planes: np.uint64,
) -> None:  # fmt: skip
    """Add up to eight lines to the counters of a class; up to three are all lines of a class."""
    if n_planes < _3:
        add_three(s, group, planes, n_slots, n)
        return
    for k in range(n_slots * _T, _8 * _T):
        s[group + k] = _0
    add_eight(s, group, planes, n, n_planes)


@inner
def _count_component(
    s: Words, visits: Words, at: np.uint64, sizes: Words, n: np.uint64, unknown: np.uint64,
    planes: np.uint64, is_even: bool,
) -> None:  # fmt: skip
    """Count the free columns of a component by class in all rows, in planes as planned."""
    to = planes
    n_common = _0
    if is_even:
        n_common = max(_3, _planes_for(sizes.sum()))
        to += n_common * _T
        for k in range(n_common * _T):
            s[planes + k] = _0
    n_ones = _0  # lines that wait to be added to the common counter of ones
    for c in range(sizes.shape[0]):
        left = sizes[c]
        n_planes = _planes_for(left)
        ones_to = to + n_planes * _T
        end = ones_to if is_even else ones_to + n_planes * _T
        for k in range(to, end):
            s[k] = _0
        while left > _0:
            n_slots = min(_8, left)
            for slot in range(n_slots):
                ones = ONES + (n_ones if is_even else slot) * _T
                at = visit(s, visits, at, FREE + slot * _T, ones, n, unknown)
                if is_even:
                    n_ones += _1
                    if n_ones == _8:
                        add_eight(s, ONES, planes, n, n_common)
                        n_ones = _0
            _add(s, FREE, to, n_slots, n, n_planes)
            if not is_even:
                _add(s, ONES, ones_to, n_slots, n, n_planes)
            left -= n_slots
        to = end
    if n_ones > _0:
        _add(s, ONES, planes, n_ones, n, n_common)


@inner
def _draw_component(
    s: Words, planes: np.uint64, n_planes: np.uint64, start: int, stop: int, component: int,
    order: Order, kinds: Index, tables: Index, room: Room, patterns: Words,
) -> None:  # fmt: skip
    """Draw the bits of one component in rows ``start … stop-1`` of the order, given the planes.

    ``kinds`` is where the tables of every row begin.
    """
    all_rows, _, _, _, _, priors, _, _, _ = order
    scores = np.empty(64, np.int64)
    in_bytes = patterns.view(np.uint8)
    n_bytes = (n_planes + _8 - _1) >> _3
    n_open = 0
    for t in range(np.uint64((stop - start + 63) >> 6)):
        for b in range(n_bytes):
            at = planes + b * _8 * _T
            read_out(s, at, t, min(_8, n_planes - b * _8), patterns[b * _8 : b * _8 + _8])
        first = 64 * np.int64(t)
        word = _0
        is_open = _0
        for i in range(min(64, stop - start - first)):
            at = np.uint64(((i & 7) << 3) | (i >> 3))
            table = np.uint64(kinds[start + first + i])
            score = priors[component]
            for _ in range(n_bytes):
                pattern = np.uint64(in_bytes[at])
                score += tables[table + (pattern & _LOW)]
                score += tables[table + _HALF + (pattern >> _4)]
                at += np.uint64(64)
                table += _BYTE
            scores[i] = score
            word |= np.uint64(score >= 0) << np.uint64(i)
            is_open |= np.uint64(abs(score) < LIMIT) << np.uint64(i)
        room.drawn[np.int64(t)] = word
        while is_open != _0:
            i = lowest(is_open)
            is_open &= is_open - _1
            room.open_rows[n_open] = first + i
            room.scores[n_open] = scores[i]
            n_open += 1
    draw_open(n_open, all_rows[start:stop], component, order, room)


@inner
def _newly_covered(
    s: Words, planes: np.uint64, plan: Index, t: np.uint64, changed: np.uint64, drawn: np.uint64
) -> tuple[int, int]:
    """Return the ones and zeros that 64 rows newly cover, less those that they uncover."""
    tp = 0
    fp = 0
    for i in range(plan.shape[0]):
        rows = s[planes + np.uint64(i) * _T + t] & changed
        more = np.int64(popcount(rows & drawn)) - np.int64(popcount(rows & ~drawn))
        tp += more * plan[i, 1]
        fp += more * plan[i, 2]
    return tp, fp


@jit
def update_columns(
    lo: int, hi: int, data: Data, across: Data, kinds: Kinds, order: Order, before: Words,
    after: Words, visits: Words, starts: Words, sizes: Words,
) -> tuple[int, int]:  # fmt: skip
    """Draw the same bits as :func:`thali.engines.cpu.by_class.update_rows`, 64 rows at a time.

    The arguments are those of :func:`thali.engines.cpu.vertical.update_columns`. The data are in
    their own order, and the columns of the codes, and so the visits, in the order of their
    classes; ``sizes`` is the number of every component's visits by class.
    """
    _, known, _ = data
    _, codes, is_held, _, _, _, _, _, _ = order
    of_rows, weights, is_even = kinds
    n_components, width = codes.shape
    most = 0
    for component in range(n_components):
        n_planes = max(_3, _planes_for(sizes[component].sum())) if is_even else _0
        for size in sizes[component]:
            n_planes += _planes_for(size) if is_even else _planes_for(size) << _1
        most = max(most, np.int64(n_planes))
    plan = np.empty((most, 3), np.int64)
    n_fours = 2 * ((most + 7) >> 3)
    tables = np.zeros((weights.shape[0], n_fours, 16), np.int64)
    patterns = np.empty(4 * n_fours, np.uint64)
    where = of_rows * (16 * n_fours)
    lines = BITS + np.uint64(n_components) * _T
    unknown = np.uint64(0)
    if known.shape[0] > 0:
        unknown = np.uint64(width * 64) * _T
    planes = lines + np.uint64(width * 64) * _T + unknown
    s = np.zeros(np.int64(planes + np.uint64(most) * _T), np.uint64)
    room = make_room()
    tp_gained = 0
    fp_gained = 0
    for start in range(lo, hi, 64 * TILE):
        stop = min(hi, start + 64 * TILE)
        n = np.uint64((stop - start + 63) >> 6)
        load_tile(data, across, order, before, start, stop, s)
        for component in range(n_components):
            line = BITS + np.uint64(component) * _T
            if is_held[component]:
                for t in range(n):
                    after[component, (start >> 6) + np.int64(t)] = s[line + t]
                continue
            of_component = plan[: _fill_plan(sizes[component], is_even, plan)]
            _fill_tables(of_component, weights, tables)
            _count_component(
                s, visits, starts[component, 0], sizes[component], n, unknown, planes, is_even
            )
            _draw_component(
                s, planes, np.uint64(of_component.shape[0]), start, stop, component, order, where,
                tables.reshape(-1), room, patterns,
            )  # fmt: skip
            for t in range(n):
                drawn = room.drawn[np.int64(t)]
                changed = s[line + t] ^ drawn
                if changed != _0:
                    tp, fp = _newly_covered(s, planes, of_component, t, changed, drawn)
                    tp_gained += tp
                    fp_gained += fp
                s[line + t] = drawn
                after[component, (start >> 6) + np.int64(t)] = drawn
    return tp_gained, fp_gained
