# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Free entries of rows, which are known and not covered: as words, and counted by class.

Parallel decomposition: rows are independent; a call does rows ``lo … hi-1`` of a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inlined, jit, lean
from thali.bits.words import lowest, popcount
from thali.engines.cpu.by_class import fill_by_class
from thali.model.rule import free_word
from thali.sites import Site
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Segments

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_FIRST = np.int64(0)  # a plain zero would be a type of its own
_HIDDEN = np.uint64(Site.HIDDEN)


@inlined
def _fill_free(
    row: int, codes: Words, users: Words, is_counted: NDArray[np.bool_], free: Words
) -> None:
    """Remove the entries that components cover from the known entries of a row."""
    for component in range(codes.shape[0]):
        if is_counted[component] and (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            for w in range(free.shape[0]):
                free[w] = free_word(free[w], codes[component, w])


@inlined
def _fill_counts(free: Words, ones: Words, classes: Words, counts: Index) -> None:
    """Count the free ones and zeros of a row in each class of columns."""
    for k in range(classes.shape[0]):
        n_free = _ZERO
        n_ones = _ZERO
        for w in range(free.shape[0]):
            part = free[w] & classes[k, w]
            n_free += popcount(part)
            n_ones += popcount(part & ones[w])
        counts[k, 0] = np.int64(n_ones)
        counts[k, 1] = np.int64(n_free) - np.int64(n_ones)


@jit
def count_free_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Count the known ones and zeros that no component covers, in each class of columns.

    Parameters
    ----------
    lo, hi
        Range of rows, counted from ``first``.
    ones, known
        Unfolding of the mode; ``known`` has no rows if all entries are known.
    codes, users
        Columns and rows of each component, both ``(n_components, n_words)``.
    is_counted
        Which components count; the others are ignored.
    classes
        ``(n_classes, n_words)``: sets of columns, none of which includes padding.
    counts
        ``(n_rows, n_classes, 2)``: free ones and free zeros are written here.
    """
    free = np.empty(codes.shape[1], np.uint64)
    _count_free_rows(lo, hi, first, ones, known, codes, users, is_counted, classes, counts, free)


@lean
def _count_free_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index, free: Words,
) -> None:  # fmt: skip
    """Count as :func:`count_free_rows`; ``free`` is memory for the free entries of a row."""
    for i in range(lo, hi):
        row = first + i
        for w in range(free.shape[0]):
            free[w] = known[row, w] if known.shape[0] else ~_ZERO
        _fill_free(row, codes, users, is_counted, free)
        _fill_counts(free, ones[row], classes, counts[i])


@jit
def count_cover(
    lo: int, hi: int, ones: Words, known: Words, codes: Words, users: Words, segments: Segments,
    uncovered: NDArray[np.uint32], of_known: NDArray[np.uint32], n_ones: Index,
) -> None:  # fmt: skip
    """Count the entries of lines by class of column and cover, with columns sorted by class.

    The results are those of :class:`thali.engines.base.LineCounts`; ``of_known`` is left as it is
    if all entries are known.
    """
    free, every = np.empty(codes.shape[1], np.uint64), np.ones(codes.shape[0], np.bool_)
    _count_cover(
        lo, hi, ones, known, codes, users, segments, uncovered, of_known, n_ones, free, every
    )


@lean
def _count_cover(
    lo: int, hi: int, ones: Words, known: Words, codes: Words, users: Words, segments: Segments,
    uncovered: NDArray[np.uint32], of_known: NDArray[np.uint32], n_ones: Index, free: Words,
    every: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Count as :func:`count_cover`; the last arguments are memory for a line, and all that is."""
    words, masks, of_segments = segments
    for i in range(lo, hi):
        for w in range(free.shape[0]):
            free[w] = known[i, w] if known.shape[0] else ~_ZERO
        _fill_free(i, codes, users, every, free)
        for c in range(uncovered.shape[1]):
            uncovered[i, c] = 0
        for s in range(words.shape[0]):
            uncovered[i, of_segments[s]] += popcount(free[words[s]] & masks[s])
        if known.shape[0]:
            for c in range(uncovered.shape[1]):
                of_known[i, c] = 0
            for s in range(words.shape[0]):
                of_known[i, of_segments[s]] += popcount(known[i, words[s]] & masks[s])
        n_free = _ZERO
        n_all = _ZERO
        for w in range(free.shape[0]):
            n_free += popcount(free[w] & ones[i, w])
            n_all += popcount(ones[i, w])
        n_ones[0, i] = np.int64(n_free)
        n_ones[1, i] = np.int64(n_all) - np.int64(n_free)


@jit
def count_all_cover(
    ones: Words, known: Words, codes: Words, users: Words, in_order: Index, segments: Segments
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Index]:
    """Return the counts of :func:`count_cover` for all lines, given the class at every place."""
    n_lines, n_classes = ones.shape[0], in_order[in_order.shape[0] - 1] + 1
    uncovered = np.empty((n_lines, n_classes), np.uint32)
    of_known = np.zeros((n_lines if known.shape[0] else 1, n_classes), np.uint32)
    if known.shape[0] == 0:
        for c in in_order:
            of_known[0, c] += 1
    n_ones = np.empty((2, n_lines), np.int64)
    count_cover(_FIRST, n_lines, ones, known, codes, users, segments, uncovered, of_known, n_ones)
    return uncovered, of_known, n_ones


@jit
def count_sorted_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], sets: Words, segments: Segments, counts: Index,
) -> None:  # fmt: skip
    """Count as :func:`count_free_rows`, in sets of columns and by class of column.

    The columns are sorted by class; ``counts`` is ``(n_rows, n_sets, n_column_classes, 2)``.
    """
    free = np.empty(codes.shape[1], np.uint64)
    for i in range(lo, hi):
        row = first + i
        for w in range(free.shape[0]):
            free[w] = known[row, w] if known.shape[0] else ~_ZERO
        _fill_free(row, codes, users, is_counted, free)
        fill_by_class(free, ones[row], sets, segments, counts[i])


