"""Which columns the kernels visit: lists on the device, in records of eight visits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.engines.gpu.device_memory import NULL, i64, u32

if TYPE_CHECKING:
    from thali.bits import Index
    from thali.engines.gpu.classes import Classes
    from thali.engines.gpu.device_memory import DeviceMemory, Lines

EIGHT, HEAD, RECORD = 8, 12, 128
"""The same constants as in ``kernels/visits.cu``; a test compares them."""

_MOST_PAIRS = (RECORD - HEAD) // (2 * EIGHT)
"""Largest number of pairs of other components per column in a record."""


def first_records(sizes: Index) -> Index:
    """Return the first record of every list, given the lengths of the lists; and the end."""
    return np.concatenate([[0], np.cumsum(-(-sizes.ravel() // EIGHT))])


class Visits:
    """Records of the columns in some lines, one list per line and class of columns.

    Parameters
    ----------
    engine
        Engine whose device holds everything.
    lines
        Columns to visit: the codes of the components, or any sets of columns. If there are
        classes, columns are in the order of these.
    covering
        Codes of the components that may cover a column.
    starts
        First visit of every list, and the end of the last one, on the device.
    n_visits
        Total number of visits, with those that fill up a record.
    n_others
        Mean number of covering components per column.
    classes
        Classes of the columns; None if there is one.
    is_own
        Whether the lines are those of the covering components. A component does not count as
        covering the columns of its own list.
    """

    def __init__(
        self, engine: DeviceMemory, lines: Lines, covering: Lines, starts: Any, n_visits: int,
        n_others: float, classes: Classes | None = None, *, is_own: bool = True,
    ) -> None:  # fmt: skip
        xp, device = engine.xp, engine.device
        n, n_lines, n_columns = covering.n_lines, lines.n_lines, 32 * covering.n_words
        per_line = 1 if classes is None else classes.n
        order = (NULL, NULL) if classes is None else (classes.edges, classes.places)
        n_visits = max(EIGHT, n_visits)
        columns = xp.empty(n_visits, u32)
        device.launch(
            "list_columns", (n_lines, per_line), engine.threads_of(1024 if per_line == 1 else 128),
            [lines.words, lines.stride, i64(lines.n_words), *order, starts, columns],
        )  # fmt: skip
        self.n_masks = max(1, -(-n // 32))
        self.masks = xp.empty((n_columns, self.n_masks), u32)
        threads = engine.threads_of(256)
        device.launch(
            "list_components", (-(-n_columns // threads), 1), threads,
            [covering.words, covering.stride, u32(n), i64(n_columns), u32(self.n_masks),
             self.masks],
        )  # fmt: skip
        self.room = _pairs_of(n - is_own, n_others)
        self.records = xp.empty((n_visits // EIGHT, HEAD + 2 * EIGHT * self.room), u32)
        windows = max(1, min(64, n_columns // (8192 if classes is None else 2048 * per_line)))
        device.launch(
            "list_visits", (n_lines * per_line, windows), threads,
            [columns, starts, self.masks, u32(self.n_masks), u32(n),
             u32(per_line if is_own else 0), u32(self.room), self.records],
        )  # fmt: skip


def _pairs_of(most: int, mean: float) -> int:
    """Return the pairs of covering components per column in a record, given their number."""
    likely = mean + 3 * math.sqrt(mean)
    return max(1, min(_MOST_PAIRS, -(-most // 2), math.ceil(likely / 2)))
