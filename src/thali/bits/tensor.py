"""The data in packed form: one padded unfolding per mode."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from thali.bits.counts import Confusion, Totals
from thali.bits.refold import WORDS_PER_THREAD, refold
from thali.bits.words import Index, Words, count_ones, n_words, pack, set_bits
from thali.data import BinaryTensor, Entries, Packed, Pattern
from thali.data.entries import Shared, copy_rows, every_column, unfold_back
from thali.data.layout import WORD, inner_mode, outer_modes, row_words, to_front
from thali.threads import n_threads, parallel_for

__all__ = [
    "PackedTensor",
    "Unfolding",
    "Unfoldings",
    "pack_entries",
    "row_words",
    "unfold_back",
]

_BLOCK_ENTRIES = 1 << 24  # number of entries packed at a time: 16 MB of Booleans


class Unfolding(NamedTuple):
    """A tensor unfolded into the packed rows of one mode.

    Columns run over the remaining modes in C order, except that the longest mode is innermost and
    padded to whole words (:func:`thali.bits.inner_mode`). Padding and unknown entries are zero in
    both arrays.
    """

    ones: Words
    known: Words | None  # None when every entry is known


class Unfoldings(Sequence[Unfolding]):
    """The unfoldings of a tensor; all but the first are made from it when they are first needed.

    An engine may pack the listed entries itself, or transpose a matrix itself. The host then never
    does that work, because only engines read the second unfolding of a matrix.

    Parameters
    ----------
    shape
        Shape of the tensor.
    first
        The unfolding of the first mode; None if entries are listed instead.
    listed
        The ones and the unknown entries of a sparse matrix of which no unfolding is packed yet.
    threads
        Number of threads that make the unfoldings.
    shared
        The ones and the unknown entries of which this process has some rows.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        first: Unfolding | None,
        listed: tuple[Pattern, Pattern | None] | None = None,
        threads: int | None = None,
        shared: tuple[Shared, Shared | None] | None = None,
    ) -> None:
        self._shape = shape
        self._made = {} if first is None else {0: first}
        self._lock = Lock()
        self.listed = listed
        self.shared = shared
        self.threads = n_threads(threads)

    def __len__(self) -> int:
        return len(self._shape)

    def __getitem__(self, mode: Any) -> Any:
        if isinstance(mode, slice):
            return tuple(self[m] for m in range(len(self))[mode])
        mode = range(len(self))[mode]
        return self._made[mode] if mode in self._made else self._make(mode)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._shape, self[0])

    def put(self, first: Unfolding) -> None:
        """Store the first unfolding, which the caller has packed, and drop the listed entries."""
        with self._lock:
            self._made.setdefault(0, first)
            self.listed = None

    def release(self) -> None:
        """Forget the rows that other processes hold, if they were needed for a while."""
        with self._lock:
            if self.shared is not None:
                self._made.clear()

    def _make(self, mode: int) -> Unfolding:
        listed = self.listed
        if listed is not None:
            ones, unknown = listed
            self.put(pack_entries(ones, unknown, self.threads))
        with self._lock:  # chains on several threads may ask for it at once
            if self.shared is not None and 0 not in self._made:
                self._made[0] = pack_entries(*self.shared[0].whole(), self.threads)
            if mode not in self._made:
                first = self._made[0]
                how = (self._shape, mode, self.threads)
                known = None if first.known is None else refold(first.known, *how)
                self._made[mode] = Unfolding(refold(first.ones, *how), known)
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
        if isinstance(ones, Shared):
            assert unknown is None or isinstance(unknown, Shared)
            return cls(shape, Unfoldings(shape, None, None, threads, (ones, unknown)), *counts)
        if isinstance(ones, Pattern):
            assert unknown is None or isinstance(unknown, Pattern)
            return cls(shape, Unfoldings(shape, None, (ones, unknown), threads), *counts)
        first = pack_entries(ones, unknown, threads)
        return cls(shape, Unfoldings(shape, first, threads=threads), *counts)

    @classmethod
    def from_unfolding(
        cls, shape: tuple[int, ...], first: Unfolding, threads: int | None = None
    ) -> PackedTensor:
        """Return the tensor whose first unfolding is given."""
        for words in first:
            if words is not None and words.shape != (shape[0], row_words(shape, 0)):
                msg = f"packed data of shape {words.shape} do not belong to a tensor of {shape}."
                raise ValueError(msg)
        n_known = (
            int(np.prod(shape)) if first.known is None else int(_sizes(first.known, threads).sum())
        )
        n_ones = int(_sizes(first.ones, threads).sum())
        return cls(shape, Unfoldings(shape, first, threads=threads), n_known, n_ones)

    def with_first(self, mode: int) -> PackedTensor:
        """Return the same data with one mode before all others, which keep their order.

        The unfolding of this mode is the first one of the result, as it is.
        """
        if mode == 0:
            return self
        shape = to_front(self.shape, mode)
        threads = getattr(self.unfoldings, "threads", None)
        unfoldings = Unfoldings(shape, self.unfoldings[mode], threads=threads)
        return self._replace(shape=shape, unfoldings=unfoldings)

    def totals(self, threads: int | None = None) -> Totals:
        """Return the sums over the data that the sampler needs."""
        most_ones = int(_sizes(self.unfoldings[0].ones, threads).max())
        return Totals(self.shape, self.n_known, self.n_ones, most_ones)

    def rows(self, lo: int, hi: int) -> Unfolding:
        """Return a range of rows of the first mode, and read or pack no others.

        They are a copy, except for rows that this process shares with others.
        """
        if self.shared is not None:
            first, hidden = self.shared
            assert (lo, hi) == (first.lo, first.hi)
            return Unfolding(first.words, None if hidden is None else hidden.words)
        if self.listed is None:
            ones, known = self.unfoldings[0]
            mask = None if known is None else copy_rows(known, lo, hi)
            return Unfolding(copy_rows(ones, lo, hi), mask)
        listed, unknown = self.listed
        rest = None if unknown is None else _range(unknown, lo, hi)
        return pack_entries(
            _range(listed, lo, hi), rest, getattr(self.unfoldings, "threads", None)
        )

    def of_rows(self, rows: Index, threads: int | None = None) -> PackedTensor:
        """Return a tensor with some of the rows of the first mode."""
        ones, known = self.unfoldings[0]
        first = Unfolding(ones[rows], None if known is None else known[rows])
        return PackedTensor.from_unfolding((len(rows), *self.shape[1:]), first, threads)

    def of_lines(self, lines: Sequence[Index]) -> PackedTensor:
        """Return a tensor with some lines of every mode."""
        shape = tuple(map(len, lines))
        if shape == self.shape:
            return self
        ones, known = self.unfoldings[0]
        first = Unfolding(
            _of_lines(ones, self.shape, lines),
            None if known is None else _of_lines(known, self.shape, lines),
        )
        return PackedTensor.from_unfolding(shape, first)

    def as_matrix(self) -> PackedTensor:
        """Return a matrix with one column per combination of lines of all modes but the first.

        Columns are in the order of an unfolding of the first mode, with unknown columns as
        padding.
        """
        ones, known = self.unfoldings[0]
        is_there = every_column(self.shape)
        known = np.tile(is_there, (len(ones), 1)) if known is None else known & is_there
        whole = self.shape[0], WORD * ones.shape[1]
        return PackedTensor.from_unfolding(whole, Unfolding(ones, known))

    @property
    def listed(self) -> tuple[Pattern, Pattern | None] | None:
        """The ones and the unknown entries of a sparse matrix that is not packed yet, or None."""
        return getattr(self.unfoldings, "listed", None)

    @property
    def shared(self) -> tuple[Shared, Shared | None] | None:
        """The ones and the unknown entries of which this process has some rows, or None."""
        return getattr(self.unfoldings, "shared", None)

    def release(self) -> None:
        """Forget the rows that other processes hold, if they were needed for a while."""
        if isinstance(self.unfoldings, Unfoldings):
            self.unfoldings.release()

    @property
    def has_mask(self) -> bool:
        """Whether the unfoldings have a mask of the known entries."""
        apart = self.listed or self.shared
        return (self.unfoldings[0].known if apart is None else apart[1]) is not None

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


