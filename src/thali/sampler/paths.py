# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""With which probability a sweep draws the bits of a line, one component after another."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

CERTAIN = 40.0
"""Log odds beyond which the exponential does not change a double."""

LARGE = 1e280
"""Product that can be multiplied once more without overflow."""


@jit
def log_paths(
    scores: NDArray[np.float64], odds: NDArray[np.float64], bits: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return, for every line, the log probability that a sweep draws these bits.

    Scores and bits are ``(n_lines, n_components)``, ``odds`` the prior log odds of components. A
    component whose odds are not a number is not drawn, and counts for nothing.
    """
    paths = np.zeros(scores.shape[0])
    for line in range(scores.shape[0]):
        product = 1.0
        for k in range(scores.shape[1]):
            x = scores[line, k] + odds[k]
            x = -x if bits[line, k] else x
            if x > CERTAIN:
                paths[line] -= x
            elif x > -CERTAIN:
                product *= 1.0 + exp(x)
                if product > LARGE:
                    paths[line] -= log(product)
                    product = 1.0
        paths[line] -= log(product)
    return paths
