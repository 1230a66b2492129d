"""The GPU engine: data, factors and decisions on a CUDA device (``kernels/*.cu``).

A factor on the device carries a handle of its lines there. It is therefore copied at most once in
either direction, and to the host only when it is needed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import Factor, khatri_rao
from thali.bits.words import n_words
from thali.data.entries import every_column
from thali.engines.base import BirthDeaths, Births, LineCounts
from thali.engines.bit_by_bit import score_bits
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu.births import NumbersByClass, NumbersOfOneClass
from thali.engines.gpu.blocks import BlocksOfRows
from thali.engines.gpu.classes import classes_of, columns_of, masks_of, one_class
from thali.engines.gpu.counting import count_by_column, count_in_parts
from thali.engines.gpu.device import fetch_later
from thali.engines.gpu.device_memory import GB, NULL, Lines, i64, u32, u64
from thali.engines.gpu.row_sets import DeviceRowSets, shared_by_columns
from thali.engines.gpu.vertical import VerticalUpdate
from thali.engines.gpu.visits import components_of
from thali.engines.host import lines_of_births
from thali.errors import EngineUnavailable
from thali.model.gains import sum_gains
from thali.sites import Site
from thali.threads import parallel_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover, RowUpdate
    from thali.engines.gpu.device_memory import RowBlock
    from thali.model.births import BirthDeathTables, BirthTables, CodeTables
    from thali.model.weights import Weights

_LONG_ROW = 2048
"""Number of 32-bit words from which many threads share a row."""

_MOST_COUNTS = 5 << 10
"""Pairs of counts by set and class that fit into a block's shared memory."""


_FEW = 1 << 10
"""Number of rows whose gains one thread adds up in the time in which another one wakes up."""


