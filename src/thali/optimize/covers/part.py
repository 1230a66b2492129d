"""One independent part of a reduced table: its bounds, and the searches that improve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits.words import pack
from thali.optimize.covers.bound import Apart, search_apart
from thali.optimize.covers.program import solve_program
from thali.optimize.covers.search import Walk, adopt_cover, search_cover
from thali.sites import Site
from thali.streams import Stream
from thali.threads import parallel_for

if TYPE_CHECKING:
    from thali.bits.words import Index, Words
    from thali.optimize.covers.lines import Random
    from thali.optimize.covers.table import Table

_SEARCHES = 4
"""Searches that run side by side; a fixed number, so that threads do not change the answer."""
_LEAST_WORK, _WORK_PER_ENTRY = 1 << 17, 4
"""Number of entries that a search for bounds visits in one sweep, at least and per entry."""
_VISITS_OF_COVERS = 8
"""Number of entries that a search for covers visits while one for bounds visits one."""
_SWEEPS_BEFORE_PROGRAM = 4
_RECTANGLES_PER_SWEEP = 100
"""An integer program over so many rectangles takes about as long as a sweep."""
_BOUND, _COVER, _ORDER = range(3)


class Part:
    """The search for the fewest components of a table in which no entry is dominated.

    Parameters
    ----------
    table
        The table.
    key, number
        Key of the random numbers, and number of the part, by which they differ.

    Attributes
    ----------
    users, codes
        Packed lines of the components of the smallest cover so far.
    lower_bound
        The largest number of components that was shown to be necessary.
    """

    def __init__(self, table: Table, key: np.uint64, number: int) -> None:
        self.table = table
        self.lower_bound = 1
        self.users, self.codes = _one_per_line(table)
        self._key, self._number, self._sweep = key, number, 0
        self._is_programmed = False
        self._work = max(_LEAST_WORK, _WORK_PER_ENTRY * len(table.row_of))
        orders = [self._order(search) for search in range(_SEARCHES)]
        self._graph = table.rows, table.columns, table.row_of, table.column_of
        self._packed = table.required(), table.firsts()
        self._aparts = [Apart.start(order) for order in orders]
        self._walks = [Walk.start(table, min(table.shape), order) for order in orders]

    @property
    def is_optimal(self) -> bool:
        """Whether there is no smaller cover."""
        return self.lower_bound >= len(self.users)

    def sweep(self, threads: int, seconds: float | None) -> None:
        """Let every search go on for a while, and share what they have found.

        ``seconds`` limits the time of an integer program.
        """
        bounds = parallel_for(self._search_bound, _SEARCHES, threads)
        self.lower_bound = max(self.lower_bound, *map(max, bounds))
        if not self.is_optimal:
            parallel_for(self._search_cover, _SEARCHES, threads)
            best = min(self._walks, key=lambda walk: walk.n_best)
            if best.n_best < len(self.users):
                self.users, self.codes = (lines.copy() for lines in best.best())
            for walk in self._walks:
                if walk.is_begun and walk.n_best > len(self.users):
                    adopt_cover(self.users, self.codes, self._packed, tuple(walk))
        self._sweep += 1
        if not self.is_optimal and not self._is_programmed:
            self._solve_program(seconds)

    def _solve_program(self, seconds: float | None) -> None:
        """Try an integer program once, if it is small for the number of sweeps so far."""
        if self._sweep < _SWEEPS_BEFORE_PROGRAM or self._sweep & (self._sweep - 1):
            return  # maximal rectangles are counted only after 4, 8, 16, … sweeps
        answer = solve_program(self.table, _RECTANGLES_PER_SWEEP * self._sweep, seconds)
        if answer is None:
            return
        self._is_programmed = True
        self.lower_bound = max(self.lower_bound, answer.lower_bound)
        if answer.cover is not None and len(answer.cover[0]) < len(self.users):
            self.users, self.codes = answer.cover

    def _search_bound(self, lo: int, hi: int) -> list[int]:
        given = self._work, len(self.users), self._graph, self._packed
        return [
            search_apart(*given, tuple(self._aparts[i]), self._random(i, _BOUND))
            for i in range(lo, hi)
        ]

    def _search_cover(self, lo: int, hi: int) -> None:
        given = _VISITS_OF_COVERS * self._work, self.lower_bound, self._graph, self._packed
        for i in range(lo, hi):
            search_cover(*given, tuple(self._walks[i]), self._random(i, _COVER))

    def _order(self, search: int) -> Index:
        """Return an order in which a search begins with the entries.

        Entries in short rows and columns fit together with few others: the first search begins
        with them, and the others at random.
        """
        if search == 0:
            return self.table.shortest_first()
        stream, n = Stream(self._key, np.uint64(0)), len(self.table.row_of)
        return stream.permutation(Site.SEARCH, n, self._address(search, _ORDER))

    def _random(self, search: int, use: int) -> Random:
        address = np.uint64(self._address(search, use))
        return self._key, np.uint64(self._sweep), address, np.zeros(1, np.int64)

    def _address(self, search: int, use: int) -> int:
        return (self._number * _SEARCHES + search) * 3 + use


def _one_per_line(table: Table) -> tuple[Words, Words]:
    """Return the cover with a component for every row, or for every column if those are fewer."""
    n_rows, n_columns = table.shape
    if n_columns < n_rows:
        return table.columns, pack(np.eye(n_columns, dtype=np.bool_))
    return pack(np.eye(n_rows, dtype=np.bool_)), table.rows
