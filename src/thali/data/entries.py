"""The ways to hold the places of ones: packed rows of bits, and lists of positions.

Packed rows cost one bit an entry whatever they hold, and are what the sampler works on; a list
costs four bytes a one, less than that when fewer than about one entry in a hundred is a one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

WORD = 64

# Entries unpacked at a time: 16 MB of Booleans.
_BLOCK_ENTRIES = 1 << 24


def n_words(n_bits: int) -> int:
    """Return how many words hold ``n_bits`` bits."""
    return -(-n_bits // WORD)


def pack(dense: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack the last axis of a Boolean array into words; the last word is padded with zeros."""
    n_bits = dense.shape[-1]
    octets = np.packbits(dense, axis=-1, bitorder="little")
    padded = np.zeros((*dense.shape[:-1], 8 * n_words(n_bits)), np.uint8)
    padded[..., : octets.shape[-1]] = octets
    return padded.view("<u8").astype(np.uint64, copy=False)


def unpack(words: NDArray[np.uint64], n_bits: int) -> NDArray[np.bool_]:
    """Undo :func:`pack`."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n_bits, bitorder="little").view(np.bool_)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Positions in a sparse matrix, row by row (compressed sparse rows without the values)."""

    indptr: NDArray[np.int64]  # (n_rows + 1,); row i owns indices[indptr[i]:indptr[i + 1]]
    indices: NDArray[np.int32] | NDArray[np.int64]  # columns, distinct in each row
    shape: tuple[int, int]  # (n_rows, n_columns)


@dataclass(frozen=True, eq=False)
class Packed:
    """A matrix of bits, 64 columns a word; padding is zero."""

    words: NDArray[np.uint64]  # (n_rows, n_words(n_columns)), the lowest bit first
    shape: tuple[int, int]  # (n_rows, n_columns)


Entries: TypeAlias = NDArray[np.bool_] | Pattern | Packed


def count_ones(entries: Entries) -> int:
    """Return the number of ones."""
    if isinstance(entries, Pattern):
        return int(entries.indices.size)
    if isinstance(entries, Packed):
        return sum(
            int(np.bitwise_count(entries.words[rows]).sum(dtype=np.int64))
            for rows in row_blocks(entries.shape)
        )
    return int(np.count_nonzero(entries))


def dense_rows(entries: Entries, start: int, stop: int) -> NDArray[np.bool_]:
    """Return some rows as Booleans."""
    if isinstance(entries, Packed):
        return unpack(entries.words[start:stop], entries.shape[1])
    if not isinstance(entries, Pattern):
        return entries[start:stop]
    bounds = entries.indptr[start : stop + 1]
    dense = np.zeros((len(bounds) - 1, entries.shape[1]), np.bool_)
    rows = np.repeat(np.arange(len(dense)), np.diff(bounds))
    dense[rows, entries.indices[bounds[0] : bounds[-1]]] = True
    return dense


def transposed(entries: Entries) -> Entries:
    """Turn rows into columns, without making a packed or sparse matrix dense."""
    if isinstance(entries, Pattern):
        n_rows, n_columns = entries.shape
        order = np.argsort(entries.indices, kind="stable")  # rows stay ascending in each column
        rows = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(entries.indptr))[order]
        indptr = np.zeros(n_columns + 1, np.int64)
        np.cumsum(np.bincount(entries.indices, minlength=n_columns), out=indptr[1:])
        return Pattern(indptr, rows, (n_columns, n_rows))
    if not isinstance(entries, Packed):
        return np.ascontiguousarray(entries.T)
    n_rows, n_columns = entries.shape
    words = np.zeros((n_columns, n_words(n_rows)), np.uint64)
    for block in row_blocks(entries.shape):
        part = pack(dense_rows(entries, block.start, block.stop).T)
        at = block.start // WORD
        words[:, at : at + part.shape[1]] = part
    return Packed(words, (n_columns, n_rows))


def row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    """Cut the rows into blocks of few entries, whole words high."""
    step = WORD * max(1, _BLOCK_ENTRIES // (WORD * max(1, shape[1])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))
