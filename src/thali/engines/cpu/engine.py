"""The CPU engine: compiled kernels on threads over ranges of rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor, PackedTensor, Unfolding, khatri_rao
from thali.bits.tensor import unfold_back
from thali.bits.words import WORD, gather_bits, n_words, scatter_bits
from thali.data.entries import every_column
from thali.decide import threshold
from thali.engines.base import BirthDeaths, Births, Block, Hidden, LineCounts
from thali.engines.cpu import births as birth_kernels
from thali.engines.cpu import blocks, horizontal, serial
from thali.engines.cpu.count_by_class import (
    choose_entries,
    count_all_cover,
    count_cover,
    count_free_rows,
    count_sorted_rows,
)
from thali.engines.cpu.draw_rows import MOST_NEAR, NO_CLASSES, NO_SEGMENTS, RowDraws, put_back
from thali.engines.cpu.gain_by_class import gain_rows, list_parts, list_relevant
from thali.engines.cpu.order_components import divide_rows, order_components
from thali.engines.cpu.score_bits import score_rows
from thali.engines.cpu.uncovered import Uncovered
from thali.engines.host import lines_of_births
from thali.sites import Site
from thali.team import memory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover, RowUpdate
    from thali.engines.cpu.arrays import Born
    from thali.model.births import BirthDeathTables, BirthTables, CodeTables
    from thali.model.weights import Weights
    from thali.streams import Stream


class CpuEngine(RowDraws):
    """Computes on the threads of this machine."""

    can_scan = True
    _no_births: tuple[Words, ...]

    def load(self, tensor: PackedTensor) -> CpuEngine:
        """Return an engine like this one with the data, which are not copied."""
        engine = CpuEngine(self.threads, self.form)
        engine.hold(tensor)
        engine._no_births = tuple(np.zeros((0, n_words(n)), np.uint64) for n in tensor.shape)
        return engine

    def on_host(self, rows: Index | None) -> CpuEngine:
        """Return an engine with some rows of the first mode of the data, or this one."""
        return self if rows is None else self.load(self.tensor.of_rows(rows, self.threads))

    def serve_chains(self, n_chains: int) -> int:
        """Divide the threads among chains; at most one chain per thread runs in parallel."""
        n_at_once = min(n_chains, self.threads)
        self.threads //= n_at_once
        return n_at_once

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        prepared = self.prepare(job, factor)
        if factor.n_components == 0 or prepared.n_rows == 0:
            return factor, (0, 0)
        after, (tp, fp, *_) = self.draw_rows(job, prepared)
        return put_back(job, factor, after), (tp, fp)

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        prepared = self.prepare(job, factor)
        data, order, _, classes, segments, _ = prepared
        n_rows = prepared.n_rows
        n_new, density = np.zeros((2, n_rows), np.int64)
        born = n_new, density, np.zeros((n_rows, 2), np.int64)
        after, _ = self.draw_rows(job, prepared)
        n_born, tp, fp, *_ = self.share_work(
            birth_kernels.draw_births, n_rows, self.work_of(prepared), data, order, after, classes,
            segments, tables.prior, tables.factors, tables.ceiling, born,
        )  # fmt: skip
        users = put_back(job, factor, after)
        if n_born:
            births = self._with_codes(
                order[0], job.codes.words, job.stream, job.weights, after, born, tables.code
            )
            return users, births
        return users, Births(self._no_births, (tp, fp))

    def scan_blocks(
        self, stream: Stream, rows: Sequence[Index], factors: tuple[Factor, ...],
        tables: BirthTables,
    ) -> tuple[tuple[Factor, ...], tuple[int, int]] | None:  # fmt: skip
        """Update blocks of rows of a matrix one after another, in the horizontal form."""
        users, codes = (factor.words for factor in factors)
        n_rows, n_columns = self.totals.shape
        weights, longest = tables.weights, len(rows[0])
        if self.is_vertical(longest, codes, has_classes=weights.has_classes):
            return None
        data, places, segments = self._data[0], NO_CLASSES, NO_SEGMENTS
        of_rows = of_columns = NO_CLASSES
        if weights.rows is not None and weights.columns is not None:
            data, places, _, segments = self.sorted_by(0, weights.columns)
            of_rows, of_columns = weights.rows, weights.columns
        work = longest * codes.size
        n = self.n_wanted(work)
        with memory_of(self.threads, n) as memory:
            users, codes, covered = blocks.scan_all(
                memory, n, stream, rows, users, codes, tables, n_rows, self._data[0], of_columns,
                data, places, segments, of_rows, is_quick=work <= n * MOST_NEAR,
            )  # fmt: skip
        return (Factor(users, n_rows), Factor(codes, n_columns)), covered

    def birth_death(
        self,
        job: RowUpdate,
        factor: Factor,
        is_single: NDArray[np.bool_],
        tables: BirthDeathTables,
    ) -> BirthDeaths:
        """Try the birth or death of one single-row component in the rows of a work order."""
        prepared = self.prepare(job, factor)
        data, order, words, classes, segments, _ = prepared
        n_rows = prepared.n_rows
        n_new, density = np.zeros((2, n_rows), np.int64)
        born = n_new, density, np.zeros((n_rows, 2), np.int64)
        has_died = np.zeros(len(is_single), np.bool_)
        self.share_work(
            birth_kernels.birth_death, n_rows,
            n_rows * max(1, job.codes.n_components) * data[0].shape[1],
            data, order, words, is_single, classes, segments, tables.prior, tables.factors,
            tables.odds, born, has_died,
        )  # fmt: skip
        births = self._with_codes(
            order[0], job.codes.words, job.stream, job.weights, words, born, tables.code
        )
        return BirthDeaths(births, density[n_new > 0], has_died)

    def partition(self, stream: Stream, n_blocks: int) -> list[Index]:
        """Divide the rows of the first mode at random; the rows of each block are increasing."""
        n_rows = self.totals.shape[0]
        n_each, n_longer = divmod(n_rows, n_blocks)  # the first blocks have one row more
        edges = [n_each * i + min(i, n_longer) for i in range(n_blocks + 1)]
        if found := divided(stream.bits(Site.BLOCKS, n_rows), edges):
            return found
        order = stream.permutation(Site.BLOCKS, n_rows)
        blocks = [order[lo:hi] for lo, hi in pairwise(edges)]
        for block in blocks:
            block.sort()
        return blocks

    def rows_of(self, block: Index) -> Index:
        """Return the numbers of the rows of a block."""
        return block

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Index, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them with respect to a block of rows."""
        order, *rest = order_components(
            *stream, np.uint64(number), factors[0].words, rows, is_integrated
        )
        return Block(order, self.reorder(factors, order), *rest)

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""
        return tuple(factor.take(order) for factor in factors)

    def scan(
        self,
        stream: Stream,
        factors: tuple[Factor, ...],
        odds: NDArray[np.int64],
        tables: BirthTables,
        *,
        is_integrated: bool,
    ) -> tuple[tuple[Factor, ...], tuple[int, int]]:
        """Update all rows of the first mode of a matrix, one after another."""
        n_rows, n_components = self.totals.shape[0], factors[0].n_components
        covered = np.zeros(2, np.int64)
        row = pending = 0
        room = n_components
        words = [factor.words for factor in factors]
        sizes = factors[0].sizes()
        data, weights, in_order = self._data[0], tables.weights, None
        classes = of_columns = NO_CLASSES
        segments = NO_SEGMENTS
        if weights.rows is not None and weights.columns is not None:
            in_order = self.sorted_by(0, weights.columns)
            data, _, of_columns, segments = in_order
            classes, words[1] = weights.rows, in_order.bits(words[1])
        births = (tables.prior, tables.factors, tables.ceiling, *(t[0] for t in tables.code))
        looked_up = (odds, weights.table, classes, of_columns, segments, *births)
        while row < n_rows:
            room = 2 * (room + pending) + 8
            words = [_with_room(w, room) for w in words]
            sizes = np.concatenate([sizes, np.zeros(room - len(sizes), np.int64)])
            n_components, row, pending = serial.scan_rows(
                data, *words, sizes, n_components, row, pending, is_integrated,
                looked_up, tuple(stream), covered,
            )  # fmt: skip
        if in_order is not None:
            words[1] = scatter_bits(np.zeros_like(words[1]), in_order.places, words[1])
        both = zip(words, self.totals.shape, strict=True)
        after = tuple(Factor(w[:n_components].copy(), n) for w, n in both)
        return after, (int(covered[0]), int(covered[1]))

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count the covered ones and covered zeros per row: ``(n_rows, 2)``."""
        words, index = factor.words, self._all_rows[mode]
        if rows is not None:
            words, index = gather_bits(words, rows), rows
        counts = np.zeros((len(index), 2), np.int64)
        self.share_work(
            horizontal.count_rows, len(index), len(index) * codes.words.size,
            self._data[mode], index, codes.words, words, counts,
        )  # fmt: skip
        return counts

    def count_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words,
        of_columns: Index | None = None,
    ) -> Index:  # fmt: skip
        """Count the free ones and zeros per row of a range and per class of columns."""
        codes, n_rows = cover.codes.words, rows[1] - rows[0]
        if of_columns is not None:
            in_order = self.sorted_by(mode, of_columns)
            ones, known, _ = in_order.data
            sets = in_order.bits(classes)
            counts = np.empty((n_rows, len(sets), in_order.n_classes, 2), np.int64)
            self.share_work(
                count_sorted_rows, n_rows,
                n_rows * (ones.shape[1] * len(codes) + 2 * len(sets) * len(in_order.segments[0])),
                rows[0], ones, known, in_order.bits(codes), cover.users.words, cover.is_counted,
                sets, in_order.segments, counts,
            )  # fmt: skip
            return counts.reshape(n_rows, len(sets) * in_order.n_classes, 2)
        ones, known, _ = self._data[mode]
        counts = np.empty((n_rows, len(classes), 2), np.int64)
        self.share_work(
            count_free_rows, n_rows,
            n_rows * ones.shape[1] * (len(codes) + 2 * len(classes)),
            rows[0], ones, known, codes,
            cover.users.words, cover.is_counted, classes, counts,
        )  # fmt: skip
        return counts

    def gains_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, sets: Words, weights: Weights
    ) -> NDArray[np.float64]:
        """Return what every row of a range gains by covering its free entries in sets."""
        weights = weights.of_mode(mode)
        assert weights.rows is not None
        assert weights.columns is not None
        in_order, n_rows = self.sorted_by(mode, weights.columns), rows[1] - rows[0]
        ones, known, _ = in_order.data
        parts = list_parts(in_order.bits(sets), in_order.segments)
        codes, users = list_relevant(
            in_order.bits(cover.codes.words), cover.users.words, cover.is_counted, parts
        )
        gains = np.zeros((n_rows, len(sets)))
        self.share_work(
            gain_rows, n_rows, n_rows * (codes.size + 2 * len(parts[0])),
            rows[0], ones, known, codes, users, parts, weights.rows, weights.table[:, :, 0], gains,
        )  # fmt: skip
        return gains

    def count_lines(self, mode: int, factors: tuple[Factor, ...], classes: Index) -> LineCounts:
        """Count the entries of all lines of a mode, by class of column and cover."""
        own, other = factors[mode].words, khatri_rao(factors, mode).words
        in_order = self.sorted_by(mode, classes)
        (ones, known, _), _, of_places, segments = in_order
        work, codes = ones.size * (len(other) + 3), in_order.bits(other)
        if self.is_one_range(work):  # in one call, which small data feel
            return LineCounts(*count_all_cover(ones, known, codes, own, of_places, segments))
        uncovered = np.empty((len(ones), in_order.n_classes), np.uint32)
        n_known = np.empty_like(uncovered)
        if len(known) == 0:
            n_known = np.bincount(of_places).astype(np.uint32)[None]
        n_ones = np.empty((2, len(ones)), np.int64)
        self.share_work(
            count_cover, len(ones), work, ones, known, codes, own, segments, uncovered, n_known,
            n_ones,
        )  # fmt: skip
        return LineCounts(uncovered, n_known, n_ones)

    def hide(self, stream: Stream, share: float) -> tuple[CpuEngine, Hidden]:
        """Return an engine that does not know a random share of the entries, and these entries."""
        (ones, known, n_columns), shape = self._data[0], self.totals.shape
        limit = threshold(share)
        mask = np.zeros_like(ones)
        if len(shape) > 2:  # padding is anywhere
            n_columns = WORD * ones.shape[1]
            known = known if len(known) else np.tile(every_column(shape), (len(ones), 1))
        self.share_work(
            choose_entries, len(ones), 64 * ones.size, n_columns, known, *stream, limit, mask
        )
        positions = np.argwhere(unfold_back(mask, shape))
        values = unfold_back(ones & mask, shape)[tuple(positions.T)]
        every = every_column(shape) if len(known) == 0 else known
        first = Unfolding(ones & ~mask, every & ~mask)
        tensor = PackedTensor.from_unfolding(shape, first, self.threads)
        return self.load(tensor), Hidden(positions, values)

    def of_lines(self, lines: Sequence[Index]) -> CpuEngine:
        """Return an engine with some lines of every mode of a tensor."""
        return self.load(self.tensor.of_lines(lines))

    def as_matrix(self) -> CpuEngine:
        """Return an engine with a tensor unfolded to a matrix."""
        return self.load(self.tensor.as_matrix())

    def uncovered(self, factors: Sequence[Factor]) -> Uncovered:
        """Return the entries of a matrix that no component covers."""
        return Uncovered(self, factors)

    def score_bits(
        self, mode: int, rows: Index | None, codes: Factor, before: Factor, after: Factor,
        weights: Weights,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the gain in log-likelihood by every bit of some rows of a factor, or of all."""
        weights = weights.of_mode(mode)
        (ones, known, _), words = self._data[mode], codes.words
        classes, segments = NO_CLASSES, NO_SEGMENTS
        if weights.rows is not None and weights.columns is not None:
            in_order = self.sorted_by(mode, weights.columns)
            (ones, known, _), words = in_order.data, in_order.bits(words)
            classes, segments = weights.rows, in_order.segments
        rows = np.arange(len(ones)) if rows is None else rows
        scores = np.empty((len(rows), codes.n_components))
        self.share_work(
            score_rows, len(rows), 5 * len(rows) * words.size,
            rows, ones, known, words, before.words, after.words,
            np.ascontiguousarray(weights.table[:, :, 0]), classes, segments, scores,
        )  # fmt: skip
        return scores

    # --- births -----------------------------------------------------------------------------

    def _with_codes(
        self, rows: Index, codes: Words, stream: Stream, weights: Weights, words: Words,
        born: Born, tables: CodeTables,
    ) -> Births:  # fmt: skip
        """Draw the codes of new components of rows of the first mode; count what they cover."""
        data, (n_new, _, covered) = self._data[0], born
        new_codes = np.zeros((int(n_new.sum()), data[0].shape[1]), np.uint64)
        if len(new_codes):
            offsets = np.cumsum(n_new) - n_new
            of_rows = of_columns = NO_CLASSES
            if weights.rows is not None and weights.columns is not None:
                of_rows, of_columns = weights.rows[rows], weights.columns
            self.share_work(
                birth_kernels.draw_birth_codes, len(n_new),
                len(new_codes) * data[2] * 16,  # a random bit costs as much as about 16 words
                data, rows, codes, *stream, words, of_rows, of_columns, *tables, born, offsets,
                new_codes,
            )  # fmt: skip
        tp, fp = covered.sum(axis=0)
        owners = np.repeat(rows, n_new)
        lines = lines_of_births(owners, new_codes, self.totals.shape[0])
        return Births(lines, (int(tp), int(fp)))


def divided(keys: Words, edges: list[int]) -> list[Index]:
    """Divide rows as the order of their keys does, without sorting.

    Returns nothing if keys are equal, or a block is empty.
    """
    if any(lo == hi for lo, hi in pairwise(edges)):
        return []
    rows, counts = divide_rows(keys, np.array(edges))
    sizes = counts.tolist()
    if sizes != [hi - lo for lo, hi in pairwise(edges)]:
        return []
    return [rows[i, :size] for i, size in enumerate(sizes)]


def _with_room(words: Words, n_components: int) -> Words:
    out = np.zeros((n_components, words.shape[1]), np.uint64)
    out[: len(words)] = words
    return out
