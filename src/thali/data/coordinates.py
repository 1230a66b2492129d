"""Read tensors of any arity from the coordinates of their ones; they never become dense.

A tensor is packed into bits, a block of coordinates at a time. So besides the coordinates that
were given and one bit per entry (two if some are unknown), only a few megabytes are in memory.
"""

from __future__ import annotations

from math import isnan, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.build import PositionBuilder
from thali.data.classify import check_dtype, check_shape, classify, refusal
from thali.errors import InvalidType, InvalidValue
from thali.sentences import Argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.data.entries import Entries

    _Both = tuple[Entries, Entries | None]

# Coordinates that are placed together: 4 MB of numbers that are sorted, compared and joined. For a
# small tensor there are fewer, so that these numbers take a few hundredths of its bits.
_BLOCK = 1 << 16
_SMALLEST_BLOCK = 1 << 10


def is_listed(tensor: Any) -> bool:
    """Return whether the input is ``(coords, shape)``: lists in a list, and some integers.

    Nested tuples that are a matrix are not: both have as many levels.
    """
    if not isinstance(tensor, tuple) or len(tensor) != 2:
        return False
    places, shape = tensor
    if isinstance(places, list | tuple):
        has_two_levels = all(isinstance(row, list | tuple | np.ndarray) for row in places)
    else:
        has_two_levels = getattr(places, "ndim", 0) == 2
    kinds = int | np.integer
    is_shape = isinstance(shape, list | tuple | np.ndarray) and len(shape) > 0
    return has_two_levels and is_shape and all(isinstance(n, kinds) for n in shape)


def is_coordinate_array(tensor: Any) -> bool:
    """Return whether the input is a sparse array of coordinates, such as ``sparse.COO``.

    It is known by what it has, so that the library need not be imported.
    """
    return all(hasattr(tensor, name) for name in ("coords", "data", "shape", "nnz"))


def entries_of_listed(
    places: Any, shape: Any, *, unknown: Any = None, observed: Any = None
) -> _Both:
    """Return the ones and the unknown entries of a tensor, given the coordinates of its ones.

    Parameters
    ----------
    places
        Row numbers of the ones, ``(n_entries, arity)``; an entry may be listed more than once.
    shape
        Number of rows of each mode.
    unknown
        Coordinates of the unknown entries; None if there are none.
    observed
        Coordinates of the known entries; None if all others are known, too.
    """
    shape = tuple(int(n) for n in shape)
    check_shape(shape)
    places = _checked("coords", places, len(shape))
    builder = PositionBuilder(shape, len(places), is_packed=observed is not None)
    for part, _ in _blocks("coords", places, shape):
        builder.add(part)
    return _masked(builder, unknown, observed)


def entries_of_coordinate_array(
    tensor: Any, *, unknown: Any = None, observed: Any = None
) -> _Both:
    """Return the ones and the unknown entries of a sparse array of coordinates.

    A stored NaN is unknown. An entry that is not stored has the fill value: zero, or NaN.
    """
    shape = tuple(int(n) for n in tensor.shape)
    check_shape(shape)
    check_dtype(tensor.data.dtype, "the sparse tensor")
    fill = float(getattr(tensor, "fill_value", 0))
    if fill != 0 and not isnan(fill):
        raise InvalidValue(
            f"the sparse tensor has the fill value {fill:g}",
            "allowed are 0, and NaN for unknown",
            "build it with one of these",
        )
    if not getattr(tensor, "has_canonical_format", True):  # of SciPy, which adds duplicates up
        tensor = tensor.copy()
        tensor.sum_duplicates()
    places = _checked("coords", np.asarray(tensor.coords).T, len(shape))
    is_packed = observed is not None or isnan(fill)
    builder = PositionBuilder(shape, len(places), is_packed=is_packed)
    for part, here in _blocks("coords", places, shape):
        values = np.asarray(tensor.data[here])
        is_one, is_unknown, bad = classify(values, None)
        if bad is not None:
            raise refusal(values[bad], str(tuple(int(rows[bad]) for rows in part)))
        if isnan(fill):
            builder.observe(part)
        if is_unknown is not None:
            builder.hide([rows[is_unknown] for rows in part])
        builder.add([rows[is_one] for rows in part])
    return _masked(builder, unknown, observed)