def _sizes(words: Words, threads: int | None) -> Index:
    """Count the ones of every row."""

    def some_rows(lo: int, hi: int) -> Index:
        sizes: Index = count_ones(words[lo:hi])
        return sizes

    step = max(1, WORDS_PER_THREAD // words.shape[1])
    return np.concatenate(parallel_for(some_rows, len(words), n_threads(threads), step=step))


def _of_lines(words: Words, shape: tuple[int, ...], lines: Sequence[Index]) -> Words:
    """Return some lines of every mode, packed as the unfolding of the first."""
    chosen = tuple(map(len, lines))
    axes = 0, *outer_modes(chosen, 0), inner_mode(chosen, 0)
    out = np.empty((chosen[0], row_words(chosen, 0)), np.uint64)
    step = max(1, _BLOCK_ENTRIES // int(np.prod(shape[1:])))
    for start in range(0, chosen[0], step):
        rows = words[lines[0][start : start + step]]
        dense = unfold_back(rows, (len(rows), *shape[1:]))
        dense = dense[np.ix_(np.arange(len(rows)), *lines[1:])]
        out[start : start + step] = pack(dense.transpose(axes)).reshape(len(rows), -1)
    return out


def pack_entries(ones: Entries, unknown: Entries | None, threads: int | None) -> Unfolding:
    """Pack the unfolding of the first mode."""
    known = None if unknown is None else _pack_known(unknown, threads)
    return Unfolding(_pack(ones, threads), known)


def _pack(bits: Entries, threads: int | None) -> Words:
    """Pack entries, a block of rows at a time; they may be packed already."""
    assert not isinstance(bits, Shared)  # which Unfoldings has read
    if isinstance(bits, Packed):
        return bits.plain()
    if isinstance(bits, Pattern):
        return _pack_listed(bits, threads)
    shape = bits.shape
    view = bits.transpose(0, *outer_modes(shape, 0), inner_mode(shape, 0))
    words = np.empty((shape[0], row_words(shape, 0)), np.uint64)
    step = max(1, _BLOCK_ENTRIES // max(1, int(np.prod(shape[1:]))))
    for start in range(0, shape[0], step):
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

    step = max(1, WORDS_PER_THREAD // width)
    parallel_for(some_rows, len(words), n_threads(threads), step=step)
    return words


def _range(pattern: Pattern, lo: int, hi: int) -> Pattern:
    """Return a range of rows of a sparse matrix."""
    bounds = pattern.indptr[lo : hi + 1]
    indices = pattern.indices[bounds[0] : bounds[-1]]
    return Pattern(bounds - bounds[0], indices, (hi - lo, pattern.shape[1]))


def _pack_known(unknown: Entries, threads: int | None) -> Words:
    """Pack the mask of known entries, given the unknown ones."""
    if isinstance(unknown, np.ndarray):
        return _pack(~unknown, threads)
    if isinstance(unknown, Packed) and unknown.is_inverted:
        return unknown.words
    words = ~_pack(unknown, threads)
    words &= every_column(unknown.shape)  # padding must not count as known
    return words
