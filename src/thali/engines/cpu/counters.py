# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Bit-sliced counters: a word of plane b holds bit b of the counts of 64 rows.

All planes are lines of ``TILE`` words in one array ``s``, addressed by unsigned offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inlined, inner

if TYPE_CHECKING:
    from thali.bits.words import Words

TILE = 64
"""Number of words of 64 rows processed together: inner loops are long enough, and the working set
fits into the cache."""

_T = np.uint64(TILE)
_T2, _T3, _T4 = np.uint64(2 * TILE), np.uint64(3 * TILE), np.uint64(4 * TILE)
_T5, _T6, _T7 = np.uint64(5 * TILE), np.uint64(6 * TILE), np.uint64(7 * TILE)
_0, _1, _2, _3, _4, _8, _16 = (np.uint64(k) for k in (0, 1, 2, 3, 4, 8, 16))
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_PAIRS = np.uint64(0x3333333333333333)
_ODD = np.uint64(0x5555555555555555)


@inlined
def add_eight(
    s: Words, group: np.uint64, planes: np.uint64, n: np.uint64, n_planes: np.uint64
) -> None:
    """Add eight words of one-bit numbers to bit-sliced counters (seven full adders)."""
    for t in range(n):
        unit = s[planes + t]
        two = s[planes + _T + t]
        four = s[planes + _T2 + t]
        a = s[group + t]
        b = s[group + _T + t]
        half = unit ^ a
        carry_a = (unit & a) | (half & b)
        unit = half ^ b
        a = s[group + _T2 + t]
        b = s[group + _T3 + t]
        half = unit ^ a
        carry_b = (unit & a) | (half & b)
        unit = half ^ b
        half = two ^ carry_a
        carry_c = (two & carry_a) | (half & carry_b)
        two = half ^ carry_b
        a = s[group + _T4 + t]
        b = s[group + _T5 + t]
        half = unit ^ a
        carry_a = (unit & a) | (half & b)
        unit = half ^ b
        a = s[group + _T6 + t]
        b = s[group + _T7 + t]
        half = unit ^ a
        carry_b = (unit & a) | (half & b)
        unit = half ^ b
        half = two ^ carry_a
        carry_d = (two & carry_a) | (half & carry_b)
        two = half ^ carry_b
        half = four ^ carry_c
        s[group + t] = (four & carry_c) | (half & carry_d)
        s[planes + t] = unit
        s[planes + _T + t] = two
        s[planes + _T2 + t] = half ^ carry_d
    for plane in range(_3, n_planes):
        to = planes + plane * _T
        for t in range(n):
            carry = s[group + t]
            old = s[to + t]
            s[to + t] = old ^ carry
            s[group + t] = old & carry


@inner
def add_three(
    s: Words, group: np.uint64, planes: np.uint64, n_slots: np.uint64, n: np.uint64
) -> None:
    """Count up to three words of one-bit numbers from zero; a single one needs a single plane."""
    a, b, c = group, group + _T, group + _T2
    if n_slots == _1:
        for t in range(n):
            s[planes + t] = s[a + t]
    elif n_slots == _2:
        for t in range(n):
            s[planes + t] = s[a + t] ^ s[b + t]
            s[planes + _T + t] = s[a + t] & s[b + t]
    else:
        for t in range(n):
            half = s[a + t] ^ s[b + t]
            s[planes + _T + t] = (s[a + t] & s[b + t]) | (half & s[c + t])
            s[planes + t] = half ^ s[c + t]


@inner
def read_out(s: Words, planes: np.uint64, t: np.uint64, n_planes: np.uint64, out: Words) -> None:
    """Turn bit-sliced counters of 64 rows into bytes.

    The count of row 8b+i is byte b of word i; ``out`` has eight words for the low bytes and eight
    for the high bytes.
    """
    for half in range(2):
        block = out[8 * half : 8 * half + 8]
        if half == 1 and n_planes <= _8:
            break
        for i in range(8):
            plane = np.uint64(8 * half + i)
            block[i] = s[planes + plane * _T + t] if plane < n_planes else _0
        for i in range(4):
            swap = ((block[i] >> _4) ^ block[i + 4]) & _NIBBLES
            block[i + 4] ^= swap
            block[i] ^= swap << _4
        for k in range(4):
            i = (k & 1) + 2 * (k & 2)
            swap = ((block[i] >> _2) ^ block[i + 2]) & _PAIRS
            block[i + 2] ^= swap
            block[i] ^= swap << _2
        for k in range(4):
            i = 2 * k
            swap = ((block[i] >> _1) ^ block[i + 1]) & _ODD
            block[i + 1] ^= swap
            block[i] ^= swap << _1


@inner
def read_out_lanes(s: Words, planes: np.uint64, n: np.uint64, n_planes: np.uint64) -> None:
    """Turn bit-sliced counters of a few words into bytes, in their place.

    Line i then has byte b of the count of row 8b+i; if there are more than eight planes, the lines
    from the ninth on have the high bytes. All words are turned at once, which is faster than one
    word after another.
    """
    for half in range(_0, _8 if n_planes <= _8 else _16, _8):
        first = planes + half * _T
        for plane in range(n_planes, half + _8):
            for t in range(n):
                s[planes + plane * _T + t] = _0
        for i in range(_4):
            _swap(s, first + i * _T, first + (i + _4) * _T, n, _4, _NIBBLES)
        for k in range(_4):
            i = (k & _1) + _2 * (k & _2)
            _swap(s, first + i * _T, first + (i + _2) * _T, n, _2, _PAIRS)
        for k in range(_4):
            i = _2 * k
            _swap(s, first + i * _T, first + (i + _1) * _T, n, _1, _ODD)


@inlined
def _swap(
    s: Words, a: np.uint64, b: np.uint64, n: np.uint64, shift: np.uint64, mask: np.uint64
) -> None:
    for t in range(n):
        swap = ((s[a + t] >> shift) ^ s[b + t]) & mask
        s[b + t] ^= swap
        s[a + t] ^= swap << shift
