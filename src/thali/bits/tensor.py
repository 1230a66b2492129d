"""The data in packed form: one padded unfolding per mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.codes import inner_mode, outer_modes
from thali.bits.words import Words, count_ones, n_words, pack, set_bits, transpose, unpack
from thali.data import BinaryTensor, Entries, Packed, Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_ENTRIES = 1 << 24  # entries packed at a time: 16 MB of Booleans


class Confusion(NamedTuple):
    """Known entries by prediction and datum: positive means predicted one."""

    tp: int
    fp: int
    tn: int
    fn: int


class Unfolding(NamedTuple):
    """A tensor as packed rows of one mode.

    Columns run over the remaining modes in C order, the longest one innermost and padded to
    whole words (:func:`thali.bits.inner_mode`). Padding and unknown entries are zero in both
    arrays.
    """

    ones: Words
    known: Words | None  # None when every entry is known


class PackedTensor(NamedTuple):
    """A binary tensor packed once per mode: at most 2 bits an entry of a known matrix."""

    shape: tuple[int, ...]
    unfoldings: tuple[Unfolding, ...]
    n_known: int
    n_ones: int

    @classmethod
    def from_tensor(cls, tensor: BinaryTensor) -> PackedTensor:
        """Pack a labelled tensor in row blocks; sparse input is never made dense.

        Rows that are packed already are used as they are, without a copy.
        """
        first = Unfolding(_pack_mode(tensor.ones, 0), _pack_known(tensor, 0))
        if tensor.arity == 2:
            return cls._complete(tensor.shape, [first, _turn(first, tensor.shape[1])])
        others = (
            Unfolding(_pack_mode(tensor.ones, mode), _pack_known(tensor, mode))
            for mode in range(1, tensor.arity)
        )
        return cls._complete(tensor.shape, [first, *others])

    @classmethod
    def from_unfolding(cls, shape: tuple[int, ...], first: Unfolding) -> PackedTensor:
        """Complete the unfolding of the first mode to all; beyond matrices it is made dense."""
        width = n_words(shape[inner_mode(shape, 0)])
        n_outer = int(np.prod([shape[m] for m in outer_modes(shape, 0)]))
        for words in first:
            if words is not None and words.shape != (shape[0], n_outer * width):
                msg = f"packed data of shape {words.shape} do not belong to a tensor of {shape}."
                raise ValueError(msg)
        if len(shape) == 2:
            return cls._complete(shape, [first, _turn(first, shape[1])])
        ones, known = (None if part is None else unfold_back(part, shape) for part in first)
        assert ones is not None
        packed = [first]
        for mode in range(1, len(shape)):
            mask = None if known is None else _pack_mode(known, mode)
            packed.append(Unfolding(_pack_mode(ones, mode), mask))
        return cls._complete(shape, packed)

    @classmethod
    def _complete(cls, shape: tuple[int, ...], unfoldings: list[Unfolding]) -> PackedTensor:
        first = unfoldings[0]
        n_known = int(np.prod(shape)) if first.known is None else _total(first.known)
        return cls(shape, tuple(unfoldings), n_known, _total(first.ones))

    @property
    def nbytes(self) -> int:
        """Memory of all unfoldings."""
        return sum(part.nbytes for u in self.unfoldings for part in u if part is not None)

    def confusion(self, tp: int, fp: int) -> Confusion:
        """Complete the counts of covered ones and covered zeros."""
        return Confusion(tp, fp, self.n_known - self.n_ones - fp, self.n_ones - tp)


def unfold_back(words: Words, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return packed rows of the first mode's unfolding as a dense tensor of those rows."""
    inner, outer = inner_mode(shape, 0), outer_modes(shape, 0)
    width = n_words(shape[inner])
    lengths = [shape[m] for m in outer]
    dense = unpack(words.reshape(len(words), *lengths, width), shape[inner])
    order = [0, *outer, inner]  # the mode of each axis
    return dense.transpose([order.index(mode) for mode in range(len(shape))])


def _turn(first: Unfolding, n_columns: int) -> Unfolding:
    """Return the unfolding of a matrix's second mode."""
    known = None if first.known is None else transpose(first.known, n_columns)
    return Unfolding(transpose(first.ones, n_columns), known)


def _total(words: Words) -> int:
    return int(count_ones(words).sum())


def _pack_mode(bits: Entries, mode: int) -> Words:
    """Pack the unfolding of one mode, a block of rows at a time."""
    if isinstance(bits, Packed):
        return bits.words
    shape = bits.shape
    n_rows = shape[mode]
    if isinstance(bits, Pattern):
        words = np.zeros((n_rows, n_words(shape[1])), np.uint64)
        set_bits(words, 0, bits.indptr, bits.indices)
        return words
    inner = inner_mode(shape, mode)
    view = bits.transpose(mode, *outer_modes(shape, mode), inner)
    n_outer = int(np.prod(view.shape[1:-1]))
    words = np.empty((n_rows, n_outer * n_words(shape[inner])), np.uint64)
    step = max(1, _BLOCK_ENTRIES // max(1, n_outer * shape[inner]))
    for start in range(0, n_rows, step):
        block = view[start : start + step]
        words[start : start + step] = pack(block).reshape(len(block), -1)
    return words


def _pack_known(tensor: BinaryTensor, mode: int) -> Words | None:
    """Pack the known entries, or nothing when all are known."""
    unknown = tensor.unknown
    if unknown is None:
        return None
    if isinstance(unknown, np.ndarray):
        return _pack_mode(~unknown, mode)
    words = ~_pack_mode(unknown, mode)
    words &= pack(np.ones(tensor.shape[1], np.bool_))  # padding must not count as known
    return words
