# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""A quick look at marginal likelihoods: whether one can exceed another by some number.

Most proposals fail by far, so that numbers of single precision and an upper bound tell. All loops
are over 256 columns, without a branch, so that a processor does several columns at a time.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, lean
from thali.model.marginals import list_patterns
from thali.model.rule import free_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index

    Singles = NDArray[np.float32]

TILE = 256
"""Number of columns that are looked at together."""

_ROUNDING = 2.0**-23
_0, _1, _HALF, _THIRD, _QUARTER = map(np.float32, (0.0, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4))
_T = np.uint64(TILE)  # loops with unsigned numbers test for no negative ones
_START, _NEXT, _STEP = map(np.uint64, (0, 1, 2))


@inner
def in_tiles(exact: NDArray[np.float64]) -> tuple[Singles, Singles, int, float]:
    """Return gains of columns, ``(n_columns, n_classes)``, as :func:`may_exceed` takes them.

    Also returns which columns count, which classes gain anything, and the largest sum of gains.
    """
    n_columns, n_classes = exact.shape
    n_tiles = -(-n_columns // TILE)
    gains = np.empty((n_classes, n_tiles, TILE), np.float32)
    counts = np.empty((n_tiles, TILE), np.float32)
    has_rows, most = _fill_tiles(exact, gains, counts)
    return gains, counts, has_rows, most


@lean
def _fill_tiles(exact: NDArray[np.float64], gains: Singles, counts: Singles) -> tuple[int, float]:
    """Do the work of :func:`in_tiles`."""
    n_columns, n_classes = exact.shape
    has_rows, most = 0, 0.0
    for tile in range(counts.shape[0]):
        for j in range(TILE):
            column, size = TILE * tile + j, 0.0
            counts[tile, j] = _1 if column < n_columns else _0
            for c in range(n_classes):
                gain = exact[column, c] if column < n_columns else 0.0
                gains[c, tile, j] = gain
                has_rows |= (1 if gain != 0.0 else 0) << c
                size += abs(gain)
            most = max(most, size)
    return has_rows, most


@inner
def may_exceed(
    gains: Singles, counts: Singles, n_columns: int, has_rows: int, most: float, members: Index,
    densities: NDArray[np.float64], other_members: Index, other_densities: NDArray[np.float64],
    least: float,
) -> bool:  # fmt: skip
    """Return False if :func:`thali.model.marginals.excess` is surely below a number.

    A sum over patterns is at least its largest term, and at most so many times that term as there
    are patterns. If that does not tell, every term is bounded by itself.

    Parameters
    ----------
    gains
        ``(n_classes, n_tiles, TILE)``: gain of columns by covering a class of rows.
    counts, n_columns
        ``(n_tiles, TILE)``: one for every column that counts, zero for others; their number.
    has_rows
        The classes that have any rows, bit c for class c.
    most
        Upper bound of the size of every sum of gains of a column.
    """
    covers, prior = list_patterns(members, densities)
    other_covers, other_prior = list_patterns(other_members, other_densities)
    for pattern in range(prior.shape[0]):
        covers[pattern] &= has_rows
        most = max(most, -prior[pattern])
    for pattern in range(other_prior.shape[0]):
        other_covers[pattern] &= has_rows
        most = max(most, -other_prior[pattern])
    # What the additions of a column may be wrong by, for all columns.
    error = _ROUNDING * (gains.shape[0] + 16) * most * n_columns
    room = np.empty((max(prior.shape[0], other_prior.shape[0]) + 3) * TILE, np.float32)
    return _may_exceed(
        gains, counts, n_columns, covers, prior.astype(np.float32), other_covers,
        other_prior.astype(np.float32), least - 2.0 * error, room,
    )  # fmt: skip


@lean
def _may_exceed(
    gains: Singles, counts: Singles, n_columns: int, covers: Index, prior: Singles,
    other_covers: Index, other_prior: Singles, least: float, s: Singles,
) -> bool:  # fmt: skip
    """Do the work of :func:`may_exceed` in the memory ``s``, whose last three lines are sums."""
    mine = np.uint64(s.shape[0]) - _T
    other, rest = mine - _T, mine - _T - _T
    upper = 0.0
    for tile in range(gains.shape[1]):
        _weigh(gains, tile, other_covers, other_prior, s, other)
        _weigh(gains, tile, covers, prior, s, mine)
        is_counted = counts[tile]
        for j in range(_T):
            s[mine + j] = is_counted[j] * (s[mine + j] - s[other + j])
        upper += _add(s, mine)
    if upper + n_columns * log(prior.shape[0]) < least:
        return False
    for tile in range(gains.shape[1]):
        _weigh(gains, tile, covers, prior, s, mine)
        for j in range(_T):
            s[rest + j] = _0
        for pattern in range(np.uint64(prior.shape[0])):
            gain, log_prior = pattern * _T, prior[pattern]
            for j in range(_T):
                x = s[mine + j] - (s[gain + j] + log_prior)
                # At most exp(x): the first terms of its series, all of them positive.
                series = _1 + x * (_1 + _HALF * x * (_1 + _THIRD * x * (_1 + _QUARTER * x)))
                s[rest + j] += np.divide(_1, series)  # a plain division asks for zero
        upper += _log_product(counts[tile], s, rest)
    return upper >= least


@lean
def _weigh(
    gains: Singles, tile: int, covers: Index, prior: Singles, s: Singles, largest: np.uint64
) -> None:
    """Write the gains of patterns, a line each, and the largest weights of columns."""
    for j in range(_T):
        s[j] = _0
        s[largest + j] = prior[0]
    for pattern in range(_NEXT, np.uint64(prior.shape[0])):
        without = pattern & (pattern - _NEXT)
        fresh = free_word(covers[pattern], covers[without])
        to, before, log_prior = pattern * _T, without * _T, prior[pattern]
        c = 0
        while fresh:
            if fresh & 1:
                gain = gains[c, tile]
                if before != to:
                    for j in range(_T):
                        s[to + j] = s[before + j] + gain[j]
                    before = to
                else:  # in a loop of its own, which then need not ask whether lines overlap
                    for j in range(_T):
                        s[to + j] += gain[j]
            fresh >>= 1
            c += 1
        if before != to:
            for j in range(_T):
                s[to + j] = s[before + j]
        for j in range(_T):
            x, y = s[to + j] + log_prior, s[largest + j]
            s[largest + j] = x if x > y else y  # noqa: FURB136 - `max` asks for more


@lean
def _add(s: Singles, line: np.uint64) -> float:
    """Return the sum of a line, as two that do not wait for each other."""
    a, b = 0.0, 0.0
    for j in range(_START, _T, _STEP):
        a += s[line + j]
        b += s[line + j + _NEXT]
    return a + b


@lean
def _log_product(is_counted: Singles, s: Singles, line: np.uint64) -> float:
    """Return the sum of the logarithms of numbers from 1 to 64 that count, as two logarithms."""
    a, b = 1.0, 1.0
    for j in range(_START, _T, _STEP):
        a *= 1.0 + is_counted[j] * (s[line + j] - 1.0)
        b *= 1.0 + is_counted[j + _NEXT] * (s[line + j + _NEXT] - 1.0)
    return log(a) + log(b)
