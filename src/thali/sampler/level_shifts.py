# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Shifts of all rows against columns and offset that leave all log odds as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.level_weights import pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@inner
def _count_levels(levels: Index, n: int) -> tuple[Index, int, int]:
    """Return how many lines have each level, the lowest level that occurs, and the highest."""
    numbers = np.zeros(n, np.int64)
    low, high = n, -1
    for level in levels:
        numbers[level] += 1
        low, high = min(low, level), max(high, level)
    return numbers, low, high


@inner
def _log_prior_of(
    numbers: Index, low: int, high: int, log_prior: NDArray[np.float64], shift: int
) -> float:
    """Return the log prior of all lines after a shift."""
    total = 0.0
    for level in range(low, high + 1):
        if numbers[level]:
            total += numbers[level] * log_prior[level + shift]
    return total


@jit
def draw_shift(
    rows: Index, columns: Index, of_rows: NDArray[np.float64], of_columns: NDArray[np.float64],
    column_mean: int, column_spread: int, offset: int, n_offsets: int, per_column: int,
    per_row: int, u: float,
) -> tuple[int, int, int]:  # fmt: skip
    """Draw by how many steps rows go down, and columns and the offset up.

    Parameters
    ----------
    rows, columns
        The levels.
    of_rows, of_columns
        Log priors: of the levels of rows, and of those of columns by mean and spread. The mean
        shifts with the columns.
    per_column, per_row
        Steps of rows in a step of columns, and steps of the offset in a step of rows; 0 if that is
        no whole number, and the offset then stays.
    """
    n_rows, n_columns = of_rows.shape[0], of_columns.shape[2]
    row_numbers, lowest, highest = _count_levels(rows, n_rows)
    column_numbers, low, high = _count_levels(columns, n_columns)
    before = after = 0
    if per_row:
        before, after = offset // per_row, (n_offsets - 1 - offset) // per_row
    first, end = -min(low, column_mean), n_columns - max(high, column_mean)
    shifts = np.empty(((end - first) * (before + after + 1), 3), np.int64)
    weights = np.empty(shifts.shape[0])
    n = 0
    for up in range(first, end):
        of_up = of_columns[column_mean + up, column_spread]
        of_these = _log_prior_of(column_numbers, low, high, of_up, up)
        for aside in range(-before, after + 1):
            down = up * per_column + aside
            if highest - n_rows < down <= lowest:
                of_those = _log_prior_of(row_numbers, lowest, highest, of_rows, -down)
                shifts[n, 0], shifts[n, 1], shifts[n, 2] = down, up, aside * per_row
                weights[n] = of_those + of_these
                n += 1
    chosen = shifts[pick(weights[:n], u)]
    return chosen[0], chosen[1], chosen[2]
