"""Codes summed out: what columns say about who uses a component, whatever is in it.

Given who uses some components and all that the others cover, the bits of these components are
independent over columns. A column's marginal likelihood is a sum over the patterns of its bits.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Words

_NEGLIGIBLE = 40.0
"""Terms so much below the largest do not change a double."""


class Patterns(NamedTuple):
    """Log weights of the bit patterns of some components, for every column (eq. 17).

    Pattern p has bit i on where component i has the column.
    """

    weights: NDArray[np.float64]  # (n_columns, 2 ** n_components)

    @classmethod
    def of(
        cls, scores: NDArray[np.float64], members: Sequence[int], density: float
    ) -> Patterns:
        """Weigh all patterns.

        Parameters
        ----------
        scores
            ``(n_columns, n_classes)``: what covering the free entries of a class of rows gains.
        members
            For each component the set of classes that use it, bit ``c`` for class ``c``.
        density
            Prior probability of a bit.
        """
        n = len(members)
        weights = np.empty((len(scores), 1 << n))
        for pattern in range(1 << n):
            covered = 0
            for i in range(n):
                if pattern >> i & 1:
                    covered |= members[i]
            on = pattern.bit_count()
            prior = on * log(density) + (n - on) * log(1.0 - density)
            chosen = [c for c in range(scores.shape[1]) if covered >> c & 1]
            weights[:, pattern] = prior + scores[:, chosen].sum(axis=1)
        return cls(weights)

    def total(self) -> float:
        """Return the log marginal likelihood of all columns, relative to covering nothing."""
        return float(_log_sums(self.weights))

    def draw(self, uniforms: NDArray[np.float64]) -> Words:
        """Draw the bits of the components: packed, ``(n_components, n_words)``."""
        n = int(self.weights.shape[1]).bit_length() - 1
        drawn = _choose(self.weights, uniforms)
        bits = (drawn[None, :] >> np.arange(n)[:, None]) & 1
        return pack(bits.astype(np.bool_))


@jit
def _log_sums(weights: NDArray[np.float64]) -> float:
    """Sum log(sum(exp)) over the rows, in their order."""
    total = 0.0
    for row in range(weights.shape[0]):
        largest = weights[row].max()
        rest = 0.0
        for k in range(weights.shape[1]):
            below = largest - weights[row, k]
            if below < _NEGLIGIBLE:
                rest += exp(-below)
        total += largest + log(rest)
    return total


@jit
def _choose(weights: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw a pattern for every row."""
    n = weights.shape[1]
    out = np.empty(weights.shape[0], np.int64)
    for row in range(weights.shape[0]):
        largest = weights[row].max()
        total = 0.0
        for k in range(n):
            total += exp(weights[row, k] - largest)
        left = uniforms[row] * total
        chosen = n - 1
        for k in range(n):
            left -= exp(weights[row, k] - largest)
            if left < 0.0:
                chosen = k
                break
        out[row] = chosen
    return out
