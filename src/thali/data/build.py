"""Build packed rows or lists of positions block by block while a file is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.classify import classify
from thali.data.entries import Entries, Packed, Pattern, every_column, pack
from thali.data.layout import WORD, bit_strides, n_words, row_words
from thali.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    _Bools = NDArray[np.bool_]

# Lists of positions store row and column numbers as signed 32-bit integers.
MAX_ROWS = 2**31 - 1

# While the list is sorted, each position takes 8 bytes; the result takes 4 more.
_BYTES_PER_POSITION = 12


class RowBuilder:
    """Collects rows and packs them into bits as they arrive.

    The bits are kept in a ``bytearray``, which grows in place, so no row is in memory twice.
    """

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.n_rows = 0
        self._ones = bytearray()
        self._unknown: bytearray | None = None

    def append(self, ones: _Bools, unknown: _Bools | None) -> None:
        """Add rows at the end; no entry may be both a one and unknown."""
        if unknown is not None and unknown.any():
            if self._unknown is None:
                self._unknown = bytearray(len(self._ones))
            self._unknown += _packed_bytes(unknown)
        elif self._unknown is not None:
            self._unknown += bytes(len(ones) * n_words(self.n_columns) * 8)
        self._ones += _packed_bytes(ones)
        self.n_rows += len(ones)

    def entries(self) -> tuple[Packed, Packed | None]:
        """Return all rows that were added; no more rows can be added afterwards."""
        return self._packed(self._ones), None if self._unknown is None else self._packed(
            self._unknown
        )

    def _packed(self, octets: bytearray) -> Packed:
        words = np.frombuffer(octets, "<u8").astype(np.uint64, copy=False)
        shape = (self.n_rows, self.n_columns)
        return Packed(words.reshape(self.n_rows, n_words(self.n_columns)), shape)


def _packed_bytes(dense: _Bools) -> memoryview:
    return pack(dense).astype("<u8", copy=False).reshape(-1).view(np.uint8).data


def pack_rows(
    n_columns: int,
    blocks: Any,
    threshold: float | None,
    refuse: Callable[[Any, int, int], ValueError],
) -> tuple[Packed, Packed | None]:
    """Pack blocks of rows into bits.

    Parameters
    ----------
    n_columns
        Number of columns of every block.
    blocks
        Pairs of the numbers of some rows and the mask of their unknown entries, or None.
    threshold
        Numbers above it are ones; None means that all numbers must be 0, 1 or NaN.
    refuse
        Makes the error for a value that is not allowed, from the value, its row and its column.
    """
    rows = RowBuilder(n_columns)
    for values, mask in blocks:
        is_one, is_unknown, bad = classify(values, mask, threshold)
        if bad is not None:
            row, column = divmod(bad, n_columns)
            raise refuse(values[row, column], rows.n_rows + row, column)
        rows.append(is_one, is_unknown)
    return rows.entries()


class PositionBuilder:
    """Builds a tensor from the positions of its ones, which may be listed in any order.

    It is packed into bits (:class:`Packed`), unless it is a matrix of which so few positions are
    listed that a sorted list of them takes less memory (:class:`Pattern`).

    Parameters
    ----------
    shape
        Number of rows of each mode.
    n_listed
        Number of positions that will be listed, or an upper bound.
    is_packed
        Pack a matrix even if a list takes less memory, which :meth:`observe` needs.
    """

    def __init__(self, shape: tuple[int, ...], n_listed: int, *, is_packed: bool = False) -> None:
        if max(shape) > MAX_ROWS:
            raise InvalidValue(
                f"{' x '.join(map(str, shape))} entries were given",
                f"at most {MAX_ROWS} rows of a mode are possible",
                "divide them",
            )
        self.shape = shape
        n_bytes_packed = 8 * shape[0] * row_words(shape, 0)
        n_bytes_listed = _BYTES_PER_POSITION * n_listed + 24 * shape[0]
        self.is_packed = is_packed or len(shape) > 2 or n_bytes_packed <= n_bytes_listed
        check_fits_in_memory(n_bytes_packed if self.is_packed else n_bytes_listed, shape)
        self._strides = bit_strides(shape) if self.is_packed else [shape[1], 1]
        self._ones = self._empty()
        self._unknown: Any = None
        self._observed: Any = None

    def _empty(self) -> Any:
        n = self.shape[0] * row_words(self.shape, 0)
        return np.zeros(n, np.uint64) if self.is_packed else bytearray()

    def add(self, places: Sequence[NDArray[Any]], unknown: _Bools | None = None) -> None:
        """Add positions of ones.

        Parameters
        ----------
        places
            The row numbers in every mode, one array per mode.
        unknown
            True where the entry is unknown; None if all are ones.
        """
        if unknown is not None:
            self.hide([rows[unknown] for rows in places])
            places = [rows[~unknown] for rows in places]
        self._record(self._ones, places)

    def hide(self, places: Sequence[NDArray[Any]]) -> None:
        """Add positions of unknown entries."""
        if len(places[0]):
            self._unknown = self._empty() if self._unknown is None else self._unknown
            self._record(self._unknown, places)

    def observe(self, places: Sequence[NDArray[Any]]) -> None:
        """Add positions of known entries; all that are never added so are unknown."""
        assert self.is_packed
        self._observed = self._empty() if self._observed is None else self._observed
        self._record(self._observed, places)

    def _record(self, where: Any, places: Sequence[NDArray[Any]]) -> None:
        bits = np.zeros(len(places[0]), np.int64)
        for rows, stride in zip(places, self._strides, strict=True):
            bits += rows.astype(np.int64) * stride
        if not self.is_packed:
            where += bits.data.cast("B")
        elif len(bits):
            bits.sort()
            words = bits // WORD
            starts = np.flatnonzero(np.diff(words, prepend=-1))
            values = np.uint64(1) << (bits % WORD).astype(np.uint64)
            where[words[starts]] |= np.bitwise_or.reduceat(values, starts)

    def entries(self) -> tuple[Entries, Entries | None]:
        """Return the tensor; a position listed both as a one and as unknown counts as unknown."""
        ones, unknown = self._ones, self._unknown
        if self._observed is not None:
            rest = np.invert(self._observed, out=self._observed)
            rest.reshape(self.shape[0], -1)[:] &= every_column(self.shape)
            unknown = rest if unknown is None else np.bitwise_or(unknown, rest, out=rest)
            unknown = unknown if unknown.any() else None
        if self.is_packed:
            if unknown is not None:
                ones |= unknown
                ones ^= unknown  # together: ones & ~unknown, without a copy
            return self._packed(ones), None if unknown is None else self._packed(unknown)
        listed = self._sorted(ones)
        if unknown is None:
            return self._pattern(listed), None
        hidden = self._sorted(unknown)
        listed = listed[~np.isin(listed, hidden, assume_unique=True)]
        return self._pattern(listed), self._pattern(hidden)

    def _packed(self, words: NDArray[np.uint64]) -> Packed:
        return Packed(words.reshape(self.shape[0], row_words(self.shape, 0)), self.shape)

    def _sorted(self, where: bytearray) -> NDArray[np.int64]:
        listed = np.frombuffer(where, np.int64)
        listed.sort()
        is_new = np.ones(len(listed), np.bool_)
        np.not_equal(listed[1:], listed[:-1], out=is_new[1:])
        return listed if is_new.all() else listed[is_new]

    def _pattern(self, listed: NDArray[np.int64]) -> Pattern:
        n_rows, n_columns = shape = (self.shape[0], self.shape[1])
        indptr = np.searchsorted(listed, np.arange(n_rows + 1) * np.int64(n_columns))
        indices = np.empty(len(listed), np.int32)
        np.remainder(listed, n_columns, out=indices, casting="unsafe")
        return Pattern(indptr.astype(np.int64, copy=False), indices, shape)


def check_fits_in_memory(n_bytes: int, shape: tuple[int, ...]) -> None:
    """Refuse a tensor larger than the memory; otherwise the system might kill the process."""
    room = memory()
    if n_bytes > room:
        raise InvalidValue(
            f"{' x '.join(map(str, shape))} entries need {n_bytes / 1e9:.1f} GB and this machine "
            f"has {room / 1e9:.1f} GB",
            remedy="use a larger machine or a part of the rows",
        )


def memory() -> int:
    """Return the memory of this machine in bytes."""
    if not hasattr(os, "sysconf"):  # Windows raises an error when memory runs out
        return 2**62
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
