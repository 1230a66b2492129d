"""Ways to store where the ones are: packed rows of bits, and lists of positions.

The sampler works on packed rows, which take one bit per entry. A list of positions in a matrix
takes four bytes per one, and twelve while it is sorted. So it needs less memory if fewer than
about one entry in a hundred is a one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thali.data.layout import WORD, inner_mode, n_words, outer_modes, row_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EVERY = slice(None)

# Entries that are unpacked together: 16 MB of Booleans.
_BLOCK_ENTRIES = 1 << 24


def pack(dense: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack the last axis of a Boolean array into words; the last word is padded with zeros."""
    n_bits = dense.shape[-1]
    octets = np.packbits(dense, axis=-1, bitorder="little")
    padded = np.zeros((*dense.shape[:-1], 8 * n_words(n_bits)), np.uint8)
    padded[..., : octets.shape[-1]] = octets
    return padded.view("<u8").astype(np.uint64, copy=False)


def unpack(words: NDArray[np.uint64], n_bits: int) -> NDArray[np.bool_]:
    """Unpack words into ``n_bits`` Booleans per row: the inverse of :func:`pack`."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n_bits, bitorder="little").view(np.bool_)


def unfold_back(words: NDArray[np.uint64], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a dense tensor, given packed rows of the first mode's unfolding."""
    inner, outer = inner_mode(shape, 0), outer_modes(shape, 0)
    width = n_words(shape[inner])
    lengths = [shape[m] for m in outer]
    dense = unpack(words.reshape(len(words), *lengths, width), shape[inner])
    order = [0, *outer, inner]  # the mode of each axis
    return dense.transpose([order.index(mode) for mode in range(len(shape))])


def every_column(shape: tuple[int, ...], mode: int = 0) -> NDArray[np.uint64]:
    """Return a packed row of an unfolding in which all bits but the padding are on."""
    line = pack(np.ones(shape[inner_mode(shape, mode)], np.bool_))
    return np.tile(line, row_words(shape, mode) // len(line))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Positions in a sparse matrix, row by row: SciPy's CSR format without the values."""

    indptr: NDArray[np.int64]  # (n_rows + 1,); row i has indices[indptr[i]:indptr[i + 1]]
    indices: NDArray[np.int32] | NDArray[np.int64]  # columns, distinct in each row
    shape: tuple[int, int]  # (n_rows, n_columns)


@dataclass(frozen=True, eq=False)
class Packed:
    """A tensor of bits, 64 per word, unfolded into rows of its first mode; padding is zero.

    The rows of a matrix are packed as they are; :mod:`thali.data.layout` says in which order the
    columns of a tensor with more modes come.
    """

    words: NDArray[np.uint64]  # (n_rows, row_words(shape, 0)), the lowest bit first
    shape: tuple[int, ...]  # number of rows of each mode
    n_ones: int | None = None  # if it is known already
    is_inverted: bool = False  # whether ones are where the bits are off, except in padding

    def plain(self, rows: slice = _EVERY) -> NDArray[np.uint64]:
        """Return rows of words in which ones are on: a copy if they are inverted."""
        words = self.words[rows]
        return ~words & every_column(self.shape) if self.is_inverted else words


@dataclass(frozen=True, eq=False)
class Shared:
    """Packed bits of which this process holds some rows, and other processes the others.

    A few things need all rows, such as storing them in a run. They are read again then.
    """

    words: NDArray[np.uint64]  # the rows from ``lo`` on, as in :class:`Packed`
    lo: int
    shape: tuple[int, ...]  # of the whole tensor
    n_ones: int  # in all rows
    is_inverted: bool  # as in :class:`Packed`
    whole: Callable[[], tuple[Entries, Entries | None]]  # reads all ones and unknown entries
    identity: str  # equal in all processes that read the same file

    @property
    def hi(self) -> int:
        """The row after the last one here."""
        return self.lo + len(self.words)

    def read(self) -> Entries:
        """Read all rows."""
        ones, unknown = self.whole()
        if not self.is_inverted:
            return ones
        assert unknown is not None
        return unknown


Entries: TypeAlias = NDArray[np.bool_] | Pattern | Packed | Shared


def file_of(words: NDArray[np.uint64]) -> np.memmap[Any, Any] | None:
    """Return the file that packed rows lie in, if they are not in memory."""
    base: Any = words
    while base is not None and not isinstance(base, np.memmap):
        base = base.base if isinstance(base, np.ndarray) else None
    return base


def copy_rows(words: NDArray[np.uint64], lo: int, hi: int) -> NDArray[np.uint64]:
    """Return a copy of a range of packed rows; if they lie in a file, only these are read."""
    file = file_of(words)
    if file is None:
        return np.array(words[lo:hi])
    width = words.shape[1]
    at = file.offset + words.ctypes.data - file.ctypes.data + 8 * width * lo
    assert file.filename is not None
    rows = np.fromfile(file.filename, "<u8", (hi - lo) * width, offset=at)
    return rows.astype(np.uint64, copy=False).reshape(hi - lo, width)


def count_ones(entries: Entries) -> int:
    """Return the number of ones."""
    if isinstance(entries, Pattern):
        return int(entries.indices.size)
    if isinstance(entries, Shared):
        return entries.n_ones
    if isinstance(entries, Packed):
        if entries.n_ones is not None:
            return entries.n_ones
        n_rows, width = entries.words.shape
        return sum(
            int(np.bitwise_count(entries.words[rows]).sum(dtype=np.int64))
            for rows in row_blocks((n_rows, WORD * width))
        )
    return int(np.count_nonzero(entries))


def dense_rows(entries: Entries, start: int, stop: int) -> NDArray[np.bool_]:
    """Return the rows from ``start`` to ``stop`` as Booleans."""
    if isinstance(entries, Shared):
        return dense_rows(entries.read(), start, stop)
    if isinstance(entries, Packed):
        dense = unfold_back(entries.words[start:stop], entries.shape)
        return ~dense if entries.is_inverted else dense
    if not isinstance(entries, Pattern):
        return entries[start:stop]
    bounds = entries.indptr[start : stop + 1]
    dense = np.zeros((len(bounds) - 1, entries.shape[1]), np.bool_)
    rows = np.repeat(np.arange(len(dense)), np.diff(bounds))
    dense[rows, entries.indices[bounds[0] : bounds[-1]]] = True
    return dense


def transposed(entries: Entries) -> Entries:
    """Exchange rows and columns; a packed or sparse matrix never becomes dense as a whole."""
    if isinstance(entries, Shared):
        return transposed(entries.read())
    if isinstance(entries, Pattern):
        n_rows, n_columns = entries.shape
        # A stable sort keeps the rows ascending within each column.
        order = np.argsort(entries.indices, kind="stable")
        rows = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(entries.indptr))[order]
        indptr = np.zeros(n_columns + 1, np.int64)
        np.cumsum(np.bincount(entries.indices, minlength=n_columns), out=indptr[1:])
        return Pattern(indptr, rows, (n_columns, n_rows))
    if not isinstance(entries, Packed):
        return np.ascontiguousarray(entries.T)
    n_rows, n_columns = entries.shape
    words = np.zeros((n_columns, n_words(n_rows)), np.uint64)
    for block in row_blocks((n_rows, n_columns)):
        part = pack(dense_rows(entries, block.start, block.stop).T)
        at = block.start // WORD
        words[:, at : at + part.shape[1]] = part
    return Packed(words, (n_columns, n_rows))


def row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    """Divide the rows into blocks of limited size, each a multiple of 64 rows but the last."""
    step = WORD * max(1, _BLOCK_ENTRIES // (WORD * max(1, shape[1])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))
