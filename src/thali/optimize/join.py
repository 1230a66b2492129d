# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The best rows of a component, given its columns.

These are the rows in which the entries that only this component covers hold more ones than zeros
(times their costs). The counts come from popcounts along each row, or, if the component has few
columns, from bit-sliced counters: bit b of 64 counts is a word, and a column adds to 64 counts at
a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thali._jit import inner, lean
from thali.bits.words import Index, Words, lowest, popcount
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

_PLANES = 40  # counts stay below 2**32, and their multiples below 2**40

_MOST_TIMES = 63.0
"""Most that one kind of error may cost, in those of the other, to be compared plane by plane."""

LEAVE, KEEP, JOIN, TOSS = (np.int64(i) for i in range(4))
"""What a row does that neither gains nor loses: be without the component, stay as it is, have it,
or toss a coin."""


class Tools(NamedTuple):
    """Random numbers, and room for what is needed while a component is fitted."""

    random: Words  # key, swap, counter
    places: Index  # room for a list of rows or columns
    masks: Words  # as long
    planes: Words  # (3, _PLANES): room for counters
    last: Words  # room for a line


@inner
def make_tools(key: np.uint64, n_lines: int) -> Tools:
    """Make room for tables with at most so many rows and columns."""
    random = np.zeros(3, np.uint64)
    random[0] = key
    return Tools(
        random,
        np.zeros(n_lines, np.int64),
        np.zeros(n_lines, np.uint64),
        np.zeros((3, _PLANES), np.uint64),
        np.zeros((n_lines + 63) // 64, np.uint64),
    )


@lean
def draw(random: Words) -> float:
    """Return the next random number of a swap."""
    random[2] += _ONE
    return read_uniform(random[0], random[1], _SITE, _ZERO, random[2])


@lean
def below(random: Words, n: int) -> int:
    """Return a random integer from 0 to n - 1."""
    return np.int64(draw(random) * n)


@lean
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


@lean
def decide(
    ones: int, zeros: int, favoured: np.uint64, bit: np.uint64, costs: tuple[float, float]
) -> bool:
    """Decide whether a row has the component, given what only the component would cover."""
    value = costs[1] * ones - costs[0] * zeros
    return value > 0.0 or (value == 0.0 and favoured & bit != _ZERO)


@lean
def join(
    side: Side,
    across: Side,
    own: Words,
    old: Words,
    code: Words,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows for a code; return the ones and zeros that only they cover.

    ``own`` and ``old`` are the rows and the code that the component has now, whose cover does not
    count. ``rows`` is filled.
    """
    n_columns, n_used = _FIRST, _FIRST
    for w in range(code.shape[0]):
        left = code[w]
        n_used += left != _ZERO
        while left != _ZERO:
            tools.places[n_columns] = w * 64 + lowest(left)
            left &= left - _ONE
            n_columns += 1
    if n_columns < _COLUMNS_PER_WORD * n_used:
        columns = tools.places[:n_columns]
        if costs[0] > costs[1] * n_columns:  # a zero outweighs all ones
            return join_without_zeros(side, across, own, old, columns, ties, tools, rows)
        return join_by_column(side, across, own, old, columns, ties, costs, tools, rows)
    return join_by_row(side, own, old, code, ties, costs, tools, rows)


@lean
def join_by_row(
    side: Side,
    own: Words,
    old: Words,
    code: Words,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows by popcounts along each row."""
    used = tools.places
    n_used = 0
    for w in range(code.shape[0]):
        if code[w] != _ZERO:
            used[n_used] = w
            n_used += 1
    n_ones, n_zeros = _FIRST, _FIRST
    for word in range(rows.shape[0]):
        chosen = _ZERO
        favoured = favours(ties, own[word], tools.random)
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


@lean
def add_two(planes: Words, plane: int, first: np.uint64, second: np.uint64) -> np.uint64:
    """Add two words to a plane of counters; return what carries over to the next."""
    kept, either = planes[plane], first ^ second
    planes[plane] = kept ^ either
    return (first & second) | (kept & either)


@lean
def carry_up(planes: Words, n_planes: int, plane: int, word: np.uint64) -> int:
    """Add 64 bits to 64 counters, from a plane on; return how many planes they have now."""
    while word != _ZERO:
        if plane == n_planes:
            planes[plane] = word
            return n_planes + 1
        carry = planes[plane] & word
        planes[plane] ^= word
        word = carry
        plane += 1
    return n_planes


@lean
def multiply(planes: Words, n_planes: int, times: int, out: Words) -> int:
    """Fill counters with a multiple of others; return how many planes they have."""
    n = n_planes
    while times >> (n - n_planes) > 0:
        n += 1
    for plane in range(n):
        out[plane] = _ZERO
    for shift in range(n - n_planes):
        if (times >> shift) & 1:
            for plane in range(n_planes):
                carry_up(out, n, plane + shift, planes[plane])
    return n


@lean
def compare(
    first: Words, n_first: int, second: Words, n_second: int
) -> tuple[np.uint64, np.uint64]:
    """Return which of 64 counters are above others, and which are equal."""
    above, equal = _ZERO, _ALL
    for plane in range(max(n_first, n_second) - 1, -1, -1):
        a = first[plane] if plane < n_first else _ZERO
        b = second[plane] if plane < n_second else _ZERO
        above |= equal & a & ~b
        equal &= ~(a ^ b)
    return above, equal


@lean
def total(planes: Words, n_planes: int, chosen: np.uint64) -> int:
    """Return the sum of the chosen ones of 64 counters."""
    count = _ZERO
    for plane in range(n_planes):
        count += popcount(planes[plane] & chosen) << np.uint64(plane)
    return np.int64(count)


@lean
def read_count(planes: Words, n_planes: int, place: np.uint64) -> int:
    """Read one of 64 counters."""
    count = _ZERO
    for plane in range(n_planes):
        count |= ((planes[plane] >> place) & _ONE) << np.uint64(plane)
    return np.int64(count)


@lean
def gaining(
    of_ones: Words,
    n_ones: int,
    of_zeros: Words,
    n_zeros: int,
    costs: tuple[float, float],
    multiples: Words,
) -> tuple[np.uint64, np.uint64]:
    """Return which of 64 rows gain by the component, and which neither gain nor lose.

    If one cost is a small multiple of the other, counters are compared plane by plane, else
    number by number.
    """
    least = min(costs[0], costs[1])
    zero_times, one_times = costs[0] / least, costs[1] / least
    if zero_times % 1.0 == 0.0 and one_times == 1.0 and zero_times <= _MOST_TIMES:
        if zero_times > 1.0:
            n = multiply(of_zeros, n_zeros, np.int64(zero_times), multiples)
            return compare(of_ones, n_ones, multiples, n)
        return compare(of_ones, n_ones, of_zeros, n_zeros)
    if one_times % 1.0 == 0.0 and zero_times == 1.0 and one_times <= _MOST_TIMES:
        n = multiply(of_ones, n_ones, np.int64(one_times), multiples)
        return compare(multiples, n, of_zeros, n_zeros)
    above, equal = _ZERO, _ZERO
    for i in range(64):
        place = np.uint64(i)
        ones = read_count(of_ones, n_ones, place)
        zeros = read_count(of_zeros, n_zeros, place)
        value = costs[1] * ones - costs[0] * zeros
        if value > 0.0:
            above |= _ONE << place
        elif value == 0.0:
            equal |= _ONE << place
    return above, equal


@lean
def uncovered(across: Side, column: int, w: int, mine: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the ones and the zeros of 64 rows in a column that others do not cover.

    ``mine`` are the rows in which the component covers the column now.
    """
    others = across.once[column, w] & (across.twice[column, w] | ~mine)
    return across.ones[column, w] & ~others, across.zeros[column, w] & ~others


@lean
def rows_of_word(n_rows: int, w: int) -> np.uint64:
    """Return the bits of a word that are rows."""
    return _ALL if n_rows - w * 64 >= 64 else (_ONE << np.uint64(n_rows - w * 64)) - _ONE


@lean
def mask_own(old: Words, columns: Index, masks: Words) -> None:
    """Fill words of ones for the columns that the component has, of zeros for the others."""
    for i in range(columns.shape[0]):
        masks[i] = _ALL if has_bit(old, columns[i]) else _ZERO


@lean
def join_without_zeros(
    side: Side,
    across: Side,
    own: Words,
    old: Words,
    columns: Index,
    ties: int,
    tools: Tools,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows if none may cover a zero that others do not."""
    n_ones = _ZERO
    was_own = tools.masks
    mask_own(old, columns, was_own)
    for w in range(rows.shape[0]):
        favoured = favours(ties, own[w], tools.random)
        chosen = rows_of_word(side.ones.shape[0], w)
        any_one = _ZERO
        for i in range(columns.shape[0]):
            one, zero = uncovered(across, columns[i], w, own[w] & was_own[i])
            any_one |= one
            chosen &= ~zero
            if chosen == _ZERO:
                break
        chosen &= any_one | favoured
        rows[w] = chosen
        if chosen & any_one != _ZERO:
            for i in range(columns.shape[0]):
                one, zero = uncovered(across, columns[i], w, own[w] & was_own[i])
                n_ones += popcount(one & chosen)
    return np.int64(n_ones), _FIRST


@lean
def join_by_column(
    side: Side,
    across: Side,
    own: Words,
    old: Words,
    columns: Index,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    rows: Words,
) -> tuple[int, int]:
    """Find the best rows by counters of 64 rows at a time, to which four columns add at a time."""
    n_columns = columns.shape[0]
    was_own = tools.masks
    mask_own(old, columns, was_own)
    of_ones, of_zeros, multiples = tools.planes[0], tools.planes[1], tools.planes[2]
    n_ones, n_zeros = _FIRST, _FIRST
    for w in range(rows.shape[0]):
        mine = own[w]
        favoured = favours(ties, mine, tools.random)
        of_ones[0] = of_ones[1] = of_zeros[0] = of_zeros[1] = _ZERO
        ones_planes, zeros_planes = 2, 2
        i = 0
        while i + 4 <= n_columns:
            one_a, zero_a = uncovered(across, columns[i], w, mine & was_own[i])
            one_b, zero_b = uncovered(across, columns[i + 1], w, mine & was_own[i + 1])
            one_c, zero_c = uncovered(across, columns[i + 2], w, mine & was_own[i + 2])
            one_d, zero_d = uncovered(across, columns[i + 3], w, mine & was_own[i + 3])
            i += 4
            twos, more = add_two(of_ones, 0, one_a, one_b), add_two(of_ones, 0, one_c, one_d)
            ones_planes = carry_up(of_ones, ones_planes, 2, add_two(of_ones, 1, twos, more))
            twos, more = add_two(of_zeros, 0, zero_a, zero_b), add_two(of_zeros, 0, zero_c, zero_d)
            zeros_planes = carry_up(of_zeros, zeros_planes, 2, add_two(of_zeros, 1, twos, more))
        while i < n_columns:
            one, zero = uncovered(across, columns[i], w, mine & was_own[i])
            ones_planes = carry_up(of_ones, ones_planes, 0, one)
            zeros_planes = carry_up(of_zeros, zeros_planes, 0, zero)
            i += 1
        above, equal = gaining(of_ones, ones_planes, of_zeros, zeros_planes, costs, multiples)
        chosen = rows_of_word(side.ones.shape[0], w) & (above | (equal & favoured))
        n_ones += total(of_ones, ones_planes, chosen)
        n_zeros += total(of_zeros, zeros_planes, chosen)
        rows[w] = chosen
    return n_ones, n_zeros
