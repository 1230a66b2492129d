"""An array in the format of NumPy, read block by block from a file or a part of an archive."""

from __future__ import annotations

import warnings
from io import SEEK_CUR
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from thali.data.readers.options import damaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from numpy.typing import NDArray

_ONE_AT_A_TIME = Lock()
"""Headers are Python that NumPy parses. In Python 3.11, threads that parse at the same time can
fail with "AST constructor recursion depth mismatch"."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class StoredArray(NamedTuple):
    """What the header of an array says, and the file from which its values are read next."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_by_column: bool  # in the order of Fortran
    file: IO[bytes]

    @property
    def order(self) -> Literal["C", "F"]:
        """How NumPy calls the order of the values."""
        return "F" if self.is_by_column else "C"

    @property
    def lines(self) -> tuple[int, int]:
        """Number and length of the lines of a matrix that are stored one after another."""
        n_rows, n_columns = self.shape
        return (n_columns, n_rows) if self.is_by_column else (n_rows, n_columns)

    def blocks(
        self, n_values: int, first: int = 0, end: int | None = None
    ) -> Iterator[NDArray[Any]]:
        """Yield the values as they are stored, so many at a time; all, or those of a range."""
        # A byte that is neither 0 nor 1 must be seen, not taken for true.
        dtype = np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        n_left = (prod(self.shape) if end is None else end) - first
        if first:
            self.file.seek(first * dtype.itemsize, SEEK_CUR)
        while n_left:
            n = min(n_values, n_left)
            octets = self.file.read(n * dtype.itemsize)
            if len(octets) < n * dtype.itemsize:
                raise _cut_off()
            yield np.frombuffer(octets, dtype)
            n_left -= n


def stored_array(file: IO[bytes], size: int) -> StoredArray:
    """Read the header of an array from a file of some size, before any memory is asked for."""
    try:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            msg = f"version {version} of the format was not expected"
            raise ValueError(msg)  # noqa: TRY301 - worded like those of NumPy
        # A damaged header can look like an old one.
        with _ONE_AT_A_TIME, warnings.catch_warnings(action="ignore"):
            shape, is_by_column, dtype = _HEADERS[version](file)
    except ValueError as error:
        raise explained(error) from None
    if any(n < 0 for n in shape) or (
        prod(shape) * dtype.itemsize > size and not dtype.hasobject  # objects have any size
    ):
        raise _cut_off()
    return StoredArray(shape, dtype, is_by_column, file)


def explained(error: ValueError) -> ValueError:
    """Reword NumPy's errors on pickles, which advise loading them; thali never does."""
    if "pickle" in str(error) or "Python objects" in str(error):
        return ValueError(
            "it holds Python objects, which are never read; save numbers, with NaN for unknown"
        )
    return ValueError(damaged(error))


def _cut_off() -> ValueError:
    return ValueError(
        "the file could not be read (it holds fewer values than its header says); save it again"
    )
