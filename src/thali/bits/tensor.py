"""The data in packed form: one padded unfolding per mode."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits.codes import inner_mode, outer_modes
from thali.bits.counts import Confusion, Totals
from thali.bits.words import (
    WORD,
    Index,
    Words,
    count_ones,
    n_words,
    pack,
    set_bits,
    transpose_rows,
    unpack,
)
from thali.data import BinaryTensor, Entries, Packed, Pattern
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_ENTRIES = 1 << 24  # number of entries packed at a time: 16 MB of Booleans

_WORDS_PER_THREAD = 1 << 17  # least work that pays for a thread: a megabyte


class Unfolding(NamedTuple):
    """A tensor unfolded into the packed rows of one mode.

    Columns run over the remaining modes in C order, except that the longest mode is innermost and
    padded to whole words (:func:`thali.bits.inner_mode`). Padding and unknown entries are zero in
    both arrays.
    """

    ones: Words
    known: Words | None  # None when every entry is known


class Unfoldings(Sequence[Unfolding]):
    """The unfoldings of a tensor; those of a matrix are made when they are first needed.

    An engine may pack the listed entries itself, or transpose a matrix itself. The host then never
    does that work, because only engines read the second unfolding of a matrix.

    Parameters
    ----------
    shape
        Shape of the tensor.
    made
        The unfoldings that are packed already, from the first mode on.
    listed
        The ones and the unknown entries of a sparse matrix of which no unfolding is packed yet.
    threads
        Number of threads that make the unfoldings.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        made: Sequence[Unfolding],
        listed: tuple[Pattern, Pattern | None] | None = None,
        threads: int | None = None,
    ) -> None:
        self._shape = shape
        self._made = dict(enumerate(made))
        self._lock = Lock()
        self.listed = listed
        self.threads = n_threads(threads)

    def __len__(self) -> int:
        return len(self._shape)

    def __getitem__(self, mode: Any) -> Any:
        if isinstance(mode, slice):
            return tuple(self[m] for m in range(len(self))[mode])
        mode = range(len(self))[mode]
        return self._made[mode] if mode in self._made else self._make(mode)

    def __reduce__(self) -> tuple[Any, ...]:
        made = [self[0]] if len(self) == 2 else list(self)
        return type(self), (self._shape, made)

    def put(self, first: Unfolding) -> None:
        """Store the first unfolding, which the caller has packed, and drop the listed entries."""
        with self._lock:
            self._made.setdefault(0, first)
            self.listed = None

    def _make(self, mode: int) -> Unfolding:
        listed = self.listed
        if listed is not None:
            ones, unknown = listed
            known = None if unknown is None else _pack_known(unknown, 0, self.threads)
            self.put(Unfolding(_pack_mode(ones, 0, self.threads), known))
        with self._lock:  # chains on several threads may ask for it at once
            if mode not in self._made:
                self._made[mode] = _transpose(self._made[0], self._shape[1], self.threads)
        return self._made[mode]


