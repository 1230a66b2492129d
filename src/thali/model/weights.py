"""What it gains to cover an entry, by class of its row and class of its column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from thali.decide import SCALE, fixed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Weights(NamedTuple):
    """Log-likelihood gained by covering an entry (eq. 4).

    Entries of one pair of classes share their error rates; today every row and every column is of
    the same class. A row may have single-row components that are integrated out: covering an
    entry then gains less, the less the more there are.
    """

    table: NDArray[Any]
    """``(n_row_classes, n_column_classes, n_integrated + 1, 2)``: of a one and of a zero; real
    numbers, or the integers of :mod:`thali.decide`."""

    def fixed(self) -> Weights:
        """Return the weights in the integers that engines decide with."""
        return Weights(fixed(self.table))

    def rounded(self) -> Weights:
        """Return the weights as real numbers that are what engines decide with."""
        return Weights(fixed(self.table) / SCALE)

    def of_one_class(self) -> NDArray[Any]:
        """Return the weights, ``(n_integrated + 1, 2)``, where all rows and columns are alike."""
        if self.table.shape[:2] != (1, 1):
            msg = (
                f"weights of {self.table.shape[0]} classes of rows and {self.table.shape[1]} of "
                "columns were given; this computation is for one class of each."
            )
            raise NotImplementedError(msg)
        weights: NDArray[Any] = self.table[0, 0]
        return weights

    def pair(self) -> tuple[float, float]:
        """Return the weights of a one and a zero, where all entries are alike."""
        one, zero = self.of_one_class()[0].tolist()
        return one, zero
