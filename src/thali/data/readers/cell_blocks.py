"""Numbers of cells by genes, in memory or in a file, read in blocks into bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.data.binarize import check_threshold, unmask
from thali.data.build import PositionBuilder, check_fits_in_memory, pack_rows
from thali.data.classify import check_dtype, check_shape, classify
from thali.data.entries import Entries, Packed, n_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

# Entries read at a time; some ten arrays of as many numbers are made of them.
_BLOCK_ENTRIES = 1 << 17


class ReadPlan(NamedTuple):
    """What is taken of a matrix, and what its numbers mean."""

    threshold: float | None
    refuse: Callable[[Any, int, int], ValueError]  # gets a value, its row and its taken column
    columns: NDArray[np.bool_] | None = None  # which are taken; None takes all
    are_counts: bool = False  # then all must be finite, and none negative

    def shape(self, stored: tuple[int, ...]) -> tuple[int, int]:
        """Return the shape of what is taken."""
        n_rows, n_columns = stored
        return n_rows, n_columns if self.columns is None else int(self.columns.sum())


def read_dense(matrix: Any, plan: ReadPlan) -> tuple[Packed, Packed | None]:
    """Pack anything with a shape, a type and rows that can be sliced."""
    check_shape(matrix.shape)
    check_dtype(matrix.dtype, "its matrix")
    check_threshold(plan.threshold)
    shape = plan.shape(matrix.shape)
    check_fits_in_memory(8 * shape[0] * n_words(shape[1]), shape)
    step = max(1, _BLOCK_ENTRIES // matrix.shape[1])

    def blocks() -> Iterator[tuple[Any, None]]:
        for start in range(0, shape[0], step):
            values = np.asarray(unmask(matrix[start : start + step]))
            if plan.columns is not None:
                values = values[:, plan.columns]
            bad = _first_bad_count(values) if plan.are_counts else None
            if bad is not None:
                row, column = divmod(bad, shape[1])
                raise plan.refuse(values[row, column], start + row, column)
            yield values, None

    return pack_rows(shape[1], blocks(), plan.threshold, plan.refuse)


def read_compressed(
    parts: Any, stored: tuple[int, ...], plan: ReadPlan, *, is_by_column: bool = False
) -> tuple[Entries, Entries | None]:
    """Place what a matrix in compressed rows stores, or in compressed columns if it is turned.

    Parameters
    ----------
    parts
        ``data``, ``indices`` and ``indptr``, by name: arrays, or data sets of a file. A place may
        be listed once.
    stored
        Shape of the whole matrix.
    plan
        What is taken of it.
    is_by_column
        Whether columns are compressed.
    """
    check_shape(stored)
    check_threshold(plan.threshold, is_sparse=True)
    shape_text = " x ".join(map(str, stored))
    n_lines, n_across = stored[::-1] if is_by_column else stored
    bounds = np.asarray(parts["indptr"][:]).astype(np.int64)
    n_listed = int(parts["indices"].shape[0])
    is_sound = len(bounds) == n_lines + 1 and bounds[0] == 0 and bounds[-1] == n_listed
    if not is_sound or (np.diff(bounds) < 0).any() or parts["data"].shape[0] != n_listed:
        msg = f"its sparse matrix of {shape_text} does not fit together; write it anew"
        raise ValueError(msg)
    check_dtype(parts["data"].dtype, "its matrix")
    positions = PositionBuilder(plan.shape(stored), n_listed)
    new = None if plan.columns is None else np.cumsum(plan.columns) - 1
    for start in range(0, n_listed, _BLOCK_ENTRIES):
        stop = min(start + _BLOCK_ENTRIES, n_listed)
        lines = np.searchsorted(bounds, np.arange(start, stop), side="right") - 1
        across = np.asarray(parts["indices"][start:stop]).astype(np.int64)
        if across.min() < 0 or across.max() >= n_across:
            msg = f"its sparse matrix of {shape_text} lists an entry outside; write it anew"
            raise ValueError(msg)
        rows, columns = (across, lines) if is_by_column else (lines, across)
        values = np.asarray(parts["data"][start:stop])
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
        positions.add(rows[listed], columns[listed], unknown)
    return positions.entries()


def _first_bad_count(values: NDArray[Any]) -> int | None:
    """Return the place of the first number that is negative or not finite."""
    is_good = (values >= 0) & (values < np.inf)
    return None if is_good.all() else int(is_good.argmin())
