# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What the engine answers about data that are near, for compiled code that asks many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.bits.words import gather_bits
from thali.engines.cpu.count_by_class import count_free_rows, fill_free_rows
from thali.engines.cpu.gain_by_class import gain_rows, list_parts, list_relevant
from thali.model.gains import plain_gains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.engines.cpu.arrays import Side

_START = np.int64(0)  # a plain zero would be a type of its own


@inner
def gains_near(
    first: int, n: int, side: Side, codes: Words, users: Words, is_counted: NDArray[np.bool_],
    sets: Words,
) -> NDArray[np.float64]:  # fmt: skip
    """Return what ``n`` rows gain by covering their free entries in sets of columns.

    The columns of the codes are in the order of the side, those of the sets are not. Returns
    ``(n, n_sets)``.
    """
    ones, known, places, segments, of_rows, weights = side
    if places.shape[0]:
        parts = list_parts(gather_bits(sets, places), segments)
        some, kept = list_relevant(codes, users, is_counted, parts)
        gains = np.zeros((n, sets.shape[0]))
        gain_rows(_START, n, first, ones, known, some, kept, parts, of_rows, weights, gains)
        return gains
    counts = np.empty((n, sets.shape[0], 2), np.int64)
    count_free_rows(_START, n, first, ones, known, codes, users, is_counted, sets, counts)
    return plain_gains(counts, weights[0, 0, 0], weights[0, 0, 1])


@inner
def uncovered(side: Side, codes: Words, users: Words, is_counted: NDArray[np.bool_]) -> Side:
    """Return a side of which only the free entries are known; no component covers any of them.

    Whoever asks for several sets finds the free entries only once.
    """
    ones, known, places, segments, of_rows, weights = side
    free = np.empty(ones.shape, np.uint64)
    fill_free_rows(_START, ones.shape[0], known, codes, users, is_counted, free)
    return ones, free, places, segments, of_rows, weights
