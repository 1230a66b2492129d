"""Positions of entries: finding unknown ones, checking listed ones, and their order."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import PackedTensor, inner_mode, unpack
from thali.bits.codes import outer_modes
from thali.bits.words import count_ones, n_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from thali.bits import Index

_BLOCK_POSITIONS = 1 << 24
"""Unknown entries whose positions are listed at a time."""


def unknown_entries(tensor: PackedTensor) -> Iterator[Index]:
    """Yield the positions of unknown entries in C order, in blocks of millions.

    Yields
    ------
    positions
        ``(n_entries, arity)``; whole rows of the first mode, at most 16 million entries unless
        one row has more.

    Examples
    --------
    >>> from thali.data import BinaryTensor
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any([[0, None, 1], [None, 1, 1]]))
    >>> [block.tolist() for block in unknown_entries(tensor)]
    [[[0, 1], [1, 0]]]
    """
    known = tensor.unfoldings[0].known
    if known is None:
        return
    shape = tensor.shape
    n_columns = prod(shape[1:])
    before = np.concatenate([[0], np.cumsum(n_columns - count_ones(known))])
    rows_at_once = max(1, _BLOCK_POSITIONS // n_columns)  # bounds the Booleans in memory
    start = 0
    while start < shape[0]:
        stop = int(np.searchsorted(before, before[start] + _BLOCK_POSITIONS, side="right")) - 1
        stop = max(stop, start + 1)
        found = []
        for first in range(start, stop, rows_at_once):
            last = min(first + rows_at_once, stop)
            inner = shape[inner_mode(shape, 0)]
            lines = known[first:last].reshape(-1, n_words(inner))
            is_known = unpack(lines, inner).reshape(last - first, -1)
            found.append(np.argwhere(~without_padding(is_known, shape, 1)))
            found[-1][:, 0] += first
        if before[stop] > before[start]:
            yield np.concatenate(found)
        start = stop


def without_padding(unfolded: NDArray[Any], shape: tuple[int, ...], multiple: int) -> NDArray[Any]:
    """Bring rows of an unfolding, whose inner mode is padded to a multiple, into C order."""
    inner, outer = inner_mode(shape, 0), outer_modes(shape, 0)
    padded = -(-shape[inner] // multiple) * multiple
    split = unfolded.reshape(len(unfolded), *(shape[m] for m in outer), padded)
    return np.ascontiguousarray(np.moveaxis(split[..., : shape[inner]], -1, inner))


def checked_positions(positions: ArrayLike, shape: tuple[int, ...]) -> Index:
    """Return listed positions as integers, and refuse those outside of the tensor."""
    given = np.asarray(positions)
    if given.ndim != 2 or given.shape[1] != len(shape) or given.dtype.kind not in "iu":
        msg = (
            f"positions of shape {given.shape} and type {given.dtype} were given; allowed are "
            f"integers with {len(shape)} columns, one per mode; reshape them."
        )
        raise ValueError(msg)
    is_outside = ((given < 0) | (given >= np.array(shape))).any(axis=1)
    if is_outside.any():
        first = given[is_outside.argmax()].tolist()
        msg = (
            f"the position {first} was given for a tensor of shape {shape}; allowed are numbers "
            "from 0 up to one less than the shape; drop it."
        )
        raise ValueError(msg)
    return given.astype(np.int64, copy=False)
