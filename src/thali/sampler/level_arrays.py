# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What NumPy does with small arrays as well, but takes longer to compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index

    Values: TypeAlias = NDArray[np.float64]


@inner
def repeated(value: float, n: int) -> Values:
    """Return an array of so many equal values."""
    out = np.empty(n)
    for i in range(n):
        out[i] = value
    return out


@inner
def all_at(level: int, n: int) -> Index:
    """Return the same level for so many lines."""
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = level
    return out


@inner
def take(values: Values, positions: Index, plus: float) -> Values:
    """Return the values at some positions, all of them plus a number."""
    out = np.empty(positions.shape[0])
    for i in range(positions.shape[0]):
        out[i] = values[positions[i]] + plus
    return out


@inner
def shifted(levels: Index, by: int) -> Index:
    """Return all levels plus a number."""
    out = np.empty(levels.shape[0], np.int64)
    for i in range(levels.shape[0]):
        out[i] = levels[i] + by
    return out


@inner
def every(values: Values, stride: int) -> Values:
    """Return every so many values, from the first on, as an array without gaps."""
    out = np.empty(-(-values.shape[0] // stride))
    for i in range(out.shape[0]):
        out[i] = values[stride * i]
    return out
