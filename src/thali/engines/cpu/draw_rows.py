"""Draws of the entries of rows, on threads, with the form of the row kernel that is faster."""

from __future__ import annotations

import sys
from platform import machine
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits import Factor
from thali.bits.words import WORD, count_ones, gather_bits, n_words, scatter_bits
from thali.engines.base import Nearby
from thali.engines.cpu import by_class, horizontal, in_parts, vertical, vertical_by_class
from thali.engines.cpu.by_class import STEP, Sorted, take_across
from thali.engines.cpu.visits import list_visits
from thali.engines.host import NOTHING, HostRows, list_columns
from thali.team import PARTS_PER_THREAD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from thali.bits import Index, PackedTensor, Words
    from thali.engines.base import RowUpdate
    from thali.engines.cpu.arrays import Data, Order, Segments, Side, Whole
    from thali.model.weights import Weights

    PlainSide: TypeAlias = tuple[Words, Words, Index, Segments, Index]

_VERTICAL_ROWS = 256
_HAS_COUNT = machine().lower() in {"x86_64", "amd64"}
_ROWS_PER_WORD = 192 if _HAS_COUNT else 48
_ROWS_PER_WORD_BY_CLASS = 64 if _HAS_COUNT else 24
"""The vertical form is faster if there are at least so many rows, and so many rows per word of a
row: that is, if rows are many and short (measured by benchmarks/forms.py). With classes, it is
faster already for longer rows. Where one instruction counts the bits of a word, the horizontal
form is faster; on other processors, that takes four. Every thread makes lines of its own out of
all columns, so that many threads need shorter rows."""

_SETS = 8
"""Components whose work is that of a few sets of columns, in which entries are counted."""

MOST_NEAR = 1 << 24
"""Words of work of a question about all data, beyond which one thread does not ask it in the
middle of compiled code: nobody could interrupt it. With many threads, questions are shared
earlier, so that the others do not wait for one."""

_MOST_VISITS = 1 << 23
"""Words of memory that the vertical form may use for its list of visits."""

_NO_DATA = (NOTHING, NOTHING, 0)
NO_CLASSES = np.zeros(0, np.int64)
NO_SEGMENTS = (np.zeros(0, np.uint64), np.zeros(0, np.uint64), NO_CLASSES)

FORMS = ("auto", "horizontal", "vertical")


class Prepared(NamedTuple):
    """A work order with its data, as compiled code takes them.

    If columns are of several classes, they are sorted by class, those of the codes as well.
    """

    data: Data
    order: Order
    before: Words  # bits of the factor at the rows of the order
    classes: Index  # of the rows of the order; empty if there is one class
    segments: Segments
    places: Index  # the column at every place; empty if there is one class

    @property
    def n_rows(self) -> int:
        """Number of rows of the order."""
        return len(self.order[0])


