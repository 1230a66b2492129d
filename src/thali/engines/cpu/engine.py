"""The CPU engine: compiled kernels on threads over ranges of rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import Factor
from thali.bits.words import WORD, count_ones, gather_bits, n_words, scatter_bits
from thali.engines.base import Births, Moves, RowUpdate
from thali.engines.cpu import births as birth_kernels
from thali.engines.cpu import count_by_class as counting
from thali.engines.cpu import horizontal, serial, vertical
from thali.engines.cpu.order_components import Block, arrange
from thali.streams import Site
from thali.threads import n_threads, share

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index, PackedTensor, Words
    from thali.model.births import BirthTables, CodeTables, MoveTables
    from thali.streams import Stream

_NOTHING = np.zeros((0, 0), np.uint64)
_MIN_WORK = 1 << 15
"""Words of work below which a second thread costs more than it saves (about 40 microseconds)."""

_VERTICAL_ROWS = 256
_ROWS_A_WORD = 48
"""The vertical form gains from so many rows on, and so many for each word of a row: where rows are
many and short (measured by benchmarks/forms.py)."""

_MOST_VISITS = 1 << 23
"""Words of memory the vertical form may spend on listing what it visits."""

FORMS = ("auto", "horizontal", "vertical")


class CpuEngine:
    """Row updates on the threads of this machine."""

    name = "cpu"
    tensor: PackedTensor
    _all_rows: list[Index]
    _no_singles: Index

    def __init__(self, threads: int | None = None, form: str = "auto") -> None:
        """Use that many threads (default: the cores this process may use).

        ``form`` forces the horizontal or vertical kernel, for tests and measurements; both
        draw the same bits.
        """
        self.threads = n_threads(threads)
        if form not in FORMS:
            msg = (
                f"form={form!r} was given; allowed are {', '.join(map(repr, FORMS))}; choose one."
            )
            raise ValueError(msg)
        self.form = form

    def load(self, tensor: PackedTensor) -> CpuEngine:
        """Return an engine with the data, which are not copied."""
        engine = CpuEngine(self.threads, self.form)
        engine.tensor = tensor
        list(tensor.unfoldings)  # now, not in the first sweep
        engine._all_rows = [np.arange(n, dtype=np.int64) for n in tensor.shape]
        engine._no_singles = np.zeros(max(tensor.shape), np.int64)
        return engine

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        _, _, index, before = self._select(job.mode, job.rows, factor)
        if factor.n_components == 0 or len(index) == 0:
            return factor, (0, 0)
        after, gained = self._draw_rows(job, index, before)
        total = (sum(g[0] for g in gained), sum(g[1] for g in gained))
        return self._put_back(job, factor, index, after), total

    def renew(self, job: RowUpdate, factor: Factor, tables: BirthTables) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        ones, known, index, before = self._select(job.mode, job.rows, factor)
        n_new = np.zeros(len(index), np.int64)
        covered = np.zeros((len(index), 2), np.int64)
        n_columns = self._n_columns(job)

        def draw_births(lo: int, hi: int, after: Words) -> tuple[int, int, int]:
            sums: tuple[int, int, int] = birth_kernels.draw_births(
                ones, known, n_columns, index, lo, hi, job.codes, after,
                tables.number, tables.ceiling, *job.stream, n_new, covered,
            )  # fmt: skip
            return sums

        after, sums = self._draw_rows(job, index, before, draw_births)
        if any(born for born, _, _ in sums):
            density = np.zeros_like(n_new)
            births = self._with_codes(job, after, n_new, density, covered, tables.code)
        else:
            covers = (sum(s[1] for s in sums), sum(s[2] for s in sums))
            births = Births(n_new[:0], _NOTHING, covers)
        return self._put_back(job, factor, index, after), births

    def partition(self, stream: Stream, n_blocks: int) -> list[Index]:
        """Divide the rows of the first mode at random; the rows of a part in increasing order."""
        order = stream.permutation(Site.BLOCKS, self.tensor.shape[0])
        return [np.sort(part) for part in np.array_split(order, n_blocks)]

    def arrange(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Index, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and say what they are to a block of rows."""
        users, codes = (factor.words for factor in factors)
        return Block(*arrange(*stream, np.uint64(number), users, codes, rows, is_integrated))

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""
        return tuple(factor.take(order) for factor in factors)

    def _draw_rows(
        self,
        job: RowUpdate,
        index: Index,
        before: Words,
        then: Callable[[int, int, Words], Any] | None = None,
    ) -> tuple[Words, list[Any]]:
        """Draw the entries of rows, and do something with each thread's rows at once.

        Returns the entries, packed, and of each thread what came of that; if there was nothing to
        do, the ones and zeros that its rows newly cover.
        """
        ones, known = self._unfolding(job.mode)
        n_rows = len(index)
        singles = self._no_singles[:n_rows] if job.singles is None else job.singles
        address = (*job.stream, np.uint64(job.site))
        order = (job.codes, job.is_held, job.weights, singles, job.prior, *address, before)
        work = n_rows * max(1, len(job.codes)) * ones.shape[1]
        if len(job.codes) and self._is_vertical(n_rows, job.codes):
            across = self._across(job)
            visits = vertical.list_visits(job.codes, job.is_held)
            after = np.zeros_like(before)

            def some_columns(lo: int, hi: int) -> Any:
                gained = vertical.update_columns(
                    ones, known, *across, index, lo, hi, *order, after, *visits
                )
                return gained if then is None else then(lo, hi, after)

            return after, self._share(some_columns, n_rows, work, step=64)

        def some_rows(lo: int, hi: int) -> Any:
            part = np.zeros_like(before)  # threads may meet in a word of 64 rows
            gained = horizontal.update_rows(ones, known, index, lo, hi, *order, part)
            return part, gained if then is None else then(lo, hi, part)

        results = self._share(some_rows, n_rows, work)
        after = results[0][0]
        for part, _ in results[1:]:
            after |= part
        return after, [told for _, told in results]

    def _put_back(self, job: RowUpdate, factor: Factor, index: Index, after: Words) -> Factor:
        """Return the factor with new entries in the rows of a work order."""
        if job.rows is None:
            return factor._replace(words=after)
        return factor._replace(words=scatter_bits(factor.words, index, after))

    def count(
        self, mode: int, rows: Index | None, codes: Words, factor: Factor
    ) -> NDArray[np.int64]:
        """Count covered ones and covered zeros of rows: ``(n_rows, 2)``."""
        ones, known, index, words = self._select(mode, rows, factor)
        counts = np.zeros((len(index), 2), np.int64)
        self._share(
            lambda lo, hi: horizontal.count_rows(ones, known, index, lo, hi, codes, words, counts),
            len(index),
            len(index) * codes.size,
        )
        return counts

    def tally(
        self,
        mode: int,
        rows: tuple[int, int],
        codes: Words,
        factor: Factor,
        is_counted: NDArray[np.bool_],
        classes: Words,
    ) -> Index:
        """Count free ones and zeros of a range of rows by class of columns."""
        ones, known = self._unfolding(mode)
        n_rows = rows[1] - rows[0]
        counts = np.empty((n_rows, len(classes), 2), np.int64)
        job = (rows[0], ones, known, codes, factor.words, is_counted, classes, counts)
        self._share(
            lambda lo, hi: counting.tally_rows(lo, hi, *job),
            n_rows,
            n_rows * ones.shape[1] * (len(codes) + 2 * len(classes)),
        )
        return counts

    def moves(
        self, job: RowUpdate, factor: Factor, is_single: NDArray[np.bool_], tables: MoveTables
    ) -> Moves:
        """Try the birth or death of one single-row component in the rows of a work order."""
        ones, known, index, words = self._select(job.mode, job.rows, factor)
        n_new = np.zeros(len(index), np.int64)
        density = np.zeros(len(index), np.int64)
        covered = np.zeros((len(index), 2), np.int64)
        has_died = np.zeros(len(is_single), np.bool_)
        self._share(
            lambda lo, hi: birth_kernels.move_singles(
                ones, known, self._n_columns(job), index, lo, hi, job.codes, words, is_single,
                tables.factors, tables.odds, *job.stream, n_new, density, has_died, covered,
            ),
            len(index),
            len(index) * max(1, len(job.codes)) * ones.shape[1],
        )  # fmt: skip
        births = self._with_codes(job, words, n_new, density, covered, tables.code)
        return Moves(births, density[n_new > 0], has_died)

    def _with_codes(
        self,
        job: RowUpdate,
        words: Words,
        n_new: Index,
        density: Index,
        covered: NDArray[np.int64],
        tables: CodeTables,
    ) -> Births:
        """Draw the codes of new components and add what they cover."""
        ones, known = self._unfolding(job.mode)
        index = self._all_rows[job.mode] if job.rows is None else job.rows
        n_columns = self._n_columns(job)
        codes = np.zeros((int(n_new.sum()), n_words(n_columns)), np.uint64)
        if len(codes):
            offsets = np.cumsum(n_new) - n_new
            self._share(
                lambda lo, hi: birth_kernels.draw_birth_codes(
                    ones, known, n_columns, index, lo, hi, job.codes, words, *tables, *job.stream,
                    n_new, density, covered, offsets, codes,
                ),
                len(index),
                len(codes) * n_columns * 16,  # a random bit is about 16 words of work
            )  # fmt: skip
        tp, fp = covered.sum(axis=0)
        return Births(np.repeat(index, n_new), codes, (int(tp), int(fp)))

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
        ones, known = self._unfolding(0)
        n_rows, n_columns = self.tensor.shape
        n_components = factors[0].n_components
        covered = np.zeros(2, np.int64)
        row = pending = 0
        room = n_components
        words = [f.words for f in factors]
        sizes = factors[0].sizes()
        while row < n_rows:
            room = 2 * (room + pending) + 8
            words = [_with_room(w, room) for w in words]
            sizes = np.concatenate([sizes, np.zeros(room - len(sizes), np.int64)])
            n_components, row, pending = serial.scan_rows(
                ones, known, n_columns, *words, sizes, n_components, row, pending, is_integrated,
                odds, tables.weights, tables.number, tables.ceiling, *(t[0] for t in tables.code),
                *stream, covered,
            )  # fmt: skip
        first, second = (
            Factor(w[:n_components].copy(), n)
            for w, n in zip(words, self.tensor.shape, strict=True)
        )
        return (first, second), (int(covered[0]), int(covered[1]))

    # --- how work is laid out ---------------------------------------------------------------

    def _unfolding(self, mode: int) -> tuple[Words, Words]:
        ones, known = self.tensor.unfoldings[mode]
        return ones, _NOTHING if known is None else known

    def _select(
        self, mode: int, index: Index | None, factor: Factor
    ) -> tuple[Words, Words, Index, Words]:
        """Return the unfolding, the row numbers and the factor's bits at these rows."""
        ones, known = self._unfolding(mode)
        if index is not None:
            return ones, known, index, gather_bits(factor.words, index)
        return ones, known, self._all_rows[mode], factor.words

    def _n_columns(self, job: RowUpdate) -> int:
        return self.tensor.shape[1 - job.mode]

    def _across(self, job: RowUpdate) -> tuple[Words, Words]:
        """Return the other unfolding if it has the words along the rows of the job."""
        if job.rows is not None or len(self.tensor.shape) != 2:
            return _NOTHING, _NOTHING
        return self._unfolding(1 - job.mode)

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

    def _share(
        self, kernel: Callable[[int, int], Any], n_rows: int, work: int, step: int = 1
    ) -> list[Any]:
        """Run a kernel over ranges of rows, one range a thread."""
        return share(kernel, n_rows, self.threads if work >= _MIN_WORK else 1, step=step)


def _with_room(words: Words, n_components: int) -> Words:
    out = np.zeros((n_components, words.shape[1]), np.uint64)
    out[: len(words)] = words
    return out
