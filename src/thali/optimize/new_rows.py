# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Memberships of new rows, given the columns of every component."""

from __future__ import annotations

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import Words, copy_line, popcount

_ZERO = np.uint64(0)


@inner
def cover_row(codes: Words, chosen: Words, once: Words, twice: Words) -> None:
    """Find what the chosen components cover once, and what twice."""
    for w in range(once.shape[0]):
        once[w] = twice[w] = _ZERO
        for component in range(codes.shape[0]):
            if chosen[component]:
                twice[w] |= once[w] & codes[component, w]
                once[w] |= codes[component, w]


@inner
def value_of(
    ones: Words, zeros: Words, code: Words, others: Words, costs: tuple[float, float]
) -> float:
    """Return what a code gains in a row where others cover some entries."""
    n_ones, n_zeros = _ZERO, _ZERO
    for w in range(ones.shape[0]):
        own = code[w] & ~others[w]
        n_ones += popcount(own & ones[w])
        n_zeros += popcount(own & zeros[w])
    return costs[1] * np.float64(n_ones) - costs[0] * np.float64(n_zeros)


@inner
def descend_row(
    ones: Words, zeros: Words, codes: Words, costs: tuple[float, float], chosen: Words
) -> float:
    """Change one membership of a row at a time, the one that gains most; return what is gained."""
    once, twice = np.empty_like(ones), np.empty_like(ones)
    while True:
        cover_row(codes, chosen, once, twice)
        best, at = 0.0, -1
        for component in range(codes.shape[0]):
            is_in = chosen[component]
            gain = value_of(ones, zeros, codes[component], twice if is_in else once, costs)
            if is_in:
                gain = -gain
            if gain > best:
                best, at = gain, component
        if at < 0:
            break
        chosen[at] = not chosen[at]
    for w in range(ones.shape[0]):
        twice[w] = _ZERO
    return value_of(ones, zeros, once, twice, costs)


@jit
def fit_rows(
    lo: int, hi: int, ones: Words, zeros: Words, codes: Words, costs: tuple[float, float],
    out: Words,
) -> None:  # fmt: skip
    """Fill the memberships of some rows, by two descents of which the better one counts.

    One begins without components, the other with all that would pay by themselves.
    """
    from_none = np.empty(codes.shape[0], np.bool_)
    from_all = np.empty(codes.shape[0], np.bool_)
    nothing = np.zeros_like(ones[0])
    for row in range(lo, hi):
        for component in range(codes.shape[0]):
            value = value_of(ones[row], zeros[row], codes[component], nothing, costs)
            from_none[component] = False
            from_all[component] = value > 0.0
        first = descend_row(ones[row], zeros[row], codes, costs, from_none)
        second = descend_row(ones[row], zeros[row], codes, costs, from_all)
        copy_line(from_none if first >= second else from_all, out[row])
