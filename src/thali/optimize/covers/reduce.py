# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Drop entries that are covered whenever another entry is, and tell independent parts apart.

An entry is dominated by another if it fits together with all entries that the other fits together
with: it can then join the component of the other, whatever that is. What is left when no entry is
dominated is often very small. An entry that fits together with no other one needs a component of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import WORD, copy_line, lowest, place_of, popcount
from thali.optimize.covers.lines import bit_of, meets, narrow, switch_off, switch_on

if TYPE_CHECKING:
    from thali.bits.words import Index, Words

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@jit
def drop_contained(
    lo: int, hi: int, lines: Words, across: Words, is_by_row: bool, column_of: Index,
    starts: Index, required: Words, host: Index,
) -> None:  # fmt: skip
    """Drop what is dominated because one row contains another, or one column another.

    This is the cheap case: an entry dominates the entries of the same column in all rows that
    contain its row.

    Parameters
    ----------
    lo, hi
        Range of the contained lines.
    lines, across, is_by_row
        Rows and columns of the table; or columns and rows, if ``is_by_row`` is False.
    column_of, starts, host
        As for :func:`drop_dominated`.
    required
        Packed lines of the entries that are left; changed in place.
    """
    sizes = np.zeros(across.shape[0], np.int64)
    for k in range(across.shape[0]):
        for v in range(across.shape[1]):
            sizes[k] += np.int64(popcount(across[k, v]))
    for i in range(lo, hi):
        if not meets(required[i], lines[i]):
            continue
        rarest = _rarest(lines[i], sizes)
        for v in range(across.shape[1]):
            others = across[rarest, v]
            while others != _ZERO:
                r = v * WORD + lowest(others)
                others &= others - _ONE
                if r != i and _contains(lines[r], lines[i]):
                    _move(i, r, is_by_row, column_of, starts, required, host)


@inner
def _rarest(line: Words, sizes: Index) -> int:
    """Return the position of a line that the fewest lines have: all that contain it have it."""
    best = -1
    for w in range(line.shape[0]):
        left = line[w]
        while left != _ZERO:
            k = w * WORD + lowest(left)
            left &= left - _ONE
            if best < 0 or sizes[k] < sizes[best]:
                best = k
    return best


@inner
def _contains(line: Words, other: Words) -> bool:
    w = 0
    while w < line.shape[0] and other[w] & ~line[w] == _ZERO:
        w += 1
    return w == line.shape[0]


@inner
def _move(
    i: int, r: int, is_by_row: bool, column_of: Index, starts: Index, required: Words, host: Index
) -> None:
    """Let the entries of line r join those of line i in the same positions."""
    for w in range(required.shape[1]):
        left = required[r, w] & required[i, w]
        required[r, w] &= ~left
        while left != _ZERO:
            k = w * WORD + lowest(left)
            left &= left - _ONE
            if is_by_row:
                f, e = _number_of(r, k, column_of, starts), _number_of(i, k, column_of, starts)
            else:
                f, e = _number_of(k, r, column_of, starts), _number_of(k, i, column_of, starts)
            host[f] = e


@inner
def _is_alone(words: Words, position: int) -> bool:
    """Return whether no other bit of a line is on."""
    for w in range(words.shape[0]):
        own = _ONE << np.uint64(position & 63) if w == position >> 6 else _ZERO
        if words[w] & ~own != _ZERO:
            return False
    return True


@inner
def _find_dominated(
    rows: Words, columns: Words, required: Words, i: int, j: int, users: Words, code: Words,
    seen: Words,
) -> bool:  # fmt: skip
    """Find the rectangle of the entries that entry (i, j) dominates; False if it is alone in it.

    Entry (r, c) fits together with all that (i, j) fits together with if row r may have all
    columns of those, and column c all rows. Both sets shrink as those are visited.
    """
    copy_line(columns[j], users)
    copy_line(rows[i], code)
    for w in range(seen.shape[0]):
        seen[w] = _ZERO
    for v in range(columns.shape[1]):
        left = columns[j, v]
        while left != _ZERO:
            r = v * WORD + lowest(left)
            left &= left - _ONE
            if _see_row(required[r], rows[i], columns, users, i, seen):
                narrow(code, rows[r])
                if _is_alone(code, j) and _is_alone(users, i):
                    return False
    return True


@inner
def _see_row(
    required: Words, row: Words, columns: Words, users: Words, i: int, seen: Words
) -> bool:
    """Keep the users that may have all fitting entries of a row; False if it has none.

    Columns that were seen before are skipped, and all of them if only user i is left.
    """
    is_fitting = False
    for w in range(seen.shape[0]):
        fitting = required[w] & row[w]
        is_fitting = is_fitting or fitting != _ZERO
        left = fitting & ~seen[w]
        seen[w] |= fitting
        while left != _ZERO and not _is_alone(users, i):
            narrow(users, columns[w * WORD + lowest(left)])
            left &= left - _ONE
    return is_fitting


