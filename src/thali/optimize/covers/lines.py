# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What searches share: bits of packed lines, entries of a rectangle, lists, random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.bits.words import WORD, lowest, popcount
from thali.sites import Site
from thali.streams import uniform64

if TYPE_CHECKING:
    from typing import TypeAlias

    from thali.bits.words import Index, Words

    Random: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, Index]
    """Key, sweep and row of a searcher, and how many numbers it has read in this sweep."""

WORK_PER_STEP = 32
"""What a step of a search costs, beyond the entries that it visits, in visits of entries."""
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SITE = np.uint64(Site.SEARCH)


@inner
def bit_of(words: Words, position: int) -> bool:
    """Return whether a bit of a line is on."""
    return (words[position >> 6] >> np.uint64(position & 63)) & _ONE != _ZERO


@inner
def switch_on(words: Words, position: int) -> None:
    """Switch a bit of a line on."""
    words[position >> 6] |= _ONE << np.uint64(position & 63)


@inner
def switch_off(words: Words, position: int) -> None:
    """Switch a bit of a line off."""
    words[position >> 6] &= ~(_ONE << np.uint64(position & 63))


@inner
def meets(left: Words, right: Words) -> bool:
    """Return whether two lines share a bit."""
    w = 0
    while w < left.shape[0] and left[w] & right[w] == _ZERO:
        w += 1
    return w < left.shape[0]


@inner
def narrow(words: Words, by: Words) -> None:
    """Switch off the bits of a line that another line does not have."""
    for w in range(words.shape[0]):
        words[w] &= by[w]


@inner
def list_entries(users: Words, code: Words, required: Words, first: Index, out: Index) -> int:
    """List the numbers of the entries in some rows and columns; return how many there are.

    ``required`` has the entries as packed rows, and ``first`` the number of the first entry of
    every word.
    """
    n = 0
    for v in range(users.shape[0]):
        left_rows = users[v]
        while left_rows != _ZERO:
            row = v * WORD + lowest(left_rows)
            left_rows &= left_rows - _ONE
            for w in range(code.shape[0]):
                left = required[row, w] & code[w]
                while left != _ZERO:
                    before = required[row, w] & ((left & (~left + _ONE)) - _ONE)
                    out[n] = first[row, w] + np.int64(popcount(before))
                    left &= left - _ONE
                    n += 1
    return n


@inner
def put(listed: Index, places: Index, n: int, item: int) -> int:
    """Add an item at the end of a list of ``n``; return the new length."""
    listed[n] = item
    places[item] = n
    return n + 1


@inner
def take(listed: Index, places: Index, n: int, item: int) -> int:
    """Remove an item from a list of ``n``, whose last takes its place; return the new length."""
    last = listed[n - 1]
    listed[places[item]] = last
    places[last] = places[item]
    places[item] = -1
    return n - 1


@inner
def below(random: Random, n: int) -> int:
    """Return a random number from 0 to n - 1."""
    key, sweep, row, n_read = random
    n_read[0] += 1
    return np.int64(uniform64(key, sweep, _SITE, row, np.uint64(n_read[0])) % np.uint64(n))
