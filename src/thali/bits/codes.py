"""Boolean algebra of packed factors: the Khatri-Rao product."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.factor import Factor
from thali.bits.words import WORD, gather_bits, n_words, unpack
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


class Product:
    """The Khatri-Rao product of some factors, which is computed where it is needed.

    It serves as the handle of a factor whose words are made when they are first asked for. The
    engine of a device makes them there instead.
    """

    __slots__ = ("inner", "outer")

    def __init__(self, factors: Sequence[Factor], skip: int) -> None:
        shape = [factor.n_rows for factor in factors]
        self.inner = factors[inner_mode(shape, skip)]
        self.outer = tuple(factors[mode] for mode in outer_modes(shape, skip))

    @property
    def n_lines(self) -> int:
        """Number of lines: the components of the factors."""
        return self.inner.n_components

    @property
    def n_bits(self) -> int:
        """Number of bits of a line, padding included."""
        return WORD * n_words(self.inner.n_rows) * prod(factor.n_rows for factor in self.outer)

    def to_host(self) -> Words:
        """Return the product's words."""
        inner = self.inner.words
        outer = np.ones((inner.shape[0], 1), np.bool_)
        for factor in self.outer:
            bits = factor.dense().T
            n_columns = outer.shape[1] * bits.shape[1]
            outer = (outer[:, :, None] & bits[:, None, :]).reshape(len(outer), n_columns)
        out = np.zeros((inner.shape[0], outer.shape[1] * inner.shape[1]), np.uint64)
        _spread(outer, inner, out)
        return out


@lru_cache(maxsize=6)  # tries of moves that are rejected ask for the same codes again
def _combine(factors: tuple[Factor, ...], skip: int) -> Factor:
    product = Product(factors, skip)
    return Factor(None, product.n_bits, product)


def is_covered(factors: Sequence[Factor], positions: Index) -> NDArray[np.bool_]:
    """Return whether a component covers listed entries, one line of every mode each."""
    lines = [
        gather_bits(factor.words, np.ascontiguousarray(at))
        for factor, at in zip(factors, positions.T, strict=True)
    ]
    shared = np.bitwise_and.reduce(lines)
    covered: NDArray[np.bool_] = np.any(unpack(shared, len(positions)), axis=0)
    return covered
