# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""List all maximal rectangles of a table (its formal concepts), if they are not too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.optimize.covers.lines import bit_of, meets, switch_off, switch_on

if TYPE_CHECKING:
    from thali.bits.words import Index, Words

_ZERO = np.uint64(0)


@jit
def list_rectangles(rows: Words, columns: Words, limit: int) -> tuple[Words, Words, int]:
    """List the maximal rectangles with at least one row and one column.

    Every rectangle is found once, from one with more rows (the algorithm is known as close by
    one). Returns users, codes and their number, which is ``limit + 1`` if there are more.
    """
    n_columns = columns.shape[0]
    users = np.zeros((limit + 2, columns.shape[1]), np.uint64)
    codes = np.zeros((limit + 2, rows.shape[1]), np.uint64)
    next_column = np.zeros(limit + 2, np.int64)
    for r in range(rows.shape[0]):
        switch_on(users[0], r)
    _close(users[0], columns, np.int64(0), codes[0], codes[0])
    n, done = 1, 0
    while done < n:
        for j in range(next_column[done], n_columns):
            if bit_of(codes[done], j):
                continue
            if n == limit + 2:
                return users, codes, limit + 1
            for v in range(users.shape[1]):
                users[n, v] = users[done, v] & columns[j, v]
            if meets(users[n], users[n]) and _close(users[n], columns, j, codes[done], codes[n]):
                next_column[n] = j + 1
                n += 1
        done += 1
    if not meets(codes[0], codes[0]):  # no column has all rows
        n -= 1
        copy_line(users[n], users[0])
        copy_line(codes[n], codes[0])
    return users, codes, min(n, limit + 1)


@inner
def _close(users: Words, columns: Words, before: int, parent: Words, code: Words) -> bool:
    """Fill a code with the columns that all users may have.

    Stops and returns False if there is one before a given column that the parent does not have:
    the rectangle is then found from another parent.
    """
    for j in range(columns.shape[0]):
        is_common = True
        for v in range(users.shape[0]):
            if users[v] & ~columns[j, v] != _ZERO:
                is_common = False
                break
        if is_common and j < before and not bit_of(parent, j):
            return False
        if is_common:
            switch_on(code, j)
        else:
            switch_off(code, j)
    return True


@jit
def entries_of_rectangles(
    users: Words, codes: Words, row_of: Index, column_of: Index
) -> tuple[Index, Index]:
    """Return which entries every rectangle has: where its list begins, and the joined lists."""
    n_inside = 0
    for c in range(users.shape[0]):
        for e in range(row_of.shape[0]):
            n_inside += bit_of(users[c], row_of[e]) and bit_of(codes[c], column_of[e])
    starts = np.zeros(users.shape[0] + 1, np.int64)
    entries = np.empty(n_inside, np.int64)
    n_inside = 0
    for c in range(users.shape[0]):
        for e in range(row_of.shape[0]):
            if bit_of(users[c], row_of[e]) and bit_of(codes[c], column_of[e]):
                entries[n_inside] = e
                n_inside += 1
        starts[c + 1] = n_inside
    return starts, entries
