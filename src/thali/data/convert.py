"""Read zeros, ones and unknown entries from arrays, lists, sparse matrices and data frames.

Dense input is read block by block, so that beside the boolean result (one byte an entry, two when
some entries are unknown) only a few blocks are ever allocated; sparse input is never densified.
"""

from __future__ import annotations

import math
import reprlib
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from thali.data.entries import Pattern

    _Bools = NDArray[np.bool_]
    _Entries = tuple["_Bools | Pattern", "_Bools | Pattern | None"]
    _Block = tuple[tuple[slice, ...], NDArray[Any], _Bools | None]  # where, values, mask

# Entries read at a time: 8 MB of float64, large enough to hide the cost of a Python step.
_BLOCK_ENTRIES = 1 << 20

ADVICE = "threshold it first, for instance `tensor > 0`"

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def entries_of(tensor: Any) -> _Entries:
    """Find the ones and the unknown entries of whatever the user has."""
    if _is_sparse(tensor):
        return _sparse_entries(tensor)
    if is_frame(tensor):
        return _from_frame(tensor)
    if not isinstance(tensor, list | tuple) and not hasattr(tensor, "__array__"):
        raise TypeError(
            f"the tensor is a {type(tensor).__name__}; allowed are NumPy arrays, nested lists, "
            "SciPy sparse matrices, pandas data frames and BinaryTensor, so convert it to one."
        )
    try:
        array = _stack(tensor)
    except (ValueError, TypeError, RuntimeError):  # NumPy's words for this are obscure
        raise ValueError(
            f"the tensor, a {type(tensor).__name__}, cannot be read as a rectangular array; make "
            "all rows equally long, padded with None, or convert it to NumPy."
        ) from None
    return _from_array(array)


def _stack(nested: Any) -> NDArray[Any]:
    """Make an array of nested lists, keeping the masks that ``np.asarray`` would drop."""

    def has_mask(part: Any) -> bool:
        if isinstance(part, list | tuple):
            return any(map(has_mask, part))
        return isinstance(part, np.ma.MaskedArray)

    if isinstance(nested, np.ma.MaskedArray) or not has_mask(nested):
        return np.asanyarray(nested)
    return np.ma.stack([_stack(part) for part in nested])


def _from_array(array: NDArray[Any]) -> _Entries:
    check_shape(array.shape)
    check_dtype(array.dtype, "the tensor")
    values = np.asarray(np.ma.getdata(array))
    mask = None if np.ma.getmask(array) is np.ma.nomask else np.asarray(np.ma.getmask(array))
    if values.dtype == np.bool_ and mask is None and values.flags.c_contiguous:
        return frozen(values.view()), None  # a view: the caller's own array stays writable
    blocks = ((at, values[at], None if mask is None else mask[at]) for at in tiles(values.shape))
    return _gather(values.shape, blocks)


def _from_frame(frame: Any) -> _Entries:
    check_shape(frame.shape)
    dtypes = list(frame.dtypes)
    for label, dtype in zip(frame.columns, dtypes, strict=True):
        check_dtype(dtype, f"column {label!r} of the data frame")
    sparse_type = sys.modules["pandas"].SparseDtype
    if isinstance(dtypes[0], sparse_type) and len(set(dtypes)) == 1 and dtypes[0].fill_value == 0:
        return _sparse_entries(frame.sparse.to_coo())
    return _gather(frame.shape, _frame_blocks(frame, dtypes, sparse_type), frame.columns)


def _frame_blocks(frame: Any, dtypes: list[Any], sparse_type: type) -> Iterator[_Block]:
    """Yield runs of columns that share a NumPy type together, columns of pandas' types singly."""
    for dtype, run in groupby(range(len(dtypes)), key=dtypes.__getitem__):
        columns = list(run)
        is_plain = isinstance(dtype, np.dtype)
        for first in columns[:1] if is_plain else columns:
            for rows, within in tiles((len(frame), len(columns) if is_plain else 1)):
                at = (rows, slice(first + within.start, first + within.stop))
                part = frame.iloc[at]
                if is_plain or isinstance(dtype, sparse_type):
                    yield at, part.to_numpy(), None
                else:
                    # The value below a missing entry is arbitrary: the mask hides it.
                    values = part.iloc[:, 0].to_numpy(dtype=dtype.numpy_dtype, na_value=0)
                    yield at, values[:, None], part.isna().to_numpy()


def tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Cut a tensor into blocks of few entries that follow each other in memory."""
    n_below = math.prod(shape[1:])
    if len(shape) > 1 and n_below > _BLOCK_ENTRIES:
        for row in range(shape[0]):
            yield from ((slice(row, row + 1), *tail) for tail in tiles(shape[1:]))
    else:
        step = max(1, _BLOCK_ENTRIES // n_below)
        for start in range(0, shape[0], step):
            yield slice(start, min(start + step, shape[0])), *(slice(0, n) for n in shape[1:])


def _gather(shape: tuple[int, ...], blocks: Iterable[_Block], columns: Any = None) -> _Entries:
    """Fill the result block by block; the labels of columns serve the message on a bad value."""
    ones = np.empty(shape, np.bool_)
    unknown: _Bools | None = None
    for at, values, mask in blocks:
        is_one, is_unknown, first_bad = classify(values, mask)
        if first_bad is not None:
            inside = np.unravel_index(first_bad, values.shape)
            position = tuple(s.start + int(i) for s, i in zip(at, inside, strict=True))
            where = "" if columns is None else f" in column {columns[position[1]]!r}"
            raise refusal(values[inside], f"{position}{where}")
        ones[at] = is_one
        if is_unknown is not None:
            unknown = np.zeros(shape, np.bool_) if unknown is None else unknown
            unknown[at] = is_unknown
    return frozen(ones), None if unknown is None else frozen(unknown)


def classify(
    values: NDArray[Any], mask: _Bools | None, threshold: float | None = None
) -> tuple[_Bools, _Bools | None, int | None]:
    """Find the ones, the unknown entries (None if there are none) and the first bad entry.

    With a threshold, everything above it is a one, and nothing that is a number is bad.
    """
    if values.dtype.kind == "O":
        numbers = map(_number, values.flat)
        values = np.fromiter(numbers, np.float64, values.size).reshape(values.shape)
    # Whole numbers are never NaN, and asking makes them floats first.
    is_unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)
    if mask is not None:
        is_unknown |= mask
    is_one = (values == 1 if threshold is None else values > threshold) & ~is_unknown
    is_allowed = is_one | is_unknown | (values == 0 if threshold is None else ~is_unknown)
    first_bad = None if is_allowed.all() else int(is_allowed.argmin())
    return is_one, is_unknown if is_unknown.any() else None, first_bad


def _number(value: Any) -> float:
    """Turn an object into 0.0, 1.0, NaN for unknown, or infinity, which is never allowed."""
    if isinstance(value, _NUMBERS):
        return float(value) if value in (0, 1) or value != value else math.inf  # noqa: PLR0124
    pandas = sys.modules.get("pandas")
    is_missing = value is None or value is np.ma.masked or value is getattr(pandas, "NA", None)
    return math.nan if is_missing else math.inf


def refusal(value: Any, where: str) -> ValueError:
    """Say which value is no entry."""
    shown = reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    return InvalidValue(
        f"the tensor holds {shown} at {where}",
        "allowed are 0, 1 and NaN for unknown",
        ADVICE if isinstance(value, _NUMBERS) else "replace it first",
    )


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse a tensor with one mode, or without rows."""
    if len(shape) < 2 or 0 in shape:
        raise ValueError(
            f"the tensor has shape {shape}; at least 2 modes are needed, each with a row or more; "
            "reshape or fill it."
        )


def check_dtype(dtype: Any, owner: str) -> None:
    """Refuse types that cannot hold zeros and ones."""
    # pandas files categories, strings, periods and intervals under objects too.
    if dtype.kind not in ("biufO" if isinstance(dtype, np.dtype) else "biuf"):
        raise TypeError(
            f"{owner} has type {dtype}; allowed are Booleans, integers, floats and objects that "
            "hold 0, 1 or a missing value, so convert it to these first."
        )


# A library that was never imported cannot have made the input, so neither check imports one.
def is_frame(tensor: Any) -> bool:
    """Whether it is a data frame of pandas."""
    return isinstance(tensor, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def _sparse_entries(matrix: Any) -> _Entries:
    from thali.data.sparse import entries_of_sparse  # noqa: PLC0415 - which uses this file

    return entries_of_sparse(matrix)


def _is_sparse(tensor: Any) -> bool:
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(tensor))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Guard an array against changes."""
    array.setflags(write=False)
    return array
