"""Read zeros, ones and unknown entries from sparse matrices, with several threads.

The stored entries are checked block by block, and the column numbers of the ones are copied, as
32-bit integers if these suffice. The matrix never becomes dense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.data.classify import check_dtype, check_shape, classify, frozen, refusal
from thali.data.entries import Pattern
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    _Patterns = tuple[Pattern, Pattern | None]

_BLOCK = 1 << 21
"""Stored entries per block. Between two NumPy calls, threads wait for the interpreter lock, so
small blocks are slow: for 2.5 billion entries, 16 threads took 0.5 s with this size and 1.8 s with
an eighth of it."""

_ONE, _UNKNOWN = 1, 2


class _CompressedRows(NamedTuple):
    """A CSR matrix as it was given, without unused space at the end of its arrays."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    shape: tuple[int, int]

    def blocks(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """Divide the rows from ``lo`` to ``hi`` into ranges of at most ``_BLOCK`` stored entries.

        A single row with more entries is a range of its own.
        """
        while lo < hi:
            limit = self.indptr[lo] + _BLOCK
            stop = int(np.searchsorted(self.indptr, limit, side="right")) - 1
            stop = min(hi, max(lo + 1, stop))
            yield lo, stop
            lo = stop


def entries_of_sparse(matrix: Any, *, threads: int | None = None) -> _Patterns:
    """Find the ones and the unknown entries of a SciPy sparse matrix.

    Entries that are stored twice are summed first, as SciPy does.

    Parameters
    ----------
    matrix
        A sparse matrix in any of SciPy's formats; it is not changed.
    threads
        Number of threads; None uses all cores that the process may use.
    """
    threads = n_threads(threads)
    check_shape(matrix.shape)
    check_dtype(matrix.dtype, "the sparse tensor")
    compressed = matrix.tocsr()
    rows = _compressed_rows(compressed)
    is_all_ones, is_sorted = _inspect(rows, threads)
    if not is_sorted and (not is_all_ones or _has_duplicates(rows, threads)):
        compressed = compressed.copy()  # tocsr() may return the caller's own arrays
        compressed.sum_duplicates()
        rows = _compressed_rows(compressed)
        is_all_ones, _ = _inspect(rows, threads)
    if is_all_ones:
        return Pattern(frozen(rows.indptr), frozen(_copy_columns(rows, threads)), rows.shape), None
    return _separate(rows, threads)


def _copy_columns(rows: _CompressedRows, threads: int) -> NDArray[Any]:
    """Copy the column numbers, so that later changes of the caller's matrix have no effect."""
    columns = np.empty(len(rows.indices), _index_type(rows.shape[1]))

    def part(lo: int, hi: int) -> None:
        columns[lo:hi] = rows.indices[lo:hi]

    parallel_for(part, len(columns), threads, step=_BLOCK)
    return columns


def _index_type(n_columns: int) -> type[np.int32 | np.int64]:
    return np.int32 if n_columns < 1 << 31 else np.int64


def _compressed_rows(compressed: Any) -> _CompressedRows:
    indptr = np.array(compressed.indptr, np.int64)
    n_stored = int(indptr[-1])
    shape = (int(compressed.shape[0]), int(compressed.shape[1]))
    indices = compressed.indices[:n_stored]
    indices = indices.astype(indices.dtype.newbyteorder("="), copy=False)
    rows = _CompressedRows(indptr, indices, compressed.data[:n_stored], shape)
    n_least = min(len(rows.indices), len(rows.values))
    if indptr[0] != 0 or n_least < n_stored or (np.diff(indptr) < 0).any():
        raise _corrupt(shape)
    return rows


def _corrupt(shape: tuple[int, int]) -> ValueError:
    return ValueError(
        f"the sparse tensor of shape {shape} stores an entry outside its columns or rows; "
        "rebuild it, for instance from coordinates."
    )


def _inspect(rows: _CompressedRows, threads: int) -> tuple[bool, bool]:
    """Return whether all stored values are one, and whether all rows are sorted.

    A row is sorted if its column numbers increase strictly, so it has no duplicates.
    """
    indptr, indices, values, shape = rows

    def part(lo: int, hi: int) -> tuple[bool, bool]:
        is_all_ones = is_sorted = True
        space = np.empty(min(_BLOCK, hi - lo), np.bool_)
        for start in range(lo, hi, _BLOCK):
            stop = min(start + _BLOCK, hi)
            columns, first = indices[start:stop], max(start, 1)
            if is_sorted:
                falls = space[: stop - first]
                np.less_equal(indices[first:stop], indices[first - 1 : stop - 1], out=falls)
                starts = indptr[slice(*np.searchsorted(indptr, (first, stop)))]
                falls[starts - first] = False  # a new row may begin with a smaller column
                is_sorted = not falls.any()
            if is_sorted:  # then the first and last column of every row bound the others
                edges = np.concatenate([columns[[0, -1]], indices[starts], indices[starts - 1]])
            else:
                edges = columns
            # A negative number, read as an unsigned one, is too large as well.
            if edges.view(f"u{edges.itemsize}").max() >= shape[1]:
                raise _corrupt(shape)
            is_all_ones = is_all_ones and _all_ones(values[start:stop], space)
        return is_all_ones, is_sorted

    found = parallel_for(part, len(indices), threads, step=_BLOCK)
    return all(f[0] for f in found), all(f[1] for f in found)


def _all_ones(values: NDArray[Any], space: NDArray[np.bool_]) -> bool:
    if values.dtype.kind == "O":  # objects may define any comparison
        return False
    if values.dtype != np.bool_:
        values = np.equal(values, 1, out=space[: len(values)])
    return bool(values.all())


def _has_duplicates(rows: _CompressedRows, threads: int) -> bool:
    """Return whether any row stores a column twice, in whatever order."""
    indptr, indices, _, (n_rows, n_columns) = rows

    def part(lo: int, hi: int) -> bool:
        for start, stop in rows.blocks(lo, hi):
            bounds = indptr[start : stop + 1]
            kind: Any = np.int32 if (stop - start) * n_columns < 1 << 31 else np.int64
            places = np.repeat(np.arange(stop - start, dtype=kind), np.diff(bounds))
            places *= kind(n_columns)
            places += indices[bounds[0] : bounds[-1]].astype(kind, copy=False)
            places.sort()
            if (places[1:] == places[:-1]).any():
                return True
        return False

    return any(parallel_for(part, n_rows, threads, step=_rows_per_part(rows)))


def _separate(rows: _CompressedRows, threads: int) -> _Patterns:
    """Return the positions of the ones and of the unknown entries; drop stored zeros."""
    indptr, indices, values, shape = rows
    codes = np.zeros(len(indices), np.uint8)
    counts = np.zeros((3, shape[0] + 1), np.int64)

    def look(lo: int, hi: int) -> int | None:
        for start, stop in rows.blocks(lo, hi):
            bounds = indptr[start : stop + 1]
            here = slice(bounds[0], bounds[-1])
            is_one, is_unknown, bad = classify(values[here], None)
            if bad is not None:
                return int(bounds[0]) + bad
            codes[here] = is_one
            if is_unknown is not None:
                codes[here][is_unknown] = _UNKNOWN
            for code in (_ONE, _UNKNOWN):
                before = np.concatenate([[0], np.cumsum(codes[here] == code)])
                counts[code, start + 1 : stop + 1] = np.diff(before[bounds - bounds[0]])
        return None

    bad = [
        b
        for b in parallel_for(look, shape[0], threads, step=_rows_per_part(rows))
        if b is not None
    ]
    if bad:
        row = np.searchsorted(indptr, bad[0], side="right") - 1
        raise refusal(values[bad[0]], f"({row}, {indices[bad[0]]})")

    def pattern(code: int) -> Pattern:
        kept = np.cumsum(counts[code])
        columns = np.empty(kept[-1], _index_type(shape[1]))

        def fill(lo: int, hi: int) -> None:
            for start, stop in rows.blocks(lo, hi):
                here = slice(indptr[start], indptr[stop])
                columns[kept[start] : kept[stop]] = indices[here][codes[here] == code]

        parallel_for(fill, shape[0], threads, step=_rows_per_part(rows))
        return Pattern(frozen(kept), frozen(columns), shape)

    return pattern(_ONE), pattern(_UNKNOWN) if counts[_UNKNOWN].any() else None


def _rows_per_part(rows: _CompressedRows) -> int:
    """Return the number of rows that hold about ``_BLOCK`` stored entries, enough for a thread."""
    return max(1, _BLOCK * rows.shape[0] // max(1, len(rows.indices)))