def _add_up(
    lo: int, hi: int, counts: Index, table: NDArray[np.float64], of_rows: Index,
    out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Add up the gains of some rows."""
    out[lo:hi] = sum_gains(counts[lo:hi], table, of_rows[lo:hi])


class GpuEngine(BlocksOfRows):
    """Computes on a CUDA device; draws the same bits as the CPU engine."""

    can_scan = False

    def on_host(self, rows: Index | None) -> CpuEngine:
        """Return a CPU engine with some rows of the first mode of the data, or all."""
        tensor = self.tensor if rows is None else self.tensor.of_rows(rows, self.threads)
        return CpuEngine(self.threads).load(tensor)

    def serve_chains(self, n_chains: int) -> int:  # noqa: ARG002 - the number does not matter
        """Run one chain after another, each with all threads of the host."""
        return 1

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        n_rows = factor.n_rows if job.rows is None else len(job.rows)
        if factor.n_components == 0 or n_rows == 0:
            return factor, (0, 0)
        lines, gained = VerticalUpdate(self, job).draw(factor)
        found = fetch_later(self.device, gained)
        if job.mode and len(self.totals.shape) == 2:  # the last update of a sweep
            self.divide_ahead(self.lines(job.codes))
            columns = columns_of(self, 0, job.weights.of_mode(0).columns)
            columns = columns or one_class(self, 0, factor.n_rows)
            columns.rearranged(self, components_of(self, lines), job.stream)
        tp, fp = (int(v) for v in found().view(np.int64))
        return self.to_factor(lines, factor.n_rows), (tp, fp)

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        block = self.block_of(job)
        update = VerticalUpdate(self, job)
        numbers: NumbersOfOneClass | NumbersByClass
        if job.weights.has_classes:
            numbers = NumbersByClass(self, job, tables, update)
            lines, _ = update.draw(factor, numbers.draw, numbers.counts.bits_per_row)
        else:
            numbers = NumbersOfOneClass(self, job, tables)
            lines, _ = update.draw(factor, numbers.draw)
        births = self._with_codes(
            job, lines, block, numbers.n_new, None, numbers.totals, tables.code
        )
        return self.to_factor(lines, factor.n_rows), births

    def birth_death(
        self,
        job: RowUpdate,
        factor: Factor,
        is_single: NDArray[np.bool_],
        tables: BirthDeathTables,
    ) -> BirthDeaths:
        """Try the birth or death of one single-row component in the rows of a work order."""
        block = self.block_of(job)
        rows = block.rows
        lines = self.lines(factor)
        n_new, density = (self.xp.zeros(len(rows), u32) for _ in range(2))
        has_died = self.xp.zeros(len(is_single), np.uint8)
        totals = self.xp.zeros(3, u64)
        weights = job.weights.of_mode(job.mode)
        of_rows = classes_of(self, job.mode, weights.rows)
        of_columns = classes_of(self, 1 - job.mode, weights.columns)
        ending, n_classes = "", 0
        factors = [np.column_stack([tables.prior, tables.factors[:, 0, 0]])]
        more: list[Any] = [self.known_of_lines(job.mode)]
        if of_rows is not None and of_columns is not None and weights.columns is not None:
            ending, n_classes = "_by_class", of_columns.n
            masks = masks_of(self, weights.columns)
            factors = [tables.prior, np.ascontiguousarray(tables.factors.swapaxes(1, 2))]
            more = [of_rows.of_lines, masks.words, masks.stride, u32(n_classes), u32(of_rows.n)]
        self.launch_rows(
            "birth_death" + ending, len(rows), job.mode, job.codes.n_components,
            [*self.data_of(job.mode, job.codes), lines.words, lines.stride, rows, i64(len(rows)),
             self.mask(is_single), i64(len(tables.prior)), self.xp.asarray(tables.odds),
             u64(job.stream.key), u32(job.stream.sweep), u32(Site.BIRTH_DEATH), self.exp, n_new,
             density, has_died, totals, *(self.xp.asarray(table) for table in factors), *more],
            shared=4 + 8 * n_classes,
        )  # fmt: skip
        births = self._with_codes(job, lines, block, n_new, density, totals, tables.code)
        born = self.device.to_host(density[n_new > 0]).astype(i64)
        return BirthDeaths(births, born, self.device.to_host(has_died).astype(np.bool_))

    def scan(self, *_: Any, **__: Any) -> Any:
        """Raise an error: with ``can_scan`` off, nobody updates one row after another here."""
        raise NotImplementedError

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count the covered ones and covered zeros per row: ``(n_rows, 2)``."""
        index: Any = NULL if rows is None else self.xp.asarray(rows)
        n_rows = factor.n_rows if rows is None else len(rows)
        counts = self.xp.zeros((n_rows, 2), i64)
        lines = self.lines(factor)
        arguments = [*self.data_of(mode, codes), lines.words, lines.stride, index, i64(n_rows),
                     counts]  # fmt: skip
        self.launch_rows("count_rows", n_rows, mode, codes.n_components, arguments)
        return self.device.to_host(counts)

    def count_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words,
        of_columns: Index | None = None,
    ) -> Index:  # fmt: skip
        """Count the free ones and zeros per row of a range and per class of columns."""
        by_column = columns_of(self, mode, of_columns)
        is_matrix = len(self.totals.shape) == 2
        if by_column and (is_matrix or len(classes) * by_column.n > _MOST_COUNTS):
            return count_by_column(self, mode, rows, cover, classes, by_column)
        n_rows, n_counts = rows[1] - rows[0], len(classes)
        lines, sets = self.lines(cover.users), self.upload(classes)
        name, more = "count_by_class", []
        if by_column is not None:
            name, n_counts = "count_by_column", n_counts * by_column.n
            more = [by_column.of_lines, u32(by_column.n)]
        counts = self.xp.zeros((n_rows, n_counts, 2), u32 if more else u64)
        width = self._unfoldings[mode][0].n_words
        parts = max(1, min(width // 1024, 4 * self.device.n_processors // max(1, n_rows)))
        self.launch_rows(
            name, n_rows, mode, cover.codes.n_components,
            [*self.data_of(mode, cover.codes), lines.words, lines.stride, i64(rows[0]),
             i64(n_rows), self.mask(cover.is_counted), sets.words, sets.stride,
             u32(len(classes)), *more, counts],
            parts, 4 + 8 * n_counts if more else 0,
        )  # fmt: skip
        found = self.device.to_host(counts)
        return found.astype(np.int64) if more else found.view(np.int64)

    def row_sets(self, factors: tuple[Factor, ...]) -> DeviceRowSets | None:
        """Return sets of rows of a matrix on the device, with which moves look ahead.

        None for a tensor, and for thousands of components, whose codes do not fit into a block.
        """
        shared = shared_by_columns(self, factors[0].n_components)
        if len(factors) > 2 or shared > self.device.shared:
            return None
        return DeviceRowSets(self, factors)

    def gains_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, sets: Words, weights: Weights
    ) -> NDArray[np.float64]:
        """Return what every row of a range gains by covering its free entries in sets."""
        weights = weights.of_mode(mode)
        counts = self.count_by_class(mode, rows, cover, sets, weights.columns)
        assert weights.rows is not None
        of_rows = weights.rows[rows[0] : rows[1]]
        table = weights.table[:, :, 0]
        gains = np.empty((len(counts), len(sets)))
        parallel_for(_add_up, len(counts), self.threads, counts, table, of_rows, gains, step=_FEW)
        return gains

    def score_bits(
        self, mode: int, rows: Index | None, codes: Factor, before: Factor, after: Factor,
        weights: Weights,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the gain in log-likelihood by every bit of some rows of a factor, or of all."""
        return score_bits(self, mode, rows, codes, before, after, weights)

    def lines_here(self, mode: int) -> tuple[int, int]:
        """Return the first line of a mode on the device, and the line after the last: all."""
        return 0, self.totals.shape[mode]

    def count_lines(self, mode: int, factors: tuple[Factor, ...], classes: Index) -> LineCounts:
        """Count the entries of all lines of a mode, by class of column and cover.

        Ones are added up over classes on the device, and the rest comes in the layout in which the
        host reads it: to copy all counts by class and value would take longer than to count.
        """
        of_columns = columns_of(self, mode, classes)
        assert of_columns is not None
        shape = self.totals.shape
        lo, hi = self.lines_here(mode)
        n_lines = hi - lo
        every = self.upload(every_column(shape, mode)[None])
        users, codes = self.lines(factors[mode]), self.lines(khatri_rao(factors, mode))
        n_ones = self.xp.empty((2, n_lines), i64)

        def count(n: int) -> NDArray[np.uint32]:  # with the first n components
            own, other = (part._replace(words=part.words[:n]) for part in (users, codes))
            counts = self.counts_on_host(n_lines, of_columns.n)
            for start, stop, found in count_in_parts(
                self, mode, (lo, hi), every, own, other, of_columns
            ):
                ones, zeros = found[:, 0], found[:, 1]
                here = slice(start - lo, stop - lo)
                self.device.fetch(self.xp.ascontiguousarray((ones + zeros).T), counts[here])
                n_ones[0, here] = ones.sum(axis=0)
            return counts

        if self._unfoldings[mode][1] is None:
            known = of_columns.sizes(self, of_columns.in_order(self, every)).astype(np.uint32)
        else:
            known = count(0)
        uncovered = count(codes.n_lines)
        n_ones[1] = self.known_of_lines(mode)[lo:hi, 0].astype(i64) - n_ones[0]
        # This waits until all copies are complete, since they are made in the order of the calls.
        return LineCounts(uncovered, known, self.device.to_host(n_ones))

    # --- births -----------------------------------------------------------------------------

    def _with_codes(
        self, job: RowUpdate, lines: Lines, block: RowBlock, n_new: Any, density: Any,
        totals: Any, tables: CodeTables,
    ) -> Births:  # fmt: skip
        """Draw the codes of the new components, and count what they cover."""
        found = fetch_later(self.device, totals)
        if block.following is not None:
            self.begin(block.following, lines)
        born, tp, fp = (int(v) for v in found())
        rows = block.rows
        n_columns = self.totals.n_columns(job.mode)
        if born == 0:
            nothing = tuple(np.zeros((0, n_words(n)), u64) for n in self.totals.shape)
            return Births(nothing, (tp, fp))
        stride = 2 * n_words(n_columns)
        needed = born * (4 * stride + 2 * 8 * n_words(lines.n_bits))
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"{born} new single-row components need {needed / GB:.1f} GB on the GPU, where "
                f"{free / GB:.1f} GB are free; warm up on fewer rows (Schedule(first_rows=…)) or "
                "use more blocks."
            )
            raise EngineUnavailable(msg)
        places = self.xp.flatnonzero(n_new).astype(i64)
        offsets = self.xp.cumsum(n_new, dtype=i64) - n_new
        codes = self.xp.zeros((born, stride), u32)
        own = [self.xp.asarray(np.ascontiguousarray(table)) for table in tables]
        weights = job.weights.of_mode(job.mode)
        both = ((job.mode, weights.rows), (1 - job.mode, weights.columns))
        classes = [
            NULL if of is None else of.of_lines
            for of in (classes_of(self, *pair) for pair in both)
        ]
        self.device.launch(
            "draw_codes",
            (len(places), self.blocks_of(self._unfoldings[job.mode][0].n_words, 256)),
            self.threads_of(256),
            [*self.data_of(job.mode, job.codes), lines.words, lines.stride, rows, places, n_new,
             NULL if density is None else density, offsets.astype(i64), *own,
             i64(tables.first.shape[1]), *classes, *(u32(n) for n in tables.cover.shape[1:3]),
             u64(job.stream.key), u32(job.stream.sweep), u32(Site.BIRTH_COVER),
             u32(Site.BIRTH_BITS), codes, i64(stride), totals],
            self._mask_bytes(job.codes.n_components),
        )  # fmt: skip
        tp, fp = (int(v) for v in self.device.to_host(totals)[1:])
        numbers = self.device.to_host(n_new[places])
        owners = np.repeat(self.device.to_host(rows[places]), numbers)
        words = self.device.to_host(codes).view(u64)
        return Births(lines_of_births(owners, words, self.totals.shape[0]), (tp, fp))

    # --- how work is laid out ---------------------------------------------------------------

    def data_of(self, mode: int, codes: Factor) -> list[Any]:
        """Return the first arguments of the kernels that read whole rows."""
        ones, known = self._unfoldings[mode]
        lines = self.lines(codes)
        return [
            ones.words, NULL if known is None else known.words, ones.stride, i64(ones.n_words),
            i64(self.totals.n_columns(mode)), lines.words, lines.stride, u32(lines.n_lines),
        ]  # fmt: skip

    def mask(self, bits: NDArray[np.bool_]) -> Any:
        """Return bits on the device, 32 in a word."""
        words = np.zeros(4 * -(-max(1, len(bits)) // 32), np.uint8)
        octets = np.packbits(bits, bitorder="little")
        words[: len(octets)] = octets
        return self.xp.asarray(words.view(u32))

    def launch_rows(
        self, name: str, n_rows: int, mode: int, n_components: int, arguments: list[Any],
        parts: int = 1, shared: int = 0,
    ) -> None:  # fmt: skip
        """Start a kernel in which a block of threads does one row at a time.

        ``shared`` is the shared memory that it needs besides the components of the row.
        """
        if n_rows == 0:
            return
        is_long = self._unfoldings[mode][0].n_words >= _LONG_ROW
        threads = self.threads_of(256 if is_long else 32)
        blocks = min(n_rows, self.device.n_processors * (8 if is_long else 32))
        shared += self._mask_bytes(n_components)
        self.device.launch(name, (blocks, parts), threads, arguments, shared)

    def _mask_bytes(self, n_components: int) -> int:
        return 4 * -(-max(1, n_components) // 32)
