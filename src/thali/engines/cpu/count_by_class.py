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
    row: int, first: int, known: Words, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    free: Words,
) -> None:  # fmt: skip
    """Fill in the known entries of a row that no component covers, from word ``first`` on."""
    width = free.shape[0]
    for w in range(width):
        free[w] = known[row, first + w] if known.shape[0] else ~_ZERO
    for component in range(codes.shape[0]):
        if is_counted[component] and (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            for w in range(width):
                free[w] = free_word(free[w], codes[component, first + w])


@jit
def count_free_rows(
    lo: int, hi: int, rows: Index, first: int, ones: Words, known: Words, codes: Words,
    users: Words, is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Count ones and zeros that no component covers, in each class of columns.

    Parameters
    ----------
    rows
        Row numbers.
    first
        Word of columns with which the classes begin.
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
    n_classes, width = classes.shape
    free = np.empty(width, np.uint64)
    for i in range(lo, hi):
        row = rows[i]
        _fill_free(row, first, known, codes, users, is_counted, free)
        for k in range(n_classes):
            n_free = _ZERO
            n_ones = _ZERO
            for w in range(width):
                part = free[w] & classes[k, w]
                n_free += popcount(part)
                n_ones += popcount(part & ones[row, first + w])
            counts[i, k, 0] = np.int64(n_ones)
            counts[i, k, 1] = np.int64(n_free) - np.int64(n_ones)


@jit
def list_free_rows(
    lo: int, hi: int, rows: Index, first: int, n_columns: int, ones: Words, known: Words,
    codes: Words, users: Words, is_counted: NDArray[np.bool_], free: Words, has: Words,
) -> None:  # fmt: skip
    """Fill in the free entries of rows in a window of columns, and the ones there.

    Arguments as for :func:`count_free_rows`; ``free`` and ``has`` are ``(n_rows, n_words)``. Of
    the ``n_columns`` the last may end inside a word: what is beyond is not free.
    """
    width = free.shape[1]
    for i in range(lo, hi):
        _fill_free(rows[i], first, known, codes, users, is_counted, free[i])
        if n_columns < 64 * (first + width):
            free[i, width - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE
        for w in range(width):
            has[i, w] = ones[rows[i], first + w]
