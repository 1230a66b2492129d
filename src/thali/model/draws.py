# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Draws of rates and densities, by inverting distribution functions.

Those of continuous ones take :data:`thali.model.special.ADDRESSES` first.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.model.special import below_beta, inverse_beta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model.special import Addresses

SMALLEST_RATE = 1e-12
"""Rates are kept this far from zero, so that scores stay finite; no data show the difference."""

SMALLEST_DENSITY = 1e-9
"""Drawn densities are kept this far from 0 and 1, so that their log odds are finite."""


@jit
def draw_truncated(
    addresses: Addresses, a: float, b: float, uniform: float, upper: float
) -> float:
    """Draw a rate from Beta(a, b) truncated to (0, upper)."""
    # If the mean is ten standard deviations below, all mass is below to the last digit.
    is_far = (upper - a / (a + b)) * sqrt(a + b) > 5.0
    below = 1.0 if is_far else below_beta(addresses, a, b, upper)
    if below > 1e-290:
        rate = inverse_beta(addresses, a, b, uniform * below)
    else:
        # Nearly all mass lies above (in the first sweeps only), and the distribution function
        # underflows. Below, the log density is then linear; the error of this where the mass is,
        # its curvature over twice the slope squared, is below one in a thousand.
        rate = upper + log(uniform) / slope(upper, a, b)
    return min(max(rate, SMALLEST_RATE), upper)


@jit
def slope(rate: float, a: float, b: float) -> float:
    """Return the derivative of the log density of Beta(a, b)."""
    return (a - 1.0) / rate - (b - 1.0) / (1.0 - rate)


@jit
def draw_density(addresses: Addresses, a: float, b: float, uniform: float) -> float:
    """Draw a density from Beta(a, b)."""
    drawn = inverse_beta(addresses, a, b, uniform)
    return min(max(drawn, SMALLEST_DENSITY), 1.0 - SMALLEST_DENSITY)


@jit
def draw_in_turn(
    scores: NDArray[np.float64], numbers: Index, share: float, uniforms: NDArray[np.float64]
) -> Index:
    """Draw values of a grid for one component after another, given those of all others.

    ``scores`` are log likelihoods, ``(n_components, n_values)``. The weights of the values are
    summed out: that of a value is the number of other components that have it, plus ``share``.
    """
    n, n_values = scores.shape
    counts, drawn = np.zeros(n_values), numbers.copy()
    cumulative = np.empty(n_values)
    for component in range(n):
        counts[drawn[component]] += 1.0
    for component in range(n):
        counts[drawn[component]] -= 1.0
        largest = -np.inf
        for k in range(n_values):
            largest = max(largest, scores[component, k])
        total = 0.0
        for k in range(n_values):
            total += (counts[k] + share) * exp(scores[component, k] - largest)
            cumulative[k] = total
        chosen = 0
        while chosen < n_values - 1 and uniforms[component] * total >= cumulative[chosen]:
            chosen += 1
        drawn[component] = chosen
        counts[chosen] += 1.0
    return drawn
