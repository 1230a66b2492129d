"""Lift: how much more frequent ones are within a component than elsewhere, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import khatri_rao
from thali.bits.words import count_ones, overlaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, PackedTensor

_HALF = 0.5
"""Added to counts of ones and of zeros, so that a share among few entries is not 0 or 1."""


class InAndOut(NamedTuple):
    """Counts of entries within every component and elsewhere, for every row of a mode.

    All fields are arrays ``(n_rows, n_components)``, or ``(n_components,)`` for whole components.
    """

    ones: NDArray[np.float64]  # ones among the entries that the component would cover
    known: NDArray[np.float64]  # known entries among these
    other_ones: NDArray[np.float64]  # ones elsewhere in the row
    other_known: NDArray[np.float64]  # known entries elsewhere in the row

    @property
    def lift(self) -> NDArray[np.float64]:
        """How many times as frequent ones are within a component as elsewhere.

        Shares are ``(ones + 1/2) / (known + 1)``, so that lifts are finite, and larger if they
        rest on more entries.
        """
        inside = (self.ones + _HALF) / (self.known + 2 * _HALF)
        outside = (self.other_ones + _HALF) / (self.other_known + 2 * _HALF)
        return np.asarray(inside / outside, np.float64)

    def whole(self, factor: Factor) -> InAndOut:
        """Add up the rows of the mode that belong to each component.

        The lift is then that of the component: the share of ones among the entries that it
        covers, divided by the share of ones of the same columns in all other rows.
        """
        has = factor.dense()
        return InAndOut(*((part * has).sum(axis=0) for part in self))


def in_and_out(tensor: PackedTensor, factors: Sequence[Factor], mode: int) -> InAndOut:
    """Count ones and known entries within every component and elsewhere, by row of a mode.

    The lift of a column is the share of ones among the rows that have the component, divided by
    the share of ones among all other rows; only known entries count. A column that everybody has
    gets a lift of about 1, one that only the users of the component have a large one. Likewise
    for the rows of any mode of a tensor, whose entries are divided by the other modes.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor, PackedTensor
    >>> from thali.data import BinaryTensor
    >>> users = np.arange(8)[:, None] < 4
    >>> table = np.hstack([users, np.ones((8, 1), bool)])  # the second column is in all rows
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any(table))
    >>> factors = Factor.from_dense(users), Factor.from_dense(np.ones((2, 1), bool))
    >>> counts = in_and_out(tensor, factors, 1)
    >>> counts.lift.round(1).ravel().tolist(), counts.whole(factors[1]).lift.round(1).tolist()
    ([9.0, 1.0], [1.9])
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
    return InAndOut(inside, n_inside, all_ones - inside, n_all - n_inside)


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