@jit
def count_free_in_window(
    lo: int, hi: int, rows: Index, at: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Count as :func:`count_free_rows` for listed rows, in the words of columns from ``at`` on.

    The number of words is that of ``classes``.
    """
    width = classes.shape[1]
    part = codes[:, at : at + width].copy()
    free = np.empty(width, np.uint64)
    _count_listed(lo, hi, rows, at, ones, known, part, users, is_counted, classes, counts, free)


@lean
def _count_listed(
    lo: int, hi: int, rows: Index, at: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index, free: Words,
) -> None:  # fmt: skip
    """Count as :func:`count_free_in_window`, with the codes in the window alone."""
    for i in range(lo, hi):
        row = rows[i]
        for w in range(free.shape[0]):
            free[w] = known[row, at + w] if known.shape[0] else ~_ZERO
        _fill_free(row, codes, users, is_counted, free)
        _fill_counts(free, ones[row, at : at + free.shape[0]], classes, counts[i])


@jit
def list_free_in_window(
    rows: Index, at: int, n_columns: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], free: Words, has: Words,
) -> None:  # fmt: skip
    """Write the free entries and all ones of a few rows, from word ``at`` of the columns on.

    The last of the ``n_columns`` may be inside a word; the padding after it is not free.
    """
    part = codes[:, at : at + free.shape[1]].copy()
    _list_free(rows, at, n_columns, ones, known, part, users, is_counted, free, has)


@lean
def _list_free(
    rows: Index, at: int, n_columns: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], free: Words, has: Words,
) -> None:  # fmt: skip
    """Write as :func:`list_free_in_window`, with the codes in the window alone."""
    width = free.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        for w in range(width):
            free[i, w] = known[row, at + w] if known.shape[0] else ~_ZERO
            has[i, w] = ones[row, at + w]
        if n_columns < 64 * (at + width):
            free[i, width - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE
        _fill_free(row, codes, users, is_counted, free[i])


@jit
def choose_entries(
    lo: int, hi: int, n_columns: int, known: Words, key: np.uint64, sweep: np.uint64,
    limit: np.uint64, mask: Words,
) -> None:  # fmt: skip
    """Mark known entries of a range of rows at random."""
    for row in range(lo, hi):
        for column in range(n_columns):
            bit = _ONE << np.uint64(column & 63)
            if known.shape[0] and known[row, column >> 6] & bit == _ZERO:
                continue
            if uniform64(key, sweep, _HIDDEN, np.uint64(row), np.uint64(column)) < limit:
                mask[row, column >> 6] |= bit


@jit
def fill_uncovered(
    lo: int, hi: int, n_columns: int, known: Words, codes: Words, users: Words, free: Words
) -> None:
    """Write the free entries of a range of rows, with no padding among them."""
    is_counted = np.ones(codes.shape[0], np.bool_)
    fill_free_rows(lo, hi, known, codes, users, is_counted, free)
    if n_columns & 63:
        for row in range(lo, hi):
            free[row, free.shape[1] - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE


@lean
def fill_free_rows(
    lo: int, hi: int, known: Words, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    free: Words,
) -> None:  # fmt: skip
    """Write the free entries of a range of rows; padding is free.

    Components come first, so that only their users are looked at.
    """
    for row in range(lo, hi):
        for w in range(free.shape[1]):
            free[row, w] = known[row, w] if known.shape[0] else ~_ZERO
    for component in range(codes.shape[0]):
        if not is_counted[component]:
            continue
        code = codes[component]
        for word in range(lo >> 6, (hi + 63) >> 6):
            left = users[component, word]
            while left != _ZERO:
                row = 64 * word + lowest(left)
                left &= left - _ONE
                if lo <= row < hi:
                    line = free[row]
                    for w in range(line.shape[0]):
                        line[w] = free_word(line[w], code[w])


@jit
def count_uncovered(
    lo: int, hi: int, ones: Words, free: Words, classes: Words, counts: Index
) -> None:
    """Count the free ones and zeros of a range of rows in each class of columns."""
    for row in range(lo, hi):
        _fill_counts(free[row], ones[row], classes, counts[row])
