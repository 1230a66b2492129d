"""The data in packed form: one padded unfolding per mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.codes import inner_mode, outer_modes
from thali.bits.words import Words, count_ones, n_words, pack, set_bits, transpose
from thali.data import BinaryTensor, Pattern

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
        """Pack a labelled tensor in row blocks; sparse input is never made dense."""
        first = Unfolding(_pack_mode(tensor.ones, 0), _pack_known(tensor, 0))
        unfoldings = [first]
        for mode in range(1, tensor.arity):
            if tensor.arity == 2:
                known = None if first.known is None else transpose(first.known, tensor.shape[1])
                unfoldings.append(Unfolding(transpose(first.ones, tensor.shape[1]), known))
            else:
                unfoldings.append(
                    Unfolding(_pack_mode(tensor.ones, mode), _pack_known(tensor, mode))
                )
        n_known = int(np.prod(tensor.shape)) if first.known is None else _total(first.known)
        return cls(tensor.shape, tuple(unfoldings), n_known, _total(first.ones))

    @property
    def nbytes(self) -> int:
        """Memory of all unfoldings."""
        return sum(part.nbytes for u in self.unfoldings for part in u if part is not None)

    def confusion(self, tp: int, fp: int) -> Confusion:
        """Complete the counts of covered ones and covered zeros."""
        return Confusion(tp, fp, self.n_known - self.n_ones - fp, self.n_ones - tp)


def _total(words: Words) -> int:
    return int(count_ones(words).sum())


def _pack_mode(bits: NDArray[np.bool_] | Pattern, mode: int) -> Words:
    """Pack the unfolding of one mode, a block of rows at a time."""
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
    if not isinstance(unknown, Pattern):
        return _pack_mode(~unknown, mode)
    words = _pack_mode(unknown, mode)
    return ~words & pack(np.ones(tensor.shape[1], np.bool_))
