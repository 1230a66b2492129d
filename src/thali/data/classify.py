"""Decide for every value of the input whether it is a one, a zero, unknown or not allowed.

All readers share these rules, whether they read arrays, sparse matrices, data frames or files.
"""

from __future__ import annotations

import math
import reprlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import InvalidValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Bools = NDArray[np.bool_]

ADVICE = "threshold it first, for instance `tensor > 0`"

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def classify(
    values: NDArray[Any], mask: _Bools | None, threshold: float | None = None
) -> tuple[_Bools, _Bools | None, int | None]:
    """Find the ones, the unknown entries and the first entry that is not allowed.

    Parameters
    ----------
    values
        Numbers, or objects such as Booleans and None.
    mask
        True where the entry is unknown, whatever its value; None if nothing is masked.
    threshold
        Numbers above it are ones and all other numbers zeros. None allows only 0 and 1.

    Returns
    -------
    is_one
        True where the entry is a known one.
    is_unknown
        True where the entry is unknown; None if no entry is.
    first_bad
        Index of the first entry that is not allowed, counted in C order; None if all are allowed.
    """
    if values.dtype.kind == "O":
        numbers = map(_number, values.flat)
        values = np.fromiter(numbers, np.float64, values.size).reshape(values.shape)
    # Integers are never NaN, and np.isnan would convert them to floats first.
    is_unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
    if mask is not None:
        is_unknown |= mask
    is_one = (values == 1 if threshold is None else values > threshold) & ~is_unknown
    is_allowed = is_one | is_unknown | (values == 0 if threshold is None else ~is_unknown)
    first_bad = None if is_allowed.all() else int(is_allowed.argmin())
    return is_one, is_unknown if is_unknown.any() else None, first_bad


def _number(value: Any) -> float:
    """Return 0.0, 1.0, NaN for unknown, or infinity for an object that is not allowed."""
    if isinstance(value, _NUMBERS):
        return float(value) if value in (0, 1) or value != value else math.inf  # noqa: PLR0124
    pandas = sys.modules.get("pandas")
    is_missing = value is None or value is np.ma.masked or value is getattr(pandas, "NA", None)
    return math.nan if is_missing else math.inf


def refusal(value: Any, where: str) -> ValueError:
    """Return the error for a value that is not 0, 1 or unknown."""
    shown = reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    return InvalidValue(
        f"the tensor holds {shown} at {where}",
        "allowed are 0, 1 and NaN for unknown",
        ADVICE if isinstance(value, _NUMBERS) else "replace it first",
    )


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse a tensor with fewer than two modes, or with a mode that has no rows."""
    if len(shape) < 2 or min(shape) < 1:
        raise ValueError(
            f"the tensor has shape {shape}; at least 2 modes are needed, each with a row or more; "
            "reshape or fill it."
        )


def check_dtype(dtype: Any, owner: str) -> None:
    """Refuse a type that cannot represent zeros and ones."""
    # pandas also reports the kind "O" for categories, strings, periods and intervals.
    if dtype.kind not in ("biufO" if isinstance(dtype, np.dtype) else "biuf"):
        raise TypeError(
            f"{owner} has type {dtype}; allowed are Booleans, integers, floats and objects that "
            "hold 0, 1 or a missing value, so convert it to these first."
        )


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array
