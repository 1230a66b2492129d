# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Fit one component to what the others leave uncovered.

Rows and columns take turns: each takes the best value given the other (:mod:`.join`), until
nothing is gained.
"""

from __future__ import annotations

import numpy as np

from thali._jit import lean
from thali.bits.words import Words, copy_line, lowest, popcount
from thali.optimize.cover import Side, are_equal, count_own, replace
from thali.optimize.join import Tools, below, draw, join

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_FIRST = np.int64(0)


@lean
def alternate(
    sides: tuple[Side, Side],
    own: Words,
    old: Words,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    rows: Words,
    code: Words,
) -> tuple[int, int]:
    """Fit rows and columns in turn, from the columns in ``code``; both are filled.

    ``own`` and ``old`` are the rows and columns that the component has now, whose cover does not
    count. Returns the ones and zeros that only the fitted component covers.
    """
    before = -1.0
    last = tools.last[: code.shape[0]]
    while True:
        copy_line(code, last)
        join(sides[0], sides[1], own, old, code, ties, costs, tools, rows)
        ones, zeros = join(sides[1], sides[0], old, own, rows, ties, costs, tools, code)
        value = costs[1] * ones - costs[0] * zeros
        if value <= before or are_equal(code, last):
            return ones, zeros
        before = value


@lean
def refit(
    sides: tuple[Side, Side],
    component: int,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    spare: Words,
    wrong: Words,
) -> bool:
    """Fit a component again, given all others; return whether it has changed."""
    own, old = sides[0].lines[component], sides[1].lines[component]
    rows, code = spare[2, : own.shape[0]], spare[3, : old.shape[0]]
    copy_line(old, code)
    ones, zeros = alternate(sides, own, old, ties, costs, tools, rows, code)
    if are_equal(rows, own) and are_equal(code, old):
        return False
    n_ones, n_zeros = count_own(sides[0], own, old)
    replace(sides, component, rows, code, spare)
    wrong[0] += zeros - n_zeros
    wrong[1] -= ones - n_ones
    return True


@lean
def uncovered_one(side: Side, n: int, random: Words) -> tuple[int, int]:
    """Return the row and the column of a random one that nothing covers, given how many are."""
    place = below(random, n)
    for row in range(side.ones.shape[0]):
        for w in range(side.ones.shape[1]):
            free = side.ones[row, w] & ~side.once[row, w]
            here = np.int64(popcount(free))
            if place < here:
                return row, w * 64 + nth_bit(free, place)
            place -= here
    return np.int64(-1), np.int64(-1)  # there is none


@lean
def nth_bit(word: np.uint64, n: int) -> int:
    """Return the position of the n-th bit of a word that is on, counted from 0."""
    for _ in range(n):
        word &= word - _ONE
    return lowest(word)


@lean
def free_ones(side: Side, row: int, code: Words) -> None:
    """Fill a code with the ones of a row that nothing covers."""
    for w in range(code.shape[0]):
        code[w] = side.ones[row, w] & ~side.once[row, w]


@lean
def begin(side: Side, across: Side, row: int, column: int, random: Words, code: Words) -> None:
    """Fill a code to grow a component from: uncovered ones of a row, or what it shares.

    The entry at the given row and column is an uncovered one. Other rows with an uncovered one in
    that column are intersected with the row, one after another, as coins decide.
    """
    free_ones(side, row, code)
    while draw(random) < 0.5:
        n = _ZERO
        for w in range(across.ones.shape[1]):
            n += popcount(across.ones[column, w] & ~across.once[column, w])
        place = below(random, np.int64(n))
        for w in range(across.ones.shape[1]):
            free = across.ones[column, w] & ~across.once[column, w]
            here = np.int64(popcount(free))
            if place < here:
                other = w * 64 + nth_bit(free, place)
                for v in range(code.shape[0]):
                    code[v] &= side.ones[other, v] & ~side.once[other, v]
                break
            place -= here


@lean
def grow(
    sides: tuple[Side, Side],
    component: int,
    n_starts: int,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    spare: Words,
    wrong: Words,
) -> None:
    """Give an empty component the best of some fits to what is uncovered, from random starts."""
    own, old = sides[0].lines[component], sides[1].lines[component]
    rows, code = spare[2, : own.shape[0]], spare[3, : old.shape[0]]
    best_rows, best_code = spare[4, : own.shape[0]], spare[5, : old.shape[0]]
    best, best_ones, best_zeros = 0.0, _FIRST, _FIRST
    for _ in range(n_starts):
        row, column = uncovered_one(sides[0], wrong[1], tools.random)
        if row < 0:
            return
        if draw(tools.random) < 0.5:
            begin(sides[0], sides[1], row, column, tools.random, code)
            ones, zeros = alternate(sides, own, old, ties, costs, tools, rows, code)
        else:
            begin(sides[1], sides[0], column, row, tools.random, rows)
            turned = (sides[1], sides[0])
            ones, zeros = alternate(turned, old, own, ties, costs, tools, code, rows)
        value = costs[1] * ones - costs[0] * zeros
        if value > best:
            best, best_ones, best_zeros = value, ones, zeros
            copy_line(rows, best_rows)
            copy_line(code, best_code)
    if best > 0.0:
        replace(sides, component, best_rows, best_code, spare)
        wrong[0] += best_zeros
        wrong[1] -= best_ones


@lean
def drop(sides: tuple[Side, Side], component: int, spare: Words, wrong: Words) -> None:
    """Empty a component."""
    rows, code = sides[0].lines[component], sides[1].lines[component]
    ones, zeros = count_own(sides[0], rows, code)
    nothing, none = spare[2, : rows.shape[0]], spare[3, : code.shape[0]]
    for w in range(nothing.shape[0]):
        nothing[w] = _ZERO
    for w in range(none.shape[0]):
        none[w] = _ZERO
    replace(sides, component, nothing, none, spare)
    wrong[0] -= zeros
    wrong[1] += ones
