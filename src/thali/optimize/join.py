# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The best rows of a component, given its columns.

These are the rows in which the entries that only this component covers hold more ones than zeros
(times their costs). The counts come from popcounts along each row, or, if the component has few
columns, from bit-sliced counters: bit b of 64 counts is a word, and a column adds to 64 counts at
a time.
"""

from __future__ import annotations

import numpy as np

from thali._jit import inner
from thali.bits.words import Index, Words, list_bits, lowest, popcount
from thali.optimize.cover import Side, has_bit
from thali.sites import Site
from thali.streams import read_uniform, uniform64

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL = ~_ZERO
_SITE = np.uint64(Site.SEARCH)
_FIRST = np.int64(0)

_COLUMNS_PER_WORD = 25
"""Columns up to which counters are faster than popcounts, for every word of a row."""

_PLANES = 32  # counts stay below 2**32

LEAVE, KEEP, JOIN, TOSS = (np.int64(i) for i in range(4))
"""What a row does that neither gains nor loses: be without the component, stay as it is, have it,
or toss a coin."""


@inner
def draw(random: Words) -> float:
    """Return the next random number of a swap; ``random`` is a key, the swap and a counter."""
    random[2] += _ONE
    return read_uniform(random[0], random[1], _SITE, _ZERO, random[2])


@inner
def below(random: Words, n: int) -> int:
    """Return a random integer from 0 to n - 1."""
    return np.int64(draw(random) * n)


@inner
def favours(ties: int, own: np.uint64, random: Words) -> np.uint64:
    """Return which of 64 rows have the component if they neither gain nor lose by it."""
    if ties == KEEP:
        return own
    if ties == LEAVE:
        return _ZERO
    if ties == JOIN:
        return _ALL
    random[2] += _ONE
    return uniform64(random[0], random[1], _SITE, _ZERO, random[2])


@inner
def decide(
    ones: int, zeros: int, favoured: np.uint64, bit: np.uint64, costs: tuple[float, float]
) -> bool:
    """Decide whether a row has the component, given what only the component would cover."""
    value = costs[1] * ones - costs[0] * zeros
    return value > 0.0 or (value == 0.0 and favoured & bit != _ZERO)


@inner
def join(
    side: Side,
    across: Side,
    own: Words,
    old: Words,
    code: Words,
    ties: int,
    costs: tuple[float, float],
    random: Words,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows for a code; return the ones and zeros that only they cover.

    ``own`` and ``old`` are the rows and the code that the component has now, whose cover does not
    count. ``rows`` is filled.
    """
    columns = list_bits(code)
    n_used = 0
    for w in range(code.shape[0]):
        n_used += code[w] != _ZERO
    if columns.shape[0] < _COLUMNS_PER_WORD * n_used:
        return join_by_column(side, across, own, old, columns, ties, costs, random, rows)
    return join_by_row(side, own, old, code, ties, costs, random, rows)


@inner
def join_by_row(
    side: Side,
    own: Words,
    old: Words,
    code: Words,
    ties: int,
    costs: tuple[float, float],
    random: Words,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows by popcounts along each row."""
    used = np.empty(code.shape[0], np.int64)
    n_used = 0
    for w in range(code.shape[0]):
        if code[w] != _ZERO:
            used[n_used] = w
            n_used += 1
    n_ones, n_zeros = _FIRST, _FIRST
    for word in range(rows.shape[0]):
        chosen = _ZERO
        favoured = favours(ties, own[word], random)
        for row in range(word * 64, min(side.ones.shape[0], word * 64 + 64)):
            bit = _ONE << np.uint64(row & 63)
            is_own = own[word] & bit != _ZERO
            ones, zeros = _ZERO, _ZERO
            for i in range(n_used):
                w = used[i]
                others = side.once[row, w]
                if is_own:
                    others = side.twice[row, w] | (others & ~old[w])
                free = code[w] & ~others
                ones += popcount(free & side.ones[row, w])
                zeros += popcount(free & side.zeros[row, w])
            a, b = np.int64(ones), np.int64(zeros)
            if decide(a, b, favoured, bit, costs):
                chosen |= bit
                n_ones += a
                n_zeros += b
        rows[word] = chosen
    return n_ones, n_zeros


@inner
def count_up(planes: Words, word: np.uint64, n_planes: int) -> int:
    """Add 64 bits to 64 counters; return how many planes they have now."""
    plane = 0
    while word != _ZERO:
        if plane == n_planes:
            planes[plane] = word
            return n_planes + 1
        carry = planes[plane] & word
        planes[plane] ^= word
        word = carry
        plane += 1
    return n_planes


@inner
def read_count(planes: Words, n_planes: int, place: np.uint64) -> int:
    """Read one of 64 counters."""
    count = _ZERO
    for plane in range(n_planes):
        count |= ((planes[plane] >> place) & _ONE) << np.uint64(plane)
    return np.int64(count)


@inner
def join_by_column(
    side: Side,
    across: Side,
    own: Words,
    old: Words,
    columns: Index,
    ties: int,
    costs: tuple[float, float],
    random: Words,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows by counters of 64 rows at a time."""
    n_columns, n_rows = columns.shape[0], side.ones.shape[0]
    is_old = np.empty(n_columns, np.bool_)
    for i in range(n_columns):
        is_old[i] = has_bit(old, columns[i])
    of_ones, of_zeros = np.empty(_PLANES, np.uint64), np.empty(_PLANES, np.uint64)
    n_ones, n_zeros = _FIRST, _FIRST
    for w in range(rows.shape[0]):
        mine = own[w]
        favoured = favours(ties, mine, random)
        ones_planes, zeros_planes = 0, 0
        any_one, any_zero = _ZERO, _ZERO
        for i in range(n_columns):
            column = columns[i]
            others = across.once[column, w]
            if is_old[i]:
                others &= across.twice[column, w] | ~mine
            one = across.ones[column, w] & ~others
            zero = across.zeros[column, w] & ~others
            any_one |= one
            any_zero |= zero
            ones_planes = count_up(of_ones, one, ones_planes)
            zeros_planes = count_up(of_zeros, zero, zeros_planes)
        chosen = ~(any_one | any_zero) & favoured
        if n_rows - w * 64 < 64:
            chosen &= (_ONE << np.uint64(n_rows - w * 64)) - _ONE
        left = any_one
        while left != _ZERO:
            place = np.uint64(lowest(left))
            bit = _ONE << place
            left &= left - _ONE
            ones = read_count(of_ones, ones_planes, place)
            zeros = read_count(of_zeros, zeros_planes, place)
            if decide(ones, zeros, favoured, bit, costs):
                chosen |= bit
                n_ones += ones
                n_zeros += zeros
        rows[w] = chosen
    return n_ones, n_zeros
