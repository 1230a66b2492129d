"""The entries that no component covers, kept as packed bits while components are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import khatri_rao
from thali.bits.words import list_bits, transpose
from thali.engines.cpu.count_by_class import count_sorted, count_uncovered, fill_uncovered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.bits import Factor, Index, Words
    from thali.engines.cpu.draw_rows import RowDraws


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

    def count(self, mode: int, classes: Words, of_columns: Index | None = None) -> Index:
        """Count free ones and zeros per row of a mode and class of its columns.

        Returns ``(n_rows, n_classes, 2)``; if ``of_columns`` divides the classes further, there
        are as many times more.
        """
        if of_columns is not None:
            return self._count_sorted(mode, classes, of_columns)
        ones, free = self._ones[mode], self._free[mode]
        counts = np.empty((len(ones), len(classes), 2), np.int64)
        self._engine.share_work(
            count_uncovered, len(ones), ones.size * 2 * len(classes), ones, free, classes, counts
        )
        return counts

    def _count_sorted(self, mode: int, sets: Words, of_columns: Index) -> Index:
        in_order = self._engine.sorted_by(mode, of_columns)
        ones = in_order.data[0]
        if self._sorted[mode] is None or self._sorted[mode][0] is not of_columns:
            across = self._free[1 - mode][in_order.places]
            self._sorted[mode] = of_columns, transpose(across, len(ones))
        free = self._sorted[mode][1]
        counts = np.empty((len(ones), len(sets), in_order.n_classes, 2), np.int64)
        self._engine.share_work(
            count_sorted, len(ones), len(ones) * 2 * len(sets) * len(in_order.segments[0]),
            ones, free, in_order.bits(sets), in_order.segments, counts,
        )  # fmt: skip
        return counts.reshape(len(ones), -1, 2)

    def of_row(self, row: int) -> Words:
        """Return the free ones and the free zeros of a row of the first mode, packed."""
        ones, free = self._ones[0][row], self._free[0][row]
        return np.stack([free & ones, free & ~ones])

    def cover(self, lines: Sequence[Words]) -> None:
        """Remove the entries of a further component, given by its lines of both modes."""
        for free, own, other in zip(self._free, lines, lines[::-1], strict=True):
            free[list_bits(own)] &= ~other
        self._sorted = [None, None]
