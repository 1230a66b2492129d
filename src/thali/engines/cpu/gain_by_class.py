# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Gains of rows by covering their free entries in sets of columns, if columns have classes.

Sets are often small. Only the words that have a column of a set are read, and only the components
that cover one.

Parallel decomposition: rows are independent; a call does rows ``lo … hi-1`` of a range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit, lean
from thali.bits.words import copy_line, popcount
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Parts, Segments

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@jit
def list_parts(sets: Words, segments: Segments) -> Parts:
    """List the parts of sets of columns, which are sorted by class: set by set, class by class."""
    in_words, all_masks, of_segments = segments
    most = sets.shape[0] * in_words.shape[0]
    of_parts = np.empty(most, np.int64)
    at = np.empty(most, np.int64)
    masks = np.empty(most, np.uint64)
    classes = np.empty(most, np.int64)
    numbers = np.full(sets.shape[1], -1)
    words = np.empty(sets.shape[1], np.int64)
    n = 0
    n_used = 0
    for k in range(sets.shape[0]):
        for s in range(in_words.shape[0]):
            w = in_words[s]
            mask = sets[k, w] & all_masks[s]
            if mask == _ZERO:
                continue
            if numbers[w] < 0:
                numbers[w] = n_used
                words[n_used] = w
                n_used += 1
            of_parts[n], at[n], masks[n], classes[n] = k, numbers[w], mask, of_segments[s]
            n += 1
    return of_parts[:n], at[:n], masks[:n], classes[:n], words[:n_used]


@jit
def list_relevant(
    codes: Words, users: Words, is_counted: NDArray[np.bool_], parts: Parts
) -> tuple[Words, Words]:
    """Return what counted components cover of the parts, in their words, and the users of these.

    Components that cover nothing of them are left out.
    """
    _, at, masks, _, words = parts
    inside = np.zeros(words.shape[0], np.uint64)
    for k in range(at.shape[0]):
        inside[at[k]] |= masks[k]
    some = np.empty((codes.shape[0], words.shape[0]), np.uint64)
    kept = np.empty((codes.shape[0], users.shape[1]), np.uint64)
    n = 0
    for component in range(codes.shape[0]):
        if not is_counted[component]:
            continue
        covers = _ZERO
        for j in range(words.shape[0]):
            some[n, j] = codes[component, words[j]] & inside[j]
            covers |= some[n, j]
        if covers != _ZERO:
            copy_line(users[component], kept[n])
            n += 1
    return some[:n], kept[:n]


@jit
def gain_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, users: Words,
    parts: Parts, of_rows: Index, weights: NDArray[np.float64], gains: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum weights times numbers of free entries over classes, for every row and set (eq. 27).

    Parameters
    ----------
    lo, hi
        Range of rows, counted from ``first``.
    ones, known
        Unfolding of the mode with sorted columns; ``known`` has no rows if all entries are known.
    codes, users
        Components that matter, from :func:`list_relevant`.
    of_rows
        Class of every row.
    weights
        Gains by covering a one and a zero, ``(n_row_classes, n_column_classes, 2)``.
    gains
        ``(n_rows, n_sets)``: zeros, to which gains are added here.
    """
    n_words = parts[4].shape[0]
    free, line = np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)
    _gain_rows(
        lo, hi, first, ones, known, codes, users, parts, of_rows, weights, gains, free, line
    )


@lean
def _gain_rows(
    lo: int, hi: int, first: int, ones: Words, known: Words, codes: Words, users: Words,
    parts: Parts, of_rows: Index, weights: NDArray[np.float64], gains: NDArray[np.float64],
    free: Words, line: Words,
) -> None:  # fmt: skip
    """Sum as :func:`gain_rows`; the last two arguments are memory for the words of a row."""
    of_parts, at, masks, classes, words = parts
    n_parts = of_parts.shape[0]
    for i in range(lo, hi):
        row = first + i
        of_row = weights[of_rows[row]]
        for j in range(words.shape[0]):
            free[j] = known[row, words[j]] if known.shape[0] else ~_ZERO
            line[j] = ones[row, words[j]]
        for k in range(codes.shape[0]):
            if (users[k, row >> 6] >> np.uint64(row & 63)) & _ONE:
                for j in range(words.shape[0]):
                    free[j] = free_word(free[j], codes[k, j])
        p = 0
        while p < n_parts:
            # All parts of a set and class together: weights may be any real numbers, and the
            # sum of their products must not depend on where words end.
            k, c = of_parts[p], classes[p]
            n_free = _ZERO
            n_ones = _ZERO
            while p < n_parts and of_parts[p] == k and classes[p] == c:
                part = free[at[p]] & masks[p]
                n_free += popcount(part)
                n_ones += popcount(part & line[at[p]])
                p += 1
            if n_free > _ZERO:
                c1, c0 = np.int64(n_ones), np.int64(n_free - n_ones)
                gains[i, k] = log_odds(gains[i, k], of_row[c, 0], of_row[c, 1], c1, c0)
