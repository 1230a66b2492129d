# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""The row kernel in its horizontal form: one row at a time, with popcounts along its columns.

Parallel decomposition: a call does rows ``lo … hi-1`` of a work order; threads get disjoint
ranges and their own ``after``. The inner loop runs over words.

For a row, two bit planes mark the columns that its active components cover at least once
(``once``) and at least twice (``twice``). The columns whose cover depends on component l alone are
``codes[l] & ~(twice if l is on else once)``. Unknown entries are marked as covered twice from the
start, so they never enter a count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali._jit import jit, lean
from thali.bits.counting import IN_BYTES, count_in_bytes
from thali.bits.words import popcount
from thali.decide import gibbs_bit
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data, Order

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_LONG = 24
"""Words from which on counting in bytes is faster, which takes some time to begin and to end."""


@lean
def reset_planes(known: Words, row: int, once: Words, twice: Words) -> np.uint64:
    """Mark only the unknown entries as covered; return their number, padding included."""
    base = _ZERO
    if known.shape[0] == 0:
        for w in range(once.shape[0]):
            once[w] = _ZERO
            twice[w] = _ZERO
    else:
        line = known[row]
        for w in range(once.shape[0]):
            unknown = ~line[w]
            base += popcount(unknown)
            once[w] = unknown
            twice[w] = unknown
    return base


@lean
def add_code(code: Words, once: Words, twice: Words) -> None:
    """Add the columns of one component to the planes."""
    for w in range(code.shape[0]):
        twice[w] |= once[w] & code[w]
        once[w] |= code[w]


@lean
def count_free(code: Words, covered: Words, ones: Words) -> tuple[np.uint64, np.uint64]:
    """Return the number of uncovered columns of a component, and of the ones among them."""
    n_free = _ZERO
    n_ones = _ZERO
    done = 0
    if IN_BYTES and code.shape[0] >= _LONG:
        both: Any = count_in_bytes(code, covered, ones)  # type: ignore[call-arg]
        n_free, n_ones = both & _LOW, both >> _HALF
        done = code.shape[0] & ~1
    for w in range(done, code.shape[0]):
        free = free_word(code[w], covered[w])
        n_free += popcount(free)
        n_ones += popcount(free & ones[w])
    return n_free, n_ones


@lean
def count_covered(once: Words, ones: Words, base: np.uint64) -> tuple[np.int64, np.int64]:
    """Return the numbers of covered ones and covered zeros of a row."""
    covered = _ZERO
    tp = _ZERO
    for w in range(once.shape[0]):
        covered += popcount(once[w])
        tp += popcount(once[w] & ones[w])
    return np.int64(tp), np.int64(covered - base - tp)


@lean
def count_known(
    ones: Words, n_columns: int, has_unknown: bool, base: np.uint64
) -> tuple[np.int64, np.int64]:
    """Return the numbers of ones and zeros of a row; ``base`` is from :func:`reset_planes`."""
    n_ones = _ZERO
    for w in range(ones.shape[0]):
        n_ones += popcount(ones[w])
    n_known = np.int64(64 * ones.shape[0]) - np.int64(base) if has_unknown else n_columns
    return np.int64(n_ones), n_known - np.int64(n_ones)


@lean
def add_two_codes(code: Words, other: Words, once: Words, twice: Words) -> None:
    """Add the columns of two components to the planes, in one pass instead of two."""
    for w in range(code.shape[0]):
        either = code[w] | other[w]
        twice[w] |= (once[w] & either) | (code[w] & other[w])
        once[w] |= either


