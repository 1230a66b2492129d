"""A CPU engine with some rows of every mode, under their numbers in the whole data."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import khatri_rao
from thali.bits.words import n_words
from thali.engines.base import LineCounts
from thali.engines.cluster.parts import as_numbered
from thali.engines.cpu.by_class import Sorted
from thali.engines.cpu.count_by_class import count_cover
from thali.engines.cpu.draw_rows import plain_sides
from thali.engines.cpu.engine import CpuEngine
from thali.engines.host import NOTHING, list_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.bits import Factor, Index, Totals
    from thali.engines.base import Nearby
    from thali.engines.cluster.parts import Part
    from thali.model.weights import Weights


class CpuPart(CpuEngine):
    """Computes on the threads of one process, which must be asked about its own rows alone."""

    can_scan = False

    def hold_parts(self, parts: Sequence[Part], totals: Totals) -> None:
        """Keep the rows of every mode."""
        self.parts, self.totals = parts, totals
        shape = totals.shape
        self._data = []
        for mode, (lo, _, ones, known) in enumerate(parts):
            mask = NOTHING if known is None else as_numbered(known, lo, shape[mode])
            data = as_numbered(ones, lo, shape[mode]), mask, totals.n_columns(mode)
            self._data.append(data)
        self._first = self._data[0][:2]
        self._all_rows = [np.arange(lo, hi) for lo, hi, _, _ in parts]
        self._no_singles = np.zeros(max(shape), np.int64)
        self._no_births = tuple(np.zeros((0, n_words(n)), np.uint64) for n in shape)
        self._sorted = {}
        self._plain_sides = plain_sides(self._data)

    def near(self, weights: Weights, n_components: int) -> Nearby | None:
        """Return the rows and columns of a matrix that are here, as compiled code takes them."""
        found = super().near(weights, n_components)
        if found is None:
            return None
        (first_row, end_row, *_), (first, end, *_) = self.parts
        return found._replace(here=(first_row, end_row, first, end))

    def sorted_by(self, mode: int, classes: Index) -> Sorted:
        """Return the rows of a mode with their columns sorted by class."""
        key = get_ident(), mode
        held = self._sorted.get(key)
        if held is None or held[0] is not classes:
            held = None  # the earlier copy must be gone before there is another
            self._sorted.pop(key, None)
            shape = self.totals.shape
            lo, hi, ones, known = self.parts[mode]
            data = ones, NOTHING if known is None else known, self.totals.n_columns(mode)
            in_order = Sorted.of_tensor(classes, list_columns(shape, mode), data)
            words, mask, n_columns = in_order.data
            if known is not None:
                mask = as_numbered(mask.reshape(hi - lo, words.shape[1]), lo, shape[mode])
            numbered = as_numbered(words, lo, shape[mode]), mask, n_columns
            held = classes, in_order._replace(data=numbered)
            self._sorted[key] = held
        return held[1]

    def count_lines(self, mode: int, factors: tuple[Factor, ...], classes: Index) -> LineCounts:
        """Count the entries of the lines of a mode that are here."""
        lo, hi, _, _ = self.parts[mode]
        own, other = factors[mode].words, khatri_rao(factors, mode).words
        in_order = self.sorted_by(mode, classes)
        ones, known, _ = in_order.data
        n = self.totals.shape[mode]
        uncovered = np.empty((n, in_order.n_classes), np.uint32)
        n_known = np.empty_like(uncovered)
        n_ones = np.empty((2, n), np.int64)
        codes = in_order.bits(other)
        self.share_work(
            count_cover, hi - lo, (hi - lo) * ones.shape[1] * (len(other) + 3), ones, known, codes,
            own, in_order.segments, uncovered, n_known, n_ones, first=lo,
        )  # fmt: skip
        here = slice(lo, hi)
        if len(known) == 0:
            n_known = np.bincount(in_order.classes).astype(np.uint32)[None]
            return LineCounts(uncovered[here], n_known, n_ones[:, here])
        return LineCounts(uncovered[here], n_known[here], n_ones[:, here])
