"""Read zeros, ones and unknown entries from arrays, lists, sparse matrices and data frames.

Dense input is read block by block, so that beside the boolean result (one byte an entry, two when
some entries are unknown) only a few blocks are ever allocated; sparse input is never densified.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    _Bools = NDArray[np.bool_]
    _Entries = tuple["_Bools | Pattern", "_Bools | Pattern | None"]
    _Block = tuple[tuple[slice, ...], NDArray[Any], _Bools | None]  # where, values, mask
    _RowNames = tuple[tuple[str, ...] | None, ...]

__all__ = ["BinaryTensor", "Pattern"]

# Entries read at a time: 8 MB of float64, large enough to hide the cost of a Python step.
_BLOCK_ENTRIES = 1 << 20

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Positions in a sparse matrix, row by row (compressed sparse rows without the values)."""

    indptr: NDArray[np.int64]  # (n_rows + 1,); row i owns indices[indptr[i]:indptr[i + 1]]
    indices: NDArray[np.int32] | NDArray[np.int64]  # columns, strictly ascending in each row
    shape: tuple[int, int]  # (n_rows, n_columns)


@dataclass(frozen=True, eq=False)
class BinaryTensor:
    """A labelled tensor of zeros, ones and unknown entries; any arity from two.

    Use :meth:`from_any` to make one; the constructor trusts its arrays and checks only names and
    that something is known.

    Parameters
    ----------
    ones
        True, or a stored position, where the entry is a known one.
    unknown
        The same for unknown entries, never overlapping ``ones``; None when every entry is known.
    mode_names
        One distinct name per mode.
    row_names
        One tuple of names per mode, or None for a mode whose rows are not named.
    """

    ones: NDArray[np.bool_] | Pattern
    unknown: NDArray[np.bool_] | Pattern | None
    mode_names: tuple[str, ...]
    row_names: tuple[tuple[str, ...] | None, ...]

    def __post_init__(self) -> None:
        if len(self.mode_names) != self.arity or len(set(self.mode_names)) < self.arity:
            raise ValueError(
                f"mode_names are {self.mode_names}; a tensor of {self.arity} modes needs as many, "
                "all distinct, so pass other `mode_names`."
            )
        lengths = tuple(None if names is None else len(names) for names in self.row_names)
        if len(lengths) != self.arity or any(
            length not in (None, n) for length, n in zip(lengths, self.shape, strict=True)
        ):
            raise ValueError(
                f"row_names has lengths {lengths} for a tensor of shape {self.shape}; give one "
                "name per row, or None for a mode without names."
            )
        if self.n_known == 0:
            raise ValueError(
                f"all entries of the tensor of shape {self.shape} are unknown; at least one known "
                "0 or 1 is needed, so check how missing values are marked."
            )

    def __repr__(self) -> str:
        known = f"known={self.n_known} of {math.prod(self.shape)}"
        return f"BinaryTensor(shape={self.shape}, {known}, ones={self.n_ones})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows of each mode."""
        return self.ones.shape

    @property
    def arity(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def is_sparse(self) -> bool:
        """Whether the entries are held as a :class:`Pattern`."""
        return isinstance(self.ones, Pattern)

    @cached_property
    def n_ones(self) -> int:
        """Number of known ones."""
        return _count(self.ones)

    @cached_property
    def n_known(self) -> int:
        """Number of known entries, zeros and ones together."""
        return math.prod(self.shape) - (0 if self.unknown is None else _count(self.unknown))

    @classmethod
    def from_any(
        cls,
        tensor: Any,
        *,
        row_names: Sequence[Sequence[Any] | None] | None = None,
        mode_names: Sequence[Any] | None = None,
    ) -> Self:
        """Read a tensor from whatever the user has.

        The input is never modified; a C-contiguous Boolean array is used without copying. Sparse
        matrices, and data frames of one sparse type that fills with zero, give a sparse tensor.

        Parameters
        ----------
        tensor
            Zeros and ones with two modes or more: a NumPy array (NaN and None are unknown), a
            masked array (masked entries are unknown, whatever their value), nested lists of
            these, a SciPy sparse matrix (a stored NaN is unknown, what is not stored is zero), a
            pandas data frame, or a ``BinaryTensor``.
        row_names
            One sequence of labels per mode, or None for a mode without; by default the labels of
            a data frame, unless they merely count.
        mode_names
            One label per mode; by default what a data frame calls its index and columns, and
            ``mode_0``, ``mode_1``, … otherwise.

        Returns
        -------
        tensor
            The labelled tensor; a ``BinaryTensor`` for which no names are given comes back as is.

        Raises
        ------
        TypeError
            If such an object, or the type of its entries, cannot hold zeros and ones.
        ValueError
            If shape or names do not fit, no entry is known, or one is not 0, 1 or unknown.

        Examples
        --------
        >>> BinaryTensor.from_any([[0, 1, None], [1, 1, 0]])
        BinaryTensor(shape=(2, 3), known=5 of 6, ones=3)
        """
        if isinstance(tensor, cls):
            if mode_names is None and row_names is None:
                return tensor
            ones, unknown = tensor.ones, tensor.unknown
            modes, rows = tensor.mode_names, tensor.row_names
        else:
            ones, unknown = _read(tensor)
            modes, rows = own_names(tensor, len(ones.shape))
        rows = _labels(row_names, _labels) or rows
        return cls(ones, unknown, _labels(mode_names) or modes, rows)


def _read(tensor: Any) -> _Entries:
    if _is_sparse(tensor):
        return _from_sparse(tensor)
    if _is_frame(tensor):
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
    _check_shape(array.shape)
    _check_dtype(array.dtype, "the tensor")
    values = np.asarray(np.ma.getdata(array))
    mask = None if np.ma.getmask(array) is np.ma.nomask else np.asarray(np.ma.getmask(array))
    if values.dtype == np.bool_ and mask is None and values.flags.c_contiguous:
        return _frozen(values.view()), None  # a view: the caller's own array stays writable
    blocks = ((at, values[at], None if mask is None else mask[at]) for at in _tiles(values.shape))
    return _gather(values.shape, blocks)


def _from_frame(frame: Any) -> _Entries:
    _check_shape(frame.shape)
    dtypes = list(frame.dtypes)
    for label, dtype in zip(frame.columns, dtypes, strict=True):
        _check_dtype(dtype, f"column {label!r} of the data frame")
    sparse_type = sys.modules["pandas"].SparseDtype
    if isinstance(dtypes[0], sparse_type) and len(set(dtypes)) == 1 and dtypes[0].fill_value == 0:
        return _from_sparse(frame.sparse.to_coo())
    return _gather(frame.shape, _frame_blocks(frame, dtypes, sparse_type), frame.columns)


def _frame_blocks(frame: Any, dtypes: list[Any], sparse_type: type) -> Iterator[_Block]:
    """Yield runs of columns that share a NumPy type together, columns of pandas' types singly."""
    for dtype, run in groupby(range(len(dtypes)), key=dtypes.__getitem__):
        columns = list(run)
        is_plain = isinstance(dtype, np.dtype)
        for first in columns[:1] if is_plain else columns:
            for rows, within in _tiles((len(frame), len(columns) if is_plain else 1)):
                at = (rows, slice(first + within.start, first + within.stop))
                part = frame.iloc[at]
                if is_plain or isinstance(dtype, sparse_type):
                    yield at, part.to_numpy(), None
                else:
                    # The value below a missing entry is arbitrary: the mask hides it.
                    values = part.iloc[:, 0].to_numpy(dtype=dtype.numpy_dtype, na_value=0)
                    yield at, values[:, None], part.isna().to_numpy()


def _from_sparse(matrix: Any) -> _Entries:
    _check_shape(matrix.shape)
    if len(matrix.shape) > 2:
        raise ValueError(
            f"the sparse tensor has {len(matrix.shape)} modes; sparse input must have 2, so pass "
            "`tensor.toarray()`."
        )
    _check_dtype(matrix.dtype, "the sparse tensor")
    n_rows, n_columns = map(int, matrix.shape)
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()  # the conversion may have returned the caller's own arrays
        rows.sum_duplicates()
    n_stored = rows.indptr[-1]  # the arrays may be longer than what they hold
    values, indices = rows.data[:n_stored], rows.indices[:n_stored]
    if n_stored and not 0 <= indices.min() <= indices.max() < n_columns:
        raise ValueError(
            f"the sparse tensor of shape {matrix.shape} stores an entry outside its columns; "
            "rebuild it, for instance from coordinates."
        )
    is_one, is_unknown, first_bad = _classify(values, None)
    if first_bad is not None:
        row = np.searchsorted(rows.indptr, first_bad, side="right") - 1
        raise _refusal(values[first_bad], f"({row}, {indices[first_bad]})")

    def pattern(keep: _Bools) -> Pattern:
        # Row i starts at as many kept entries as lie before its first stored one.
        indptr = np.searchsorted(np.flatnonzero(keep), rows.indptr).astype(np.int64)
        return Pattern(_frozen(indptr), _frozen(indices[keep]), (n_rows, n_columns))

    return pattern(is_one), None if is_unknown is None else pattern(is_unknown)


def _tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Cut a tensor into blocks of few entries that follow each other in memory."""
    n_below = math.prod(shape[1:])
    if len(shape) > 1 and n_below > _BLOCK_ENTRIES:
        for row in range(shape[0]):
            yield from ((slice(row, row + 1), *tail) for tail in _tiles(shape[1:]))
    else:
        step = max(1, _BLOCK_ENTRIES // n_below)
        for start in range(0, shape[0], step):
            yield slice(start, min(start + step, shape[0])), *(slice(0, n) for n in shape[1:])


def _gather(shape: tuple[int, ...], blocks: Iterable[_Block], columns: Any = None) -> _Entries:
    """Fill the result block by block; the labels of columns serve the message on a bad value."""
    ones = np.empty(shape, np.bool_)
    unknown: _Bools | None = None
    for at, values, mask in blocks:
        is_one, is_unknown, first_bad = _classify(values, mask)
        if first_bad is not None:
            inside = np.unravel_index(first_bad, values.shape)
            position = tuple(s.start + int(i) for s, i in zip(at, inside, strict=True))
            where = "" if columns is None else f" in column {columns[position[1]]!r}"
            raise _refusal(values[inside], f"{position}{where}")
        ones[at] = is_one
        if is_unknown is not None:
            unknown = np.zeros(shape, np.bool_) if unknown is None else unknown
            unknown[at] = is_unknown
    return _frozen(ones), None if unknown is None else _frozen(unknown)


def _classify(
    values: NDArray[Any], mask: _Bools | None
) -> tuple[_Bools, _Bools | None, int | None]:
    """Find the ones, the unknown entries (None if there are none) and the first bad entry."""
    if values.dtype.kind == "O":
        numbers = map(_number, values.flat)
        values = np.fromiter(numbers, np.float64, values.size).reshape(values.shape)
    is_unknown = np.isnan(values)
    if mask is not None:
        is_unknown |= mask
    is_one = (values == 1) & ~is_unknown
    is_allowed = (values == 0) | is_one | is_unknown
    first_bad = None if is_allowed.all() else int(is_allowed.argmin())
    return is_one, is_unknown if is_unknown.any() else None, first_bad


def _number(value: Any) -> float:
    """Turn an object into 0.0, 1.0, NaN for unknown, or infinity, which is never allowed."""
    if isinstance(value, _NUMBERS):
        return float(value) if value in (0, 1) or value != value else math.inf  # noqa: PLR0124
    pandas = sys.modules.get("pandas")
    is_missing = value is None or value is np.ma.masked or value is getattr(pandas, "NA", None)
    return math.nan if is_missing else math.inf


def _refusal(value: Any, where: str) -> ValueError:
    shown = reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    advice = "threshold it first, for instance `tensor > 0`"
    return ValueError(
        f"the tensor holds {shown} at {where}; allowed are 0, 1 and NaN for unknown; "
        f"{advice if isinstance(value, _NUMBERS) else 'replace it first'}."
    )


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) < 2 or 0 in shape:
        raise ValueError(
            f"the tensor has shape {shape}; at least 2 modes are needed and each must have a row, "
            "so reshape or fill it, for instance `tensor[:, None]`."
        )


def _check_dtype(dtype: Any, owner: str) -> None:
    # pandas files categories, strings, periods and intervals under objects too.
    if dtype.kind not in ("biufO" if isinstance(dtype, np.dtype) else "biuf"):
        raise TypeError(
            f"{owner} has type {dtype}; allowed are Booleans, integers, floats and objects that "
            "hold 0, 1 or a missing value, so convert it to these first."
        )


def own_names(tensor: Any, arity: int) -> tuple[tuple[str, ...], _RowNames]:
    """Take the names that the tensor brings, and number the modes that have none."""
    axes = (tensor.index, tensor.columns) if _is_frame(tensor) else (None,) * arity
    own = (getattr(axis, "name", None) for axis in axes)
    mode_names = (f"mode_{mode}" if name is None else str(name) for mode, name in enumerate(own))
    # Only an index that counts has a start and a step; one from 0 by 1 names nothing.
    steps = ((getattr(axis, "start", None), getattr(axis, "step", None)) for axis in axes)
    named = (None if s == (0, 1) else axis for axis, s in zip(axes, steps, strict=True))
    return tuple(mode_names), tuple(map(_labels, named))


def _labels(given: Any, convert: Callable[[Any], Any] = str) -> Any:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"names are given as {given!r}; a sequence of labels is needed, so make it a list."
        )
    return tuple(map(convert, given))


# A library that was never imported cannot have made the input, so neither check imports one.
def _is_frame(tensor: Any) -> bool:
    return isinstance(tensor, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def _is_sparse(tensor: Any) -> bool:
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(tensor))


def _count(entries: _Bools | Pattern) -> int:
    return int(entries.indices.size if isinstance(entries, Pattern) else np.count_nonzero(entries))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