class RowDraws(HostRows):
    """The part of the CPU engine that draws the entries of rows."""

    _data: list[Data]
    _all_rows: list[Index]
    _no_singles: Index
    _plain_sides: list[PlainSide]
    _sorted: dict[tuple[int, int], tuple[Index, Sorted]]

    def __init__(self, threads: int | None = None, form: str = "auto") -> None:
        """Use a number of threads (default: all cores that this process may use).

        ``form`` forces the horizontal or the vertical kernel, for tests and measurements; both
        draw the same bits.
        """
        super().__init__(threads)
        if form not in FORMS:
            msg = (
                f"form={form!r} was given; allowed are {', '.join(map(repr, FORMS))}; choose one."
            )
            raise ValueError(msg)
        self.form = form

    def hold(self, tensor: PackedTensor) -> None:
        """Keep a reference to the data, and make all unfoldings now."""
        super().hold(tensor)
        modes = range(len(tensor.shape))
        self._data = [(*self.unfolding(m), self.totals.n_columns(m)) for m in modes]
        self._all_rows = [np.arange(n, dtype=np.int64) for n in tensor.shape]
        self._no_singles = np.zeros(max(tensor.shape), np.int64)
        self._sorted = {}
        self._plain_sides = plain_sides(self._data)

    def sorted_by(self, mode: int, classes: Index) -> Sorted:
        """Return the unfolding of a mode with its columns sorted by class."""
        key = get_ident(), mode  # chains that run side by side have classes of their own
        held = self._sorted.get(key)
        if held is None or held[0] is not classes:
            shape = self.totals.shape
            if len(shape) == 2:
                own, across = self._data[mode], self._data[1 - mode]
                in_order = Sorted.by(classes, own, across, self.take_across)
            else:
                columns = list_columns(shape, mode)
                in_order = Sorted.of_tensor(classes, columns, self._data[mode])
            held = classes, in_order
            self._sorted[key] = held
        return held[1]

    def take_across(self, lines: Words, places: Index, n: int) -> Words:
        """Return the rows of a mode with columns in an order, given the lines of all columns."""
        out = np.empty((n, n_words(len(places))), np.uint64)
        self.share_work(take_across, len(places), lines.size, lines, places, out, step=STEP)
        return out

    def near(self, weights: Weights, n_components: int) -> Nearby | None:
        """Return the data of a matrix as compiled code takes them."""
        if len(self.totals.shape) > 2:
            return None
        work = self._data[1][0].size * (n_components + _SETS)
        is_large = work * self.threads > MOST_NEAR
        if weights.has_classes:
            sides = self._side(0, weights), self._side(1, weights)
        else:  # the usual case, in a third of the time
            table = weights.table[:, :, 0]
            rows, columns = self._plain_sides
            sides = (*rows, table), (*columns, table)
        n_rows, n_columns = self.totals.shape
        here = 0, n_rows, 0, n_columns
        return Nearby((self._data[0], *sides), is_large, self.threads, here)

    def whole(self, mode: int, codes: Words) -> Whole | None:
        """Return the data of a mode of a matrix as one call takes them that updates all rows."""
        n_rows = self.totals.shape[mode]
        work = n_rows * max(1, len(codes)) * codes.shape[1]
        n_threads = self.n_wanted(work)
        if len(self.totals.shape) > 2 or work > n_threads * MOST_NEAR:
            return None
        is_vertical = self.is_vertical(n_rows, codes, has_classes=False)
        n_parts = n_threads if n_threads == 1 or is_vertical else PARTS_PER_THREAD * n_threads
        return (
            self._data[mode], self._data[1 - mode], self._all_rows[mode],
            self._no_singles[:n_rows], is_vertical, self.threads, n_parts,
        )  # fmt: skip

    def _side(self, mode: int, weights: Weights) -> Side:
        weights = weights.of_mode(mode)
        assert weights.rows is not None
        assert weights.columns is not None
        (ones, known, _), places, _, segments = self.sorted_by(mode, weights.columns)
        return ones, known, places, segments, weights.rows, weights.table[:, :, 0]

    def prepare(self, job: RowUpdate, factor: Factor) -> Prepared:
        """Return a work order with its data, as compiled code takes them."""
        rows, words = self._all_rows[job.mode], factor.words
        if job.rows is not None:
            rows, words = job.rows, gather_bits(words, job.rows)
        singles = self._no_singles[: len(rows)] if job.singles is None else job.singles
        weights, codes = job.weights.of_mode(job.mode), job.codes.words
        data, classes, segments = self._data[job.mode], NO_CLASSES, NO_SEGMENTS
        places = NO_CLASSES
        if weights.rows is not None and weights.columns is not None:
            in_order = self.sorted_by(job.mode, weights.columns)
            data, places, _, segments = in_order
            codes = in_order.bits(codes)
            classes = weights.rows if job.rows is None else weights.rows[job.rows]
        order = (
            rows, codes, job.is_held, weights.table, singles, job.odds, *job.stream,
            np.uint64(job.site),
        )  # fmt: skip
        return Prepared(data, order, words, classes, segments, places)

    def draw_rows(self, job: RowUpdate, prepared: Prepared) -> tuple[Words, Sequence[int]]:
        """Draw the entries of rows.

        Returns the packed entries, and the numbers of ones and zeros that are newly covered.
        """
        data, order, before, classes, segments, _ = prepared
        codes, n_rows = order[1], len(order[0])
        after = np.zeros_like(before)
        if self.is_vertical(n_rows, codes, has_classes=len(classes) > 0):
            return after, self._draw_columns(job, prepared, after)
        work = self.work_of(prepared)
        is_one = self.is_one_range(work)
        kernel = horizontal.update_rows if is_one else in_parts.plain
        arguments: tuple[Any, ...] = data, order, before, after
        if len(classes):
            kernel = by_class.update_rows if is_one else in_parts.by_class
            arguments = data, segments, classes, order, before, after
        return after, self.share_work(kernel, n_rows, work, *arguments)

    @staticmethod
    def work_of(prepared: Prepared) -> int:
        """Return how many words are read to draw the rows."""
        n_components, width = prepared.order[1].shape
        return prepared.n_rows * max(1, int(n_components)) * int(width)

    def _draw_columns(self, job: RowUpdate, prepared: Prepared, after: Words) -> Sequence[int]:
        """Draw rows in the vertical form."""
        _, order, before, classes, segments, places = prepared
        codes, weights, singles = order[1], order[3], order[4]
        is_whole = job.rows is None and len(self.totals.shape) == 2
        data = self._data[job.mode], self._data[1 - job.mode] if is_whole else _NO_DATA
        visits = list_visits(codes, job.is_held, places)
        n_rows, work = prepared.n_rows, self.work_of(prepared)
        # A part takes memory for all columns, so there is one for each thread.
        parts = {"step": 64, "parts": 1}
        if len(classes) == 0:
            return self.share_work(
                vertical.update_columns, n_rows, work, *data, order, before, after, *visits,
                **parts,
            )  # fmt: skip
        kinds = vertical_by_class.number_kinds(classes, singles, weights)
        sizes = vertical_by_class.count_columns(codes, segments, weights.shape[1])
        return self.share_work(
            vertical_by_class.update_columns, n_rows, work, *data, kinds, order, before, after,
            *visits, sizes, **parts,
        )  # fmt: skip

    def is_vertical(self, n_rows: int, codes: Words, *, has_classes: bool) -> bool:
        """Return whether the vertical form is faster, or was asked for."""
        n_components, width = codes.shape
        too_wide = width * WORD > vertical.MAX_COLUMNS
        if n_components == 0 or too_wide or sys.byteorder != "little":
            return False
        if self.form != "auto":
            return self.form == "vertical"
        per_word = _ROWS_PER_WORD_BY_CLASS if has_classes else _ROWS_PER_WORD
        if n_rows < max(_VERTICAL_ROWS, per_word * (1 + self.threads) // 2 * width):
            return False
        # The list of visits has an entry per column and pair of components that share the column.
        if WORD * codes.size * n_components <= _MOST_VISITS:  # whatever the codes are
            return True
        return int(count_ones(codes).sum()) * int(n_components) <= _MOST_VISITS


def plain_sides(data: Sequence[Data]) -> list[PlainSide]:
    """Return the sides of all modes if there is one class of rows and columns, but for weights."""
    return [(ones, known, NO_CLASSES, NO_SEGMENTS, NO_CLASSES) for ones, known, _ in data]


def put_back(job: RowUpdate, factor: Factor, after: Words) -> Factor:
    """Return the factor with the new entries in the rows of a work order."""
    if job.rows is None:
        return Factor(after, factor.n_rows)
    return Factor(scatter_bits(factor.words, job.rows, after), factor.n_rows)
