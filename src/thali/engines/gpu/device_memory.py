"""The memory of the device: it holds the data, and factors as long as their handles exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from thali.bits import Factor, Unfolding
from thali.bits.codes import Product
from thali.bits.words import n_words, pack
from thali.decide import EXP
from thali.engines.gpu.device import CudaDevice
from thali.engines.gpu.loading import fetch_rows, send_listed, send_rows
from thali.engines.host import HostRows
from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index, PackedTensor, Words
    from thali.data import Pattern
    from thali.engines.base import RowUpdate

_SMALL = 1 << 23
"""Number of bytes up to which data are sent at once, without buffers."""

SPARE = 1 << 29
"""Bytes to be left free beside the data: for blocks of rows, factors and counts."""

_STEP = 1 << 26
"""Page-locked memory for counts comes in multiples of so many bytes."""

_LONGEST = (1 << 25) - 1
"""Largest number of words per row: column numbers have 31 bits."""

GB, _MOST_ROWS = 1e9, 1 << 22
NULL = np.uint64(0)
u32, i64, u64 = np.uint32, np.int64, np.uint64


class Lines(NamedTuple):
    """Packed lines on the device, each padded to whole vectors of words.

    They serve as the handle of a factor (:class:`thali.bits.Factor`) that is on the device.
    """

    words: Any  # (n_lines, stride), uint32
    n_bits: int  # number of bits per line; on the host, a line has just the words for these
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
        """Number of 32-bit words from the start of one line to the next."""
        return i64(self.words.shape[1])

    @property
    def n_words(self) -> int:
        """Number of 32-bit words per line without padding."""
        return 2 * n_words(self.n_bits)


def stride_of(n_bits: int) -> int:
    """Return the 64-bit words per line: whole vectors, or whole cache lines for long lines."""
    width = n_words(n_bits)
    step = 16 if width > 128 else 2
    return max(step, -(-width // step) * step)


class RowBlock:
    """The numbers of some rows, and their transposed data while the block is in use."""

    __slots__ = ("counted", "following", "mode", "rows", "transposed")

    def __init__(self, rows: Any) -> None:
        self.rows = rows  # on the device, in increasing order
        self.mode = -1
        self.transposed: tuple[Any, Any] | None = None
        self.following: RowBlock | None = None  # the block that is updated next
        self.counted: Any = None  # lines, and what waits for their sizes

    def __len__(self) -> int:
        return len(self.rows)


class DeviceMemory(HostRows):
    """The part of the GPU engine that keeps data and factors on the device."""

    _unfoldings: list[tuple[Lines, Lines | None]]

    def __init__(self, device: Any = None, threads: int | None = None) -> None:
        """Use the first CUDA device, or that of a test, and so many threads of the host."""
        super().__init__(threads)
        self.device = CudaDevice() if device is None else device
        self.xp = self.device.xp
        self._transposed: RowBlock | None = None  # the block that has its data transposed
        self._kept: dict[str, tuple[Any, Any]] = {}
        self.exp = self.xp.asarray(EXP)

    def load(self, tensor: PackedTensor) -> Self:
        """Return an engine like this one with a copy of the data on the device."""
        engine = type(self)(self.device, self.threads)
        engine.take_in(tensor)
        return engine

    def take_in(self, tensor: PackedTensor) -> None:
        """Copy the data to the device.

        A matrix is copied once and transposed there. Listed entries are packed on the device, and
        the packed rows are copied back to the host.
        """
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
        """Pack the listed entries of a matrix; if they are unknown, pack all other entries."""
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
            # If there are few rows with many entries, several warps share a row.
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
        """Pack a sparse matrix on the device, and copy the packed rows back to the host."""
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
        """Make the second unfolding of a matrix from the first."""
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
        needed = n_bytes + largest // 2 + SPARE
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"the data need {needed / GB:.1f} GB on the GPU, where {free / GB:.1f} GB are "
                "free; use engine='cpu', a larger GPU, or fewer rows."
            )
            raise EngineUnavailable(msg)

    def lines(self, factor: Factor) -> Lines:
        """Return a factor on the device; it is copied only if it is not there yet."""
        handle = factor.handle
        if isinstance(handle, Lines) and handle.device is self.device:
            return handle
        if isinstance(handle, Product) and not factor.has_words:
            lines = self._combined(handle)
        else:
            lines = self.upload(factor.words)
        factor.handle = lines = lines._replace(n_bits=factor.n_rows)
        return lines

    def _combined(self, product: Product) -> Lines:
        """Return the Khatri-Rao product of factors, the last of which varies fastest."""
        lines = self.lines(product.inner)
        for factor in reversed(product.outer):
            outer, n, width = self.lines(factor), lines.n_lines, lines.n_words
            n_bits = 32 * width * factor.n_rows
            words = self.xp.zeros((n, 2 * stride_of(n_bits)), u32)
            if n:
                self.device.launch(
                    "spread_lines", (self.blocks_of(width * factor.n_rows, 1024), n),
                    self.threads_of(256),
                    [outer.words, outer.stride, u32(factor.n_rows), lines.words, lines.stride,
                     u32(width), words, i64(2 * stride_of(n_bits))],
                )  # fmt: skip
            lines = Lines(words, n_bits, self.device)
        return lines

    def with_room(self, lines: Any) -> Any:
        """Copy lines, and add a line of zeros and a line of ones, which the kernels need."""
        n, stride = lines.shape
        words = self.xp.empty((n + 2, stride), u32)
        words[:n] = lines
        words[n] = 0
        words[n + 1] = 0xFFFFFFFF
        return words

    def to_factor(self, lines: Lines, n_rows: int) -> Factor:
        """Return lines as a factor, which is copied to the host only when it is needed there."""
        return Factor(None, n_rows, lines._replace(n_bits=n_rows))

    def sent(self, *tables: Any) -> list[Any]:
        """Copy small tables of one type to the device in one copy, to wait only once."""
        together = self.xp.asarray(np.concatenate([table.ravel() for table in tables]))
        ends = np.cumsum([table.size for table in tables])
        return [together[end - t.size : end] for end, t in zip(ends, tables, strict=True)]

    def kept(self, name: str, source: Any, make: Callable[[], Any]) -> Any:
        """Return what was made for a source, which is made once as long as the source stays."""
        held = self._kept.get(name)
        if held is None or held[0] is not source:
            held = source, make()
            self._kept[name] = held
        return held[1]

    def known_of_lines(self, mode: int) -> Any:
        """Return the numbers of ones and of known entries of all lines of a mode."""

        def make() -> Any:
            ones, known = self._unfoldings[mode]
            out = self.sizes_of(ones)
            n = self.totals.n_columns(mode)
            out[:, 1] = n if known is None else self.sizes_of(known)[:, 0]
            return out

        return self.kept(f"known {mode}", self.totals, make)

    def sizes(self, lines: Lines, inside: Any = NULL) -> Index:
        """Count the ones of every line, in all and inside a set: ``(n_lines, 2)``."""
        return self.device.to_host(self.sizes_of(lines, inside)).view(np.int64)

    def sizes_of(self, lines: Lines, inside: Any = NULL) -> Any:
        """Count as :meth:`sizes`; the result is on the device."""
        n = lines.words.shape[0]
        counts = self.xp.zeros((n, 2), u64)
        if n:
            parts = max(1, min(lines.n_words // 4096, 2 * self.device.n_processors // n))
            self.device.launch(
                "count_lines", (n, parts), self.threads_of(256),
                [lines.words, lines.stride, i64(lines.n_words), inside, counts],
            )  # fmt: skip
        return counts

    def on_device(self, mode: int) -> tuple[Lines, Lines | None]:
        """Return the data of a mode on the device: ones and known entries."""
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

    def room(self) -> int:
        """Return the number of bytes of the data on the device."""
        return sum(part.words.nbytes for u in self._unfoldings for part in u if part)

    def rows_at_once(self, mode: int, n_rows: int) -> int:
        """Return how many rows are transposed at a time: those take an eighth of the data."""
        line = sum(4 * part.n_words for part in self._unfoldings[mode] if part)
        most = int(min(_MOST_ROWS, max(self.room() // 8, 1 << 26) // line))
        return min(max(32, n_rows), max(32, most // 32 * 32))

    def rows_to_count(self, bits_per_row: int, n_rows: int) -> int:
        """Return how many rows are counted at a time if that takes so many bits per row.

        Counters take a thirty-second part of the data.
        """
        most = 8 * max(self.room() // 32, 1 << 26) // max(1, bits_per_row)
        return min(max(1, n_rows), max(128, int(most) // 128 * 128))

    def counts_on_host(self, n_rows: int, n_classes: int) -> NDArray[np.uint32]:
        """Return page-locked memory for counts; the same size is used again."""
        n_bytes = 4 * n_rows * n_classes
        step = min(_STEP, 1 << n_bytes.bit_length())
        memory = self.device.pinned(-(-n_bytes // step) * step)
        counts: NDArray[np.uint32] = memory[:n_bytes].view(u32).reshape(n_rows, n_classes)
        return counts

    def block_of(self, job: RowUpdate) -> RowBlock:
        """Return the rows of a work order as a block on the device."""
        if isinstance(job.rows, RowBlock):
            return job.rows
        if job.rows is None:
            return RowBlock(self.xp.arange(self.totals.shape[job.mode], dtype=i64))
        return RowBlock(self.xp.asarray(job.rows))

    def transposed(self, mode: int, block: RowBlock) -> tuple[Any, Any]:
        """Return the transposed data of some rows; only the latest block keeps them."""
        if block.transposed is not None and block.mode == mode:
            return block.transposed
        if self._transposed is not None:
            self._transposed.transposed = None  # free this memory for the next block
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

    def transposed_range(self, mode: int, start: int, stop: int) -> tuple[Any, Any]:
        """Return the transposed data of a range of rows, which starts at a multiple of 128."""
        if len(self.totals.shape) == 2:  # the other unfolding
            part = slice(start // 32, -(-stop // 128) * 4)
            ones, known = (
                None if lines is None else lines.words[:, part]
                for lines in self.on_device(1 - mode)
            )
            return ones, known

        def make() -> RowBlock:
            return RowBlock(self.xp.arange(start, stop, dtype=i64))

        is_whole = (start, stop) == (0, self.totals.shape[mode])
        return self.transposed(
            mode, self.kept(f"rows {mode}", self.totals, make) if is_whole else make()
        )

    def _transpose_all(self, lines: Lines, n_rows: int, n_columns: int) -> Lines:
        """Transpose the unfolding of a matrix on the device."""
        out = self.xp.zeros((64 * n_words(n_columns), 2 * stride_of(n_rows)), u32)
        self.transpose(lines, NULL, 0, n_rows, out)
        return Lines(out[:n_columns], n_rows, self.device)

    def transpose(self, lines: Lines, rows: Any, first: int, n: int, out: Any) -> None:
        """Transpose some rows: ``out`` has one line per column."""
        step = 32 * self.device.warps * 60_000  # most rows that one grid can do
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
        """Return the number of threads per block: n on a GPU, one on the host."""
        return n if self.device.lanes > 1 else 1

    def blocks_of(self, n: int, threads: int) -> int:
        """Return the number of blocks of that many threads that do n pieces of work."""
        return max(1, -(-n // self.threads_of(threads)))
