"""Counts of known entries, on which the likelihood depends."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from thali.bits.words import Index


class Confusion(NamedTuple):
    """Numbers of known entries by prediction and datum; positive means predicted one."""

    tp: int  # covered ones
    fp: int  # covered zeros
    tn: int  # uncovered zeros
    fn: int  # uncovered ones


class Counts:
    """Numbers of known entries by class of row and column, prediction and datum (eq. 3).

    Entries with the same class of row and class of column share their error rates. If all rows are
    of one class and all columns are of one class, the total is all there is.
    """

    __slots__ = ("_table", "total")

    def __init__(self, total: Confusion, table: Index | None = None) -> None:
        self.total = total
        self._table = table

    def __repr__(self) -> str:
        return f"Counts({self.total})"

    @property
    def table(self) -> Index:
        """``(n_row_classes, n_column_classes, 4)``, the last axis as in :class:`Confusion`."""
        return np.array([[self.total]], np.int64) if self._table is None else self._table


class Totals(NamedTuple):
    """Sums over the data, computed once."""

    shape: tuple[int, ...]
    n_known: int
    n_ones: int
    most_ones: int  # largest number of ones in a row of the first mode

    def n_columns(self, mode: int) -> int:
        """Return the number of entries per row of a mode: the product of the other lengths."""
        product = 1
        for other, length in enumerate(self.shape):
            product *= 1 if other == mode else length
        return product

    def first_guess(self) -> tuple[float, float]:
        """Guess the rates of spurious and dropped ones, as if half of the entries were covered."""
        share = (self.n_ones + 1.0) / (self.n_known + 2.0)
        odds = log(share) - log1p(-share)
        return 1.0 / (1.0 + exp(0.7 - odds)), 1.0 / (1.0 + exp(1.5 + odds))

    def confusion(self, tp: int, fp: int) -> Confusion:
        """Return all four counts, given the covered ones and covered zeros."""
        return Confusion(tp, fp, self.n_known - self.n_ones - fp, self.n_ones - tp)