class PackedTensor(NamedTuple):
    """A binary tensor packed once per mode: 2 bits per entry of a fully known matrix."""

    shape: tuple[int, ...]
    unfoldings: Sequence[Unfolding]
    n_known: int
    n_ones: int

    @classmethod
    def from_tensor(cls, tensor: BinaryTensor, threads: int | None = None) -> PackedTensor:
        """Pack a labelled tensor in blocks of rows; sparse input is never made dense.

        Rows that are packed already are used as they are, without a copy. A sparse matrix is
        packed when its bits are first needed, such as when an engine loads the data.
        """
        shape, ones, unknown = tensor.shape, tensor.ones, tensor.unknown
        counts = (tensor.n_known, tensor.n_ones)
        if isinstance(ones, Pattern):
            assert unknown is None or isinstance(unknown, Pattern)
            return cls(shape, Unfoldings(shape, [], (ones, unknown), threads), *counts)
        made = []
        for mode in range(1 if tensor.arity == 2 else tensor.arity):
            known = None if unknown is None else _pack_known(unknown, mode, threads)
            made.append(Unfolding(_pack_mode(ones, mode, threads), known))
        return cls(shape, Unfoldings(shape, made, threads=threads), *counts)

    @classmethod
    def from_unfolding(
        cls, shape: tuple[int, ...], first: Unfolding, threads: int | None = None
    ) -> PackedTensor:
        """Make all unfoldings from the first one; a tensor of more than two modes is unpacked."""
        for words in first:
            if words is not None and words.shape != (shape[0], row_words(shape, 0)):
                msg = f"packed data of shape {words.shape} do not belong to a tensor of {shape}."
                raise ValueError(msg)
        n_known = (
            int(np.prod(shape)) if first.known is None else int(_sizes(first.known, threads).sum())
        )
        made = [first]
        if len(shape) > 2:
            ones, known = (None if part is None else unfold_back(part, shape) for part in first)
            assert ones is not None
            for mode in range(1, len(shape)):
                mask = None if known is None else _pack_mode(known, mode, threads)
                made.append(Unfolding(_pack_mode(ones, mode, threads), mask))
        n_ones = int(_sizes(first.ones, threads).sum())
        return cls(shape, Unfoldings(shape, made, threads=threads), n_known, n_ones)

    def totals(self, threads: int | None = None) -> Totals:
        """Return the sums over the data that the sampler needs."""
        most_ones = int(_sizes(self.unfoldings[0].ones, threads).max())
        return Totals(self.shape, self.n_known, self.n_ones, most_ones)

    def of_rows(self, rows: Index, threads: int | None = None) -> PackedTensor:
        """Return a tensor with some of the rows of the first mode."""
        ones, known = self.unfoldings[0]
        first = Unfolding(ones[rows], None if known is None else known[rows])
        return PackedTensor.from_unfolding((len(rows), *self.shape[1:]), first, threads)

    def as_matrix(self, lines: Sequence[Index]) -> PackedTensor:
        """Return some lines of every mode as a matrix, one column per combination of lines.

        Columns are in the order of an unfolding of the first mode, with unknown columns as
        padding.
        """
        shape = tuple(map(len, lines))
        ones, known = self.unfoldings[0]
        if shape != self.shape:
            ones = _of_lines(ones, self.shape, lines)
            known = None if known is None else _of_lines(known, self.shape, lines)
        inner = pack(np.ones(shape[inner_mode(shape, 0)], np.bool_))
        is_there = np.tile(inner, ones.shape[1] // len(inner))
        known = np.tile(is_there, (len(ones), 1)) if known is None else known & is_there
        whole = shape[0], WORD * ones.shape[1]
        return PackedTensor.from_unfolding(whole, Unfolding(ones, known))

    @property
    def listed(self) -> tuple[Pattern, Pattern | None] | None:
        """The ones and the unknown entries of a sparse matrix that is not packed yet, or None."""
        return getattr(self.unfoldings, "listed", None)

    @property
    def has_mask(self) -> bool:
        """Whether the unfoldings have a mask of the known entries."""
        listed = self.listed
        return (self.unfoldings[0].known if listed is None else listed[1]) is not None

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Number of rows and words per row of each unfolding."""
        return tuple((n, row_words(self.shape, mode)) for mode, n in enumerate(self.shape))

    @property
    def nbytes(self) -> int:
        """Number of bytes of all unfoldings once they are made."""
        return (8 + 8 * self.has_mask) * sum(n * width for n, width in self.sizes)

    def put(self, first: Unfolding) -> None:
        """Store the first unfolding, which the caller has packed from the listed entries."""
        assert isinstance(self.unfoldings, Unfoldings)
        self.unfoldings.put(first)

    def confusion(self, tp: int, fp: int) -> Confusion:
        """Return all four counts, given the covered ones and covered zeros."""
        return Confusion(tp, fp, self.n_known - self.n_ones - fp, self.n_ones - tp)


def unfold_back(words: Words, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a dense tensor, given packed rows of the first mode's unfolding."""
    inner, outer = inner_mode(shape, 0), outer_modes(shape, 0)
    width = n_words(shape[inner])
    lengths = [shape[m] for m in outer]
    dense = unpack(words.reshape(len(words), *lengths, width), shape[inner])
    order = [0, *outer, inner]  # the mode of each axis
    return dense.transpose([order.index(mode) for mode in range(len(shape))])


def _of_lines(words: Words, shape: tuple[int, ...], lines: Sequence[Index]) -> Words:
    """Return some lines of every mode, packed as the unfolding of the first."""
    n_rows = len(lines[0])
    dense = unfold_back(words[lines[0]], (n_rows, *shape[1:]))
    dense = dense[np.ix_(np.arange(n_rows), *lines[1:])]
    dense = dense.transpose(0, *outer_modes(dense.shape, 0), inner_mode(dense.shape, 0))
    packed: Words = pack(dense).reshape(n_rows, -1)
    return packed


def row_words(shape: tuple[int, ...], mode: int) -> int:
    """Return the number of words per row of an unfolding."""
    n_outer = int(np.prod([shape[m] for m in outer_modes(shape, mode)]))
    return n_outer * n_words(shape[inner_mode(shape, mode)])


def _transpose(first: Unfolding, n_columns: int, threads: int | None) -> Unfolding:
    """Return the unfolding of the second mode of a matrix, given the first one."""

    def transposed(words: Words) -> Words:
        out = np.zeros((n_columns, n_words(len(words))), np.uint64)
        # Eight tiles are a cache line of the result: no two threads write to the same line.
        step = WORD * max(8, _WORDS_PER_THREAD // (WORD * words.shape[1]))
        parallel_for(transpose_rows, len(words), n_threads(threads), words, out, step=step)
        return out

    known = None if first.known is None else transposed(first.known)
    return Unfolding(transposed(first.ones), known)


def _sizes(words: Words, threads: int | None) -> Index:
    """Count the ones of every row."""

    def some_rows(lo: int, hi: int) -> Index:
        sizes: Index = count_ones(words[lo:hi])
        return sizes

    step = max(1, _WORDS_PER_THREAD // words.shape[1])
    return np.concatenate(parallel_for(some_rows, len(words), n_threads(threads), step=step))


def _pack_mode(bits: Entries, mode: int, threads: int | None) -> Words:
    """Pack the unfolding of one mode, a block of rows at a time."""
    if isinstance(bits, Packed):
        return bits.words
    shape = bits.shape
    n_rows = shape[mode]
    if isinstance(bits, Pattern):
        return _pack_listed(bits, threads)
    inner = inner_mode(shape, mode)
    view = bits.transpose(mode, *outer_modes(shape, mode), inner)
    n_outer = int(np.prod(view.shape[1:-1]))
    words = np.empty((n_rows, n_outer * n_words(shape[inner])), np.uint64)
    step = max(1, _BLOCK_ENTRIES // max(1, n_outer * shape[inner]))
    for start in range(0, n_rows, step):
        block = view[start : start + step]
        words[start : start + step] = pack(block).reshape(len(block), -1)
    return words


def _pack_listed(pattern: Pattern, threads: int | None) -> Words:
    """Pack the rows of a sparse matrix."""
    indptr, indices = pattern.indptr, pattern.indices
    width = n_words(pattern.shape[1])
    words = np.zeros((pattern.shape[0], width), np.uint64)

    def some_rows(lo: int, hi: int) -> None:
        set_bits(words, lo, indptr[lo : hi + 1], indices)

    step = max(1, _WORDS_PER_THREAD // width)
    parallel_for(some_rows, len(words), n_threads(threads), step=step)
    return words


def _pack_known(unknown: Entries, mode: int, threads: int | None) -> Words:
    """Pack the mask of known entries, given the unknown ones."""
    if isinstance(unknown, np.ndarray):
        return _pack_mode(~unknown, mode, threads)
    words = ~_pack_mode(unknown, mode, threads)
    words &= pack(np.ones(unknown.shape[1], np.bool_))  # padding must not count as known
    return words
