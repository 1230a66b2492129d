"""What every engine does on the host: work on threads, and questions about a few rows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import WORD, list_bits, n_words
from thali.data.entries import every_column
from thali.engines.cpu.count_by_class import count_free_in_window, list_free_in_window
from thali.team import share
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index, PackedTensor, Totals, Words
    from thali.engines.base import Cover, Made, Nearby, RowSets
    from thali.engines.cpu.arrays import Whole
    from thali.model.births import BirthTables
    from thali.model.weights import Weights
    from thali.streams import Stream

NOTHING = np.zeros((0, 0), np.uint64)
"""Stands for the mask of known entries if all entries are known."""

_MIN_WORK = 1 << 15
"""Words of work, about 30 microseconds of it, for which it pays to wake another thread."""

_FEW_ROWS = 1 << 12
"""Number of rows up to which one thread does work that needs no data."""


class HostRows:
    """The part of an engine that reads the copy of the data on the host.

    To read a few rows, or a narrow window of columns, is fast on any machine. An engine with a
    copy of the data on a device may do it there instead.
    """

    tensor: PackedTensor
    totals: Totals
    _first: tuple[Words, Words]  # the unfolding of the first mode
    waited: float | None = None  # there is no other process

    def __init__(self, threads: int | None) -> None:
        self.threads = n_threads(threads)

    def hold(self, tensor: PackedTensor) -> None:
        """Keep a reference to the data, which are not copied."""
        self.tensor = tensor
        self.totals = tensor.totals(self.threads)
        self._first = self.unfolding(0)

    def agree(self, wish: bool) -> bool:  # noqa: FBT001 - the only argument
        """Return the wish of this process, which has the data alone."""
        return wish

    def found_by_any(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return what this process has found, which has the data alone."""
        return found

    def unfolding(self, mode: int) -> tuple[Words, Words]:
        """Return the ones and the known entries of a mode's unfolding on the host."""
        ones, known = self.tensor.unfoldings[mode]
        return ones, NOTHING if known is None else known

    def over_rows(
        self, kernel: Callable[..., Any], n_rows: int, *arguments: Any, step: int,
        made: Made = (),  # noqa: ARG002 - this process makes all of them
    ) -> None:  # fmt: skip
        """Run a compiled function whose first two arguments are a range of rows, on threads."""
        self.over_range(kernel, 0, n_rows, *arguments, step=step)

    def over_range(
        self, kernel: Callable[..., Any], first: int, n_rows: int, *arguments: Any, step: int
    ) -> None:
        """Run a compiled function as :meth:`over_rows`, on rows from ``first`` on."""
        if n_rows <= max(step, _FEW_ROWS):  # small data feel every call on the way
            kernel(first, first + n_rows, *arguments)
        else:
            share(kernel, n_rows, self.threads, *arguments, first=first, step=step)

    def scan_blocks(
        self, _stream: Stream, _rows: Any, _factors: tuple[Factor, ...], _tables: BirthTables
    ) -> tuple[tuple[Factor, ...], tuple[int, int]] | None:
        """Return None: blocks of rows are updated one by one."""
        return None

    def near(self, _weights: Weights, _n_components: int) -> Nearby | None:
        """Return None: the data are not here."""
        return None

    def whole(self, _mode: int, _codes: Words) -> Whole | None:
        """Return None: rows are updated as a work order says."""
        return None

    def row_sets(self, _factors: tuple[Factor, ...]) -> RowSets | None:
        """Return None: moves propose on the threads of this machine."""
        return None

    def count_in_window(self, rows: Index, window: slice, cover: Cover, classes: Words) -> Index:
        """Count the free ones and zeros per row and class of columns in a window of columns."""
        counts = np.empty((len(rows), len(classes), 2), np.int64)
        self.share_work(
            count_free_in_window, len(rows), len(rows) * classes.size * 4, rows, window.start,
            *self._first, cover.codes.words, cover.users.words, cover.is_counted, classes,
            counts,
        )  # fmt: skip
        return counts

    def free_in_window(self, rows: Index, window: slice, cover: Cover) -> tuple[Words, Words]:
        """Return the free entries and all ones of a few rows in a window of columns."""
        codes = cover.codes.words
        at, stop, _ = window.indices(codes.shape[1])
        is_matrix = len(self.totals.shape) == 2  # a tensor has padding elsewhere, without ones
        n_columns = self.totals.n_columns(0) if is_matrix else WORD * codes.shape[1]
        free, has = np.empty((2, len(rows), stop - at), np.uint64)
        list_free_in_window(
            rows, at, n_columns, *self._first, codes, cover.users.words,
            cover.is_counted, free, has,
        )  # fmt: skip
        return free, has

    def is_one_range(self, work: int) -> bool:
        """Return whether a single thread does so much work, in words."""
        return work < _MIN_WORK or self.threads == 1

    def share_work(
        self, kernel: Callable[..., Any], n_rows: int, work: int, *arguments: Any,
        first: int = 0, **parts: int,
    ) -> Sequence[int]:  # fmt: skip
        """Run a kernel over rows from ``first`` on, on as many threads as there is work for.

        Returns the sums of the integers that it returns for its rows. ``parts`` says how rows are
        divided (:func:`thali.team.share`).
        """
        if self.is_one_range(work):
            found: Sequence[int] = kernel(first, first + n_rows, *arguments)
            return found
        sums: list[int] = share(
            kernel, n_rows, self.threads, *arguments, first=first, wanted=self.n_wanted(work),
            **parts,
        ).tolist()  # fmt: skip
        return sums

    def n_wanted(self, work: int) -> int:
        """Return how many threads there is enough work for, in words."""
        return min(self.threads, 1 + work // max(1, _MIN_WORK))


@lru_cache(maxsize=8)
def list_columns(shape: tuple[int, ...], mode: int) -> Index:
    """Return the columns of an unfolding that are no padding."""
    columns: Index = list_bits(every_column(shape, mode))
    return columns


def lines_of_births(owners: Index, codes: Words, n_rows: int) -> tuple[Words, Words]:
    """Return the new single-row components of a matrix as packed lines of both modes."""
    lines = np.zeros((len(owners), n_words(n_rows)), np.uint64)
    one = np.uint64(1)
    lines[np.arange(len(owners)), owners >> 6] = one << (owners & 63).astype(np.uint64)
    return lines, codes
