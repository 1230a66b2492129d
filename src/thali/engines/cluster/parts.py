"""Which rows of the data a process holds, and how it gets those of the other unfoldings.

Every process has a range of the rows of every mode. Ranges begin at multiples of 64 rows, so that
the packed lines of a factor are put together from the words of the processes as they are.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits.words import WORD, n_words, pack, transpose
from thali.data.entries import copy_rows, file_of, unfold_back
from thali.data.layout import inner_mode, outer_modes, row_words

if TYPE_CHECKING:
    from thali.bits import Index, PackedTensor, Words
    from thali.engines.cluster.ranks import Ranks


_SAMPLED = 256
"""Number of rows by which processes compare files that they do not read as a whole."""


_PIECE = 1 << 24
"""Entries that a process sends to another at a time, while the data are loaded: 2 MB."""


class Part(NamedTuple):
    """The rows ``lo … hi-1`` of an unfolding, which one process holds."""

    lo: int
    hi: int
    ones: Words
    known: Words | None


class Ranges:
    """The rows of a mode that every process holds."""

    def __init__(self, n_rows: int, n_ranks: int) -> None:
        width = n_words(n_rows)
        self.n_rows = n_rows
        self._words = [width * i // n_ranks for i in range(n_ranks + 1)]
        self.edges = np.minimum(WORD * np.array(self._words), n_rows)

    def rows(self, number: int) -> tuple[int, int]:
        """Return the first row of a process, and the row after its last."""
        return int(self.edges[number]), int(self.edges[number + 1])

    def within(self, lo: int, hi: int) -> tuple[Index, Index]:
        """Return where the rows of every process begin and end in a range of rows."""
        edges = np.clip(self.edges, lo, hi)
        return edges[:-1], edges[1:]

    def words(self, number: int) -> slice:
        """Return the words of a packed line that a process holds."""
        return slice(*self._words[number : number + 2])

    @property
    def lengths(self) -> list[int]:
        """Number of words of a packed line that every process holds."""
        return [hi - lo for lo, hi in pairwise(self._words)]


def share(tensor: PackedTensor, ranks: Ranks) -> tuple[list[Part], list[Ranges]]:
    """Return the rows of every mode that this process holds.

    A process reads its own rows of the first mode alone. Those of the other modes come from all
    processes, as packed blocks.
    """
    shape = tensor.shape
    ranges = [Ranges(n, ranks.n) for n in shape]
    lo, hi = ranges[0].rows(ranks.number)
    ones, known = tensor.rows(lo, hi)
    parts = [Part(lo, hi, ones, known)]
    for mode in range(1, len(shape)):
        how = shape, mode, ranges, ranks
        mask = None if known is None else _unfolded(known, *how)
        parts.append(Part(*ranges[mode].rows(ranks.number), _unfolded(ones, *how), mask))
    return parts, ranges


def identity(tensor: PackedTensor) -> str:
    """Return a digest by which processes find out whether they were given the same data.

    If the data are in a file that is not read as a whole, some of its rows must do.
    """
    total = sha256(repr((tensor.shape, tensor.n_known, tensor.n_ones)).encode())
    if tensor.shared is not None:
        total.update(tensor.shared[0].identity.encode())
        return total.hexdigest()
    if tensor.listed is not None:
        for pattern in tensor.listed:
            if pattern is not None:
                total.update(np.ascontiguousarray(pattern.indices).data)
        return total.hexdigest()
    for words in tensor.unfoldings[0]:
        if words is None:
            total.update(b"|")
        elif file_of(words) is None:
            total.update(np.ascontiguousarray(words).data)
        else:
            for row in range(0, len(words), -(-len(words) // _SAMPLED)):
                total.update(copy_rows(words, row, row + 1).data)
    return total.hexdigest()


def _unfolded(
    words: Words, shape: tuple[int, ...], mode: int, ranges: list[Ranges], ranks: Ranks
) -> Words:
    """Return the rows of a mode that this process holds, given its rows of the first mode.

    Every process sends every other what is in some of its rows, unfolded as it is needed there,
    and then the same of its next rows: little is in memory at a time. Such a piece has the axes of
    the unfolding: the mode, the outer modes, and words of the inner mode.
    """
    inner, outer = inner_mode(shape, mode), outer_modes(shape, mode)
    own, here = ranges[mode].rows(ranks.number), ranges[0].rows(ranks.number)
    out = np.empty((own[1] - own[0], *(shape[m] for m in outer), n_words(shape[inner])), np.uint64)
    # The rows of a tensor are unpacked with all columns, those of a matrix are not unpacked.
    per_row = int(max(np.diff(ranges[1].edges))) if len(shape) == 2 else prod(shape[1:])
    step = WORD * max(1, _PIECE // (WORD * per_row))
    n_pieces = -(-int(max(np.diff(ranges[0].edges))) // step)

    def rows_of(number: int, piece: int) -> tuple[int, int]:
        """Return the rows of the first mode in a piece from a process."""
        lo, hi = ranges[0].rows(number)
        return min(lo + piece * step, hi), min(lo + (piece + 1) * step, hi)

    def place(number: int, piece: int) -> tuple[Any, ...]:
        """Return where a piece belongs; its rows begin at a multiple of 64."""
        lo, hi = rows_of(number, piece)
        if inner == 0:
            return ..., slice(lo // WORD, lo // WORD + n_words(hi - lo))
        return (slice(None), *(slice(lo, hi) if m == 0 else slice(None) for m in outer))

    def make(piece: int, to: int) -> Words:
        lo, hi = rows_of(ranks.number, piece)
        rows, (first, end) = words[lo - here[0] : hi - here[0]], ranges[mode].rows(to)
        if len(shape) == 2:
            part = np.ascontiguousarray(rows[:, ranges[mode].words(to)])
            return transpose(part, end - first)  # type: ignore[no-any-return]
        dense = unfold_back(rows, (hi - lo, *shape[1:])).swapaxes(0, mode)
        axes = [{0: mode, mode: 0}.get(m, m) for m in (mode, *outer, inner)]
        return pack(np.ascontiguousarray(dense[first:end].transpose(axes)))

    def take(piece: int, source: int, block: Words) -> None:
        where = place(source, piece)
        out[where] = block.reshape(out[where].shape)

    def size(piece: int, source: int) -> int:
        return int(out[place(source, piece)].size)

    for piece in range(n_pieces):
        ranks.exchange(partial(make, piece), partial(take, piece), partial(size, piece))
    return out.reshape(len(out), row_words(shape, mode))


class _Numbered:
    """Memory as if earlier and later rows were there, too."""

    def __init__(self, words: Words, lo: int, n_rows: int) -> None:
        at = words.__array_interface__["data"][0] - lo * words.shape[1] * words.itemsize
        self.words = words  # keeps the memory
        self.__array_interface__ = {
            "version": 3,
            "shape": (n_rows, words.shape[1]),
            "typestr": words.dtype.str,
            "data": (at, False),
        }


def as_numbered(words: Words, lo: int, n_rows: int) -> Words:
    """Return rows in an array in which they have their numbers in the whole unfolding.

    Random numbers are read at the numbers of rows, so kernels need these; with this array, they
    read the data by the same numbers. Rows that are not there must never be read: there is no
    memory behind them.
    """
    return np.asarray(_Numbered(np.ascontiguousarray(words), lo, n_rows))


def spread(n_rows: int, n_ranks: int, together: int) -> list[int]:
    """Return where the rows of every process begin and end, if so many must stay together."""
    n_groups = -(-n_rows // together)
    return [min(together * (n_groups * i // n_ranks), n_rows) for i in range(n_ranks + 1)]


def own_rows(rows: Index, lo: int, hi: int) -> slice:
    """Return which of increasing rows are in a range."""
    first, end = np.searchsorted(rows, (lo, hi))
    return slice(int(first), int(end))
