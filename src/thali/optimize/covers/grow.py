# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Grow a maximal rectangle around an entry, towards entries that no other component covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.bits.words import WORD, lowest, popcount
from thali.optimize.covers.lines import below, bit_of, list_entries, narrow, switch_on

if TYPE_CHECKING:
    from typing import Any

    from thali.bits.words import Index, Words
    from thali.optimize.covers.lines import Random

_TRIES = 5
"""Number of candidates of which the best one joins the rectangle."""
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inner
def grow(
    seed: int, graph: Any, packed: Any, counts: Index, weights: Index, uncovered: Index,
    n_uncovered: int, lines: Any, candidates: Index, random: Random,
) -> int:  # fmt: skip
    """Grow a rectangle around an entry; return how many entries were visited.

    It first takes in as much weight of uncovered entries as it can, and then of entries that one
    component covers: this makes it easier to do without that component.

    Parameters
    ----------
    graph
        ``rows, columns, row_of, column_of`` of the table.
    packed
        The entries as packed rows, and the number of the first entry of every word.
    counts, weights
        For every entry, how many components cover it, and what it is worth.
    uncovered, n_uncovered
        List of the entries that no component covers.
    lines
        Four lines of words. The first two are filled with users and code of the rectangle; the
        others are its rows and columns that are certain while it grows.
    candidates
        Room for a list of entries.
    """
    rows, columns, row_of, column_of = graph
    users, code, sure_users, sure_code = lines
    for v in range(users.shape[0]):
        users[v] = columns[column_of[seed], v]
        sure_users[v] = _ZERO
    for w in range(code.shape[0]):
        code[w] = rows[row_of[seed], w]
        sure_code[w] = _ZERO
    switch_on(sure_users, row_of[seed])
    switch_on(sure_code, column_of[seed])
    # List what is uncovered, or what is inside, whichever is less to look at.
    n_words_inside = 0
    for v in range(users.shape[0]):
        n_words_inside += np.int64(popcount(users[v])) * code.shape[0]
    if n_words_inside < n_uncovered:
        n = _list_covered(0, counts, users, code, packed, candidates)
    else:
        n = n_uncovered
        for k in range(n):
            candidates[k] = uncovered[k]
    work = _extend(candidates, n, graph, weights, lines, random)
    n = _list_covered(1, counts, users, code, packed, candidates)
    work += _extend(candidates, n, graph, weights, lines, random)
    # Rows and columns that are possible one by one need not be so together: take either all.
    if below(random, 2) == 0:
        _close(users, sure_users, code, rows)
    else:
        _close(code, sure_code, users, columns)
    return work


@inner
def _list_covered(
    times: int, counts: Index, users: Words, code: Words, packed: Any, out: Index
) -> int:
    """List the entries inside that are covered so many times; return how many there are."""
    n = 0
    for k in range(list_entries(users, code, packed[0], packed[1], out)):
        if counts[out[k]] == times:
            out[n] = out[k]
            n += 1
    return n


@inner
def _extend(
    candidates: Index, n: int, graph: Any, weights: Index, lines: Any, random: Random
) -> int:
    """Let candidates join one by one, as long as any can; return how many entries were visited."""
    rows, columns, row_of, column_of = graph
    users, code, sure_users, sure_code = lines
    work = 0
    while True:
        work += n
        n_left = 0
        for k in range(n):
            i, j = row_of[candidates[k]], column_of[candidates[k]]
            is_possible = bit_of(users, i) and bit_of(code, j)
            if is_possible and not (bit_of(sure_users, i) and bit_of(sure_code, j)):
                candidates[n_left] = candidates[k]
                n_left += 1
        n = n_left
        if n == 0:
            return work
        best, chosen = -1, candidates[0]
        for k in range(min(n, _TRIES)):
            e = candidates[k if n <= _TRIES else below(random, n)]
            i, j = row_of[e], column_of[e]
            total = 0
            work += n
            for m in range(n):
                f = candidates[m]
                if bit_of(rows[i], column_of[f]) and bit_of(columns[j], row_of[f]):
                    total += weights[f]
            if total > best:
                best, chosen = total, e
        narrow(users, columns[column_of[chosen]])
        narrow(code, rows[row_of[chosen]])
        switch_on(sure_users, row_of[chosen])
        switch_on(sure_code, column_of[chosen])


@inner
def _close(line: Words, sure: Words, other: Words, lines_of: Words) -> None:
    """Keep the possible lines of the other mode; of this mode, those that have all of them.

    ``lines_of`` has a line of the other mode's bits for every bit of this mode.
    """
    for v in range(line.shape[0]):
        left = line[v] & ~sure[v]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            position = v * WORD + lowest(left)
            left ^= bit
            for w in range(other.shape[0]):
                if other[w] & ~lines_of[position, w] != _ZERO:
                    line[v] ^= bit
                    break
