"""Build packed rows or lists of positions block by block while a file is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.classify import classify
from thali.data.entries import WORD, Entries, Packed, Pattern, n_words, pack

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Builds a matrix from the positions of its ones, which may be listed in any order.

    The matrix is packed into bits (:class:`Packed`), unless so few positions are listed that a
    sorted list of them takes less memory (:class:`Pattern`).

    Parameters
    ----------
    shape
        Number of rows and columns.
    n_listed
        Number of positions that will be listed, or an upper bound.
    """

    def __init__(self, shape: tuple[int, int], n_listed: int) -> None:
        n_rows, n_columns = shape
        if max(shape) > MAX_ROWS:
            msg = (
                f"it has {n_rows} rows and {n_columns} columns; at most {MAX_ROWS} are possible; "
                "divide it"
            )
            raise ValueError(msg)
        self.shape = shape
        n_bytes_packed = 8 * n_rows * n_words(n_columns)
        n_bytes_listed = _BYTES_PER_POSITION * n_listed + 24 * n_rows
        self.is_packed = n_bytes_packed <= n_bytes_listed
        check_fits_in_memory(min(n_bytes_packed, n_bytes_listed), shape)
        self._ones = self._empty()
        self._unknown: Any = None

    def _empty(self) -> Any:
        width = n_words(self.shape[1])
        return np.zeros(self.shape[0] * width, np.uint64) if self.is_packed else bytearray()

    def add(self, rows: NDArray[Any], columns: NDArray[Any], unknown: _Bools | None) -> None:
        """Add positions of ones; those that the mask ``unknown`` marks are unknown entries."""
        if unknown is not None and unknown.any():
            self._unknown = self._empty() if self._unknown is None else self._unknown
            self._record(self._unknown, rows[unknown], columns[unknown])
            rows, columns = rows[~unknown], columns[~unknown]
        self._record(self._ones, rows, columns)

    def _record(self, where: Any, rows: NDArray[Any], columns: NDArray[Any]) -> None:
        if not self.is_packed:
            where += (rows.astype(np.int64) * self.shape[1] + columns).data.cast("B")
        elif len(rows):
            width = n_words(self.shape[1]) * WORD
            bits = np.sort(rows.astype(np.int64) * width + columns)
            words = bits // WORD
            starts = np.flatnonzero(np.diff(words, prepend=-1))
            values = np.uint64(1) << (bits % WORD).astype(np.uint64)
            where[words[starts]] |= np.bitwise_or.reduceat(values, starts)

    def entries(self) -> tuple[Entries, Entries | None]:
        """Return the matrix; a position listed both as a one and as unknown counts as unknown."""
        ones, unknown = self._ones, self._unknown
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
        return Packed(words.reshape(self.shape[0], -1), self.shape)

    def _sorted(self, where: bytearray) -> NDArray[np.int64]:
        listed = np.frombuffer(where, np.int64)
        listed.sort()
        is_new = np.ones(len(listed), np.bool_)
        np.not_equal(listed[1:], listed[:-1], out=is_new[1:])
        return listed if is_new.all() else listed[is_new]

    def _pattern(self, listed: NDArray[np.int64]) -> Pattern:
        n_rows, n_columns = self.shape
        indptr = np.searchsorted(listed, np.arange(n_rows + 1) * np.int64(n_columns))
        indices = np.empty(len(listed), np.int32)
        np.remainder(listed, n_columns, out=indices, casting="unsafe")
        return Pattern(indptr.astype(np.int64, copy=False), indices, self.shape)


def check_fits_in_memory(n_bytes: int, shape: tuple[int, ...]) -> None:
    """Refuse a matrix larger than the memory; otherwise the system might kill the process."""
    room = memory()
    if n_bytes > room:
        msg = (
            f"its {' x '.join(map(str, shape))} entries need {n_bytes / 1e9:.1f} GB and this "
            f"machine has {room / 1e9:.1f} GB; use a larger machine or a part of the rows"
        )
        raise ValueError(msg)


def memory() -> int:
    """Return the memory of this machine in bytes."""
    if not hasattr(os, "sysconf"):  # Windows raises an error when memory runs out
        return 2**62
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
