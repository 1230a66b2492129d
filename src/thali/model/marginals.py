"""Codes summed out: what columns say about who uses a component, whatever is in it.

Given who uses some components and all that the others cover, the bits of these components are
independent over columns. A column's marginal likelihood is a sum over the patterns of its bits.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Index, Words

_NEGLIGIBLE = 40.0
"""Terms so much below the largest do not change a double."""

_ONE = np.uint64(1)


class Marginal(NamedTuple):
    """The bits of some components in every column, weighed by prior and likelihood (eq. 17).

    Pattern p of a column has bit i on where component i has the column.
    """

    counts: Index  # (n_columns, n_classes, 2): free ones and zeros of classes of rows
    covers: Index  # (n_patterns,): the set of classes that a pattern covers, as bits
    prior: NDArray[np.float64]  # (n_patterns,): log prior probabilities
    weights: tuple[float, float]  # what covering a one and a zero gains

    @classmethod
    def of(
        cls, counts: Index, members: Sequence[int], density: float, weights: tuple[float, float]
    ) -> Marginal:
        """Prepare the sums over patterns.

        Parameters
        ----------
        counts
            Free ones and zeros of every column, by class of rows.
        members
            For each component the set of classes that use it, bit ``c`` for class ``c``.
        density
            Prior probability of a bit.
        weights
            What covering a one and a zero gains.
        """
        return cls(counts, *_patterns(tuple(members), density), weights)

    def total(self) -> float:
        """Return the log marginal likelihood of all columns, relative to covering nothing."""
        return float(_total(self.counts, self.covers, self.prior, *self.weights))

    def draw(self, uniforms: NDArray[np.float64]) -> Words:
        """Draw the bits of the components: packed, ``(n_components, n_words)``."""
        n = len(self.prior).bit_length() - 1
        codes = np.zeros((n, -(-len(self.counts) // 64)), np.uint64)
        _draw(self.counts, self.covers, self.prior, *self.weights, uniforms, codes)
        return codes


@lru_cache(maxsize=16)
def _patterns(members: tuple[int, ...], density: float) -> tuple[Index, NDArray[np.float64]]:
    """Return what every pattern covers, and its log prior probability."""
    n = len(members)
    covers, prior = np.zeros(1 << n, np.int64), np.zeros(1 << n)
    for pattern in range(1 << n):
        on = pattern.bit_count()
        prior[pattern] = on * log(density) + (n - on) * log(1.0 - density)
        for i, classes in enumerate(members):
            if pattern >> i & 1:
                covers[pattern] |= classes
    return covers, prior


@jit
def _weigh(
    counts: Index, covers: Index, prior: NDArray[np.float64], w1: float, w0: float,
    column: int, scores: NDArray[np.float64], out: NDArray[np.float64],
) -> float:  # fmt: skip
    """Fill in the log weights of a column's patterns; return the largest."""
    n_classes = counts.shape[1]
    for c in range(n_classes):
        scores[c] = w1 * counts[column, c, 0] + w0 * counts[column, c, 1]
    largest = -np.inf
    for pattern in range(prior.shape[0]):
        weight = prior[pattern]
        for c in range(n_classes):
            if (covers[pattern] >> c) & 1:
                weight += scores[c]
        out[pattern] = weight
        largest = max(largest, weight)
    return largest


@jit
def _total(
    counts: Index, covers: Index, prior: NDArray[np.float64], w1: float, w0: float
) -> float:
    """Sum log(sum(exp)) over the columns, in their order."""
    scores, weights = np.empty(counts.shape[1]), np.empty(prior.shape[0])
    total = 0.0
    for column in range(counts.shape[0]):
        largest = _weigh(counts, covers, prior, w1, w0, column, scores, weights)
        rest = 0.0
        for weight in weights:
            if largest - weight < _NEGLIGIBLE:
                rest += exp(weight - largest)
        total += largest + log(rest)
    return total


@jit
def _draw(
    counts: Index, covers: Index, prior: NDArray[np.float64], w1: float, w0: float,
    uniforms: NDArray[np.float64], codes: Words,
) -> None:  # fmt: skip
    """Draw a pattern for every column and set its bits."""
    scores, weights = np.empty(counts.shape[1]), np.empty(prior.shape[0])
    n_patterns = prior.shape[0]
    for column in range(counts.shape[0]):
        largest = _weigh(counts, covers, prior, w1, w0, column, scores, weights)
        total = 0.0
        for pattern in range(n_patterns):
            weights[pattern] = exp(weights[pattern] - largest)
            total += weights[pattern]
        left = uniforms[column] * total
        chosen = n_patterns - 1
        for pattern in range(n_patterns):
            left -= weights[pattern]
            if left < 0.0:
                chosen = pattern
                break
        for i in range(codes.shape[0]):
            if (chosen >> i) & 1:
                codes[i, column >> 6] |= _ONE << np.uint64(column & 63)
