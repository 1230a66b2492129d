# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What a component is worth, computed from counts of uncovered entries."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CERTAIN = 40.0
"""Log odds beyond which the exponential does not change a double."""

_LARGE = 1e280
"""Product that can be multiplied once more without overflow."""


@inner
def softplus(x: float) -> float:
    """Return log(1 + exp(x)); most scores are so large that no exponential is needed."""
    if x > _CERTAIN:
        return x
    return 0.0 if x < -_CERTAIN else max(x, 0.0) + log1p(exp(-abs(x)))


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
            if x > _CERTAIN:
                sums[k] += x
            elif x > -_CERTAIN:
                products[k] *= 1.0 + exp(x)
                if products[k] > _LARGE:
                    sums[k] += log(products[k])
                    products[k] = 1.0
    for k in range(n):
        sums[k] += log(products[k])
    return sums


@jit
def log_paths(
    scores: NDArray[np.float64], odds: NDArray[np.float64], bits: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return, for every column, the log probability that a sweep draws these bits.

    ``bits`` is ``(n_columns, n_components)``, as the scores.
    """
    paths = np.zeros(scores.shape[0])
    for column in range(scores.shape[0]):
        product = 1.0
        for k in range(scores.shape[1]):
            x = scores[column, k] + odds[k]
            x = -x if bits[column, k] else x
            if x > _CERTAIN:
                paths[column] -= x
            elif x > -_CERTAIN:
                product *= 1.0 + exp(x)
                if product > _LARGE:
                    paths[column] -= log(product)
                    product = 1.0
        paths[column] -= log(product)
    return paths
