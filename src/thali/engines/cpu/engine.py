"""The CPU engine: compiled kernels on threads over ranges of rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import Factor
from thali.bits.words import WORD, count_ones, gather_bits, n_words, scatter_bits
from thali.engines.base import BirthDeaths, Births, Block
from thali.engines.cpu import births as birth_kernels
from thali.engines.cpu import horizontal, serial, vertical
from thali.engines.cpu.count_by_class import count_free_rows
from thali.engines.cpu.order_components import order_components
from thali.engines.host import NOTHING, HostRows, lines_of_births
from thali.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index, PackedTensor, Words
    from thali.engines.base import Cover, RowUpdate
    from thali.engines.cpu.arrays import Born, Data, Order
    from thali.model.births import BirthDeathTables, BirthTables, CodeTables
    from thali.streams import Stream

_VERTICAL_ROWS = 256
_ROWS_A_WORD = 48
"""The vertical form gains from so many rows on, and so many for each word of a row: where rows are
many and short (measured by benchmarks/forms.py)."""

_MOST_VISITS = 1 << 23
"""Words of memory that the vertical form may spend on listing what it visits."""

_NO_DATA = (NOTHING, NOTHING, 0)

FORMS = ("auto", "horizontal", "vertical")


class CpuEngine(HostRows):
    """Row updates on the threads of this machine."""

    can_scan = True
    _data: list[Data]
    _all_rows: list[Index]
    _no_singles: Index
    _no_births: tuple[Words, ...]

    def __init__(self, threads: int | None = None, form: str = "auto") -> None:
        """Use that many threads (default: the cores this process may use).

        ``form`` forces the horizontal or vertical kernel, for tests and measurements; both
        draw the same bits.
        """
        super().__init__(threads)
        if form not in FORMS:
            msg = (
                f"form={form!r} was given; allowed are {', '.join(map(repr, FORMS))}; choose one."
            )
            raise ValueError(msg)
        self.form = form

    def load(self, tensor: PackedTensor) -> CpuEngine:
        """Return an engine with the data, which are not copied."""
        engine = CpuEngine(self.threads, self.form)
        engine.hold(tensor)
        modes = range(len(tensor.shape))
        # All unfoldings are made now, not in the first sweep.
        engine._data = [(*engine.unfolding(m), engine.totals.n_columns(m)) for m in modes]
        engine._all_rows = [np.arange(n, dtype=np.int64) for n in tensor.shape]
        engine._no_singles = np.zeros(max(tensor.shape), np.int64)
        engine._no_births = tuple(np.zeros((0, n_words(n)), np.uint64) for n in tensor.shape)
        return engine

    def of_rows(self, rows: Index) -> CpuEngine:
        """Return an engine with some rows of the first mode of the data."""
        return self.load(self.tensor.of_rows(rows, self.threads))

    def serve_chains(self, n_chains: int) -> int:
        """Divide the threads among chains, as many side by side as there are threads."""
        n_at_once = min(n_chains, self.threads)
        self.threads //= n_at_once
        return n_at_once

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        order, before = self._order(job, factor)
        if factor.n_components == 0 or len(order[0]) == 0:
            return factor, (0, 0)
        after, gained = self._draw_rows(job, order, before)
        total = (sum(g[0] for g in gained), sum(g[1] for g in gained))
        return _put_back(job, factor, after), total

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        order, before = self._order(job, factor)
        n_rows = len(order[0])
        n_new, density = np.zeros((2, n_rows), np.int64)
        born = n_new, density, np.zeros((n_rows, 2), np.int64)
        data = self._data[job.mode]

        def draw_births(lo: int, hi: int, after: Words) -> tuple[int, int, int]:
            sums: tuple[int, int, int] = birth_kernels.draw_births(
                lo, hi, data, order, after, tables.number, tables.ceiling, born
            )
            return sums

        after, sums = self._draw_rows(job, order, before, draw_births)
        users = _put_back(job, factor, after)
        if any(n_born for n_born, _, _ in sums):
            return users, self._with_codes(job, order, after, born, tables.code)
        covered = (sum(s[1] for s in sums), sum(s[2] for s in sums))
        return users, Births(self._no_births, covered)

    def birth_death(
        self,
        job: RowUpdate,
        factor: Factor,
        is_single: NDArray[np.bool_],
        tables: BirthDeathTables,
    ) -> BirthDeaths:
        """Try the birth or death of one single-row component in the rows of a work order."""
        order, words = self._order(job, factor)
        n_rows, data = len(order[0]), self._data[job.mode]
        n_new, density = np.zeros((2, n_rows), np.int64)
        born = n_new, density, np.zeros((n_rows, 2), np.int64)
        has_died = np.zeros(len(is_single), np.bool_)
        self.share_work(
            birth_kernels.birth_death, n_rows,
            n_rows * max(1, job.codes.n_components) * data[0].shape[1],
            data, order, words, is_single, tables.factors, tables.odds, born, has_died,
        )  # fmt: skip
        births = self._with_codes(job, order, words, born, tables.code)
        return BirthDeaths(births, density[n_new > 0], has_died)

    def partition(self, stream: Stream, n_blocks: int) -> list[Index]:
        """Divide the rows of the first mode at random; the rows of a part in increasing order."""
        order = stream.permutation(Site.BLOCKS, self.totals.shape[0])
        return [np.sort(part) for part in np.array_split(order, n_blocks)]

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Index, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them as a block of rows sees them."""
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
        """Do the serial schedule's pass over all rows of the first mode of a matrix."""
        n_rows, n_components = self.totals.shape[0], factors[0].n_components
        covered = np.zeros(2, np.int64)
        row = pending = 0
        room = n_components
        words = [factor.words for factor in factors]
        sizes = factors[0].sizes()
        births = (tables.number, tables.ceiling, *(table[0] for table in tables.code))
        looked_up = (odds, tables.weights.of_one_class(), *births)
        while row < n_rows:
            room = 2 * (room + pending) + 8
            words = [_with_room(w, room) for w in words]
            sizes = np.concatenate([sizes, np.zeros(room - len(sizes), np.int64)])
            n_components, row, pending = serial.scan_rows(
                self._data[0], *words, sizes, n_components, row, pending, is_integrated,
                looked_up, tuple(stream), covered,
            )  # fmt: skip
        both = zip(words, self.totals.shape, strict=True)
        after = tuple(Factor(w[:n_components].copy(), n) for w, n in both)
        return after, (int(covered[0]), int(covered[1]))

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count covered ones and covered zeros of rows: ``(n_rows, 2)``."""
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
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words
    ) -> Index:
        """Count free ones and zeros of a range of rows by class of columns."""
        ones, known, _ = self._data[mode]
        codes, n_rows = cover.codes.words, rows[1] - rows[0]
        counts = np.empty((n_rows, len(classes), 2), np.int64)
        self.share_work(
            count_free_rows, n_rows,
            n_rows * ones.shape[1] * (len(codes) + 2 * len(classes)),
            rows[0], ones, known, codes,
            cover.users.words, cover.is_counted, classes, counts,
        )  # fmt: skip
        return counts

    # --- how work is laid out ---------------------------------------------------------------

    def _order(self, job: RowUpdate, factor: Factor) -> tuple[Order, Words]:
        """Return a work order as plain arrays, and the factor's bits at its rows."""
        rows, words = self._all_rows[job.mode], factor.words
        if job.rows is not None:
            rows, words = job.rows, gather_bits(words, job.rows)
        singles = self._no_singles[: len(rows)] if job.singles is None else job.singles
        order = (
            rows, job.codes.words, job.is_held, job.weights.of_one_class(), singles, job.prior,
            *job.stream, np.uint64(job.site),
        )  # fmt: skip
        return order, words

    def _draw_rows(
        self,
        job: RowUpdate,
        order: Order,
        before: Words,
        then: Callable[[int, int, Words], Any] | None = None,
    ) -> tuple[Words, list[Any]]:
        """Draw the entries of rows, and do something with each thread's rows at once.

        Returns the entries, packed, and of each thread what came of that; if there was nothing to
        do, the ones and zeros that its rows newly cover.
        """
        data, codes, n_rows = self._data[job.mode], job.codes.words, len(order[0])
        work = n_rows * max(1, len(codes)) * codes.shape[1]
        if len(codes) and self._is_vertical(n_rows, codes):
            is_whole = job.rows is None and len(self.totals.shape) == 2
            across = self._data[1 - job.mode] if is_whole else _NO_DATA
            visits = vertical.list_visits(codes, job.is_held)
            after = np.zeros_like(before)

            def some_columns(lo: int, hi: int) -> Any:
                gained = vertical.update_columns(
                    lo, hi, data, across, order, before, after, *visits
                )
                return gained if then is None else then(lo, hi, after)

            return after, self.share_work(some_columns, n_rows, work, step=64)

        def some_rows(lo: int, hi: int) -> Any:
            part = np.zeros_like(before)  # threads may meet in a word of 64 rows
            gained = horizontal.update_rows(lo, hi, data, order, before, part)
            return part, gained if then is None else then(lo, hi, part)

        results = self.share_work(some_rows, n_rows, work)
        after = results[0][0]
        for part, _ in results[1:]:
            after |= part
        return after, [result for _, result in results]

    def _with_codes(
        self, job: RowUpdate, order: Order, words: Words, born: Born, tables: CodeTables
    ) -> Births:
        """Draw the codes of new components and add what they cover."""
        data, (n_new, _, covered) = self._data[job.mode], born
        codes = np.zeros((int(n_new.sum()), data[0].shape[1]), np.uint64)
        if len(codes):
            offsets = np.cumsum(n_new) - n_new
            self.share_work(
                birth_kernels.draw_birth_codes, len(n_new),
                len(codes) * data[2] * 16,  # a random bit is about 16 words of work
                data, order, words, *tables, born, offsets, codes,
            )  # fmt: skip
        tp, fp = covered.sum(axis=0)
        owners = np.repeat(order[0], n_new)
        return Births(lines_of_births(owners, codes, self.totals.shape[0]), (int(tp), int(fp)))

    def _is_vertical(self, n_rows: int, codes: Words) -> bool:
        n_components, width = codes.shape
        if width * WORD > vertical.MAX_COLUMNS or sys.byteorder != "little":
            return False
        if self.form != "auto":
            return self.form == "vertical"
        if n_rows < max(_VERTICAL_ROWS, _ROWS_A_WORD * width):
            return False
        # The list of visits has an entry for every pair of components that share a column.
        n_ones = int(count_ones(codes).sum())
        return n_ones * int(n_components) <= _MOST_VISITS


def _put_back(job: RowUpdate, factor: Factor, after: Words) -> Factor:
    """Return the factor with new entries in the rows of a work order."""
    if job.rows is None:
        return Factor(after, factor.n_rows)
    return Factor(scatter_bits(factor.words, job.rows, after), factor.n_rows)


def _with_room(words: Words, n_components: int) -> Words:
    out = np.zeros((n_components, words.shape[1]), np.uint64)
    out[: len(words)] = words
    return out
