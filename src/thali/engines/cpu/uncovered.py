"""The entries that no component covers, kept as packed bits while components are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import khatri_rao
from thali.bits.words import list_bits
from thali.engines.cpu.count_by_class import count_uncovered, fill_uncovered
from thali.engines.cpu.gain_by_class import gain_rows, list_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index, Words
    from thali.engines.cpu.draw_rows import RowDraws
    from thali.model import Weights


class Uncovered:
    """The known entries of a matrix that no component covers, by rows and by columns."""

    def __init__(self, engine: RowDraws, factors: Sequence[Factor]) -> None:
        self._engine = engine
        self._ones: list[Words] = []
        self._free: list[Words] = []
        self._sorted: list[Any] = [None, None]  # free entries, with columns sorted by class
        for mode, factor in enumerate(factors):
            ones, known = engine.unfolding(mode)
            codes, n_columns = khatri_rao(factors, mode).words, engine.totals.n_columns(mode)
            free = np.empty_like(ones)
            engine.share_work(
                fill_uncovered, len(ones), ones.size * (1 + len(codes)), n_columns, known, codes,
                factor.words, free,
            )  # fmt: skip
            self._ones.append(ones)
            self._free.append(free)

    def count(self, mode: int, classes: Words) -> Index:
        """Count free ones and zeros per row of a mode and class of its columns."""
        ones, free = self._ones[mode], self._free[mode]
        counts = np.empty((len(ones), len(classes), 2), np.int64)
        self._engine.share_work(
            count_uncovered, len(ones), ones.size * 2 * len(classes), ones, free, classes, counts
        )
        return counts

    def gains(self, mode: int, sets: Words, weights: Weights) -> NDArray[np.float64]:
        """Return what every row of a mode gains by covering its free entries in sets of columns.

        Columns have classes. Counts by class would take longer to write and to read than to find.
        """
        weights = weights.of_mode(mode)
        assert weights.rows is not None
        assert weights.columns is not None
        in_order, ones, free = self._in_order(mode, weights.columns)
        parts = list_parts(in_order.bits(sets), in_order.segments)
        gains = np.zeros((len(ones), len(sets)))
        nothing = np.empty((0, len(parts[4])), np.uint64)
        self._engine.share_work(
            gain_rows, len(ones), len(ones) * 2 * len(parts[0]), 0, ones, free, nothing, nothing,
            parts, weights.rows, weights.table[:, :, 0], gains,
        )  # fmt: skip
        return gains

    def _in_order(self, mode: int, of_columns: Index) -> tuple[Any, Words, Words]:
        """Return how columns are sorted by class, and the ones and free entries in that order."""
        in_order = self._engine.sorted_by(mode, of_columns)
        ones = in_order.data[0]
        if self._sorted[mode] is None or self._sorted[mode][0] is not of_columns:
            free = self._engine.take_across(self._free[1 - mode], in_order.places, len(ones))
            self._sorted[mode] = of_columns, free
        return in_order, ones, self._sorted[mode][1]

    def of_row(self, row: int) -> Words:
        """Return the free ones and the free zeros of a row of the first mode, packed."""
        ones, free = self._ones[0][row], self._free[0][row]
        return np.stack([free & ones, free & ~ones])

    def cover(self, lines: Sequence[Words]) -> None:
        """Remove the entries of a further component, given by its lines of both modes."""
        for free, own, other in zip(self._free, lines, lines[::-1], strict=True):
            free[list_bits(own)] &= ~other
        self._sorted = [None, None]
