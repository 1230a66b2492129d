"""The GPU engine: data, factors and decisions on a CUDA device (kernels in ``rows.cu``).

A chain's state stays on the host, where all that is above looks at it; factors that come from or
go to the device are remembered there as long as the host's copy lives, so that they travel once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from thali.bits import Factor
from thali.bits.words import n_words
from thali.decide import EXP
from thali.engines.base import Births, Moves
from thali.engines.blocks import Block
from thali.engines.device import CudaDevice
from thali.engines.vertical import VerticalUpdate
from thali.errors import EngineUnavailable
from thali.streams import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, PackedTensor, Words
    from thali.engines.base import RowUpdate
    from thali.model.births import BirthTables, CodeTables, MoveTables
    from thali.streams import Stream

_LONG_ROW = 2048
"""Words of 32 columns from which a row has a team of many threads."""

_UPLOAD = 1 << 28
"""Bytes sent at a time: all that is needed twice while data are loaded."""

_MOST_ROWS = 1 << 22
_GB = 1e9
NULL = np.uint64(0)
u32, i64, u64 = np.uint32, np.int64, np.uint64


class Lines(NamedTuple):
    """Packed lines on the device, each filled up to whole vectors of words."""

    words: Any  # (n_lines, stride), uint32
    n_bits: int  # of a line; the words that matter are those of the host, 64 bits each

    @property
    def stride(self) -> np.int64:
        """Words of 32 bits from one line to the next."""
        return i64(self.words.shape[1])

    @property
    def n_words(self) -> int:
        """Words of 32 bits that matter."""
        return 2 * n_words(self.n_bits)


def stride_of(n_bits: int) -> int:
    """Return the 64-bit words a line takes: whole vectors, whole cache lines if it is long."""
    width = n_words(n_bits)
    step = 16 if width > 128 else 2
    return max(step, -(-width // step) * step)


class GpuEngine:
    """Row updates on a CUDA device; the bits drawn are those of the CPU engine."""

    name = "gpu"
    threads = 1
    tensor: PackedTensor
    _unfoldings: list[tuple[Lines, Lines | None]]

    def __init__(self, device: Any = None) -> None:
        """Use the current CUDA device (tests pass another place to compute)."""
        self.device = CudaDevice() if device is None else device
        self.xp = self.device.xp
        self._here: dict[int, tuple[Any, Lines]] = {}
        self._last: tuple[Any, int, list[Any]] = (None, 0, [])
        self.exp = self.xp.asarray(EXP)

    def load(self, tensor: PackedTensor) -> GpuEngine:
        """Return an engine with a copy of the data on the device."""
        engine = GpuEngine(self.device)
        engine.tensor = tensor
        engine._check_room(tensor)
        engine._unfoldings = []
        for mode, unfolding in enumerate(tensor.unfoldings):
            if mode == 1 and len(tensor.shape) == 2:
                first = engine._unfoldings[0]
                turned = [None if part is None else engine._turn(part) for part in first]
                engine._unfoldings.append((turned[0], turned[1]))  # type: ignore[arg-type]
                continue
            ones = engine._upload(unfolding.ones)
            known = None if unfolding.known is None else engine._upload(unfolding.known)
            engine._unfoldings.append((ones, known))
        return engine

    def _check_room(self, tensor: PackedTensor) -> None:
        n_bytes = sum(
            part.shape[0] * stride_of(64 * part.shape[1]) * 8
            for unfolding in tensor.unfoldings
            for part in unfolding
            if part is not None
        )
        largest = max(part.nbytes for u in tensor.unfoldings for part in u if part is not None)
        needed = n_bytes + largest // 2 + 2 * _UPLOAD
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"the data need {needed / _GB:.1f} GB on the GPU, where {free / _GB:.1f} GB are "
                "free; use engine='cpu', a larger GPU, or fewer rows."
            )
            raise EngineUnavailable(msg)

    # --- the protocol -----------------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        n_rows = factor.n_rows if job.rows is None else len(job.rows)
        if factor.n_components == 0 or n_rows == 0:
            return factor, (0, 0)
        lines, gained = VerticalUpdate(self, job).draw(factor)
        tp, fp = (int(v) for v in self.device.to_host(gained).view(np.int64))
        return self._factor(lines, factor), (tp, fp)

    def renew(self, job: RowUpdate, factor: Factor, tables: BirthTables) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        lines = self.lines(factor.words, factor.n_rows)
        if factor.n_components and (job.rows is None or len(job.rows)):
            lines, _ = VerticalUpdate(self, job).draw(factor)
        rows = self._rows(job)
        n_new = self.xp.zeros(len(rows), u32)
        totals = self.xp.zeros(3, u64)
        data = self._data(job.mode, job.codes)
        number = self.xp.asarray(tables.number)
        self._launch_rows(
            "draw_births", len(rows), job.mode, len(job.codes),
            [*data, lines.words, lines.stride, rows, i64(len(rows)), number,
             i64(len(tables.number)), i64(tables.ceiling), u64(job.stream.key),
             u32(job.stream.sweep), u32(Site.BIRTH_COUNT), self.exp, n_new, totals],
        )  # fmt: skip
        births = self._with_codes(job, lines, rows, n_new, None, totals, tables.code)
        return self._factor(lines, factor), births

    def count(
        self, mode: int, rows: Index | None, codes: Words, factor: Factor
    ) -> NDArray[np.int64]:
        """Count covered ones and covered zeros of rows: ``(n_rows, 2)``."""
        index: Any = NULL if rows is None else self.xp.asarray(rows)
        n_rows = factor.n_rows if rows is None else len(rows)
        counts = self.xp.zeros((n_rows, 2), i64)
        lines = self.lines(factor.words, factor.n_rows)
        arguments = [*self._data(mode, codes), lines.words, lines.stride, index, i64(n_rows),
                     counts]  # fmt: skip
        self._launch_rows("count_rows", n_rows, mode, len(codes), arguments)
        return self.device.to_host(counts)

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
        n_rows = rows[1] - rows[0]
        counts = self.xp.zeros((n_rows, len(classes), 2), u64)
        lines = self.lines(factor.words, factor.n_rows)
        sets = self._upload(classes)
        width = self._unfoldings[mode][0].n_words
        parts = max(1, min(width // 1024, 4 * self.device.n_processors // max(1, n_rows)))
        self._launch_rows(
            "tally_rows", n_rows, mode, len(codes),
            [*self._data(mode, codes), lines.words, lines.stride, i64(rows[0]), i64(n_rows),
             self._mask(is_counted), sets.words, sets.stride, u32(len(classes)), counts],
            parts,
        )  # fmt: skip
        return self.device.to_host(counts).view(np.int64)

    def moves(
        self, job: RowUpdate, factor: Factor, is_single: NDArray[np.bool_], tables: MoveTables
    ) -> Moves:
        """Try the birth or death of one single-row component in the rows of a work order."""
        rows = self._rows(job)
        lines = self.lines(factor.words, factor.n_rows)
        n_new, density = (self.xp.zeros(len(rows), u32) for _ in range(2))
        has_died = self.xp.zeros(len(is_single), np.uint8)
        totals = self.xp.zeros(3, u64)
        self._launch_rows(
            "move_singles", len(rows), job.mode, len(job.codes),
            [*self._data(job.mode, job.codes), lines.words, lines.stride, rows, i64(len(rows)),
             self._mask(is_single), self.xp.asarray(tables.factors), i64(len(tables.factors)),
             self.xp.asarray(tables.odds), u64(job.stream.key), u32(job.stream.sweep),
             u32(Site.BIRTH_MOVE), self.exp, n_new, density, has_died, totals],
        )  # fmt: skip
        births = self._with_codes(job, lines, rows, n_new, density, totals, tables.code)
        born = self.device.to_host(density[n_new > 0]).astype(i64)
        return Moves(births, born, self.device.to_host(has_died).astype(np.bool_))

    def partition(self, stream: Stream, n_blocks: int) -> list[Any]:
        """Divide the rows of the first mode at random; the rows of a part in increasing order."""
        n_rows = self.tensor.shape[0]
        keys = self.xp.empty(n_rows, u64)
        self.device.launch(
            "draw_keys", (self._blocks(n_rows, 256), 1), self.threads_of(256),
            [u64(stream.key), u32(stream.sweep), u32(Site.BLOCKS), u32(0), i64(n_rows), keys],
        )  # fmt: skip
        order = self.xp.argsort(keys, kind="stable").astype(i64)
        return [self.xp.sort(part) for part in self.xp.array_split(order, n_blocks)]

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order, there and here."""
        index = self.xp.asarray(order)
        lines = (self.lines(factor.words, factor.n_rows) for factor in factors)
        turned = [part._replace(words=part.words[index]) for part in lines]
        return tuple(self._factor(*both) for both in zip(turned, factors, strict=True))

    def arrange(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Any, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and say what they are to a block of rows."""
        users, codes = factors
        n = users.n_components
        lines = self.lines(users.words, users.n_rows)
        inside = self.xp.zeros(lines.n_words, u32)
        self.device.launch(
            "mark_rows", (self._blocks(len(rows), 256), 1), self.threads_of(256),
            [rows, i64(len(rows)), inside],
        )  # fmt: skip
        sizes, within = self.sizes(lines, inside).T
        if self.rows_at_once(0, len(rows)) >= len(rows):
            self.turned(0, rows)  # while the host thinks about the sizes
        singles = self.xp.zeros(len(rows), u32)
        is_single = (sizes == 1) & (within == 1)
        order = np.argsort(stream.bits(Site.ORDER, n, row=number), kind="stable")
        if is_integrated and is_single.any():
            own = np.flatnonzero(is_single)
            self.device.launch(
                "find_singles", (len(own), 1), self.threads_of(256),
                [lines.words, lines.stride, i64(lines.n_words), self.xp.asarray(own), rows,
                 i64(len(rows)), singles],
            )  # fmt: skip
            order = order[~is_single[order]]
        kept = lines._replace(words=lines.words[self.xp.asarray(order)])
        # Nobody reads these on the host before they are drawn anew: a stand-in of their shape.
        stand_in = np.broadcast_to(u64(0), (len(order), users.words.shape[1]))
        self._remember(stand_in, kept)
        return Block(
            order,
            stand_in,
            codes.words[order],
            sizes[order],
            (sizes == within)[order],
            is_single[order],
            singles,
        )

    def scan(self, *_: Any, **__: Any) -> Any:
        """Refuse: rows one after another leave a GPU idle."""
        msg = (
            "a serial schedule was given with engine='gpu'; it updates one row after another, "
            "which a GPU cannot speed up; use schedule='parallel' or engine='cpu'."
        )
        raise ValueError(msg)

    # --- births -----------------------------------------------------------------------------

    def _with_codes(
        self,
        job: RowUpdate,
        lines: Lines,
        rows: Any,
        n_new: Any,
        density: Any,
        totals: Any,
        tables: CodeTables,
    ) -> Births:
        """Draw the codes of new components and add what they cover."""
        born = int(totals[0])
        n_columns = self.tensor.shape[1 - job.mode]
        if born == 0:
            tp, fp = (int(v) for v in self.device.to_host(totals)[1:])
            nothing = np.zeros((0, n_words(n_columns)), u64)
            return Births(np.zeros(0, i64), nothing, (tp, fp))
        stride = 2 * n_words(n_columns)
        needed = born * (4 * stride + 2 * 8 * n_words(lines.n_bits))
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"{born} rows found components of their own at once, which need "
                f"{needed / _GB:.1f} GB where {free / _GB:.1f} GB are free; start from fewer rows "
                "or with more blocks."
            )
            raise EngineUnavailable(msg)
        places = self.xp.flatnonzero(n_new).astype(i64)
        offsets = self.xp.cumsum(n_new, dtype=i64) - n_new
        codes = self.xp.zeros((born, stride), u32)
        own = [self.xp.asarray(np.ascontiguousarray(table)) for table in tables]
        self.device.launch(
            "draw_codes",
            (len(places), self._blocks(self._unfoldings[job.mode][0].n_words, 256)),
            self.threads_of(256),
            [*self._data(job.mode, job.codes), lines.words, lines.stride, rows, places, n_new,
             NULL if density is None else density, offsets.astype(i64), *own,
             i64(tables.first.shape[1]), u64(job.stream.key), u32(job.stream.sweep),
             u32(Site.BIRTH_COVER), u32(Site.BIRTH_BITS), codes, i64(stride), totals],
            self._mask_bytes(len(job.codes)),
        )  # fmt: skip
        tp, fp = (int(v) for v in self.device.to_host(totals)[1:])
        numbers = self.device.to_host(n_new[places])
        owners = np.repeat(self.device.to_host(rows[places]), numbers)
        return Births(owners, self.device.to_host(codes).view(u64), (tp, fp))

    # --- how work is laid out ---------------------------------------------------------------

    def lines(self, words: Words, n_bits: int) -> Lines:
        """Return a factor or codes on the device; what is there already does not travel."""
        known = self._here.get(id(words))
        if known is not None and known[0]() is words:
            return known[1]
        lines = self._upload(words)._replace(n_bits=n_bits)
        self._remember(words, lines)
        return lines

    def sizes(self, lines: Lines, inside: Any = NULL) -> Index:
        """Count the ones of every line, and those in a set: ``(n_lines, 2)``."""
        n = lines.words.shape[0]
        counts = self.xp.zeros((n, 2), u64)
        if n:
            parts = max(1, min(lines.n_words // 4096, 2 * self.device.n_processors // n))
            self.device.launch(
                "count_lines", (n, parts), self.threads_of(256),
                [lines.words, lines.stride, i64(lines.n_words), inside, counts],
            )  # fmt: skip
        return self.device.to_host(counts).view(np.int64)

    def unfolding(self, mode: int) -> tuple[Lines, Lines | None]:
        """Return a mode's data."""
        return self._unfoldings[mode]

    def _remember(self, words: Words, lines: Lines) -> None:
        key, here = id(words), self._here
        here[key] = ref(words, lambda _: here.pop(key, None)), lines

    def _factor(self, lines: Lines, like: Factor) -> Factor:
        """Return lines as a factor on the host, remembering where they are on the device."""
        words = self.device.to_host(lines.words.view(u64)[:, : n_words(like.n_rows)])
        self._remember(words, lines._replace(n_bits=like.n_rows))
        return like._replace(words=words)

    def _upload(self, words: Words) -> Lines:
        if words.dtype != np.uint64 or words.ndim != 2:
            msg = f"packed words were expected; {words.dtype} of shape {words.shape} was given."
            raise TypeError(msg)
        n, width = words.shape
        out = self.xp.zeros((n, stride_of(64 * width)), u64)
        step = max(1, _UPLOAD // max(1, 8 * width))
        for start in range(0, n, step):
            part = np.ascontiguousarray(words[start : start + step])
            out[start : start + step, :width] = self.xp.asarray(part)
        return Lines(out.view(u32), 64 * width)

    def rows_at_once(self, mode: int, n_rows: int) -> int:
        """Return how many rows are turned at a time: in an eighth of the memory of the data."""
        room = sum(part.words.nbytes for u in self._unfoldings for part in u if part)
        line = sum(4 * part.n_words for part in self._unfoldings[mode] if part)
        most = min(_MOST_ROWS, max(room // 8, 1 << 26) // line)
        return min(max(32, n_rows), max(32, most // 32 * 32))

    def turned(self, mode: int, rows: Any) -> list[Any]:
        """Return the data of some rows as lines across them; the last ones are remembered."""
        if self._last[0] is not rows or self._last[1] != mode:
            self._last = (None, 0, [])  # its memory is free for the next
            n = -(-len(rows) // 32)
            step = 32 if n > 256 else 4
            turned: list[Any] = []
            for source in self._unfoldings[mode]:
                out = None
                if source is not None:
                    out = self.xp.empty((32 * source.n_words, -(-n // step) * step), u32)
                    self.transpose(source, rows, 0, len(rows), out)
                turned.append(out)
            self._last = (rows, mode, turned)
        return self._last[2]

    def _turn(self, lines: Lines) -> Lines:
        """Transpose a matrix's unfolding on the device."""
        n_rows, n_columns = self.tensor.shape
        out = self.xp.zeros((64 * n_words(n_columns), 2 * stride_of(n_rows)), u32)
        self.transpose(lines, NULL, 0, n_rows, out)
        return Lines(out[:n_columns], n_rows)

    def transpose(self, lines: Lines, rows: Any, first: int, n: int, out: Any) -> None:
        """Turn some rows into columns: a line of ``out`` for each."""
        step = 32 * self.device.warps * 60_000  # the height of a grid
        for start in range(0, n, step):
            height = min(step, n - start)
            self.device.launch(
                "transpose_rows",
                (self._blocks(lines.n_words, self.device.lanes),
                 self._blocks(height, 32 * self.device.warps)),
                self.device.lanes * self.device.warps,
                [lines.words, lines.stride, rows, i64(first + start), i64(height),
                 i64(lines.n_words), out[:, start // 32 :], i64(out.shape[1])],
            )  # fmt: skip

    def _rows(self, job: RowUpdate) -> Any:
        if job.rows is None:
            return self.xp.arange(self.tensor.shape[job.mode], dtype=i64)
        return self.xp.asarray(job.rows)

    def _data(self, mode: int, codes: Words) -> list[Any]:
        """Return the first arguments of the kernels that look at whole rows."""
        ones, known = self._unfoldings[mode]
        lines = self.lines(codes, 64 * codes.shape[1])
        return [
            ones.words, NULL if known is None else known.words, ones.stride, i64(ones.n_words),
            i64(int(np.prod(self.tensor.shape)) // self.tensor.shape[mode]),
            lines.words, lines.stride, u32(len(codes)),
        ]  # fmt: skip

    def _mask(self, bits: NDArray[np.bool_]) -> Any:
        words = np.zeros(4 * -(-max(1, len(bits)) // 32), np.uint8)
        octets = np.packbits(bits, bitorder="little")
        words[: len(octets)] = octets
        return self.xp.asarray(words.view(u32))

    def _launch_rows(
        self, name: str, n_rows: int, mode: int, n_components: int, arguments: list[Any],
        parts: int = 1,
    ) -> None:  # fmt: skip
        """Start a kernel with a team for each row."""
        if n_rows == 0:
            return
        is_long = self._unfoldings[mode][0].n_words >= _LONG_ROW
        threads = self.threads_of(256 if is_long else 32)
        blocks = min(n_rows, self.device.n_processors * (8 if is_long else 32))
        shared = self._mask_bytes(n_components)
        self.device.launch(name, (blocks, parts), threads, arguments, shared)

    def _mask_bytes(self, n_components: int) -> int:
        return 4 * -(-max(1, n_components) // 32)

    def threads_of(self, n: int) -> int:
        """Return a number of threads; the host has one."""
        return n if self.device.lanes > 1 else 1

    def _blocks(self, n: int, threads: int) -> int:
        """Return how many blocks of so many threads do n pieces of work."""
        return max(1, -(-n // self.threads_of(threads)))
