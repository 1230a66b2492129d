# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Counting kernel of the moves: free entries of every row, by class of columns.

One row after another on a thread, ranges of rows in parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@jit
def tally_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, factor: Words,
    is_counted: NDArray[np.bool_], classes: Words, counts: Index,
) -> None:  # fmt: skip
    """Count ones and zeros that no component covers, in each class of columns.

    Parameters
    ----------
    lo, hi
        Range of rows, counted from ``first``.
    ones, known
        Unfolding of the mode; ``known`` has no rows if all entries are known.
    codes, factor
        Components: ``(n_components, n_words)`` and their rows.
    is_counted
        Which of them cover; the others are looked away from.
    classes
        ``(n_classes, n_words)``: sets of columns; padding is in none.
    counts
        ``(n_rows, n_classes, 2)``, filled: free ones, free zeros.
    """
    n_components, width = codes.shape
    n_classes = classes.shape[0]
    free = np.empty(width, np.uint64)
    for i in range(lo, hi):
        row = first + i
        for w in range(width):
            free[w] = known[row, w] if known.shape[0] else ~_ZERO
        for component in range(n_components):
            if (
                is_counted[component]
                and (factor[component, row >> 6] >> np.uint64(row & 63)) & _ONE
            ):
                for w in range(width):
                    free[w] &= ~codes[component, w]
        for k in range(n_classes):
            n_free = _ZERO
            n_ones = _ZERO
            for w in range(width):
                part = free[w] & classes[k, w]
                n_free += popcount(part)
                n_ones += popcount(part & ones[row, w])
            counts[i, k, 0] = np.int64(n_ones)
            counts[i, k, 1] = np.int64(n_free) - np.int64(n_ones)
