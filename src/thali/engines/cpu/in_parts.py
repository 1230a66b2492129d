# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# mypy: disable-error-code="call-arg"
"""Draws of rows in the horizontal form, for threads that have rows in the same word of 64 rows.

Every thread draws into memory of its own, and then sets its bits in the factor that all share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.engines.cpu import by_class as of_classes
from thali.engines.cpu import horizontal
from thali.team_kernels import set_bits

if TYPE_CHECKING:
    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data, Order, Segments


@inner
def plain(
    lo: int, hi: int, data: Data, order: Order, before: Words, after: Words
) -> tuple[int, int]:
    """Draw as :func:`thali.engines.cpu.horizontal.update_rows`, beside other threads."""
    start = lo & ~63
    own = _cut(before, lo, hi)
    drawn = np.zeros(own.shape, np.uint64)
    gained = horizontal.update_rows(
        lo - start, hi - start, data, some_of(order, start, hi), own, drawn
    )
    _join(drawn, lo, after)
    return gained


@inner
def by_class(
    lo: int, hi: int, data: Data, segments: Segments, classes: Index, order: Order, before: Words,
    after: Words,
) -> tuple[int, int]:  # fmt: skip
    """Draw as :func:`thali.engines.cpu.by_class.update_rows`, beside other threads."""
    start = lo & ~63
    own = _cut(before, lo, hi)
    drawn = np.zeros(own.shape, np.uint64)
    gained = of_classes.update_rows(
        lo - start, hi - start, data, segments, classes[start:hi], some_of(order, start, hi), own,
        drawn,
    )  # fmt: skip
    _join(drawn, lo, after)
    return gained


@inner
def some_of(order: Order, start: int, stop: int) -> Order:
    """Return the work order of some of its rows."""
    rows, codes, is_held, weights, singles, prior, key, sweep, site = order
    return (
        rows[start:stop], codes, is_held, weights, singles[start:stop], prior, key, sweep, site,
    )  # fmt: skip


@inner
def _cut(factor: Words, lo: int, hi: int) -> Words:
    """Return the words of a factor in which some rows are."""
    first = lo >> 6
    words = np.empty((factor.shape[0], ((hi + 63) >> 6) - first), np.uint64)
    for component in range(words.shape[0]):
        for w in range(words.shape[1]):
            words[component, w] = factor[component, first + w]
    return words


@inner
def _join(drawn: Words, lo: int, after: Words) -> None:
    """Set the bits that were drawn for some rows in the factor of all rows."""
    first = lo >> 6
    for component in range(drawn.shape[0]):
        for w in range(drawn.shape[1]):
            set_bits(after, component, first + w, drawn[component, w])
