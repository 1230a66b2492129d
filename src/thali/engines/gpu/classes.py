"""Classes of columns on the GPU: the row update if entries have weights of their own (eq. 27).

In the vertical form, rows are the bits of a word, and a component is counted column by column. The
weight of an entry depends on the class of its row, which differs from bit to bit, and on the class
of its column, which is the same for all bits. So a component's visits are sorted by class of
column, and every class has counters of its own: *slots* that no two classes share. The data are
read as often as without classes. A row's score is the sum, over classes of columns, of the weights
of the row's class times two counts.

One alternative was to sort the columns of the data by class, which is what the CPU does and needs
a third copy of the data. Another was to count with a mask per class, which looks at every row as
often as there are classes. Counters take 20 bits per row and slot instead, are written and read
once, and are kept for so many rows at a time that they take a thirty-second part of the data.

Births and draws of levels need the free entries of every row by class. They are counted in the
same way, as for a component that has all columns and covers nothing.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import pack
from thali.engines.gpu.device_memory import i64, u32, u64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.gpu.device_memory import DeviceMemory, Lines


class Classes:
    """The classes of the lines of a mode, on the device."""

    def __init__(self, engine: DeviceMemory, classes: Index) -> None:
        xp = engine.xp
        self.n = int(classes.max()) + 1
        self.n_lines = len(classes)
        self.of_lines = xp.asarray(classes.astype(np.uint32))
        # If lines are sorted by class: the line at every place, and the first place of every class
        self.places = xp.argsort(self.of_lines, kind="stable")
        every = xp.arange(self.n + 1, dtype=np.uint32)
        self.edges = xp.searchsorted(self.of_lines[self.places], every)
        self._arranged: tuple[Any, Classes] | None = None  # since when, and another order

    def rearranged(self, engine: DeviceMemory, masks: Any, since: Any = None) -> Classes:
        """Return the same classes, with lines of similar components next to each other.

        ``masks`` has the components of every line. Which order lines of a class have changes only
        how fast they are counted, so an order is used again, unless something new is given since
        which they are to be sorted.
        """
        if self._arranged is None or (since is not None and self._arranged[0] is not since):
            keys = engine.xp.empty(self.n_lines, u64)
            engine.device.launch(
                "list_keys", (engine.blocks_of(self.n_lines, 256), 1), engine.threads_of(256),
                [masks, u32(masks.shape[1]), i64(self.n_lines), self.of_lines, keys],
            )  # fmt: skip
            self._arranged = None  # otherwise the copy would keep the last one alive
            other = copy(self)
            # The class comes first: where there is one, 32 bits say enough.
            other.places = engine.xp.argsort(keys.view(u32)[::2] if self.n == 1 else keys)
            self._arranged = since, other
        return self._arranged[1]

    def codes_in_order(self, engine: DeviceMemory, codes: Lines, masks: Any) -> Lines:
        """Return codes with the lines sorted by class, given the components of every line."""
        n, warps = codes.n_lines, engine.device.warps
        words = engine.xp.empty(codes.words.shape, u32)  # nobody reads beyond the last line
        engine.device.launch(
            "spread_masks", (-(-self.n_lines // (32 * warps)), 1), engine.device.lanes * warps,
            [masks, u32(masks.shape[1]), u32(n), self.places, i64(self.n_lines), words,
             codes.stride],
        )  # fmt: skip
        return codes._replace(words=words)

    def in_order(self, engine: DeviceMemory, lines: Lines) -> Lines:
        """Return packed sets of these lines with the lines sorted by class."""
        n, warps = lines.n_lines, engine.device.warps
        words = engine.xp.zeros((n, lines.words.shape[1]), u32)
        step = 60_000 * warps  # most words that one grid can do
        for start in range(0, lines.n_words if n else 0, step):
            n_words = min(step, lines.n_words - start)
            engine.device.launch(
                "gather_bits", (n, -(-n_words // warps)), engine.device.lanes * warps,
                [lines.words, lines.stride, u32(n), self.places[32 * start :],
                 i64(self.n_lines - 32 * start), words[:, start:], lines.stride],
            )  # fmt: skip
        return lines._replace(words=words)

    def sizes(self, engine: DeviceMemory, in_order: Lines) -> Index:
        """Count the ones of every line by class: ``(n_lines, n_classes)``."""
        n = in_order.n_lines
        counts = engine.xp.zeros((n, self.n), i64)
        if n:
            engine.device.launch(
                "count_places", (n, self.n), engine.threads_of(128),
                [in_order.words, in_order.stride, self.edges, counts],
            )  # fmt: skip
        return engine.device.to_host(counts)


def one_class(engine: DeviceMemory, mode: int, n_lines: int) -> Classes:
    """Return the columns of a mode's unfolding if all are of one class."""
    made: Classes = engine.kept(
        f"one class {mode}", engine.totals, lambda: Classes(engine, np.zeros(n_lines, i64))
    )
    return made


def classes_of(engine: DeviceMemory, mode: int, classes: Index | None) -> Classes | None:
    """Return the classes of a mode's lines on the device; None if there is one class."""
    if classes is None:
        return None
    made: Classes = engine.kept(f"classes {mode}", classes, lambda: Classes(engine, classes))
    return made


def columns_of(engine: DeviceMemory, mode: int, classes: Index | None) -> Classes | None:
    """Return the classes of the columns of a mode's unfolding; None if there is one class."""
    arity = len(engine.totals.shape)  # the columns of one mode of a matrix are the other's lines
    return classes_of(engine, 1 - mode if arity == 2 else arity + mode, classes)


def masks_of(engine: DeviceMemory, classes: Index) -> Lines:
    """Return the lines of every class, packed."""
    numbers = np.arange(classes.max() + 1)[:, None]
    masks: Lines = engine.kept("masks", classes, lambda: engine.upload(pack(numbers == classes)))
    return masks


def by_class(table: NDArray[Any]) -> NDArray[Any]:
    """Return a table by class of row and class of column, as kernels read it.

    The result has the number of components first, then the class of column, then the class of
    row: rows that are drawn together differ in that alone.
    """
    return np.ascontiguousarray(table.transpose(2, 1, 0, 3))
