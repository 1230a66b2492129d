# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What the engine answers about data that are near, for compiled code that asks many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.bits.words import gather_bits
from thali.engines.cpu.column_gains import MOST_ROWS, gains_of_columns
from thali.engines.cpu.count_by_class import count_free_rows, fill_free_rows
from thali.engines.cpu.gain_by_class import gain_rows, list_parts, list_relevant
from thali.model.gains import plain_gains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.engines.cpu.arrays import Near, Side

_START = np.int64(0)  # a plain zero would be a type of its own
_MANY, _FEW_ROWS = 64, min(512, MOST_ROWS)
"""Numbers of columns from which on, and of rows up to which, it is faster to find gains row by
row. With 20,000 rows, that takes 2.6 times as long."""


@inner
def gains_near(
    first: int, n: int, side: Side, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    sets: Words,
) -> NDArray[np.float64]:  # fmt: skip
    """Return what ``n`` rows gain by covering their free entries in sets of columns.

    The columns of the codes are in the order of the side, those of the sets are not. Returns
    ``(n, n_sets)``.
    """
    ones, known, places, segments, of_rows, weights = side
    if places.shape[0]:
        parts = list_parts(gather_bits(sets, places), segments)
        some, kept = list_relevant(codes, users, is_counted, parts)
        gains = np.zeros((n, sets.shape[0]))
        gain_rows(_START, n, first, ones, known, some, kept, parts, of_rows, weights, gains)
        return gains
    counts = np.empty((n, sets.shape[0], 2), np.int64)
    count_free_rows(_START, n, first, ones, known, codes, users, is_counted, sets, counts)
    return plain_gains(counts, weights[0, 0, 0], weights[0, 0, 1])


@inner
def gains_across(near: Near, line: Words) -> NDArray[np.float64]:
    """Return what all columns gain by covering their free entries in one set of rows.

    ``near`` is the result of :func:`uncovered`. Returns ``(n_columns, 1)``.
    """
    data, rows, columns = near
    n_columns = data[2]
    nothing, nobody = np.empty((0, rows[0].shape[1]), np.uint64), np.empty(0, np.bool_)
    no_users = line[:0]
    if goes_by_rows(n_columns, near):
        one, zero = columns[5][0, 0, 0], columns[5][0, 0, 1]
        gains = gains_of_columns(data, nothing, no_users, nobody, line, one, zero)
        return gains.reshape((n_columns, 1))
    return gains_near(_START, n_columns, columns, no_users, nothing, nobody, line)


@inner
def goes_by_rows(n: int, near: Near) -> bool:
    """Return whether gains of ``n`` columns are found row by row."""
    data, _, columns = near
    return columns[2].shape[0] == 0 and n >= _MANY and data[0].shape[0] <= _FEW_ROWS


@inner
def uncovered(
    near: Near, by_column: Words, by_row: Words, users: Words, codes: Words,
    is_counted: NDArray[np.bool_],
) -> Near:  # fmt: skip
    """Return data of which only the free entries are known; no component covers any of them.

    Whoever asks for several sets, or for all columns, finds the free entries only once. Codes and
    users are also given in the orders of :func:`gains_near`.
    """
    (ones, _, n_columns), rows, columns = near
    is_by_rows = goes_by_rows(n_columns, near)
    sides = (
        _uncovered(rows, by_column, users, is_counted, rows[0].shape[0]),
        _uncovered(columns, by_row, codes, is_counted, 0 if is_by_rows else n_columns),
    )
    free = sides[0][1]  # whoever goes by rows has them in their own order
    return (ones, free, n_columns), sides[0], sides[1]


@inner
def _uncovered(
    side: Side, codes: Words, users: Words, is_counted: NDArray[np.bool_], n: int
) -> Side:
    """Return a side of whose first ``n`` lines only the free entries are known."""
    ones, known, places, segments, of_rows, weights = side
    free = np.empty(ones.shape, np.uint64)
    fill_free_rows(_START, n, known, codes, users, is_counted, free)
    return ones, free, places, segments, of_rows, weights
