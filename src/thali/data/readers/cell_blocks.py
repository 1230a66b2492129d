"""Read a matrix of cells x genes block by block into bits, from memory or from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.data.binarize import check_threshold, unmask
from thali.data.build import PositionBuilder, check_fits_in_memory, pack_rows
from thali.data.classify import check_dtype, check_shape, classify
from thali.data.layout import n_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from thali.data.entries import Entries, Packed

# Entries per block; reading a block needs about ten arrays of this size.
_BLOCK_ENTRIES = 1 << 17


class ReadPlan(NamedTuple):
    """Which columns of a matrix to read, and which of its numbers are ones."""

    threshold: float | None  # numbers above it are ones; None allows only 0, 1 and NaN
    # Makes the error for a value that is not allowed, from the value, its row and its column
    # among those that are read.
    refuse: Callable[[Any, int, int], ValueError]
    columns: NDArray[np.bool_] | None = None  # true for the columns to read; None reads all
    are_counts: bool = False  # whether every number must be finite and not negative
    # Which rows to read, given their number: the first one, and the one after the last.
    rows: Callable[[int], tuple[int, int]] = lambda n_rows: (0, n_rows)

    def shape(self, stored: tuple[int, ...]) -> tuple[int, int]:
        """Return the shape of the part that is read, given the shape of the whole matrix."""
        n_rows, n_columns = stored
        lo, hi = self.rows(n_rows)
        return hi - lo, n_columns if self.columns is None else int(self.columns.sum())


def read_dense(matrix: Any, plan: ReadPlan) -> tuple[Packed, Packed | None]:
    """Read a dense matrix: any object with ``shape``, ``dtype`` and rows that can be sliced."""
    check_shape(matrix.shape)
    check_dtype(matrix.dtype, "its matrix")
    check_threshold(plan.threshold)
    shape = plan.shape(matrix.shape)
    check_fits_in_memory(8 * shape[0] * n_words(shape[1]), shape)
    step = max(1, _BLOCK_ENTRIES // matrix.shape[1])
    lo, hi = plan.rows(matrix.shape[0])

    def blocks() -> Iterator[tuple[Any, None]]:
        for start in range(lo, hi, step):
            values = np.asarray(unmask(matrix[start : min(start + step, hi)]))
            if plan.columns is not None:
                values = values[:, plan.columns]
            bad = _first_bad_count(values) if plan.are_counts else None
            if bad is not None:
                row, column = divmod(bad, shape[1])
                raise plan.refuse(values[row, column], start + row, column)
            yield values, None

    def refuse(value: Any, row: int, column: int) -> ValueError:
        return plan.refuse(value, lo + row, column)

    return pack_rows(shape[1], blocks(), plan.threshold, refuse)


def read_compressed(
    parts: Any, stored: tuple[int, ...], plan: ReadPlan, *, is_by_column: bool = False
) -> tuple[Entries, Entries | None]:
    """Read a sparse matrix that stores compressed rows (CSR) or compressed columns (CSC).

    Parameters
    ----------
    parts
        Mapping with ``data``, ``indices`` and ``indptr``, as arrays or as data sets of a file. No
        position may be listed twice.
    stored
        Shape of the whole matrix.
    plan
        Which columns to read, and which numbers are ones.
    is_by_column
        Whether the matrix stores compressed columns.
    """
    check_shape(stored)
    check_threshold(plan.threshold, is_sparse=True)
    shape_text = " x ".join(map(str, stored))
    n_lines, n_across = stored[::-1] if is_by_column else stored
    n_listed = int(parts["indices"].shape[0])
    is_sound = parts["indptr"].shape == (n_lines + 1,) and parts["data"].shape == (n_listed,)
    check_fits_in_memory(3 * 8 * n_lines, stored)  # before anything is read that long
    bounds = np.asarray(parts["indptr"][:] if is_sound else [1]).astype(np.int64)
    is_sound = is_sound and bounds[0] == 0 and bounds[-1] == n_listed
    if not is_sound or (np.diff(bounds) < 0).any():
        msg = (
            f"its sparse matrix of {shape_text} does not fit together, as its data, indices and "
            "indptr disagree; write the file again"
        )
        raise ValueError(msg)
    check_dtype(parts["data"].dtype, "its matrix")
    lo, hi = plan.rows(stored[0])
    first, end = (0, n_listed) if is_by_column else (int(bounds[lo]), int(bounds[hi]))
    positions = PositionBuilder(plan.shape(stored), end - first)
    new = None if plan.columns is None else np.cumsum(plan.columns) - 1
    for start in range(first, end, _BLOCK_ENTRIES):
        stop = min(start + _BLOCK_ENTRIES, end)
        lines = np.searchsorted(bounds, np.arange(start, stop), side="right") - 1
        across = np.asarray(parts["indices"][start:stop]).astype(np.int64)
        if across.min() < 0 or across.max() >= n_across:
            msg = (
                f"its sparse matrix of {shape_text} lists an entry outside its rows or columns; "
                "write the file again"
            )
            raise ValueError(msg)
        rows, columns = (across, lines) if is_by_column else (lines, across)
        values = np.asarray(parts["data"][start:stop])
        if is_by_column and hi - lo < stored[0]:
            is_own = (lo <= rows) & (rows < hi)
            rows, columns, values = rows[is_own], columns[is_own], values[is_own]
        if plan.columns is not None and new is not None:
            is_taken = plan.columns[columns]
            rows, columns, values = rows[is_taken], new[columns[is_taken]], values[is_taken]
        is_one, is_unknown, bad = classify(values, None, plan.threshold)
        if bad is None and plan.are_counts:
            bad = _first_bad_count(values)
        if bad is not None:
            raise plan.refuse(values[bad], int(rows[bad]), int(columns[bad]))
        listed = is_one if is_unknown is None else is_one | is_unknown
        unknown = None if is_unknown is None else is_unknown[listed]
        positions.add((rows[listed] - lo, columns[listed]), unknown)
    return positions.entries()


def _first_bad_count(values: NDArray[Any]) -> int | None:
    """Return the index of the first number that is negative or not finite, or None."""
    is_good = (values >= 0) & (values < np.inf)
    return None if is_good.all() else int(is_good.argmin())
