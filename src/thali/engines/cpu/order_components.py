# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""A block of rows of the buffet, compiled: what it means for every component."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import first_bit, popcount
from thali.streams import Site, uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ORDER = np.uint64(Site.ORDER)


class Block(NamedTuple):
    """The components in the order they are visited, as a block of rows sees them."""

    order: Index
    users: Words
    codes: Words
    sizes: Index  # users of each component
    is_held: NDArray[np.bool_]  # nobody outside the block uses it
    is_single: NDArray[np.bool_]  # one user, inside
    singles: Index  # for every row of the block: components of its own that were left out


@jit
def arrange(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, codes: Words, rows: Index,
    is_integrated: bool,
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Order the components at random and classify them; leave out single ones if integrated.

    A fresh random order: components are stored in order of creation, which tells something about
    them, and a scan order that depends on the state is not a Gibbs scan.

    Returns the fields of :class:`Block`.
    """
    n = users.shape[0]
    inside = np.zeros(users.shape[1], np.uint64)
    for row in rows:
        inside[row >> 6] |= _ONE << np.uint64(row & 63)
    keys = np.empty(n, np.uint64)
    for i in range(n):
        keys[i] = uniform64(key, sweep, _ORDER, number, np.uint64(i))
    order = np.argsort(keys, kind="mergesort")
    sizes = np.empty(n, np.int64)
    is_held = np.empty(n, np.bool_)
    is_single = np.empty(n, np.bool_)
    singles = np.zeros(rows.shape[0], np.int64)
    n_kept = 0
    for component in order:
        size = _ZERO
        within = _ZERO
        for w in range(users.shape[1]):
            word = users[component, w]
            size += popcount(word)
            within += popcount(word & inside[w])
        single = size == _ONE and within == _ONE
        if single and is_integrated:
            singles[np.searchsorted(rows, first_bit(users[component]))] += 1
            continue
        order[n_kept] = component  # behind where we read
        sizes[n_kept] = np.int64(size)
        is_held[n_kept] = size == within
        is_single[n_kept] = single
        n_kept += 1
    order = order[:n_kept].copy()
    kept_users = np.empty((n_kept, users.shape[1]), np.uint64)
    kept_codes = np.empty((n_kept, codes.shape[1]), np.uint64)
    for i in range(n_kept):
        kept_users[i] = users[order[i]]
        kept_codes[i] = codes[order[i]]
    return (
        order, kept_users, kept_codes, sizes[:n_kept], is_held[:n_kept], is_single[:n_kept],
        singles,
    )  # fmt: skip
