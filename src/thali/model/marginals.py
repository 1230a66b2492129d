# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Codes summed out: what columns say about who uses a component, whatever is in it.

Given who uses some components and all that the others cover, the bits of these components are
independent over columns. A column's marginal likelihood is a sum over the patterns of its bits.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.model.rule import free_word, log_odds

if TYPE_CHECKING:
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
    members: Index  # (n_components,): the classes that use a component, bit c for class c
    densities: NDArray[np.float64]  # (n_components,): prior probabilities of a bit
    weights: tuple[float, float]  # what covering a one and a zero gains

    def gain(self, other: Marginal) -> float:
        """Return the log marginal likelihood of this over another's, of the same columns."""
        return float(_gain(self.counts, *self[1:3], other.members, other.densities, *self.weights))

    def draw(self, uniforms: NDArray[np.float64]) -> Words:
        """Draw the bits of the components: packed, ``(n_components, n_words)``."""
        codes: Words = _draw(self.counts, self.members, self.densities, *self.weights, uniforms)
        return codes


@jit
def _patterns(members: Index, densities: NDArray[np.float64]) -> tuple[Index, NDArray[np.float64]]:
    """Return the set of classes that every pattern covers, and its log prior probability."""
    n = members.shape[0]
    covers, prior = np.zeros(1 << n, np.int64), np.zeros(1 << n)
    for pattern in range(1 << n):
        for i in range(n):
            if (pattern >> i) & 1:
                covers[pattern] |= members[i]
                prior[pattern] += log(densities[i])
            else:
                prior[pattern] += log(1.0 - densities[i])
    return covers, prior


@jit
def _weigh(
    counts: Index, covers: Index, prior: NDArray[np.float64], w1: float, w0: float,
    column: int, gains: NDArray[np.float64], out: NDArray[np.float64],
) -> float:  # fmt: skip
    """Fill in the log weights of a column's patterns; return the largest.

    A pattern gains what it gains without its first component, and the classes of rows that this
    one alone covers.
    """
    gains[0] = 0.0
    out[0] = prior[0]
    largest = out[0]
    for pattern in range(1, prior.shape[0]):
        rest = pattern & (pattern - 1)
        gain = gains[rest]
        fresh = free_word(covers[pattern], covers[rest])
        c = 0
        while fresh:
            if fresh & 1:
                gain += log_odds(0.0, w1, w0, counts[column, c, 0], counts[column, c, 1])
            fresh >>= 1
            c += 1
        gains[pattern] = gain
        out[pattern] = gain + prior[pattern]
        largest = max(largest, out[pattern])
    return largest


@jit
def _total(
    counts: Index, members: Index, densities: NDArray[np.float64], w1: float, w0: float
) -> float:
    """Return the log marginal likelihood of all columns, relative to covering nothing."""
    covers, prior = _patterns(members, densities)
    gains, weights = np.empty(prior.shape[0]), np.empty(prior.shape[0])
    total = 0.0
    for column in range(counts.shape[0]):
        largest = _weigh(counts, covers, prior, w1, w0, column, gains, weights)
        rest = 0.0
        for weight in weights:
            if largest - weight < _NEGLIGIBLE:
                rest += exp(weight - largest)
        total += largest + log(rest)
    return total


@jit
def _gain(
    counts: Index, members: Index, densities: NDArray[np.float64], other_members: Index,
    other_densities: NDArray[np.float64], w1: float, w0: float,
) -> float:  # fmt: skip
    mine = _total(counts, members, densities, w1, w0)
    return mine - _total(counts, other_members, other_densities, w1, w0)


@jit
def _draw(
    counts: Index, members: Index, densities: NDArray[np.float64], w1: float, w0: float,
    uniforms: NDArray[np.float64],
) -> Words:  # fmt: skip
    """Draw a pattern for every column and set its bits."""
    covers, prior = _patterns(members, densities)
    codes = np.zeros((members.shape[0], (counts.shape[0] + 63) >> 6), np.uint64)
    gains, weights = np.empty(prior.shape[0]), np.empty(prior.shape[0])
    n_patterns = prior.shape[0]
    for column in range(counts.shape[0]):
        largest = _weigh(counts, covers, prior, w1, w0, column, gains, weights)
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
    return codes
