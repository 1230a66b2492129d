# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The gain in log-likelihood by covering free entries, given their counts by class (eq. 27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.model.rule import log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@jit
def plain_gains(counts: Index, one: float, zero: float) -> NDArray[np.float64]:
    """Return weights times counts, ``(n_lines, n_sets, 2)``, if there is one class."""
    n_lines, n, _ = counts.shape
    gains = np.empty((n_lines, n))
    for i in range(n_lines):
        for k in range(n):
            gains[i, k] = log_odds(0.0, one, zero, counts[i, k, 0], counts[i, k, 1])
    return gains


@jit
def sum_gains(counts: Index, weights: NDArray[np.float64], of_lines: Index) -> NDArray[np.float64]:
    """Sum weights times counts, ``(n_lines, n_sets * n_classes, 2)``, over classes of columns."""
    n_lines, n, _ = counts.shape
    n_classes = weights.shape[1]
    gains = np.zeros((n_lines, n // n_classes))
    for i in range(n_lines):
        of_line = weights[of_lines[i]]
        for k in range(n // n_classes):
            gain = 0.0
            for c in range(n_classes):
                n_ones, n_zeros = counts[i, k * n_classes + c]
                if n_ones + n_zeros > 0:
                    gain = log_odds(gain, of_line[c, 0], of_line[c, 1], n_ones, n_zeros)
            gains[i, k] = gain
    return gains
