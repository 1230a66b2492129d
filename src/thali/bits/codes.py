"""Boolean algebra of packed factors: the Khatri-Rao product."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.factor import Factor
from thali.bits.words import WORD, gather_bits, unpack
from thali.data.layout import inner_mode, outer_modes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits.words import Index, Words

__all__ = ["inner_mode", "is_covered", "khatri_rao", "outer_modes"]


@jit
def _spread(outer: NDArray[np.bool_], inner: Words, out: Words) -> None:
    """Copy a component's inner words to every outer position where its bit is on."""
    width = inner.shape[1]
    for component in range(outer.shape[0]):
        for o in range(outer.shape[1]):
            if outer[component, o]:
                for w in range(width):
                    out[component, o * width + w] = inner[component, w]


def khatri_rao(factors: Sequence[Factor], skip: int) -> Factor:
    """Combine all factors but one into packed codes.

    Component ``l`` has column ``(d, m, …)`` of the unfolding if and only if every other factor has
    a one at ``l``: at row ``d`` of the first, row ``m`` of the second, and so on. For a matrix the
    codes are the other factor itself, which is not copied.

    Parameters
    ----------
    factors
        One factor per mode.
    skip
        The mode that is updated, whose factor is left out.

    Returns
    -------
    codes
        A factor whose rows are the columns of the unfolding, padding included, ordered as in
        :class:`thali.bits.Unfolding`.

    Notes
    -----
    Unpacked and without padding, for modes ``(skip, d, m)`` with ``m`` the longest, this is
    ``einsum("dl,ml->ldm", u, v).reshape(L, -1)``.
    """
    if len(factors) == 2:
        return factors[1 - skip]
    return _combine(tuple(factors), skip)


@lru_cache(maxsize=6)  # tries of moves that are rejected ask for the same codes again
def _combine(factors: tuple[Factor, ...], skip: int) -> Factor:
    shape = [factor.n_rows for factor in factors]
    inner = factors[inner_mode(shape, skip)].words
    outer = np.ones((inner.shape[0], 1), np.bool_)
    for mode in outer_modes(shape, skip):
        bits = factors[mode].dense().T
        n_columns = outer.shape[1] * bits.shape[1]
        outer = (outer[:, :, None] & bits[:, None, :]).reshape(len(outer), n_columns)
    out = np.zeros((inner.shape[0], outer.shape[1] * inner.shape[1]), np.uint64)
    _spread(outer, inner, out)
    return Factor(out, WORD * out.shape[1])


def is_covered(factors: Sequence[Factor], positions: Index) -> NDArray[np.bool_]:
    """Return whether a component covers listed entries, one line of every mode each."""
    lines = [
        gather_bits(factor.words, np.ascontiguousarray(at))
        for factor, at in zip(factors, positions.T, strict=True)
    ]
    shared = np.bitwise_and.reduce(lines)
    covered: NDArray[np.bool_] = np.any(unpack(shared, len(positions)), axis=0)
    return covered
