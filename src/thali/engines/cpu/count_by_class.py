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
def count_free_rows(
    lo: int, hi: int, rows: Index, lines: Index, ones: Words, known: Words, codes: Words,
    users: Words, is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Count ones and zeros that no component covers, in each class of columns.

    Parameters
    ----------
    rows, lines
        Row numbers, and where their data are.
    ones, known
        Data of rows; ``known`` is empty if all entries are known.
    codes, users
        Components: ``(n_components, n_words)`` and their rows.
    is_counted
        Which of them cover; the others are left out.
    classes
        ``(n_classes, n_words)``: sets of columns; padding is in none.
    counts
        ``(n_rows, n_classes, 2)``, filled: free ones, free zeros.
    """
    n_components, width = codes.shape
    n_classes = classes.shape[0]
    free = np.empty(width, np.uint64)
    for i in range(lo, hi):
        row, line = rows[i], lines[i]
        for w in range(width):
            free[w] = known[line, w] if known.shape[0] else ~_ZERO
        for component in range(n_components):
            if (
                is_counted[component]
                and (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE
            ):
                for w in range(width):
                    free[w] = free_word(free[w], codes[component, w])
        for k in range(n_classes):
            n_free = _ZERO
            n_ones = _ZERO
            for w in range(width):
                part = free[w] & classes[k, w]
                n_free += popcount(part)
                n_ones += popcount(part & ones[line, w])
            counts[i, k, 0] = np.int64(n_ones)
            counts[i, k, 1] = np.int64(n_free) - np.int64(n_ones)


@jit
def list_free_rows(
    rows: Index, known: Words, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    last: np.uint64, free: Words,
) -> None:  # fmt: skip
    """Fill in the free entries of a few rows.

    Arguments as for :func:`count_free_rows`, data of ``rows`` alone; ``last`` are the columns of
    the last word that are not padding.
    """
    n_components, width = codes.shape
    for i in range(rows.shape[0]):
        row = rows[i]
        for w in range(width):
            free[i, w] = known[i, w] if known.shape[0] else ~_ZERO
        free[i, width - 1] &= last
        for component in range(n_components):
            if (
                is_counted[component]
                and (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE
            ):
                for w in range(width):
                    free[i, w] = free_word(free[i, w], codes[component, w])
