"""Known entries that read other than a draw makes likely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits import khatri_rao, pack, unpack
from thali.model.levels import Levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Confusion, PackedTensor, Words
    from thali.sampler import State

_BLOCK_WORDS = 1 << 20
"""Words of a block of rows, 8 MB."""


def n_misread(state: State, tensor: PackedTensor, confusion: Confusion) -> int:
    """Return how many known entries read other than their more probable value.

    Parameters
    ----------
    state
        Factors and noise, given which every entry is one with some probability.
    tensor
        The data.
    confusion
        The known entries by whether they are covered, and what they read.

    Examples
    --------
    A component that is seen in a third of its entries makes no one likely.

    >>> from thali.bits import Confusion, Factor, PackedTensor
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> from thali.sampler import State
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any([[1, 0, 0]]))
    >>> factors = tuple(Factor.from_dense(np.ones((n, 1), bool)) for n in (1, 3))
    >>> for dropped in (0.6, 0.4):
    ...     state = State(factors, Noise(0.1, dropped), 1.0, (), (1, 2), 0)
    ...     n_misread(state, tensor, tensor.confusion(1, 2))
    1
    2
    """
    noise = state.noise
    if not isinstance(noise, Levels):
        inside = confusion.fp if noise.reads_one(covered=True) > 0.5 else confusion.tp
        outside = confusion.tn if noise.reads_one(covered=False) > 0.5 else confusion.fn
        return inside + outside
    users, codes = state.factors[0], khatri_rao(state.factors, 0)
    ones, known = tensor.unfoldings[0]
    free, taken = (
        pack((noise.log_odds[..., covered] > 0.0)[:, noise.across(0).classes])
        for covered in (0, 1)
    )
    members = unpack(users.words, users.n_rows)
    step = max(1, _BLOCK_WORDS // ones.shape[1])
    total = 0
    for first in range(0, len(ones), step):
        rows = slice(first, first + step)
        covered = _union(members[:, rows], codes.words)
        of_rows = noise.row_classes[1][rows]
        likely = (covered & taken[of_rows]) | (~covered & free[of_rows])
        wrong = likely ^ ones[rows]
        total += int(np.bitwise_count(wrong if known is None else wrong & known[rows]).sum())
    return total


def _union(members: NDArray[np.bool_], codes: Words) -> Words:
    """Return the entries of some rows that a component covers."""
    covered = np.zeros((members.shape[1], codes.shape[1]), np.uint64)
    for has, code in zip(members, codes, strict=True):
        covered[has] |= code
    return covered
