# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""A lower bound: entries of which no two fit into a common rectangle need a component each.

A local search looks for a large set of such entries. It adds an entry that fits together with none
of the set. If there is none, it exchanges an entry of the set for another that fits together with
this one alone, and prefers those that were changed a long time ago. If that does not help for a
while, it forces an entry into the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit
from thali.optimize.covers.lines import WORK_PER_STEP, below, bit_of, list_entries, put, take

if TYPE_CHECKING:
    from typing import Any

    from thali.bits.words import Index
    from thali.optimize.covers.lines import Random

_TRIES = 8
"""Number of entries among which the one that was changed longest ago is chosen."""
_PATIENCE = 500
"""Number of steps without a larger set after which an entry is forced into the set."""
_FREE, _EXCHANGEABLE, _CHOSEN, _OTHER = 0, 1, 2, 3


class Apart(NamedTuple):
    """A set of entries of which no two fit together, in the course of a search."""

    links: Index
    """For every entry, how many entries of the set it fits together with; itself included."""
    owners: Index
    """The exclusive or of the numbers of those: the number itself if there is one."""
    stamps: Index
    """When the entry was last changed, in steps."""
    kinds: Index
    """In which of four lists the entry is: free, exchangeable, chosen (the set), other."""
    lists: Index
    """``(4, n_entries)``: the lists."""
    places: Index
    """Where in its list an entry is."""
    sizes: Index
    """Lengths of the four lists, number of steps, number of steps since the last gain."""

    @classmethod
    def start(cls, order: Index) -> Apart:
        """Return the empty set; the first entries of an order are likely to be added first."""
        n = len(order)
        links, owners, stamps, kinds = np.zeros((4, n), np.int64)
        stamps[order] = np.arange(-n, 0)
        lists = np.zeros((4, n), np.int64)
        lists[_FREE] = np.arange(n)
        sizes = np.array([n, 0, 0, 0, 0, 0])
        return cls(links, owners, stamps, kinds, lists, np.arange(n), sizes)


@jit
def search_apart(
    work: int, enough: int, graph: Any, packed: Any, apart: Any, random: Random
) -> int:
    """Go on searching; return the size of the largest set.

    Parameters
    ----------
    work, enough
        When to stop: after visiting so many entries, or at a set of this size.
    graph
        ``rows, columns, row_of, column_of`` of the table.
    packed
        The entries as packed rows, and the number of the first entry of every word.
    apart
        The set (:class:`Apart`) as a plain tuple.
    """
    row_of = graph[2]
    links, owners, stamps, kinds, lists, _, sizes = apart
    near = np.empty(row_of.shape[0], np.int64)
    best = sizes[_CHOSEN]
    while work > 0 and best < enough:
        work -= WORK_PER_STEP
        sizes[4] += 1
        sizes[5] += 1
        kind = _FREE if sizes[_FREE] > 0 else _EXCHANGEABLE
        if sizes[kind] == 0 or sizes[5] > _PATIENCE:
            e = below(random, row_of.shape[0])
            sizes[5] = 0
            if kinds[e] == _CHOSEN:
                continue
        else:
            e = lists[kind, below(random, sizes[kind])]
            for _ in range(_TRIES):
                other = lists[kind, below(random, sizes[kind])]
                if stamps[other] < stamps[e]:
                    e = other
        while links[e] > 0:
            member = owners[e]
            if links[e] > 1:
                member = _first_fitting(e, graph, lists[_CHOSEN])
            work -= _change(member, np.int64(-1), graph, packed, apart, near)
            stamps[member] = sizes[4]
        work -= _change(e, np.int64(1), graph, packed, apart, near)
        stamps[e] = sizes[4]
        if sizes[_CHOSEN] > best:
            best = sizes[_CHOSEN]
            sizes[5] = 0
    return best


@inner
def _first_fitting(e: int, graph: Any, chosen: Index) -> int:
    """Return an entry of the set that fits together with an entry; there must be one."""
    rows, _, row_of, column_of = graph
    i, j = row_of[e], column_of[e]
    place = 0
    while not (
        bit_of(rows[row_of[chosen[place]]], j) and bit_of(rows[i], column_of[chosen[place]])
    ):
        place += 1
    return chosen[place]


@inner
def _change(e: int, sign: int, graph: Any, packed: Any, apart: Any, near: Index) -> int:
    """Add an entry to the set (sign 1) or remove it (sign -1); return the number of visits."""
    rows, columns, row_of, column_of = graph
    required, first = packed
    links, owners, _, kinds, lists, places, sizes = apart
    n_near = list_entries(columns[column_of[e]], rows[row_of[e]], required, first, near)
    for k in range(n_near):
        f = near[k]
        links[f] += sign
        owners[f] ^= e
        kind = _OTHER
        if f == e and sign > 0:
            kind = _CHOSEN
        elif links[f] < 2:
            kind = links[f]
        if kind != kinds[f]:
            sizes[kinds[f]] = take(lists[kinds[f]], places, sizes[kinds[f]], f)
            sizes[kind] = put(lists[kind], places, sizes[kind], f)
            kinds[f] = kind
    return n_near
