# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Free entries of rows: as words, and counted by class of columns.

Parallel decomposition: rows are independent; a call does rows ``lo … hi-1`` of a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.model.rule import free_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@jit
def _fill_free(
    row: int, codes: Words, users: Words, is_counted: NDArray[np.bool_], free: Words
) -> None:
    """Take away from a row's known entries what components cover."""
    for component in range(codes.shape[0]):
        if is_counted[component] and (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            for w in range(free.shape[0]):
                free[w] = free_word(free[w], codes[component, w])


@jit
def _fill_counts(free: Words, ones: Words, classes: Words, counts: Index) -> None:
    """Count free ones and zeros of a row in each class of columns."""
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
    """Count ones and zeros that no component covers, in each class of columns.

    Parameters
    ----------
    lo, hi
        Range of rows, counted from ``first``.
    ones, known
        Unfolding of the mode; ``known`` has no rows if all entries are known.
    codes, users
        Components: ``(n_components, n_words)`` and their rows.
    is_counted
        Which of them cover; the others are left out.
    classes
        ``(n_classes, n_words)``: sets of columns; padding is in none.
    counts
        ``(n_rows, n_classes, 2)``, filled: free ones, free zeros.
    """
    free = np.empty(codes.shape[1], np.uint64)
    for i in range(lo, hi):
        row = first + i
        for w in range(free.shape[0]):
            free[w] = known[row, w] if known.shape[0] else ~_ZERO
        _fill_free(row, codes, users, is_counted, free)
        _fill_counts(free, ones[row], classes, counts[i])


@jit
def count_free_in_window(
    lo: int, hi: int, rows: Index, at: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Do the same for listed rows, in as many words of columns from ``at`` on as classes have."""
    width = classes.shape[1]
    part = codes[:, at : at + width].copy()
    free, line = np.empty(width, np.uint64), np.empty(width, np.uint64)
    for i in range(lo, hi):
        row = rows[i]
        for w in range(width):
            free[w] = known[row, at + w] if known.shape[0] else ~_ZERO
            line[w] = ones[row, at + w]
        _fill_free(row, part, users, is_counted, free)
        _fill_counts(free, line, classes, counts[i])


@jit
def list_free_in_window(
    rows: Index, at: int, n_columns: int, ones: Words, known: Words, codes: Words, users: Words,
    is_counted: NDArray[np.bool_], free: Words, has: Words,
) -> None:  # fmt: skip
    """Fill in the free entries of a few rows from word ``at`` of the columns on, and all ones.

    The last of the ``n_columns`` may be inside a word; what is beyond is not free.
    """
    width = free.shape[1]
    part = codes[:, at : at + width].copy()
    for i in range(rows.shape[0]):
        row = rows[i]
        for w in range(width):
            free[i, w] = known[row, at + w] if known.shape[0] else ~_ZERO
            has[i, w] = ones[row, at + w]
        if n_columns < 64 * (at + width):
            free[i, width - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE
        _fill_free(row, part, users, is_counted, free[i])
