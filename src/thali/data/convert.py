"""Read zeros, ones and unknown entries from arrays, lists, sparse tensors and data frames.

Dense input is read block by block. So besides the Boolean result (one byte per entry, two if some
entries are unknown), only a few blocks are in memory at a time. Sparse input stays sparse.
"""

from __future__ import annotations

import math
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.classify import check_dtype, check_shape, classify, frozen, refusal
from thali.data.coordinates import (
    entries_of_coordinate_array,
    entries_of_listed,
    is_coordinate_array,
    is_listed,
)
from thali.data.sparse import entries_of_sparse
from thali.errors import InvalidValue
from thali.sentences import Argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from thali.data.entries import Entries

    _Bools = NDArray[np.bool_]
    _Entries = tuple[Entries, Entries | None]
    _Block = tuple[tuple[slice, ...], NDArray[Any], _Bools | None]  # where, values, mask

# Entries per block: 8 MB of float64, large enough that the Python loop costs little.
_BLOCK_ENTRIES = 1 << 20


def entries_of(
    tensor: Any, *, unknown: Any = None, observed: Any = None, threads: int | None = None
) -> _Entries:
    """Find the ones and the unknown entries of whatever the user has.

    Coordinates of unknown entries, or of the known ones, may go with coordinates of ones. Sparse
    matrices are read by ``threads`` threads (None: all cores that the process may use).
    """
    masks = {"unknown": unknown, "observed": observed}
    is_sparse = _is_sparse(tensor)
    if is_listed(tensor):
        return entries_of_listed(*tensor, **masks)
    if is_coordinate_array(tensor) and (not is_sparse or len(tensor.shape) > 2):
        return entries_of_coordinate_array(tensor, **masks)
    for name, mask in masks.items():
        if mask is not None:
            raise InvalidValue(
                (Argument(name), f" was given with a {type(tensor).__name__}"),
                "it is for tensors that are given by coordinates",
                "mark unknown entries with NaN instead",
            )
    if is_sparse:
        return entries_of_sparse(tensor, threads=threads)
    if is_frame(tensor):
        return _from_frame(tensor, threads)
    if not isinstance(tensor, list | tuple) and not hasattr(tensor, "__array__"):
        raise TypeError(
            f"the tensor is a {type(tensor).__name__}; allowed are NumPy arrays, nested lists, "
            "coordinates with a shape, SciPy sparse matrices, pandas data frames and "
            "BinaryTensor, so convert it to one."
        )
    try:
        array = _stack(tensor)
    except (ValueError, TypeError, RuntimeError):  # NumPy's own messages are obscure
        raise ValueError(
            f"the tensor, a {type(tensor).__name__}, cannot be read as a rectangular array; make "
            "all rows equally long, padded with None, or convert it to NumPy."
        ) from None
    return _from_array(array)


def _stack(nested: Any) -> NDArray[Any]:
    """Convert nested lists to an array and keep the masks, which ``np.asarray`` would drop."""

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
        return frozen(values.view()), None  # a view, so the caller's array stays writable
    blocks = ((at, values[at], None if mask is None else mask[at]) for at in tiles(values.shape))
    return _fill(values.shape, blocks)


def _from_frame(frame: Any, threads: int | None) -> _Entries:
    check_shape(frame.shape)
    dtypes = list(frame.dtypes)
    for label, dtype in zip(frame.columns, dtypes, strict=True):
        check_dtype(dtype, f"column {label!r} of the data frame")
    sparse_type = sys.modules["pandas"].SparseDtype
    if isinstance(dtypes[0], sparse_type) and len(set(dtypes)) == 1 and dtypes[0].fill_value == 0:
        return entries_of_sparse(frame.sparse.to_coo(), threads=threads)
    return _fill(frame.shape, _frame_blocks(frame, dtypes, sparse_type), frame.columns)


def _frame_blocks(frame: Any, dtypes: list[Any], sparse_type: type) -> Iterator[_Block]:
    """Yield blocks of neighbouring columns with the same NumPy type.

    A column of one of pandas' own types forms blocks of its own.
    """
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
                    # A missing entry has an arbitrary value, which the mask hides.
                    values = part.iloc[:, 0].to_numpy(dtype=dtype.numpy_dtype, na_value=0)
                    yield at, values[:, None], part.isna().to_numpy()


def tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Divide a tensor into blocks of limited size that are contiguous in C order."""
    n_below = math.prod(shape[1:])
    if len(shape) > 1 and n_below > _BLOCK_ENTRIES:
        for row in range(shape[0]):
            yield from ((slice(row, row + 1), *tail) for tail in tiles(shape[1:]))
    else:
        step = max(1, _BLOCK_ENTRIES // n_below)
        for start in range(0, shape[0], step):
            yield slice(start, min(start + step, shape[0])), *(slice(0, n) for n in shape[1:])


def _fill(shape: tuple[int, ...], blocks: Iterable[_Block], columns: Any = None) -> _Entries:
    """Fill the result block by block; the column labels are used in error messages only."""
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


# If pandas or SciPy was never imported, the input cannot come from it; so neither of these checks
# imports a library.
def is_frame(tensor: Any) -> bool:
    """Return whether the input is a pandas data frame."""
    return isinstance(tensor, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def _is_sparse(tensor: Any) -> bool:
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(tensor))
