"""Which rows of the data a process holds, and how it gets those of the other unfoldings.

Every process has a range of the rows of every mode. Ranges begin at multiples of 64 rows, so that
the packed lines of a factor are put together from the words of the processes as they are.
"""

from __future__ import annotations

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


_DENSE = 1 << 24
"""Entries of a tensor that are unpacked at a time while it is unfolded."""


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
        self._rows = np.minimum(WORD * np.array(self._words), n_rows)

    def rows(self, number: int) -> tuple[int, int]:
        """Return the first row of a process, and the row after its last."""
        return int(self._rows[number]), int(self._rows[number + 1])

    def within(self, lo: int, hi: int) -> tuple[Index, Index]:
        """Return where the rows of every process begin and end in a range of rows."""
        edges = np.clip(self._rows, lo, hi)
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

    Every process cuts its rows into one block for every other, which is unfolded there. A block
    has the axes of the unfolding: the mode, the outer modes, and words of the inner mode.
    """
    inner, outer = inner_mode(shape, mode), outer_modes(shape, mode)
    own = ranges[mode].rows(ranks.number)
    out = np.empty((own[1] - own[0], *(shape[m] for m in outer), n_words(shape[inner])), np.uint64)

    def place(lo: int, hi: int) -> tuple[Any, ...]:
        """Return where rows of the first mode are in a block; they begin at a multiple of 64."""
        if inner == 0:
            return ..., slice(lo // WORD, n_words(hi))
        return (slice(None), *(slice(lo, hi) if m == 0 else slice(None) for m in outer))

    def block_for(number: int) -> Words:
        first, end = ranges[mode].rows(number)
        if len(shape) == 2:
            part = np.ascontiguousarray(words[:, ranges[mode].words(number)])
            across: Words = transpose(part, end - first)
            return across
        lengths = [len(words) if m == 0 else shape[m] for m in outer]
        width = n_words(len(words)) if inner == 0 else n_words(shape[inner])
        block = np.empty((end - first, *lengths, width), np.uint64)
        step = WORD * max(1, _DENSE // (WORD * prod(shape[1:])))
        for lo in range(0, len(words), step):
            hi = min(lo + step, len(words))
            dense = unfold_back(words[lo:hi], (hi - lo, *shape[1:])).swapaxes(0, mode)
            axes = [{0: mode, mode: 0}.get(m, m) for m in (mode, *outer, inner)]
            block[place(lo, hi)] = pack(np.ascontiguousarray(dense[first:end].transpose(axes)))
        return block

    def take(number: int, block: Words) -> None:
        where = place(*ranges[0].rows(number))
        out[where] = block.reshape(out[where].shape)

    sizes = [out[place(*ranges[0].rows(number))].size for number in range(ranks.n)]
    ranks.exchange(block_for, take, sizes)
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


def own_rows(rows: Index, lo: int, hi: int) -> slice:
    """Return which of increasing rows are in a range."""
    first, end = np.searchsorted(rows, (lo, hi))
    return slice(int(first), int(end))
