"""Read pandas data frames whose rows list the entries of a tensor by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.build import PositionBuilder
from thali.data.classify import check_dtype, check_shape, classify, refusal
from thali.data.names import VALUES, order_of, stem
from thali.errors import InvalidType, InvalidValue
from thali.sentences import was_given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.data.entries import Entries


def chosen_columns(columns: Sequence[Any], modes: Sequence[Any]) -> tuple[list[int], int | None]:
    """Return which columns name the rows of the modes, and which one holds values, if any does.

    Parameters
    ----------
    columns
        The names of all columns.
    modes
        The names of those that the user has chosen, one per mode.
    """
    check_modes(modes)
    names = list(columns)
    shown = ", ".join(repr(str(name)) for name in names[:10]) + (", …" if len(names) > 10 else "")
    for mode in modes:
        if names.count(mode) != 1:
            what = "which is no column of it" if mode not in names else "and two columns have it"
            raise InvalidValue(
                (*was_given("modes", modes), f" with {mode!r}, {what}"),
                f"its columns are {shown}",
                "choose one of them for every mode",
            )
    others = [
        at
        for at, name in enumerate(names)
        if name not in modes and isinstance(name, str) and stem(name) in VALUES
    ]
    if len(others) > 1:
        said = " and ".join(repr(names[at]) for at in others[:2])
        raise InvalidValue(
            f"its columns {said} may both hold the values of entries", remedy="drop or rename one"
        )
    return [names.index(mode) for mode in modes], others[0] if others else None


def check_unlisted(unlisted: Any) -> None:
    """Refuse anything but a zero or unknown as what entries are that are not listed."""
    if unlisted not in ("zero", "unknown"):
        raise InvalidValue(
            was_given("unlisted", unlisted), "allowed are 'zero' and 'unknown'", "choose one"
        )


def check_modes(modes: Any) -> None:
    """Refuse anything but two or more distinct names of columns."""
    if not isinstance(modes, list | tuple):
        raise InvalidType(
            was_given("modes", modes), "a list of names of columns is needed", "make it one"
        )
    if len(modes) < 2 or len(set(modes)) < len(modes):
        raise InvalidValue(
            was_given("modes", modes),
            "allowed are two or more different names of columns",
            "name a column for every mode",
        )


def entries_of_long_table(
    frame: Any, modes: Sequence[Any], unlisted: str = "zero"
) -> tuple[Entries, Entries | None, tuple[tuple[str, ...], ...]]:
    """Find the ones and the unknown entries of a data frame that lists them, and all names.

    Parameters
    ----------
    frame
        Each row is the name of a row in every mode and, if there is a column of them, a value.
    modes
        The columns of names, one per mode.
    unlisted
        What entries are that are not listed: ``"zero"`` or ``"unknown"``.
    """
    check_unlisted(unlisted)
    columns, at = chosen_columns(frame.columns, modes)
    if not len(frame):
        raise InvalidValue("the data frame has no rows", remedy="list at least one entry")
    places, row_names = zip(*(_numbered(frame.iloc[:, c], frame) for c in columns), strict=True)
    shape = tuple(map(len, row_names))
    check_shape(shape)
    builder = PositionBuilder(shape, len(frame), is_packed=unlisted == "unknown")
    if unlisted == "unknown":
        builder.observe(places)
    if at is None:
        builder.add(places)
    else:
        is_one, is_unknown = _values(frame.iloc[:, at], frame)
        builder.hide([rows[is_unknown] for rows in places])
        builder.add([rows[is_one] for rows in places])
    return *builder.entries(), row_names


def _numbered(column: Any, frame: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of the name in every row, and all names in the order of their numbers."""
    codes, distinct = sys.modules["pandas"].factorize(column)
    if (codes < 0).any():
        row = frame.index[int((codes < 0).argmax())]
        raise InvalidValue(
            f"row {row!r} of the data frame has no name in column {column.name!r}",
            remedy="fill it in or drop the row",
        )
    names = [str(name) for name in distinct]
    order = order_of(names)
    return np.argsort(order)[codes], tuple(names[i] for i in order)


def _values(column: Any, frame: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which values are ones and which are unknown; refuse all but these and zeros."""
    dtype, label = column.dtype, column.name
    check_dtype(dtype, f"column {label!r} of the data frame")
    numpy_type = getattr(dtype, "numpy_dtype", None)  # of pandas' own types with missing entries
    if numpy_type is None:
        values, mask = column.to_numpy(), None
    else:  # a missing entry has an arbitrary value, which the mask hides
        values = column.to_numpy(dtype=numpy_type, na_value=0)
        mask = column.isna().to_numpy()
    is_one, is_unknown, bad = classify(values, mask)
    if bad is not None:
        raise refusal(values[bad], f"row {frame.index[bad]!r} in column {label!r}")
    return is_one, np.zeros_like(is_one) if is_unknown is None else is_unknown
