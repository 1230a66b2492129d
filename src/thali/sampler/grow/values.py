# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What a component is worth, computed from counts of uncovered entries."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.paths import CERTAIN, LARGE

if TYPE_CHECKING:
    from numpy.typing import NDArray


@inner
def softplus(x: float) -> float:
    """Return log(1 + exp(x)); most scores are so large that no exponential is needed."""
    if x > CERTAIN:
        return x
    return 0.0 if x < -CERTAIN else max(x, 0.0) + log1p(exp(-abs(x)))


@jit
def log_sums(scores: NDArray[np.float64], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log marginal likelihood of every code, with its bits summed out.

    ``scores`` is ``(n_columns, n_components)``, the gain by every bit; ``odds`` are the log odds
    of the densities q. The sum over columns is that of log(1 - q + q exp(score)). Factors are
    multiplied as long as they can be, because a logarithm takes longer than a product.
    """
    n_columns, n = scores.shape
    sums, products = np.zeros(n), np.ones(n)
    for k in range(n):
        sums[k] = -n_columns * softplus(odds[k])
    for column in range(n_columns):
        for k in range(n):
            x = scores[column, k] + odds[k]
            if x > CERTAIN:
                sums[k] += x
            elif x > -CERTAIN:
                products[k] *= 1.0 + exp(x)
                if products[k] > LARGE:
                    sums[k] += log(products[k])
                    products[k] = 1.0
    for k in range(n):
        sums[k] += log(products[k])
    return sums


@jit
def sums_by_density(gains: NDArray[np.float64], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log marginal likelihood of one code for several densities, as above.

    The exponential of a gain is computed once for all of them. Every factor 1 + exp(gain + odds)
    is at least one, so products need to be watched for the largest odds only.
    """
    n = len(odds)
    sums, products, times = np.empty(n), np.ones(n), np.empty(n)
    largest, bound, most = -np.inf, 1.0, 0.0
    for j in range(n):
        sums[j] = -len(gains) * softplus(odds[j])
        times[j] = exp(odds[j])
        largest, most = max(largest, odds[j]), max(most, times[j])
    for gain in gains:
        if gain + largest > CERTAIN:
            for j in range(n):
                sums[j] += softplus(gain + odds[j])
        elif gain + largest > -CERTAIN:
            factor = exp(gain)
            for j in range(n):
                products[j] *= 1.0 + times[j] * factor
            bound *= 1.0 + most * factor
            if bound > LARGE:
                for j in range(n):
                    sums[j] += log(products[j])
                    products[j] = 1.0
                bound = 1.0
    for j in range(n):
        sums[j] += log(products[j])
    return sums
