# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Classes of lines: which values occur, and the number of every line's value among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from thali.bits import Index


def ranks(values: Index) -> tuple[Index, Index]:
    """Return the values that occur, all small integers, and the number of each among them.

    ``np.unique`` does the same by sorting, which takes longer than a sweep if there are a million.
    """
    return rank_values(np.asarray(values, np.int64))


@jit
def rank_values(values: Index) -> tuple[Index, Index]:
    """Do the work of :func:`ranks`."""
    n_values = 0
    for value in values:
        n_values = max(n_values, value + 1)
    numbers = np.zeros(n_values, np.int64)
    for value in values:
        numbers[value] = 1
    occurring = np.empty(n_values, np.int64)
    n = 0
    for value in range(n_values):
        if numbers[value]:
            occurring[n] = value
            numbers[value] = n
            n += 1
    of_lines = np.empty(values.shape[0], np.int64)
    for i in range(values.shape[0]):
        of_lines[i] = numbers[values[i]]
    return occurring[:n].copy(), of_lines
