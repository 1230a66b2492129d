"""The gain in log-likelihood by covering an entry, by class of row and class of column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.decide import SCALE, fixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


class Weights(NamedTuple):
    """The gain in log-likelihood by covering an entry (eq. 4).

    Entries with the same class of row and class of column share their error rates. If a row has
    single-row components that are integrated out, covering an entry gains less: the more such
    components, the smaller the gain.
    """

    table: NDArray[Any]
    """``(n_row_classes, n_column_classes, n_integrated + 1, 2)``: weights of a one and of a zero,
    as real numbers or as the integers of :mod:`thali.decide`."""

    rows: Index | None = None
    """Class of every row; None if all rows are of one class."""

    columns: Index | None = None
    """Class of every column; None if all columns are of one class."""

    others: tuple[Weights, ...] = ()
    """If a tensor has classes: the same with the lines of every other mode as rows."""

    def fixed(self) -> Weights:
        """Return the weights as the integers that engines use."""
        others = tuple(weights.fixed() for weights in self.others)
        return self._replace(table=fixed(self.table), others=others)

    def rounded(self) -> Weights:
        """Return the weights as real numbers, rounded as engines use them."""
        others = tuple(weights.rounded() for weights in self.others)
        return self._replace(table=fixed(self.table) / SCALE, others=others)

    @property
    def has_classes(self) -> bool:
        """Whether rows or columns are of different classes."""
        return self.rows is not None or self.columns is not None

    def of_mode(self, mode: int) -> Weights:
        """Return the weights with the lines of a mode as rows."""
        if mode == 0 or not self.has_classes:
            return self
        if self.others:
            return self.others[mode - 1]
        table = np.ascontiguousarray(self.table.swapaxes(0, 1))
        return Weights(table, self.columns, self.rows)

    def of_one_class(self) -> NDArray[Any]:
        """Return the weights, ``(n_integrated + 1, 2)``, if there is one class of each."""
        if self.table.shape[:2] != (1, 1):
            msg = (
                f"weights of {self.table.shape[0]} classes of rows and {self.table.shape[1]} of "
                "columns were given; this computation is for one class of each."
            )
            raise NotImplementedError(msg)
        weights: NDArray[Any] = self.table[0, 0]
        return weights

    def pair(self) -> tuple[float, float]:
        """Return the weights of a one and a zero if all rows and columns are of one class."""
        one, zero = self.of_one_class()[0].tolist()
        return one, zero
