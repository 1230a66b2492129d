# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Search for a cover with fewer components: remove one, and cover with the others what it leaves.

This is a local search with weights: while some entries are uncovered, the component that is
missed least goes, and another one grows around an uncovered entry. Entries that stay uncovered
gain weight, so that the search does not run in circles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.optimize.covers.grow import grow
from thali.optimize.covers.lines import WORK_PER_STEP, below, list_entries, put, take

if TYPE_CHECKING:
    from typing import Any

    from thali.bits.words import Index, Words
    from thali.optimize.covers.lines import Random
    from thali.optimize.covers.table import Table


class Walk(NamedTuple):
    """A set of components in the course of a search, and the best cover so far."""

    users: Words
    """``(n_places, words)``: rows of every component."""
    codes: Words
    """Columns of every component."""
    is_used: Index
    """Whether a place holds a component."""
    losses: Index
    """Weight of the entries that only this component covers."""
    stamps: Index
    """When the component was added, in steps."""
    counts: Index
    """For every entry, how many components cover it."""
    owners: Index
    """The exclusive or of the numbers of those: the number itself if there is one."""
    weights: Index
    """What covering the entry is worth."""
    uncovered: Index
    """List of the entries that no component covers."""
    places: Index
    """Where in this list an entry is."""
    order: Index
    """Order in which the entries are covered at first."""
    sizes: Index
    """Numbers: uncovered entries, components, components added so far, components of the best
    cover, entries of ``order`` that were looked at."""
    best_users: Words
    """Components of the best cover, the first of which count."""
    best_codes: Words
    """Their columns."""

    @classmethod
    def start(cls, table: Table, n_places: int, order: Index) -> Walk:
        """Return the empty set of components; there is no cover yet."""
        n = len(order)
        users = np.zeros((n_places, table.columns.shape[1]), np.uint64)
        codes = np.zeros((n_places, table.rows.shape[1]), np.uint64)
        is_used, losses, stamps = np.zeros((3, n_places), np.int64)
        counts, owners = np.zeros((2, n), np.int64)
        sizes = np.array([n, 0, 0, n_places + 1, 0])
        return cls(
            users, codes, is_used, losses, stamps, counts, owners, np.ones(n, np.int64),
            np.arange(n), np.arange(n), order, sizes, users.copy(), codes.copy(),
        )  # fmt: skip

    @property
    def is_begun(self) -> bool:
        """Whether all entries have been looked at once."""
        return bool(self.sizes[4] == len(self.order))

    @property
    def n_best(self) -> int:
        """Number of components of the best cover; more than there are places if there is none."""
        return int(self.sizes[3])

    def best(self) -> tuple[Words, Words]:
        """Return users and codes of the best cover."""
        return self.best_users[: self.n_best], self.best_codes[: self.n_best]


@jit
def search_cover(
    work: int, enough: int, graph: Any, packed: Any, walk: Any, random: Random
) -> None:
    """Go on searching.

    Parameters
    ----------
    work, enough
        When to stop: after visiting so many entries, or at a cover of so few components.
    graph
        ``rows, columns, row_of, column_of`` of the table.
    packed
        The entries as packed rows, and the number of the first entry of every word.
    walk
        The components (:class:`Walk`) as a plain tuple.
    """
    users, codes, _, _, _, counts, _, weights, uncovered, _, order, sizes, _, _ = walk
    candidates = np.empty(counts.shape[0], np.int64)
    lines = (
        np.empty(users.shape[1], np.uint64), np.empty(codes.shape[1], np.uint64),
        np.empty(users.shape[1], np.uint64), np.empty(codes.shape[1], np.uint64),
    )  # fmt: skip
    while work > 0:
        work -= WORK_PER_STEP + users.shape[0]
        if sizes[4] < order.shape[0]:  # there is no cover yet
            e = order[sizes[4]]
            c = sizes[1]
            sizes[4] += 1
            if counts[e] > 0 or c == users.shape[0]:
                continue
        else:
            while sizes[0] == 0:
                _keep_if_better(walk)
                if sizes[3] <= enough:
                    return
                work -= _remove(_least_missed(walk), packed, walk, candidates)
            c = _least_missed(walk)
            work -= _remove(c, packed, walk, candidates)
            e = uncovered[below(random, sizes[0])]
        work -= grow(
            e, graph, packed, counts, weights, uncovered, sizes[0], lines, candidates, random
        )
        copy_line(lines[0], users[c])
        copy_line(lines[1], codes[c])
        work -= _add(c, packed, walk, candidates)
        if sizes[4] == order.shape[0]:
            for k in range(sizes[0]):
                weights[uncovered[k]] += 1
    _keep_if_better(walk)


