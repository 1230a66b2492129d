"""Which rows of the data a process holds, and how it gets those of the other unfoldings.

Every process has a range of the rows of every mode. Ranges begin at multiples of 64 rows, so that
the packed lines of a factor are put together from the words of the processes as they are.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import WORD, n_words, transpose

if TYPE_CHECKING:
    from thali.bits import Index, PackedTensor, Words
    from thali.engines.cluster.ranks import Ranks


_SAMPLED = 256
"""Number of rows by which processes compare files that they do not read as a whole."""


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

    def rows(self, number: int) -> tuple[int, int]:
        """Return the first row of a process, and the row after its last."""
        lo, hi = self._words[number : number + 2]
        return min(WORD * lo, self.n_rows), min(WORD * hi, self.n_rows)

    def words(self, number: int) -> slice:
        """Return the words of a packed line that a process holds."""
        return slice(*self._words[number : number + 2])

    @property
    def lengths(self) -> list[int]:
        """Number of words of a packed line that every process holds."""
        return [hi - lo for lo, hi in pairwise(self._words)]


def share(tensor: PackedTensor, ranks: Ranks) -> tuple[list[Part], list[Ranges]]:
    """Return the rows of every mode that this process holds.

    Of a matrix, a process reads its own rows alone; its columns come from the other processes, as
    packed blocks.
    """
    shape = tensor.shape
    ranges = [Ranges(n, ranks.n) for n in shape]
    lo, hi = ranges[0].rows(ranks.number)
    ones, known = tensor.rows(lo, hi)
    parts = [Part(lo, hi, ones, known)]
    for mode in range(1, len(shape)):
        at = ranges[mode].rows(ranks.number)
        if len(shape) == 2:
            mask = None if known is None else _columns(known, ranges, ranks)
            parts.append(Part(*at, _columns(ones, ranges, ranks), mask))
        else:
            whole, mask = tensor.unfoldings[mode]
            here = slice(*at)
            parts.append(
                Part(*at, whole[here].copy(), None if mask is None else mask[here].copy())
            )
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
        if isinstance(words, np.memmap):
            words = words[:: max(1, len(words) // _SAMPLED)]
        total.update(b"|" if words is None else np.ascontiguousarray(words).data)
    return total.hexdigest()


def _columns(rows: Words, ranges: list[Ranges], ranks: Ranks) -> Words:
    """Return the columns of a matrix that this process holds, given its rows, as packed lines."""
    of_rows, of_columns = ranges
    lo, hi = of_columns.rows(ranks.number)
    # The rows are transposed for one process after another, and only the words with its columns.
    blocks = []
    for number in range(ranks.n):
        first, end = of_columns.rows(number)
        part = np.ascontiguousarray(rows[:, of_columns.words(number)])
        blocks.append(transpose(part, end - first))
    sizes = [(hi - lo) * length for length in of_rows.lengths]
    found = ranks.exchange(blocks, sizes)
    out = np.empty((hi - lo, n_words(of_rows.n_rows)), np.uint64)
    for number, block in enumerate(found):
        out[:, of_rows.words(number)] = block.reshape(hi - lo, of_rows.lengths[number])
    return out


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
