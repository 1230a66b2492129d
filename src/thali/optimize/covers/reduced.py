"""A table without what need not be looked at, in independent parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali import compiling
from thali.bits.words import transpose, unpack
from thali.optimize.covers.part import Part
from thali.optimize.covers.reduce import drop_contained, drop_dominated, label_parts
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from thali.bits.words import Index, Words
    from thali.optimize.covers.table import Table

_SHARE = 0.3
"""Part of the time after which a large table is not reduced any further."""
_CHUNK = 1024
"""Number of lines or entries that are looked at between two looks at the clock."""


class Clock:
    """Time since the start, and whether it is up."""

    def __init__(self, seconds: float | None) -> None:
        self._start = compiling.clock()
        self._seconds = seconds

    def now(self) -> float:
        """Return the seconds since the start."""
        return compiling.clock() - self._start

    def left(self) -> float | None:
        """Return the seconds that are left; None if there is no limit."""
        return None if self._seconds is None else max(0.0, self._seconds - self.now())

    def is_up(self, share: float = 1.0) -> bool:
        """Return whether a share of the time is over."""
        return self._seconds is not None and self.now() >= share * self._seconds


class Reduced:
    """The search for the fewest components of a table.

    Dominated entries are dropped. An entry that fits together with no other one is a component;
    the others fall into parts that have no component in common.

    Parameters
    ----------
    table
        The table, without repeated rows and columns.
    seed
        Seed of the random numbers.
    clock
        Ends the reduction when a part of the time is over; the caller ends the searches.
    """

    def __init__(self, table: Table, seed: int, clock: Clock) -> None:
        self._host, labels = _reduce(table, clock)
        sizes = np.bincount(labels[labels >= 0])
        is_alone = np.append(sizes == 1, [False])  # the last stands for entries without a part
        self._alone = np.flatnonzero(is_alone[labels])
        self._entries = [np.flatnonzero(labels == part) for part in np.flatnonzero(sizes > 1)]
        key = Stream(np.uint64(seed), np.uint64(0)).bits(Site.SEARCH, 1)[0]
        self._parts = [
            Part(table.part(entries), key, number) for number, entries in enumerate(self._entries)
        ]

    @property
    def n_components(self) -> int:
        """Number of components of the best cover so far."""
        return len(self._alone) + sum(len(part.users) for part in self._parts)

    @property
    def lower_bound(self) -> int:
        """Number of components that any cover needs."""
        return len(self._alone) + sum(part.lower_bound for part in self._parts)

    def open_parts(self) -> list[Part]:
        """Return the parts whose cover is not known to be the smallest."""
        return [part for part in self._parts if not part.is_optimal]

    def components(self) -> Index:
        """Return the component of every entry in the best cover, dropped entries included."""
        component = np.full(len(self._host), -1)
        component[self._alone] = np.arange(len(self._alone))
        n = len(self._alone)
        for entries, part in zip(self._entries, self._parts, strict=True):
            users = unpack(part.users, part.table.shape[0])
            codes = unpack(part.codes, part.table.shape[1])
            for who, code in zip(users, codes, strict=True):
                component[entries[who[part.table.row_of] & code[part.table.column_of]]] = n
                n += 1
        host = self._host
        while (host[host] != host).any():  # the host of a dropped entry may be dropped later
            host = host[host]
        return component[host]


def _reduce(table: Table, clock: Clock) -> tuple[Index, Index]:
    """Drop dominated entries, as long as there are any and time.

    Returns, for every entry, the entry whose component it joins, and the number of its independent
    part, which is -1 for dropped entries.
    """
    starts, host = table.starts(), np.arange(len(table.row_of))
    required = _without_contained(table, starts, host, clock)
    order = table.shortest_first()  # entries in short rows and columns dominate others
    order = order[host[order] == order]
    changed = np.full(table.columns.shape[1], ~np.uint64(0)), required.copy()
    while changed[0].any() and not clock.is_up(_SHARE):
        dropped = np.zeros_like(changed[0]), np.zeros_like(required)
        for first in range(0, len(order), _CHUNK):
            if not clock.is_up(_SHARE):
                chunk = order[first : first + _CHUNK]
                drop_dominated(chunk, *table, starts, required, host, changed, dropped)
        order, changed = order[host[order] == order], dropped
    return host, label_parts(*table, starts, required)


def _without_contained(table: Table, starts: Index, host: Index, clock: Clock) -> Words:
    """Return the entries that are left by the cheap case of the reduction."""
    required = table.required()
    lines, across = table.rows, table.columns
    for is_by_row in (True, False):
        for lo in range(0, len(lines), _CHUNK):
            if not clock.is_up(_SHARE):
                hi = min(lo + _CHUNK, len(lines))
                drop_contained(
                    lo, hi, lines, across, is_by_row, table.column_of, starts, required, host
                )
        required = transpose(required, len(across))
        lines, across = across, lines
    return required