@jit
def adopt_cover(users: Words, codes: Words, packed: Any, walk: Any) -> None:
    """Replace the components by those of a cover, and keep the weights."""
    is_used, counts, order, sizes = walk[2], walk[5], walk[10], walk[11]
    inside = np.empty(counts.shape[0], np.int64)
    for c in range(is_used.shape[0]):
        if is_used[c]:
            _remove(c, packed, walk, inside)
    for c in range(users.shape[0]):
        copy_line(users[c], walk[0][c])
        copy_line(codes[c], walk[1][c])
        _add(c, packed, walk, inside)
    sizes[4] = order.shape[0]
    _keep_if_better(walk)


@inner
def _least_missed(walk: Any) -> int:
    """Return the component that covers the least weight alone; of equals, the oldest.

    The newest is not considered unless it is the only one.
    """
    is_used, losses, stamps, sizes = walk[2], walk[3], walk[4], walk[11]
    best = -1
    for c in range(is_used.shape[0]):
        if is_used[c] == 0 or (stamps[c] == sizes[2] and sizes[1] > 1):
            continue
        loss = losses[c]
        if best < 0 or loss < losses[best] or (loss == losses[best] and stamps[c] < stamps[best]):
            best = c
    return best


@inner
def _add(c: int, packed: Any, walk: Any, inside: Index) -> int:
    """Add the component whose rectangle is in a place; return the number of its entries."""
    users, codes, is_used, losses, stamps, counts, owners, weights, listed, places, _, sizes = (
        walk[:12]
    )
    n = list_entries(users[c], codes[c], packed[0], packed[1], inside)
    losses[c] = 0
    for k in range(n):
        e = inside[k]
        if counts[e] == 0:
            sizes[0] = take(listed, places, sizes[0], e)
            losses[c] += weights[e]
        elif counts[e] == 1:
            losses[owners[e]] -= weights[e]
        counts[e] += 1
        owners[e] ^= c
    sizes[1] += 1
    sizes[2] += 1
    is_used[c] = 1
    stamps[c] = sizes[2]
    return n


@inner
def _remove(c: int, packed: Any, walk: Any, inside: Index) -> int:
    """Remove the component from its place; return the number of its entries."""
    users, codes, is_used, losses, _, counts, owners, weights, listed, places, _, sizes = walk[:12]
    n = list_entries(users[c], codes[c], packed[0], packed[1], inside)
    for k in range(n):
        e = inside[k]
        counts[e] -= 1
        owners[e] ^= c
        if counts[e] == 0:
            sizes[0] = put(listed, places, sizes[0], e)
        elif counts[e] == 1:
            losses[owners[e]] += weights[e]
    sizes[1] -= 1
    is_used[c] = 0
    return n


@inner
def _keep_if_better(walk: Any) -> None:
    """Copy the components if they are a cover, and smaller than the best one."""
    users, codes, is_used, sizes, best_users, best_codes = (
        walk[0], walk[1], walk[2], walk[11], walk[12], walk[13],
    )  # fmt: skip
    if sizes[0] > 0 or sizes[1] >= sizes[3]:
        return
    n = 0
    for c in range(is_used.shape[0]):
        if is_used[c]:
            copy_line(users[c], best_users[n])
            copy_line(codes[c], best_codes[n])
            n += 1
    sizes[3] = n
