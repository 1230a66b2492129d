"""Counts of known entries: what the likelihood knows of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from thali.bits.words import Index


class Confusion(NamedTuple):
    """Known entries by prediction and datum: positive means predicted one."""

    tp: int
    fp: int
    tn: int
    fn: int


class Counts:
    """Known entries by class of their row, class of their column, prediction and datum (eq. 3).

    Entries of one pair of classes share their error rates. Today every row and every column is of
    the same class, so that the total says it all.
    """

    __slots__ = ("total",)

    def __init__(self, total: Confusion) -> None:
        self.total = total

    @property
    def table(self) -> Index:
        """``(n_row_classes, n_column_classes, 4)``, the last as in :class:`Confusion`."""
        return np.array([[self.total]], np.int64)


class Totals(NamedTuple):
    """What is known of the data without looking at them again."""

    shape: tuple[int, ...]
    n_known: int
    n_ones: int
    most_ones: int  # of any row of the first mode

    def n_columns(self, mode: int) -> int:
        """Return how many entries a row of a mode has: the product of the other modes' lengths."""
        product = 1
        for other, length in enumerate(self.shape):
            product *= 1 if other == mode else length
        return product

    def confusion(self, tp: int, fp: int) -> Confusion:
        """Complete the counts of covered ones and covered zeros."""
        return Confusion(tp, fp, self.n_known - self.n_ones - fp, self.n_ones - tp)
