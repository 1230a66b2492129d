"""Sets of rows on the GPU, with which moves look ahead (``kernels/row_sets.cu``)."""

from __future__ import annotations

from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits.words import pack
from thali.engines.gpu.classes import classes_of, columns_of, one_class
from thali.engines.gpu.counting import count_in_parts, warps_of
from thali.engines.gpu.device_memory import NULL, i64, u32, u64
from thali.engines.gpu.visits import components_of
from thali.model.gains import plain_gains, sum_gains
from thali.threads import parallel_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index, Words
    from thali.engines.base import Cover
    from thali.engines.gpu.classes import Classes
    from thali.engines.gpu.engine import GpuEngine
    from thali.model.weights import Weights
    from thali.streams import Stream

MOST_WINDOW, MOST_SETS, SETS_AT_ONCE, NEAR = 16, 6, 3, 128
"""The same constants as in ``kernels/``; a test compares them."""

_PIECE = 1 << 13
"""Most rows whose entries a block of threads counts."""

_FEW = 4
"""Number of questions whose counts one thread weighs in the time in which another one wakes up."""

_THREADS = 256
_FLOAT = np.float64


def shared_by_columns(engine: GpuEngine, n_components: int) -> int:
    """Return the bytes of shared memory of a block that counts in columns, codes included."""
    lanes = engine.device.lanes
    words = SETS_AT_ONCE * 2 * NEAR + warps_of(engine) * 2 * (max(4, lanes) + 4 * lanes)
    return 4 * (words + NEAR // 32 * n_components)


class DeviceRowSets:
    """Sets of rows of a matrix on the device: lines of words, as those of a factor."""

    def __init__(self, engine: GpuEngine, factors: tuple[Factor, ...]) -> None:
        self.engine, self.factors = engine, factors
        users, self._codes = factors
        self._lines, self.n_components = engine.lines(users), users.n_components
        self.sizes: Index = engine.sizes(self._lines)[:, 0]

    def answer(self, questions: Sequence[Any]) -> list[NDArray[Any]]:
        """Wait for what was asked for; all of it comes in one copy."""
        xp = self.engine.xp
        arrays: dict[int, Any] = {
            i: q.view(u32) for i, q in enumerate(questions) if not isinstance(q, tuple)
        }
        sets = [i for i, q in enumerate(questions) if isinstance(q, _Overlaps)]
        if sets:
            shared = self._count_shared([questions[i].rows for i in sets])
            arrays |= {i: shared[k].view(u32) for k, i in enumerate(sets)}
        asked = [i for i, q in enumerate(questions) if isinstance(q, _Columns)]
        arrays |= dict(zip(asked, self._count_columns([questions[i] for i in asked]), strict=True))
        # Numbers of 64 bits come first, where they are at multiples of eight bytes.
        together = self.engine.device.to_host(xp.concatenate([a.ravel() for a in arrays.values()]))
        sizes = [array.size for array in arrays.values()]
        parts = dict(zip(arrays, np.split(together, np.cumsum(sizes)[:-1]), strict=True))
        answers: list[Any] = [None] * len(questions)
        for i in asked:
            answers[i] = parts.pop(i).reshape(arrays[i].shape)
        for i, part in parts.items():
            answers[i] = part.view(np.int64)
        is_long = any(questions[i].weights.has_classes for i in asked[:1])
        threads = self.engine.threads if is_long else 1
        parallel_for(_weigh, len(asked), threads, asked, questions, answers, step=_FEW)
        return answers

    # --- sets -------------------------------------------------------------------------------

    def users(self, component: int) -> Any:
        """Return the users of a component."""
        return self._lines.words[component]

    def combined(self, sets: Sequence[Any], *, is_union: bool) -> Any:
        """Return the union or the intersection of sets."""
        return reduce(lambda a, b: a | b if is_union else a & b, sets)

    def joined(
        self, stream: Stream, site: int, number: int, sets: Sequence[Any],
        rates: NDArray[np.float64],
    ) -> Any:  # fmt: skip
        """Draw which rows join, at the rate of rows in neither, one or both of two sets."""
        engine, n_words = self.engine, self._lines.n_words
        out = self._empty()
        engine.device.launch(
            "join_rows", (-(-n_words // engine.device.warps), 1),
            engine.device.lanes * engine.device.warps,
            [*sets, i64(self._lines.n_bits), i64(n_words), *(_FLOAT(rate) for rate in rates),
             *_address(stream, site, number), out],
        )  # fmt: skip
        return out

    def divided(
        self, stream: Stream, site: int, number: int, users: Any, shares: tuple[float, float]
    ) -> tuple[Any, Any]:
        """Assign every user to the first part, the second or both."""
        pair = self._empty(), self._empty()
        self._launch_words(
            "divide_users",
            [users, i64(self._lines.n_words), *map(_FLOAT, shares),
             *_address(stream, site, number), *pair],
        )  # fmt: skip
        return pair

    def settled(
        self, stream: Stream, site: int, number: int, users: Any, window: slice, marks: Words,
        is_counted: NDArray[np.bool_], weights: tuple[float, float],
    ) -> tuple[tuple[Any, Any], Any]:  # fmt: skip
        """Assign every user to the part whose marks fit it, or to both.

        The marks are in a window of words of columns. Returns the parts, and the question how many
        users' parts rounding could change.
        """
        engine = self.engine
        assert 2 * marks.shape[1] <= MOST_WINDOW
        ones, known = engine.on_device(0)
        codes = engine.lines(self._codes)
        pair, n_unsure = (self._empty(), self._empty()), engine.xp.zeros(1, u64)
        self._launch_words(
            "settle_users",
            [ones.words, NULL if known is None else known.words, ones.stride, codes.words,
             codes.stride, self._lines.words, self._lines.stride, u32(self.n_components),
             engine.mask(is_counted), users, i64(self._lines.n_words), u32(2 * window.start),
             u32(2 * marks.shape[1]), engine.xp.asarray(np.ascontiguousarray(marks).view(u32)),
             *map(_FLOAT, weights), *_address(stream, site, number), *pair, n_unsure],
        )  # fmt: skip
        return pair, n_unsure

    # --- questions --------------------------------------------------------------------------

    def overlaps(self, rows: Any) -> Any:
        """Ask how many members a set shares with the users of every component, and has itself."""
        return _Overlaps(rows)

    def _count_shared(self, sets: list[Any]) -> Any:
        """Answer :meth:`overlaps` for several sets."""
        engine, lines, n = self.engine, self._lines, self.n_components
        counts = engine.xp.zeros((len(sets), n + 1), u64)
        engine.device.launch(
            "count_shared", (n + 1, len(sets)), engine.threads_of(_THREADS),
            [lines.words, lines.stride, i64(lines.n_words), u32(n),
             engine.xp.asarray(np.array([_pointer(rows) for rows in sets], u64)), counts],
        )  # fmt: skip
        return counts

    def gains_of_columns(
        self, columns: tuple[int, int], is_counted: NDArray[np.bool_], sets: Sequence[Any],
        weights: Weights,
    ) -> Any:  # fmt: skip
        """Ask what columns gain by covering their free entries in classes of rows."""
        return _Columns(columns, is_counted, sets, weights)

    def _count_columns(self, orders: list[_Columns]) -> list[Any]:
        """Count the free ones and zeros that :meth:`gains_of_columns` asks for."""
        if not orders:
            return []
        engine = self.engine
        of_rows = columns_of(engine, 1, orders[0].weights.of_mode(1).columns)
        n_classes = 1 if of_rows is None else of_rows.n
        pieces = engine.kept("pieces", of_rows or engine.totals, lambda: self._pieces(of_rows))
        n_block = orders[0].columns[1] - orders[0].columns[0]
        width = MOST_SETS + 3 + -(-max(1, self.n_components) // 64)
        table = np.zeros((len(orders), width), u64)
        ends, shapes = [0], []
        for line, order in zip(table, orders, strict=True):
            n = len(order.sets)
            assert n <= MOST_SETS
            line[:n] = [_pointer(rows) for rows in order.sets]
            line[MOST_SETS : MOST_SETS + 3] = n, order.columns[0], ends[-1]
            line[MOST_SETS + 3 :] = pack(order.is_counted)
            shapes.append((n_block, ((1 << n) - 1) * n_classes, 2))
            ends.append(ends[-1] + prod(shapes[-1]))
        counts = engine.xp.zeros(ends[-1], u32)
        ones, known = engine.on_device(0)
        codes, warps = engine.lines(self._codes), warps_of(engine)
        engine.device.launch(
            "count_columns", (len(orders) * len(pieces), -(-n_block // NEAR)),
            engine.device.lanes * warps,
            [ones.words, NULL if known is None else known.words, ones.stride, codes.words,
             codes.stride, u32(self.n_components), self._masks, u32(self._masks.shape[1]),
             engine.xp.asarray(table), u32(width), u32(n_block),
             NULL if of_rows is None else of_rows.places, pieces, u32(len(pieces)),
             u32(n_classes), counts],
            shared_by_columns(engine, self.n_components),
        )  # fmt: skip
        return [
            counts[lo:hi].reshape(shape)
            for lo, hi, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
        ]

    @cached_property
    def _masks(self) -> Any:
        """The components of every row, as bits."""
        return components_of(self.engine, self._lines)

    def _pieces(self, of_rows: Classes | None) -> Any:
        """Return pieces of rows of one class: first place, end and class."""
        edges = [0, self._lines.n_bits]
        if of_rows is not None:
            edges = self.engine.device.to_host(of_rows.edges).tolist()
        return self.engine.xp.asarray(np.array([
            (first, min(first + _PIECE, end), number)
            for number, (start, end) in enumerate(pairwise(edges))
            for first in range(start, end, _PIECE)
        ], u32))  # fmt: skip

    def gains_of_rows(
        self, code: Words, cover: Cover, weights: Weights, rows: Any, least: float, most: int
    ) -> Any:
        """Ask what rows gain by covering their free entries in the columns of a code."""
        engine, xp = self.engine, self.engine.xp
        table = np.ascontiguousarray(weights.table[:, :, 0])
        of_rows = classes_of(engine, 0, weights.rows)
        of_columns = columns_of(engine, 0, weights.columns)
        n_rows, n_columns = engine.totals.shape
        if of_columns is None:
            of_columns = one_class(engine, 0, n_columns)
        index = xp.asarray(np.flatnonzero(cover.is_counted))
        users, codes = (
            lines._replace(words=lines.words[index])
            for lines in (self._lines, engine.lines(cover.codes))
        )
        found = xp.zeros(3 + 2 * most, i64)
        weighed = xp.asarray(table)
        for start, stop, counts in count_in_parts(
            engine, 0, (0, n_rows), engine.upload(code[None]), users, codes, of_columns
        ):
            engine.device.launch(
                "weigh_rows", (engine.blocks_of(stop - start, _THREADS), 1),
                engine.threads_of(_THREADS),
                [counts, i64(stop - start), i64(start), u32(of_columns.n),
                 NULL if of_rows is None else of_rows.of_lines, weighed,
                 NULL if rows is None else rows, _FLOAT(least), u32(most), found],
            )  # fmt: skip
        return found

    # --- how work is laid out ---------------------------------------------------------------

    def _empty(self) -> Any:
        return self.engine.xp.zeros(self._lines.words.shape[1], u32)

    def _launch_words(self, name: str, arguments: list[Any]) -> None:
        """Start a kernel in which a thread does one word of 32 rows."""
        engine = self.engine
        blocks = engine.blocks_of(self._lines.n_words, _THREADS)
        engine.device.launch(name, (blocks, 1), engine.threads_of(_THREADS), arguments)


class _Overlaps(NamedTuple):
    """A question that is answered together with others of its kind."""

    rows: Any


class _Columns(NamedTuple):
    """A question that is answered together with others of its kind."""

    columns: tuple[int, int]
    is_counted: NDArray[np.bool_]
    sets: Sequence[Any]
    weights: Weights


def _pointer(array: Any) -> int:
    """Return the address of an array, on the device or (in tests) on the host."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def _address(stream: Stream, site: int, number: int) -> list[Any]:
    return [u64(stream.key), u32(stream.sweep), u32(site), u32(number)]


def _weigh(
    lo: int, hi: int, asked: list[int], questions: Sequence[Any], answers: list[Any]
) -> None:
    """Replace the free ones and zeros of columns by what the columns gain, for some questions."""
    for i in asked[lo:hi]:
        columns, _, _, weights = questions[i]
        weights = weights.of_mode(1)
        if not weights.has_classes:
            answers[i] = plain_gains(answers[i], *weights.pair())
        else:
            of_columns = weights.rows[slice(*columns)]
            answers[i] = sum_gains(answers[i], weights.table[:, :, 0], of_columns)
