# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The gain in log-likelihood by covering sets of free entries, from counts by class (eq. 27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.model.rule import log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover, FreeEntries
    from thali.model import Weights
    from thali.sampler.target import Target


def gains_by_set(
    target: Target, weights: Weights, mode: int, lines: tuple[int, int], cover: Cover, sets: Words
) -> NDArray[np.float64]:
    """Return the gain of every line of a range by covering its free entries in sets of columns.

    Returns ``(n_lines, n_sets)``.
    """
    if not weights.has_classes:
        return gains_of(target.engine.count_by_class(mode, lines, cover, sets), weights)
    weights = weights.of_mode(mode)
    counts = target.engine.count_by_class(mode, lines, cover, sets, weights.columns)
    return _gains(counts, weights, lines)


def uncovered_gains(
    rest: FreeEntries, weights: Weights, mode: int, sets: Words
) -> NDArray[np.float64]:
    """Return the same for all lines of a mode and entries that no component covers."""
    weights = weights.of_mode(mode)
    counts = rest.count(mode, sets, weights.columns)
    return _gains(counts, weights, (0, len(counts)))


def gains_of(counts: Index, weights: Weights) -> NDArray[np.float64]:
    """Return the gains of lines, given their counts by set, if there is one class."""
    gains: NDArray[np.float64] = _plain_gains(counts, *weights.pair())
    return gains


def _gains(counts: Index, weights: Weights, lines: tuple[int, int]) -> NDArray[np.float64]:
    lo, hi = lines
    of_lines = _one_class(hi - lo) if weights.rows is None else weights.rows[lo:hi]
    gains: NDArray[np.float64] = sum_gains(counts, weights.table[:, :, 0], of_lines)
    return gains


_ONE_CLASS = np.zeros(1 << 10, np.int64)


def _one_class(n: int) -> Index:
    return _ONE_CLASS[:n] if n <= len(_ONE_CLASS) else np.zeros(n, np.int64)


@jit
def _plain_gains(counts: Index, one: float, zero: float) -> NDArray[np.float64]:
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