def _masked(builder: PositionBuilder, unknown: Any, observed: Any) -> _Both:
    """Add what the user says about unknown entries, and return the tensor."""
    if unknown is not None and observed is not None:
        raise InvalidValue(
            (Argument("unknown"), " and ", Argument("observed"), " were both given"),
            "one of them says which entries are unknown",
            "leave the other out",
        )
    for name, given, put in (
        ("unknown", unknown, builder.hide),
        ("observed", observed, builder.observe),
    ):
        if given is not None:
            places = _checked(name, given, len(builder.shape))
            for part, _ in _blocks(name, places, builder.shape):
                put(part)
    return builder.entries()


def _checked(name: str, given: Any, arity: int) -> NDArray[Any]:
    """Return coordinates as an array, ``(n_entries, arity)``; refuse another form of them."""
    if isinstance(given, tuple) and any(isinstance(part, np.ndarray) for part in given):
        raise InvalidType(
            (Argument(name), " is a tuple of arrays"),
            f"allowed is an array with {arity} columns, one per mode, and a row per entry",
            "join them with `np.stack(…, axis=1)`",
        )
    try:
        places = np.asarray(given)
    except ValueError:  # NumPy's own message is obscure
        places = np.empty(0)
        shown = "rows of different lengths"
    else:
        places = places.reshape(0, arity) if places.size == 0 else places
        shown = f"the shape {places.shape}"
    if places.ndim != 2 or places.shape[1] != arity:
        is_turned = places.ndim == 2 and places.shape[0] == arity
        raise InvalidValue(
            (Argument(name), f" has {shown} for a tensor of {arity} modes"),
            f"allowed is an array with {arity} columns, one per mode, and a row per entry",
            "transpose it" if is_turned else "reshape it",
        )
    if places.size and places.dtype.kind not in "iu":
        raise _not_whole(name, places)
    return places.astype(np.int64, copy=False) if places.size == 0 else places


def _not_whole(name: str, places: NDArray[Any]) -> InvalidType:
    """Return the error for coordinates that are no integers; it names the first such entry."""
    is_whole = np.zeros(places.shape, np.bool_)
    if places.dtype.kind == "f":
        is_whole = np.isfinite(places) & (places == np.floor(places))
    entry = int(is_whole.all(axis=1).argmin())
    first = f"{places[entry].tolist()} at entry {entry}"
    return InvalidType(
        (Argument(name), f" has the type {places.dtype}, with {first}"),
        "allowed are integers",
        "convert it, for instance with `.astype(int)`",
    )


def _blocks(
    name: str, places: NDArray[Any], shape: tuple[int, ...]
) -> Iterator[tuple[list[NDArray[Any]], slice]]:
    """Yield some coordinates at a time, one array per mode, and which they are.

    One block is yielded even if there are no coordinates.
    """
    step = min(_BLOCK, max(_SMALLEST_BLOCK, prod(shape) >> 12))
    for start in range(0, max(1, len(places)), step):
        here = slice(start, start + step)
        part = list(places[here].T)
        for rows, n in zip(part, shape, strict=True):
            if len(rows) and (rows.min() < 0 or rows.max() >= n):
                raise _outside(name, places[here], start, shape)
        yield part, here


def _outside(name: str, places: NDArray[Any], start: int, shape: tuple[int, ...]) -> InvalidValue:
    """Return the error for the first coordinates that are outside of the tensor."""
    entry = int(((places < 0) | (places >= np.array(shape))).any(axis=1).argmax())
    return InvalidValue(
        (Argument(name), f" has {places[entry].tolist()} at entry {start + entry}"),
        f"allowed are row numbers from 0 to {[n - 1 for n in shape]}, as the shape is {shape}",
        "correct or drop it",
    )