@inner
def _is_concerned(row: Words, column: Words, changed: tuple[Words, Words]) -> bool:
    """Return whether the entry of a row and a column fits together with a dropped one."""
    for v in range(column.shape[0]):
        left = column[v] & changed[0][v]
        while left != _ZERO:
            if meets(changed[1][v * WORD + lowest(left)], row):
                return True
            left &= left - _ONE
    return False


@jit
def drop_dominated(
    entries: Index, rows: Words, columns: Words, row_of: Index, column_of: Index, starts: Index,
    required: Words, host: Index, changed: tuple[Words, Words], dropped: tuple[Words, Words],
) -> None:  # fmt: skip
    """Drop what some entries dominate.

    Parameters
    ----------
    entries
        Numbers of the entries to look at, in this order.
    rows, columns, row_of, column_of, starts
        The table (:class:`thali.optimize.covers.table.Table`).
    required
        Packed rows of the entries that are left; changed in place.
    host
        For every entry, the entry whose component it joins; itself while it is left.
    changed
        A line of rows and packed rows: where entries have been dropped since the entries were last
        looked at. Those that did not fit together with any of them are not looked at again.
    dropped
        The same, to which what is dropped now is added.
    """
    users, code = np.empty(columns.shape[1], np.uint64), np.empty(rows.shape[1], np.uint64)
    seen = np.empty_like(code)
    for e in entries:
        i, j = row_of[e], column_of[e]
        if host[e] != e or not _is_concerned(rows[i], columns[j], changed):
            continue
        if not _find_dominated(rows, columns, required, i, j, users, code, seen):
            continue
        for v in range(users.shape[0]):
            left_rows = users[v]
            while left_rows != _ZERO:
                r = v * WORD + lowest(left_rows)
                left_rows &= left_rows - _ONE
                for w in range(code.shape[0]):
                    left = required[r, w] & code[w]
                    if r == i and w == j >> 6:
                        left &= ~(_ONE << np.uint64(j & 63))
                    if left == _ZERO:
                        continue
                    required[r, w] &= ~left
                    switch_on(dropped[0], r)
                    dropped[1][r, w] |= left
                    while left != _ZERO:
                        host[_number_of(r, w * WORD + lowest(left), column_of, starts)] = e
                        left &= left - _ONE


@jit
def label_parts(
    rows: Words, columns: Words, row_of: Index, column_of: Index, starts: Index, required: Words
) -> Index:
    """Return the number of the connected part of the graph that every entry is in.

    ``required`` has the entries to look at, and is emptied; other entries get -1.
    """
    parts = np.full(row_of.shape[0], -1)
    waiting = np.empty(row_of.shape[0], np.int64)
    unseen = np.zeros(columns.shape[1], np.uint64)  # rows with entries that have no part yet
    for r in range(rows.shape[0]):
        if meets(required[r], rows[r]):
            switch_on(unseen, r)
    n_parts = 0
    for first in range(row_of.shape[0]):
        if parts[first] >= 0 or not bit_of(required[row_of[first]], column_of[first]):
            continue
        waiting[0] = first  # its neighbours include itself
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            i, j = row_of[waiting[n_waiting]], column_of[waiting[n_waiting]]
            for v in range(unseen.shape[0]):
                left = unseen[v] & columns[j, v]
                while left != _ZERO:
                    r = v * WORD + lowest(left)
                    left &= left - _ONE
                    end = _take_row(r, rows[i], required, column_of, starts, waiting, n_waiting)
                    for k in range(n_waiting, end):
                        parts[waiting[k]] = n_parts
                    n_waiting = end
                    if not meets(required[r], rows[r]):
                        switch_off(unseen, r)
        n_parts += 1
    return parts


@inner
def _take_row(
    r: int, row: Words, required: Words, column_of: Index, starts: Index, taken: Index, n: int
) -> int:
    """Move the entries of row r that fit to the end of a list of ``n``; return its new length."""
    for w in range(row.shape[0]):
        left = required[r, w] & row[w]
        required[r, w] &= ~left
        while left != _ZERO:
            taken[n] = _number_of(r, w * WORD + lowest(left), column_of, starts)
            left &= left - _ONE
            n += 1
    return n


@inner
def _number_of(r: int, c: int, column_of: Index, starts: Index) -> int:
    """Return the number of the entry in a row and a column."""
    return starts[r] + place_of(column_of[starts[r] : starts[r + 1]], c)