@lean
def cover_row(
    known: Words, row: int, codes: Words, active: NDArray[np.bool_], once: Words, twice: Words
) -> np.uint64:
    """Make the planes of a row's active components; return the number of unknown bits."""
    base = _ZERO
    is_filled = False
    waiting = -1
    for component in range(codes.shape[0]):
        if not active[component]:
            continue
        if waiting < 0:
            waiting = component
            continue
        if is_filled or known.shape[0] > 0:
            if not is_filled:
                base = reset_planes(known, row, once, twice)
            add_two_codes(codes[waiting], codes[component], once, twice)
        else:  # first two components, no unknown entries: the planes need not be read
            code = codes[waiting]
            other = codes[component]
            for w in range(once.shape[0]):
                once[w] = code[w] | other[w]
                twice[w] = code[w] & other[w]
        is_filled = True
        waiting = -1
    if not is_filled:
        base = reset_planes(known, row, once, twice)
    if waiting >= 0:
        add_code(codes[waiting], once, twice)
    return base


@lean
def read_row(factor: Words, position: int, active: NDArray[np.bool_]) -> None:
    """Read which components are active in a row."""
    shift = np.uint64(position & 63)
    for component in range(factor.shape[0]):
        active[component] = (factor[component, position >> 6] >> shift) & _ONE != _ZERO


@jit
def update_rows(
    lo: int, hi: int, data: Data, order: Order, before: Words, after: Words
) -> tuple[int, int]:
    """Draw the entries of some rows, for one component after another (eq. 10).

    Parameters
    ----------
    lo, hi
        Range of rows to draw, as positions in the work order.
    data, order
        The data and the work order (:mod:`thali.engines.cpu.arrays`).
    before, after
        Entries of all rows of the order, ``(n_components, ceil(n_rows / 64))``. On entry,
        ``after`` must be zero; no other thread may use it.

    Returns
    -------
    gained
        Numbers of ones and of zeros newly covered.
    """
    n_components, width = order[1].shape
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(n_components, np.bool_)
    return _update_rows(lo, hi, data, order, before, after, once, twice, active)


@lean
def _update_rows(
    lo: int, hi: int, data: Data, order: Order, before: Words, after: Words, once: Words,
    twice: Words, active: NDArray[np.bool_],
) -> tuple[int, int]:  # fmt: skip
    """Draw as :func:`update_rows`; the last three arguments are memory for one row."""
    all_ones, known, _ = data
    rows, codes, is_held, weights, singles, prior, key, sweep, site = order
    n_components = codes.shape[0]
    tp_gained = 0
    fp_gained = 0
    for i in range(lo, hi):
        row = rows[i]
        ones = all_ones[row]
        one_weight = weights[0, 0, singles[i], 0]
        zero_weight = weights[0, 0, singles[i], 1]
        read_row(before, i, active)
        cover_row(known, row, codes, active, once, twice)
        for component in range(n_components):
            was_on = active[component]
            is_on = was_on
            if not is_held[component]:
                code = codes[component]
                # Repeated in serial.py: a function for it would take a tenth more time.
                if was_on:
                    n_free, n_ones = count_free(code, twice, ones)
                else:
                    n_free, n_ones = count_free(code, once, ones)
                c1 = np.int64(n_ones)
                c0 = np.int64(n_free) - c1
                score = log_odds(prior[component], one_weight, zero_weight, c1, c0)
                is_on = gibbs_bit(score, key, sweep, site, np.uint64(row), np.uint64(component))
                active[component] = is_on
                if is_on and not was_on:
                    add_code(code, once, twice)
                    tp_gained += c1
                    fp_gained += c0
                elif was_on and not is_on:
                    # `twice` does not tell two components from three: make both planes anew.
                    cover_row(known, row, codes, active, once, twice)
                    tp_gained -= c1
                    fp_gained -= c0
            if is_on:
                after[component, i >> 6] |= _ONE << np.uint64(i & 63)
    return tp_gained, fp_gained


@jit
def count_rows(
    lo: int, hi: int, data: Data, rows: Index, codes: Words, factor: Words, counts: Index
) -> None:
    """Count the covered ones and zeros of some rows."""
    ones, known, _ = data
    n_components, width = codes.shape
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(n_components, np.bool_)
    for i in range(lo, hi):
        read_row(factor, i, active)
        base = cover_row(known, rows[i], codes, active, once, twice)
        counts[i, 0], counts[i, 1] = count_covered(once, ones[rows[i]], base)
