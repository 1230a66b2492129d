"""Which columns the kernels visit: lists on the device, in records of eight visits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.engines.gpu.device_memory import i64, u32

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


def components_of(engine: DeviceMemory, lines: Lines) -> Any:
    """Return the components of every row of a factor as bits: ``(n_rows, n_masks)``."""
    n, n_rows = lines.n_lines, 32 * lines.n_words
    masks = engine.xp.empty((n_rows, max(1, -(-n // 32))), u32)
    threads = engine.threads_of(256)
    engine.device.launch(
        "list_components", (-(-n_rows // threads), 1), threads,
        [lines.words, lines.stride, u32(n), i64(n_rows), u32(masks.shape[1]), masks],
    )  # fmt: skip
    return masks


class Visits:
    """Records of the columns in some lines, one list per line and class of columns.

    Parameters
    ----------
    engine
        Engine whose device holds everything.
    lines
        Columns to visit: the codes of the components, or any sets of columns. If there are
        classes, columns are in the order of these.
    masks
        Components that may cover a column, as bits: ``(n_columns, n_masks)``.
    n_components
        Number of these components.
    starts
        First visit of every list, and the end of the last one, on the device.
    n_visits
        Total number of visits, with those that fill up a record.
    n_others
        Mean number of covering components per column.
    classes
        Classes of the columns, in whose order the columns of the lines are.
    is_own
        Whether the lines are those of the covering components. A component does not count as
        covering the columns of its own list.
    """

    def __init__(
        self, engine: DeviceMemory, lines: Lines, masks: Any, n_components: int, starts: Any,
        n_visits: int, n_others: float, classes: Classes, *, is_own: bool = True,
    ) -> None:  # fmt: skip
        xp, device = engine.xp, engine.device
        n_lists = lines.n_lines * classes.n
        n_visits = roomy(max(EIGHT, n_visits))
        columns = xp.empty(n_visits, u32)
        threads = engine.threads_of(1024 if classes.n == 1 else 128)
        n_parts = max(1, min(classes.n_lines // (64 * threads), 1024 // n_lists))
        device.launch(
            "list_columns", (lines.n_lines, classes.n * n_parts), threads,
            [lines.words, lines.stride, u32(n_parts), classes.edges, classes.places, starts,
             columns],
        )  # fmt: skip
        self.masks, self.n_masks = masks, masks.shape[1]
        self.room = _pairs_of(n_components - is_own, n_others)
        self.records = xp.empty((n_visits // EIGHT, HEAD + 2 * EIGHT * self.room), u32)
        parts = max(1, min(64, n_visits // (256 * n_lists)))
        device.launch(
            "list_visits", (n_lists, parts), engine.threads_of(256),
            [columns, starts, masks, u32(self.n_masks), u32(n_components),
             u32(classes.n if is_own else 0), u32(self.room), self.records],
        )  # fmt: skip


def roomy(n: int) -> int:
    """Round a number up, by a sixteenth at most, so that few sizes of memory are asked for.

    A size that is not new is found among what was freed, where a new one makes the device wait.
    """
    step = max(EIGHT, 1 << max(0, n.bit_length() - 5))
    return -(-n // step) * step


def _pairs_of(most: int, mean: float) -> int:
    """Return the pairs of covering components per column in a record, given their number."""
    likely = mean + 3 * math.sqrt(mean)
    return max(1, min(_MOST_PAIRS, -(-most // 2), math.ceil(likely / 2)))
