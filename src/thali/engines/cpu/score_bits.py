# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""What the data say about every bit of a factor, given all other bits.

Parallel decomposition: rows are independent; a call does the rows listed at ``lo … hi-1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Segments

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@jit
def score_rows(
    lo: int, hi: int, rows: Index, ones: Words, known: Words, codes: Words, before: Words,
    after: Words, weights: NDArray[np.float64], classes: Index, segments: Segments,
    scores: NDArray[np.float64],
) -> None:  # fmt: skip
    """Compute the gain in log-likelihood by every bit of some rows.

    The bits of a row are visited in the order of the components, as in a sweep that leads from
    the factor ``before`` to the factor ``after``: earlier components have their bits after, later
    components their bits before. If both are equal, all other components keep their bits.

    Parameters
    ----------
    rows
        The numbers of the rows.
    ones, known
        Unfolding of the mode; ``known`` has no rows if all entries are known.
    codes
        Columns of each component, ``(n_components, n_words)``.
    before, after
        Rows of each component, ``(n_components, n_words)``.
    weights, classes, segments
        Gains by covering a one and a zero, ``(n_row_classes, n_column_classes, 2)``; classes of
        rows, and segments of sorted columns, both empty if there is one class of each.
    scores
        ``(len(rows), n_components)``; filled here.
    """
    n, width = codes.shape
    later = np.zeros((n + 1, width), np.uint64)  # columns that this component or a later covers
    earlier = np.empty(width, np.uint64)
    in_words, masks, of_segments = segments
    for i in range(lo, hi):
        row = rows[i]
        of_row = weights[classes[row] if classes.shape[0] else 0]
        at, shift = row >> 6, np.uint64(row & 63)
        for k in range(n - 1, -1, -1):
            is_on = (before[k, at] >> shift) & _ONE
            for w in range(width):
                later[k, w] = later[k + 1, w] | (codes[k, w] if is_on else _ZERO)
        for w in range(width):
            earlier[w] = ~known[row, w] if known.shape[0] else _ZERO
        for k in range(n):
            n_free, n_ones = _ZERO, _ZERO
            gain = 0.0
            if classes.shape[0]:
                for s in range(in_words.shape[0]):
                    w = in_words[s]
                    free = free_word(codes[k, w] & masks[s], later[k + 1, w] | earlier[w])
                    n_free = popcount(free)
                    n_ones = popcount(free & ones[row, w])
                    one, zero = of_row[of_segments[s]]
                    gain = log_odds(
                        gain, one, zero, np.float64(n_ones), np.float64(n_free - n_ones)
                    )
                scores[i, k] = gain
            else:
                for w in range(width):
                    free = free_word(codes[k, w], earlier[w] | later[k + 1, w])
                    n_free += popcount(free)
                    n_ones += popcount(free & ones[row, w])
                one, zero = of_row[0]
                scores[i, k] = log_odds(
                    gain, one, zero, np.float64(n_ones), np.float64(n_free - n_ones)
                )
            if (after[k, at] >> shift) & _ONE:
                for w in range(width):
                    earlier[w] |= codes[k, w]
