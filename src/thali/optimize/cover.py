# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What components cover, kept up to date while one component after another changes.

Everything is kept twice, packed along the columns and packed along the rows, so that both sides
of a component are fitted by the same code. A side holds, for each of its rows, which entries one
component covers and which are covered by two or more: if a component leaves a row, only the
entries that were covered more than once must be counted again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thali._jit import inlined, jit, lean
from thali.bits.words import Words, copy_line, lowest, popcount

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class Side(NamedTuple):
    """The rows (or the columns) of the data, what covers them, and who has which component."""

    ones: Words  # (n_rows, width)
    zeros: Words  # known zeros; unknown entries are neither
    once: Words  # entries that at least one component covers
    twice: Words  # entries that at least two cover
    lines: Words  # (n_components, words of rows): rows of every component
    has: Words  # (n_rows, words of components): components of every row


@lean
def has_bit(words: Words, i: int) -> bool:
    """Return whether a bit of a line is on."""
    return (words[i >> 6] >> np.uint64(i & 63)) & _ONE != _ZERO


@lean
def is_empty(line: Words) -> bool:
    """Return whether no bit of a line is on."""
    for w in range(line.shape[0]):  # noqa: SIM110 - compiled
        if line[w] != _ZERO:
            return False
    return True


@lean
def are_equal(first: Words, second: Words) -> bool:
    """Return whether two lines are the same."""
    for w in range(first.shape[0]):  # noqa: SIM110 - compiled
        if first[w] != second[w]:
            return False
    return True


@lean
def meet(first: Words, second: Words) -> bool:
    """Return whether two lines share a bit."""
    for w in range(first.shape[0]):  # noqa: SIM110 - compiled
        if first[w] & second[w] != _ZERO:
            return True
    return False


@lean
def cover_more(side: Side, row: int, code: Words) -> None:
    """Add a code to what is covered in a row."""
    for w in range(code.shape[0]):
        side.twice[row, w] |= side.once[row, w] & code[w]
        side.once[row, w] |= code[w]


@lean
def cover_again(side: Side, row: int, codes: Words) -> None:
    """Count from nothing what the components of a row cover."""
    for w in range(codes.shape[1]):
        side.once[row, w] = _ZERO
        side.twice[row, w] = _ZERO
    for w in range(side.has.shape[1]):
        left = side.has[row, w]
        while left != _ZERO:
            cover_more(side, row, codes[w * 64 + lowest(left)])
            left &= left - _ONE


@jit
def cover_all(side: Side, codes: Words) -> None:
    """Count from nothing what is covered in every row, given the rows of every component."""
    for row in range(side.has.shape[0]):
        for w in range(side.has.shape[1]):
            side.has[row, w] = _ZERO
        for component in range(codes.shape[0]):
            if has_bit(side.lines[component], row):
                side.has[row, component >> 6] |= _ONE << np.uint64(component & 63)
        cover_again(side, row, codes)


@lean
def count_wrong(side: Side) -> tuple[int, int]:
    """Count the zeros that are covered and the ones that are not."""
    inside, outside = _ZERO, _ZERO
    for row in range(side.ones.shape[0]):
        for w in range(side.ones.shape[1]):
            inside += popcount(side.zeros[row, w] & side.once[row, w])
            outside += popcount(side.ones[row, w] & ~side.once[row, w])
    return np.int64(inside), np.int64(outside)


@lean
def count_own(side: Side, rows: Words, code: Words) -> tuple[int, int]:
    """Count the ones and zeros that a component alone covers."""
    ones, zeros = _ZERO, _ZERO
    for word in range(rows.shape[0]):
        left = rows[word]
        while left != _ZERO:
            row = word * 64 + lowest(left)
            left &= left - _ONE
            for w in range(code.shape[0]):
                own = code[w] & ~side.twice[row, w]
                ones += popcount(own & side.ones[row, w])
                zeros += popcount(own & side.zeros[row, w])
    return np.int64(ones), np.int64(zeros)


@lean
def swap_lines(
    side: Side, codes: Words, component: int, old: Words, old_code: Words, code: Words
) -> None:
    """Bring a side up to date after a component has changed.

    ``side.lines`` and ``codes`` hold the component as it is now, ``old`` and ``old_code`` what it
    was before.
    """
    is_same = are_equal(old_code, code)
    bit, place = _ONE << np.uint64(component & 63), component >> 6
    now = side.lines[component]
    for word in range(old.shape[0]):
        left = old[word] ^ now[word] if is_same else old[word] | now[word]
        while left != _ZERO:
            row = word * 64 + lowest(left)
            left &= left - _ONE
            if has_bit(old, row):
                side.has[row, place] &= ~bit
                if meet(side.twice[row], old_code):
                    cover_again(side, row, codes)
                else:
                    for w in range(code.shape[0]):
                        side.once[row, w] &= ~old_code[w]
            if has_bit(now, row):
                cover_more(side, row, code)
                side.has[row, place] |= bit


SPARE = 8
"""Number of spare lines: for whatever needs some, and for the lines that have changed."""

_CHANGED = 6


@inlined
def changed_lines(sides: tuple[Side, Side], spare: Words) -> tuple[Words, Words]:
    """Return the rows, and the columns, whose cover has changed since they were last cleared."""
    rows = spare[_CHANGED, : sides[0].lines.shape[1]]
    columns = spare[_CHANGED + 1, : sides[1].lines.shape[1]]
    return rows, columns


@lean
def clear_changed(spare: Words) -> None:
    """Forget which lines have changed."""
    for w in range(spare.shape[1]):
        spare[_CHANGED, w] = spare[_CHANGED + 1, w] = _ZERO


@lean
def replace(
    sides: tuple[Side, Side], component: int, rows: Words, code: Words, spare: Words
) -> None:
    """Replace a component on both sides, and note the lines whose cover changes."""
    first, second = sides
    old_rows, old_code = spare[0, : rows.shape[0]], spare[1, : code.shape[0]]
    changed_rows, changed_columns = changed_lines(sides, spare)
    copy_line(first.lines[component], old_rows)
    copy_line(second.lines[component], old_code)
    copy_line(rows, first.lines[component])
    copy_line(code, second.lines[component])
    for w in range(rows.shape[0]):
        changed_rows[w] |= old_rows[w] | rows[w]
    for w in range(code.shape[0]):
        changed_columns[w] |= old_code[w] | code[w]
    swap_lines(first, second.lines, component, old_rows, old_code, code)
    swap_lines(second, first.lines, component, old_code, old_rows, rows)


@lean
def copy_side(side: Side, to: Side) -> None:
    """Copy all that a search changes."""
    for row in range(side.once.shape[0]):
        copy_row(side, row, to)
    for component in range(side.lines.shape[0]):
        copy_line(side.lines[component], to.lines[component])


@lean
def copy_rows(side: Side, rows: Words, to: Side) -> None:
    """Copy what covers some rows, and all components."""
    for word in range(rows.shape[0]):
        left = rows[word]
        while left != _ZERO:
            copy_row(side, word * 64 + lowest(left), to)
            left &= left - _ONE
    for component in range(side.lines.shape[0]):
        copy_line(side.lines[component], to.lines[component])


@lean
def copy_row(side: Side, row: int, to: Side) -> None:
    """Copy what covers a row."""
    copy_line(side.once[row], to.once[row])
    copy_line(side.twice[row], to.twice[row])
    copy_line(side.has[row], to.has[row])
