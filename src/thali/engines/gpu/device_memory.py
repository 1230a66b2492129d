"""What lies on the device: the data, and factors as long as somebody holds their handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from thali.bits import Factor, Unfolding
from thali.bits.words import n_words, pack
from thali.decide import EXP
from thali.engines.gpu.device import CudaDevice
from thali.engines.gpu.loading import fetch_rows, send_listed, send_rows
from thali.engines.host import HostRows
from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from thali.bits import Index, PackedTensor, Words
    from thali.data import Pattern
    from thali.engines.base import RowUpdate

_SMALL = 1 << 23
"""Bytes that are sent at once, without buffers."""

_SPARE = 1 << 29
"""Bytes beside the data: blocks on their way, factors, counts."""

_LONGEST = (1 << 25) - 1
"""Words of a row: columns are numbered in 31 bits."""

_MOST_ROWS = 1 << 22
GB = 1e9
NULL = np.uint64(0)
u32, i64, u64 = np.uint32, np.int64, np.uint64


class Lines(NamedTuple):
    """Packed lines on the device, each filled up to whole vectors of words.

    They are the handle of a factor (:class:`thali.bits.Factor`) that the device has.
    """

    words: Any  # (n_lines, stride), uint32
    n_bits: int  # of a line; the words that matter are those of the host, 64 bits each
    device: Any

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return int(self.words.shape[0])

    def to_host(self) -> Words:
        """Copy the lines to the host."""
        words: Words = self.device.to_host(self.words.view(u64)[:, : n_words(self.n_bits)])
        return words

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


class RowBlock:
    """Some rows by number, and their data as lines across them while they are worked on."""

    __slots__ = ("mode", "rows", "transposed")

    def __init__(self, rows: Any) -> None:
        self.rows = rows  # on the device, in increasing order
        self.mode = -1
        self.transposed: tuple[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.rows)


class DeviceMemory(HostRows):
    """Data on a device, and how they get there."""

    _unfoldings: list[tuple[Lines, Lines | None]]

    def __init__(self, device: Any = None, threads: int | None = None) -> None:
        """Use the first CUDA device (tests pass another place to compute).

        Threads are the host's, for loading and for proposals of moves.
        """
        super().__init__(threads)
        self.device = CudaDevice() if device is None else device
        self.xp = self.device.xp
        self._transposed: RowBlock | None = None  # who has its data as lines across rows
        self.exp = self.xp.asarray(EXP)

    def load(self, tensor: PackedTensor) -> Self:
        """Return an engine with a copy of the data on the device; a matrix travels once."""
        engine = type(self)(self.device, self.threads)
        engine.take_in(tensor)
        return engine

    def take_in(self, tensor: PackedTensor) -> None:
        """Bring the data to the device; listed entries are packed there, for the host as well."""
        self._check_room(tensor)
        self._unfoldings = []
        if tensor.listed is not None:
            self._pack_listed(tensor, *tensor.listed)
        for mode in range(len(self._unfoldings), len(tensor.shape)):
            if mode == 1 and len(tensor.shape) == 2:
                self.transpose_matrix(tensor.shape)
                continue
            ones, known = tensor.unfoldings[mode]
            mask = None if known is None else self.upload(known)
            self._unfoldings.append((self.upload(ones), mask))
        self.hold(tensor)

    def pack(self, pattern: Pattern, *, is_unknown: bool = False) -> Lines:
        """Pack the listed entries of a matrix; if these are the unknown ones, all others."""
        n_rows, n_columns = pattern.shape
        out = self.xp.zeros((n_rows, stride_of(n_columns)), u64)
        if is_unknown:
            out[:, : n_words(n_columns)] = self.xp.asarray(pack(np.ones(n_columns, np.bool_)))
        lines = Lines(out.view(u32), n_columns, self.device)
        indptr, bounds = pattern.indptr, self.xp.asarray(pattern.indptr)
        for start, columns in send_listed(self.device, pattern.indices, self.threads):
            n = len(columns)
            first, last = np.searchsorted(indptr, [start, start + n - 1], side="right") - 1
            n_rows = int(last - first) + 1
            # Few rows, each of many entries, are shared by several warps.
            parts = max(1, min(n // n_rows // 4096, 8 * self.device.n_processors // n_rows))
            self.device.launch(
                "flip_listed",
                (self.blocks_of(n_rows, self.device.warps), parts),
                self.device.lanes * self.device.warps,
                [bounds[first:], i64(n_rows), columns, i64(start), i64(n), lines.words[first:],
                 lines.stride],
            )  # fmt: skip
        return lines

    def _pack_listed(self, tensor: PackedTensor, ones: Pattern, unknown: Pattern | None) -> None:
        """Pack a sparse matrix on the device, and bring its rows back to the host."""
        lines = (self.pack(ones), None if unknown is None else self.pack(unknown, is_unknown=True))
        self._unfoldings.append(lines)
        width = n_words(ones.shape[1])
        words, mask = (
            None
            if part is None
            else fetch_rows(self.device, part.words.view(u64), width, self.threads)
            for part in lines
        )
        assert words is not None
        tensor.put(Unfolding(words, mask))

    def transpose_matrix(self, shape: tuple[int, ...]) -> None:
        """Make a matrix's second unfolding of the first."""
        ones, known = self._unfoldings[0]
        mask = None if known is None else self._transpose_all(known, *shape)
        self._unfoldings.append((self._transpose_all(ones, *shape), mask))

    def _check_room(self, tensor: PackedTensor) -> None:
        sizes = tensor.sizes
        n_parts = 1 + tensor.has_mask
        n_bytes = n_parts * sum(n * stride_of(64 * width) * 8 for n, width in sizes)
        largest = max(8 * n * width for n, width in sizes)
        if max(width for _, width in sizes) > _LONGEST:
            msg = (
                f"a tensor of shape {tensor.shape} was given to the GPU, whose rows have at most "
                f"{64 * _LONGEST} columns; use engine='cpu'."
            )
            raise EngineUnavailable(msg)
        needed = n_bytes + largest // 2 + _SPARE
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"the data need {needed / GB:.1f} GB on the GPU, where {free / GB:.1f} GB are "
                "free; use engine='cpu', a larger GPU, or fewer rows."
            )
            raise EngineUnavailable(msg)

    def lines(self, factor: Factor) -> Lines:
        """Return a factor on the device; what is there already does not travel."""
        handle = factor.handle
        if isinstance(handle, Lines) and handle.device is self.device:
            return handle
        lines = self.upload(factor.words)._replace(n_bits=factor.n_rows)
        factor.handle = lines
        return lines

    def to_factor(self, lines: Lines, n_rows: int) -> Factor:
        """Return lines as a factor, which is copied to the host when somebody asks for it."""
        return Factor(None, n_rows, lines._replace(n_bits=n_rows))

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

    def on_device(self, mode: int) -> tuple[Lines, Lines | None]:
        """Return a mode's data on the device: ones and known entries."""
        return self._unfoldings[mode]

    def upload(self, words: Words) -> Lines:
        """Copy packed lines to the device."""
        if words.dtype != np.uint64 or words.ndim != 2:
            msg = f"packed words were expected; {words.dtype} of shape {words.shape} was given."
            raise TypeError(msg)
        n, width = words.shape
        out = self.xp.zeros((n, stride_of(64 * width)), u64)
        if words.nbytes > _SMALL:
            send_rows(self.device, words, out, self.threads)
        elif words.size:
            out[:, :width] = self.xp.asarray(np.ascontiguousarray(words))
        return Lines(out.view(u32), 64 * width, self.device)

    def rows_at_once(self, mode: int, n_rows: int) -> int:
        """Return how many rows are transposed at a time: in an eighth of the data's memory."""
        room = sum(part.words.nbytes for u in self._unfoldings for part in u if part)
        line = sum(4 * part.n_words for part in self._unfoldings[mode] if part)
        most = int(min(_MOST_ROWS, max(room // 8, 1 << 26) // line))
        return min(max(32, n_rows), max(32, most // 32 * 32))

    def block_of(self, job: RowUpdate) -> RowBlock:
        """Return the rows of a work order, which may be numbers on the host."""
        if isinstance(job.rows, RowBlock):
            return job.rows
        if job.rows is None:
            return RowBlock(self.xp.arange(self.totals.shape[job.mode], dtype=i64))
        return RowBlock(self.xp.asarray(job.rows))

    def transposed(self, mode: int, block: RowBlock) -> tuple[Any, Any]:
        """Return the data of some rows as lines across them; the last block keeps them."""
        if block.transposed is not None and block.mode == mode:
            return block.transposed
        if self._transposed is not None:
            self._transposed.transposed = None  # its memory is free for the next
        n = -(-len(block) // 32)
        step = 32 if n > 256 else 4
        lines = []
        for source in self._unfoldings[mode]:
            out = None
            if source is not None:
                out = self.xp.empty((32 * source.n_words, -(-n // step) * step), u32)
                self.transpose(source, block.rows, 0, len(block), out)
            lines.append(out)
        block.mode, block.transposed = mode, (lines[0], lines[1])
        self._transposed = block
        return block.transposed

    def _transpose_all(self, lines: Lines, n_rows: int, n_columns: int) -> Lines:
        """Transpose a matrix's unfolding on the device."""
        out = self.xp.zeros((64 * n_words(n_columns), 2 * stride_of(n_rows)), u32)
        self.transpose(lines, NULL, 0, n_rows, out)
        return Lines(out[:n_columns], n_rows, self.device)

    def transpose(self, lines: Lines, rows: Any, first: int, n: int, out: Any) -> None:
        """Turn some rows into columns: a line of ``out`` for each."""
        step = 32 * self.device.warps * 60_000  # the height of a grid
        for start in range(0, n, step):
            height = min(step, n - start)
            self.device.launch(
                "transpose_rows",
                (self.blocks_of(lines.n_words, self.device.lanes),
                 self.blocks_of(height, 32 * self.device.warps)),
                self.device.lanes * self.device.warps,
                [lines.words, lines.stride, rows, i64(first + start), i64(height),
                 i64(lines.n_words), out[:, start // 32 :], i64(out.shape[1])],
            )  # fmt: skip

    def threads_of(self, n: int) -> int:
        """Return a number of threads; the host has one."""
        return n if self.device.lanes > 1 else 1

    def blocks_of(self, n: int, threads: int) -> int:
        """Return how many blocks of so many threads do n pieces of work."""
        return max(1, -(-n // self.threads_of(threads)))
