# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""The random order of components, and their classification by a block of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import first_bit, place_of, popcount
from thali.sites import Site
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ORDER = np.uint64(Site.ORDER)
_N_BINS, _TO_BIN = 1 << 11, np.uint64(64 - 11)


@inner
def sort_keys(keys: NDArray[np.uint64]) -> Index:
    """Return the order of keys by merging; ``np.argsort`` takes two seconds to compile."""
    n = keys.shape[0]
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for at in range(start, end):
                if right == end or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@jit
def divide_rows(keys: Words, edges: Index) -> tuple[Index, Index]:
    """Divide rows as the order of their keys does, whose upper bits must be spread evenly.

    ``edges`` says where every block begins in that order, with the number of rows at the end.
    Returns the rows of every block, ``(n_blocks, most)``, and how many there are. Rows beyond
    ``most`` are counted but not listed; there are some if keys are equal.
    """
    last = edges.shape[0] - 2
    borders, firsts = _find_borders(keys, edges)
    most = 0
    for block in range(last + 1):
        most = max(most, edges[block + 1] - edges[block])
    rows = np.empty((last + 1, most), np.int64)
    sizes = np.zeros(last + 1, np.int64)
    for row in range(keys.shape[0]):
        block = firsts[np.int64(keys[row] >> _TO_BIN)]
        while block < last and keys[row] >= borders[block]:
            block += 1
        if sizes[block] < most:
            rows[block, sizes[block]] = row
        sizes[block] += 1
    return rows, sizes


@inner
def _find_borders(keys: Words, edges: Index) -> tuple[Words, Index]:
    """Return the smallest key of every block but the first, and the first block of every bin.

    Keys are counted by their upper bits first. Only those in a bin with a border are sorted.
    """
    n_borders = edges.shape[0] - 2
    counts = np.zeros(_N_BINS, np.int64)
    for key in keys:
        counts[np.int64(key >> _TO_BIN)] += 1
    firsts = np.empty(_N_BINS, np.int64)
    is_sorted = np.zeros(_N_BINS, np.bool_)
    places = np.empty(n_borders, np.int64)  # of the borders, among the keys that are sorted
    block = 0
    before = 0  # keys in earlier bins, and how many of them are sorted
    n_sorted = 0
    for b in range(_N_BINS):
        firsts[b] = block
        while block < n_borders and edges[block + 1] < before + counts[b]:
            places[block] = n_sorted + edges[block + 1] - before
            is_sorted[b] = True
            block += 1
        before += counts[b]
        if is_sorted[b]:
            n_sorted += counts[b]
    some = np.empty(n_sorted, np.uint64)
    n = 0
    for key in keys:
        if is_sorted[np.int64(key >> _TO_BIN)]:
            some[n] = key
            n += 1
    order = sort_keys(some)
    borders = np.empty(n_borders, np.uint64)
    for i in range(n_borders):
        borders[i] = some[order[places[i]]]
    return borders, firsts


@jit
def order_components(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, rows: Index,
    is_integrated: bool,
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Order the components at random and classify them with respect to a block of rows.

    If ``is_integrated``, components of a single row of the block are left out and counted. The
    order is drawn anew because components are stored in the order of their creation, which depends
    on the state, and a scan in an order that depends on the state is not a valid Gibbs scan.

    Returns the order, and sizes, is_held, is_single and singles of
    :class:`thali.engines.base.Block`.
    """
    n = users.shape[0]
    inside = np.zeros(users.shape[1], np.uint64)
    for row in rows:
        inside[row >> 6] |= _ONE << np.uint64(row & 63)
    keys = np.empty(n, np.uint64)
    for i in range(n):
        keys[i] = uniform64(key, sweep, _ORDER, number, np.uint64(i))
    order = sort_keys(keys)
    sizes = np.empty(n, np.int64)
    is_held = np.empty(n, np.bool_)
    is_single = np.empty(n, np.bool_)
    singles = np.zeros(rows.shape[0], np.int64)
    n_kept = 0
    for component in order:
        size = _ZERO
        within = _ZERO
        for w in range(users.shape[1]):
            word = users[component, w]
            size += popcount(word)
            within += popcount(word & inside[w])
        single = size == _ONE and within == _ONE
        if single and is_integrated:
            singles[place_of(rows, first_bit(users[component]))] += 1
            continue
        order[n_kept] = component  # this position has been read already
        sizes[n_kept] = np.int64(size)
        is_held[n_kept] = size == within
        is_single[n_kept] = single
        n_kept += 1
    return (
        order[:n_kept].copy(), sizes[:n_kept], is_held[:n_kept], is_single[:n_kept], singles
    )  # fmt: skip
