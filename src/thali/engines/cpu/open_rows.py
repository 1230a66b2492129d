# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Random decisions of many rows at once, for the vertical form.

A decision is that of :func:`thali.decide.is_unlikely`, in integers. Single precision tells most
decisions without it, several in one instruction: they are the same unless a random number lies
within ``_MARGIN`` of the probability. Only then are the integers asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, lean
from thali.decide import SCALE, is_unlikely
from thali.engines.cpu.counters import TILE
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Order

_OCTAVE = np.float32(1.0 / (SCALE * np.log(2.0)))
"""Number of octaves in a unit of a score."""

_1, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(np.log(2.0) ** k / f) for k, f in enumerate((1, 1, 2, 6, 24, 120))
)
"""Coefficients of the series of 2**x; with -1/2 <= x <= 1/2, its error is below 3e-6."""

_MOST, _BIAS, _MANTISSA = np.int32(100), np.int32(127), np.int32(23)
_DROPPED, _STEP = np.uint64(40), np.float32(2.0**-24)

_MARGIN = np.float32(2e-5)
"""More than five times what all rounding and the series change."""


class Room(NamedTuple):
    """Working storage for the draws of one component."""

    open_rows: Index  # rows whose counts do not determine the bit
    scores: NDArray[np.int64]  # log odds of these rows
    drawn: Words  # the bits
    addresses: Words  # rows as random numbers know them
    uniforms: Words  # random numbers of these rows
    odds: NDArray[np.float32]  # about exp(-|score|); then how clear the decision is
    exponents: NDArray[np.int32]  # powers of two that the odds have as factors …
    powers: NDArray[np.float32]  # … the same memory, read as numbers
    is_other: NDArray[np.uint8]  # whether the less likely value is drawn


@inner
def make_room() -> Room:
    """Return working storage for ``TILE`` words of rows."""
    n = 64 * TILE
    exponents = np.empty(n, np.int32)
    return Room(
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(TILE, np.uint64),
        np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.float32), exponents,
        exponents.view(np.float32), np.empty(n, np.uint8),
    )  # fmt: skip


@lean
def draw_open(n_open: int, rows: Index, component: int, order: Order, room: Room) -> None:
    """Draw the bits of the rows whose scores do not determine them.

    They are drawn together, step by step, because the processor can do a step of several at once.
    """
    _, _, _, _, _, _, key, sweep, site = order
    index = np.uint64(component)
    for u in range(n_open):
        room.addresses[u] = np.uint64(rows[room.open_rows[u]])
    for u in range(n_open):
        room.uniforms[u] = uniform64(key, sweep, site, room.addresses[u], index)
    _compare(n_open, room)
    for u in range(n_open):
        is_other = np.uint64(room.is_other[u])
        if room.odds[u] < _MARGIN:
            is_other = np.uint64(is_unlikely(room.scores[u], room.uniforms[u]))
        i = room.open_rows[u]
        room.drawn[i >> 6] ^= is_other << np.uint64(i & 63)


@lean
def _compare(n_open: int, room: Room) -> None:
    """Say of every row whether r (1 + e) < e, with e = exp(-|score|), and how clearly so."""
    for u in range(n_open):
        octaves = np.float32(abs(room.scores[u])) * _OCTAVE
        whole = np.int32(octaves + np.float32(0.5))
        x = np.float32(whole) - octaves
        room.odds[u] = _1 + x * (_C1 + x * (_C2 + x * (_C3 + x * (_C4 + x * _C5))))
        room.exponents[u] = (_BIAS - min(whole, _MOST)) << _MANTISSA
    for u in range(n_open):
        e = room.odds[u] * room.powers[u]
        r = np.float32(np.int64(room.uniforms[u] >> _DROPPED)) * _STEP
        gap = r + r * e - e
        room.is_other[u] = gap < np.float32(0.0)
        room.odds[u] = abs(gap)
