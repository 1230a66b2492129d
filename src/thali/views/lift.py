"""Lift: how much more frequent ones are within a component than elsewhere, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits import khatri_rao
from thali.bits.words import count_ones, overlaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, PackedTensor

_HALF = 0.5
"""Added to counts of ones and of zeros, so that a share among few entries is not 0 or 1."""


def lifts(tensor: PackedTensor, factors: Sequence[Factor], mode: int) -> NDArray[np.float64]:
    """Return the lift of every row of a mode in every component, ``(n_rows, n_components)``.

    The lift of a column is the share of ones among the rows that have the component, divided by
    the share of ones among all other rows; only known entries count. A column that everybody has
    gets a lift of about 1, one that only the users of the component have a large one. Likewise
    for the rows of any mode of a tensor, whose entries are divided by the other modes.

    Notes
    -----
    Shares are ``(ones + 1/2) / (known + 1)``, so that lifts are finite, and larger if they rest on
    more entries.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor, PackedTensor
    >>> from thali.data import BinaryTensor
    >>> users = np.arange(8)[:, None] < 4
    >>> table = np.hstack([users, np.ones((8, 1), bool)])  # the second column is in all rows
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any(table))
    >>> factors = Factor.from_dense(users), Factor.from_dense(np.ones((2, 1), bool))
    >>> lifts(tensor, factors, 1).round(1).ravel().tolist()
    [9.0, 1.0]
    """
    codes = khatri_rao(factors, mode).words
    ones, known = tensor.unfoldings[mode]
    inside = overlaps(ones, codes).astype(np.float64)
    all_ones = count_ones(ones).astype(np.float64)[:, None]
    if known is None:
        n_inside = np.broadcast_to(count_ones(codes).astype(np.float64), inside.shape)
        n_entries = np.prod([n for m, n in enumerate(tensor.shape) if m != mode])
        n_all = np.full_like(all_ones, n_entries)
    else:
        n_inside = overlaps(known, codes).astype(np.float64)
        n_all = count_ones(known).astype(np.float64)[:, None]
    share_inside = (inside + _HALF) / (n_inside + 2 * _HALF)
    share_outside = (all_ones - inside + _HALF) / (n_all - n_inside + 2 * _HALF)
    return np.asarray(share_inside / share_outside, np.float64)


def ranked(probabilities: NDArray[np.float64], lift: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rows of a mode by probability, and those that tie by lift, for each component.

    Probabilities tie if they do not differ in two decimals, as they are shown.

    Parameters
    ----------
    probabilities, lift
        ``(n_rows, n_components)``.

    Examples
    --------
    >>> import numpy as np
    >>> ranked(np.array([[0.4], [1.0], [0.999]]), np.array([[9.0], [2.0], [3.0]])).ravel().tolist()
    [2, 1, 0]
    """
    order: NDArray[np.int64] = np.lexsort((-lift, -probabilities.round(2)), axis=0)
    return order
