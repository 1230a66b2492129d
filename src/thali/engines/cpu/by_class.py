# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Rows whose columns are of several classes, each class with weights of its own.

The columns are sorted by class. The words of a row then fall into segments, which are bits of one
word that belong to one class, and a gain is a sum over classes of weights times popcounts. There
are hardly more segments than words: one for every word, and one for every class.

Columns change their classes in most sweeps. Sorting them anew is fast: the lines of the other
mode are put in order and transposed, 64 x 64 bits at a time.

Parallel decomposition: a call does rows ``lo … hi-1`` of a work order, as in
:mod:`thali.engines.cpu.horizontal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit, lean
from thali.bits.words import WORD, gather_bits, lowest, popcount, transpose64
from thali.decide import gibbs_bit
from thali.engines.cpu.horizontal import add_code, cover_row, read_row
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Data, Order, Segments

_ZERO = np.uint64(0)
_ONE = np.uint64(1)

STEP = 8 * WORD
"""Number of columns in a cache line of packed bits."""


class Sorted(NamedTuple):
    """The unfolding of a mode, with its columns in the order of their classes."""

    data: Data
    places: Index  # the column at every place
    classes: Index  # the class of the column at every place
    segments: Segments

    @classmethod
    def by(cls, classes: Index, own: Data, across: Data, take: Callable[..., Words]) -> Sorted:
        """Sort the columns of a mode by class, given its unfolding and that of the other mode.

        ``take`` shares the work of :func:`take_across` among threads.
        """
        ones, known, n_columns = own
        places, in_order, *segments = sort_places(classes)
        if in_order[-1] > 0:
            ones = take(across[0], places, len(ones))
            known = take(across[1], places, len(known)) if len(known) else known
        return cls((ones, known, n_columns), places, in_order, (*segments,))

    @classmethod
    def of_tensor(cls, classes: Index, columns: Index, data: Data) -> Sorted:
        """Sort the columns of an unfolding of a tensor by class, and leave padding out.

        ``columns`` are those that are no padding. No more rows than 64 are in memory twice.
        """
        ones, known, _ = data
        places = columns[np.argsort(classes[columns], kind="stable")]
        mask = gather_bits(known, places) if len(known) else known
        data, in_order = (gather_bits(ones, places), mask, len(places)), classes[places]
        return cls(data, places, in_order, list_segments(in_order))

    @property
    def n_classes(self) -> int:
        """Number of classes of columns."""
        return int(self.classes[-1]) + 1

    def bits(self, lines: Words) -> Words:
        """Return packed sets of columns with the columns in the order of their classes."""
        in_order: Words = gather_bits(lines, self.places)
        return in_order


@jit
def sort_places(classes: Index) -> tuple[Index, Index, Words, Words, Index]:
    """Return the columns in the order of their classes, these classes, and the segments."""
    n_classes = 1
    for c in classes:
        n_classes = max(n_classes, c + 1)
    starts = np.zeros(n_classes + 1, np.int64)
    for c in classes:
        starts[c + 1] += 1
    for c in range(n_classes):
        starts[c + 1] += starts[c]
    places = np.empty(classes.shape[0], np.int64)
    in_order = np.empty(classes.shape[0], np.int64)
    for column in range(classes.shape[0]):
        c = classes[column]
        places[starts[c]] = column
        in_order[starts[c]] = c
        starts[c] += 1
    words, masks, of_segments = list_segments(in_order)
    return places, in_order, words, masks, of_segments


@jit
def take_across(lo: int, hi: int, lines: Words, places: Index, out: Words) -> None:
    """Write the rows of a mode with columns in an order, given the lines of these columns.

    These are the columns at places ``lo … hi-1``, where ``lo`` is a multiple of ``STEP``. A cache
    line of the result has as many columns as that; squares of eight by eight words are read and
    written together, so that none is fetched more than once.
    """
    n, width = out.shape[0], lines.shape[1]
    square = np.empty(WORD, np.uint64)
    for first in range(lo, hi, STEP):
        for at in range(0, width, STEP // WORD):
            for tile in range(first, min(first + STEP, hi), WORD):
                height = min(WORD, hi - tile)
                for w in range(at, min(at + STEP // WORD, width)):
                    for i in range(height):
                        square[i] = lines[places[tile + i], w]
                    square[height:] = _ZERO
                    transpose64(square)
                    for i in range(min(WORD, n - WORD * w)):
                        out[WORD * w + i, tile // WORD] = square[i]


@jit
def list_segments(classes: Index) -> Segments:
    """Return word, bits and class of every segment; the classes must ascend."""
    n = classes.shape[0]
    words = np.empty(n, np.uint64)  # unsigned: no test for negative numbers is compiled
    masks = np.zeros(n, np.uint64)
    of_segments = np.empty(n, np.int64)
    k = -1
    for place in range(n):
        if place & 63 == 0 or classes[place] != classes[place - 1]:
            k += 1
            words[k] = place >> 6
            of_segments[k] = classes[place]
        masks[k] |= _ONE << np.uint64(place & 63)
    return words[: k + 1].copy(), masks[: k + 1].copy(), of_segments[: k + 1].copy()


@inner
def list_runs(of_segments: Index) -> Index:
    """Return where the segments of every class begin, and the number of segments."""
    starts = np.empty(of_segments.shape[0] + 1, np.int64)
    n = 0
    for s in range(of_segments.shape[0]):
        if s == 0 or of_segments[s] != of_segments[s - 1]:
            starts[n] = s
            n += 1
    starts[n] = of_segments.shape[0]
    return starts[: n + 1].copy()


@inner
def runs_of_places(segments: Segments, starts: Index, codes: Words) -> Index:
    """Return the run of every place if codes have fewer columns than there are runs.

    The result is empty if they have more, or if there are more words than runs.
    """
    words, masks, _ = segments
    n, width = codes.shape
    n_runs = starts.shape[0] - 1
    if n_runs <= width or not _are_fewer(codes, n * n_runs):
        return np.empty(0, np.int64)
    runs = np.empty(WORD * width, np.int64)
    for r in range(n_runs):
        for s in range(starts[r], starts[r + 1]):
            left = masks[s]
            while left != _ZERO:
                runs[WORD * np.int64(words[s]) + lowest(left)] = r
                left &= left - _ONE
    return runs


@lean
def _are_fewer(codes: Words, limit: int) -> bool:
    """Return whether all codes together have fewer columns than a limit."""
    total = _ZERO
    for component in range(codes.shape[0]):
        for w in range(codes.shape[1]):
            total += popcount(codes[component, w])
    return np.int64(total) < limit


@lean
def spread_weights(
    weights: NDArray[np.int64], of_segments: Index, starts: Index, n_integrated: int,
    one: NDArray[np.int64], zero: NDArray[np.int64],
) -> None:  # fmt: skip
    """Write the weights of a row, ``(n_column_classes, n_integrated + 1, 2)``, by run."""
    for r in range(starts.shape[0] - 1):
        one[r] = weights[of_segments[starts[r]], n_integrated, 0]
        zero[r] = weights[of_segments[starts[r]], n_integrated, 1]


@lean
def gain_by_class(
    code: Words, covered: Words, ones: Words, words: Words, masks: Words, starts: Index,
    one: NDArray[np.int64], zero: NDArray[np.int64],
) -> tuple[np.int64, np.int64, np.int64]:  # fmt: skip
    """Return the gain by a component in a row, and its uncovered ones and zeros (eq. 27).

    ``words`` and ``masks`` are those of the segments, ``starts`` comes from :func:`list_runs`, and
    ``one`` and ``zero`` are the row's weights from :func:`spread_weights`. Only the first and the
    last word of a class may have columns of other classes.
    """
    gain = np.int64(0)
    n_free = _ZERO
    n_ones = _ZERO
    for r in range(starts.shape[0] - 1):
        first, last = starts[r], starts[r + 1] - 1
        w = words[first]
        free = free_word(code[w] & masks[first], covered[w])
        if last == first and free == _ZERO:  # most classes have none of a short row's free columns
            continue
        k = popcount(free)
        k_ones = popcount(free & ones[w])
        if last > first:
            end = words[last]
            for v in range(w + _ONE, end):
                free = free_word(code[v], covered[v])
                k += popcount(free)
                k_ones += popcount(free & ones[v])
            free = free_word(code[end] & masks[last], covered[end])
            k += popcount(free)
            k_ones += popcount(free & ones[end])
        n_free += k
        n_ones += k_ones
        gain = log_odds(gain, one[r], zero[r], np.int64(k_ones), np.int64(k - k_ones))
    return gain, np.int64(n_ones), np.int64(n_free - n_ones)


@lean
def gain_by_bit(
    code: Words, covered: Words, ones: Words, runs: Index, one: NDArray[np.int64],
    zero: NDArray[np.int64],
) -> tuple[np.int64, np.int64, np.int64]:  # fmt: skip
    """Return the same as :func:`gain_by_class`, from one free column after the other.

    ``runs`` has the run of every place. This is faster if there are more classes than a component
    has columns.
    """
    gain = np.int64(0)
    n_free = _ZERO
    n_ones = _ZERO
    for w in range(code.shape[0]):
        free = free_word(code[w], covered[w])
        n_free += popcount(free)
        in_ones = free & ones[w]
        n_ones += popcount(in_ones)
        in_zeros = free ^ in_ones
        while in_ones != _ZERO:
            r = runs[WORD * w + lowest(in_ones)]
            gain = log_odds(gain, one[r], zero[r], 1, 0)
            in_ones &= in_ones - _ONE
        while in_zeros != _ZERO:
            r = runs[WORD * w + lowest(in_zeros)]
            gain = log_odds(gain, one[r], zero[r], 0, 1)
            in_zeros &= in_zeros - _ONE
    return gain, np.int64(n_ones), np.int64(n_free - n_ones)


@lean
def fill_free(ones: Words, covered: Words, segments: Segments, free: Index) -> None:
    """Write the uncovered ones and zeros of a row by class of column."""
    words, masks, of_segments = segments
    for c in range(free.shape[0]):
        free[c, 0] = 0
        free[c, 1] = 0
    for s in range(words.shape[0]):
        w = words[s]
        word = free_word(masks[s], covered[w])
        k_ones = np.int64(popcount(word & ones[w]))
        free[of_segments[s], 0] += k_ones
        free[of_segments[s], 1] += np.int64(popcount(word)) - k_ones


@jit
def update_rows(
    lo: int, hi: int, data: Data, segments: Segments, classes: Index, order: Order, before: Words,
    after: Words,
) -> tuple[int, int]:  # fmt: skip
    """Draw the entries of some rows, for one component after another (eq. 10 and 27).

    The arguments are those of :func:`thali.engines.cpu.horizontal.update_rows`, with columns in
    the order of their classes, and the classes of the rows of the order.
    """
    n_components, width = order[1].shape
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(n_components, np.bool_)
    starts = list_runs(segments[2])
    one = np.empty(starts.shape[0], np.int64)
    zero = np.empty(starts.shape[0], np.int64)
    runs = runs_of_places(segments, starts, order[1])
    room = once, twice, active, starts, one, zero, runs
    return _update_rows(lo, hi, data, segments, classes, order, before, after, room)


@lean
def _update_rows(
    lo: int, hi: int, data: Data, segments: Segments, classes: Index, order: Order, before: Words,
    after: Words, room: tuple[Words, Words, NDArray[np.bool_], Index, Index, Index, Index],
) -> tuple[int, int]:  # fmt: skip
    """Draw as :func:`update_rows`, in memory for one row; ``room`` also has all runs."""
    all_ones, known, _ = data
    words, masks, of_segments = segments
    rows, codes, is_held, weights, singles, prior, key, sweep, site = order
    once, twice, active, starts, one, zero, runs = room
    is_by_bit = runs.shape[0] > 0
    n_components = codes.shape[0]
    tp_gained = 0
    fp_gained = 0
    for i in range(lo, hi):
        row = rows[i]
        ones = all_ones[row]
        spread_weights(weights[classes[i]], of_segments, starts, singles[i], one, zero)
        read_row(before, i, active)
        cover_row(known, row, codes, active, once, twice)
        for component in range(n_components):
            was_on = active[component]
            is_on = was_on
            if not is_held[component]:
                code = codes[component]
                covered = twice if was_on else once
                if is_by_bit:
                    gain, c1, c0 = gain_by_bit(code, covered, ones, runs, one, zero)
                else:
                    gain, c1, c0 = gain_by_class(
                        code, covered, ones, words, masks, starts, one, zero
                    )
                score = prior[component] + gain
                is_on = gibbs_bit(score, key, sweep, site, np.uint64(row), np.uint64(component))
                active[component] = is_on
                if is_on and not was_on:
                    add_code(code, once, twice)
                    tp_gained += c1
                    fp_gained += c0
                elif was_on and not is_on:
                    cover_row(known, row, codes, active, once, twice)
                    tp_gained -= c1
                    fp_gained -= c0
            if is_on:
                after[component, i >> 6] |= _ONE << np.uint64(i & 63)
    return tp_gained, fp_gained


@lean
def fill_by_class(
    free: Words, ones: Words, sets: Words, segments: Segments, counts: Index
) -> None:
    """Count the free ones and zeros of a row in sets of columns, by class of column.

    ``counts`` is ``(n_sets, n_column_classes, 2)``.
    """
    words, masks, of_segments = segments
    for k in range(sets.shape[0]):
        for c in range(counts.shape[1]):
            counts[k, c, 0] = 0
            counts[k, c, 1] = 0
        for s in range(words.shape[0]):
            w = words[s]
            part = free[w] & sets[k, w] & masks[s]
            n_ones = np.int64(popcount(part & ones[w]))
            counts[k, of_segments[s], 0] += n_ones
            counts[k, of_segments[s], 1] += np.int64(popcount(part)) - n_ones
