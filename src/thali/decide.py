# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Random decisions in integers, so that every engine takes the same decisions.

Scores are log odds in units of 2**-24 (``int64``), probabilities are fractions of 2**64
(``uint64``). No floating-point operation decides a bit; the host computes the logarithms behind
the scores once. A table of probabilities would be too large: a score depends on two counts, on a
prior that every component has and on weights for every number of single-row components.

Rounding a weight has the effect of slightly different error rates, which are the same in every
conditional. Rounding the tables of single-row components changes the log odds of their number by
at most 3e-8 per uncovered entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from thali._jit import inlined, inner, jit, lean
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE = 1 << 24
"""Number of units of a score per nat."""

LIMIT = np.int64(45 * SCALE)
"""From this score on, exp(-score) is below 2**-64: no random number can change the decision."""

SUM_SHIFT = np.uint64(12)
MOST_WEIGHTS = 1 << 12
"""Most weights of a categorical draw: as fractions of 2**52, so many can be summed."""

_UNIT = np.uint64(1 << 52)
_FAR = np.int64(8 * SCALE)
_NOT_SMALL = np.uint64(1 << 53)  # as a fraction of 2**64 it exceeds exp(-8)
_DIGIT = 12
_DIGIT_MASK = np.int64((1 << _DIGIT) - 1)


_CERTAIN = 2.0**37 * SCALE  # exceeds any sum of counts times weights that fits in int64
_BELOW_ONE = 1.0 - 2.0**-53


def fixed(value: float | NDArray[np.float64]) -> NDArray[np.int64]:
    """Round log odds to units of a score; infinite log odds become certainty."""
    given = np.asarray(value, np.float64)
    units = np.empty(given.shape, np.int64)
    _fill_units(given.reshape(-1), units.reshape(-1))
    return units[()]


def units(value: float) -> int:
    """Round one log odds, as :func:`fixed`; it is faster for a single number."""
    return round(min(max(value * SCALE, -_CERTAIN), _CERTAIN))


def threshold(probability: float | NDArray[np.float64]) -> NDArray[np.uint64]:
    """Turn probabilities into thresholds: 64 random bits are below one with that probability."""
    given = np.asarray(probability, np.float64)
    thresholds = np.empty(given.shape, np.uint64)
    _fill_thresholds(given.reshape(-1), thresholds.reshape(-1))
    return thresholds[()]


@inlined
def to_units(value: float) -> np.int64:
    """Round one log odds to units of a score, as :func:`fixed`."""
    return np.int64(np.rint(min(max(value * SCALE, -_CERTAIN), _CERTAIN)))


@jit
def _fill_units(values: NDArray[np.float64], units: NDArray[np.int64]) -> None:
    for i in range(values.shape[0]):
        units[i] = to_units(values[i])


@inner
def to_threshold(probability: float) -> np.uint64:
    """Turn one probability into a threshold, as :func:`threshold`."""
    if probability >= 1.0:
        return np.uint64(0xFFFFFFFFFFFFFFFF)
    return np.uint64(min(probability, _BELOW_ONE) * 2.0**64)


@jit
def _fill_thresholds(probabilities: NDArray[np.float64], thresholds: NDArray[np.uint64]) -> None:
    for i in range(probabilities.shape[0]):
        thresholds[i] = to_threshold(probabilities[i])


def _exp_tables() -> NDArray[np.uint64]:
    """Return exp(-i), exp(-i / 2**12), exp(-i / 2**24) as fractions of 2**64.

    They are computed in integers of 256 bits, so they are the same on every machine.
    """
    one = 1 << 256
    tables = []
    for digit, length in ((0, 64), (1, 1 << _DIGIT), (2, 1 << _DIGIT)):
        step, term = 0, one
        for n in range(1, 80):  # the series of exp(-2**(-12 * digit))
            step += term
            term = -term // (n << (_DIGIT * digit))
        value = one
        for _ in range(length):
            tables.append(min(value >> 192, 2**64 - 1))
            value = value * step >> 256
    return np.array(tables, np.uint64)


EXP = _exp_tables()
_OFFSET_1 = 64
_OFFSET_2 = 64 + (1 << _DIGIT)


@intrinsic
def _umulh(_context: Any, _a: Any, _b: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        from llvmlite import ir  # noqa: PLC0415

        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper 64 bits of the 128-bit product."""
    return np.uint64(int(a) * int(b) >> 64)


@overload(multiply_high, inline="always")
def _compiled_multiply_high(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda a, b: _umulh(a, b)  # type: ignore[call-arg] # noqa: PLW0108


@inner
def exp_neg(score: np.int64) -> np.uint64:
    """Return exp(-score) as a fraction of 2**64, for a score >= 0; the error is below 6 units."""
    if score >= LIMIT:
        return np.uint64(0)
    high = EXP[score >> (2 * _DIGIT)]
    middle = EXP[_OFFSET_1 + ((score >> _DIGIT) & _DIGIT_MASK)]
    low = EXP[_OFFSET_2 + (score & _DIGIT_MASK)]
    return multiply_high(multiply_high(high, middle), low)


@inner
def is_unlikely(score: np.int64, r: np.uint64) -> bool:
    """Return whether r picks the less likely value: r (1 + e) < e, with e = exp(-|score|)."""
    if abs(score) >= _FAR and r >= _NOT_SMALL:
        return False  # r > e is certain without looking up e; nearly always so if e is small
    e = exp_neg(abs(score))
    return r < e and multiply_high(r, e) < e - r


@inner
def gibbs_bit(
    score: np.int64,
    key: np.uint64,
    sweep: np.uint64,
    site: np.uint64,
    row: np.uint64,
    index: np.uint64,
) -> bool:
    """Return True with probability sigmoid(score).

    No random number is computed if none could change the outcome.
    """
    if abs(score) >= LIMIT:
        return score >= 0
    return (score >= 0) != is_unlikely(score, uniform64(key, sweep, site, row, index))


@lean
def categorical(scores: NDArray[np.int64], n: int, r: np.uint64) -> int:
    """Return k < n with probability proportional to exp(scores[k])."""
    best = scores[0]
    for k in range(1, n):
        best = max(best, scores[k])
    total = np.uint64(0)
    for k in range(n):
        total += exp_neg(best - scores[k]) >> SUM_SHIFT
    left = multiply_high(r, total)
    for k in range(n - 1):
        weight = exp_neg(best - scores[k]) >> SUM_SHIFT
        if left < weight:
            return k
        left -= weight
    return n - 1


@inner
def is_accepted(log_scale: np.int64, total: np.uint64, r: np.uint64) -> bool:
    """Return True with probability min(1, total * 2**-52 * exp(log_scale)).

    ``total`` is a sum of weights as in :func:`categorical`. The largest weight is 2**52, up to
    rounding, so a scale of one or more is always accepted.
    """
    if log_scale >= 0:
        return True
    return r >> SUM_SHIFT < multiply_high(total, exp_neg(-log_scale))


@inner
def is_inverse_accepted(log_scale: np.int64, total: np.uint64, r: np.uint64) -> bool:
    """Return True with probability min(1, 1 / (total * 2**-52 * exp(log_scale)))."""
    scaled = multiply_high(r, total)
    if log_scale >= 0:
        return scaled < exp_neg(log_scale) >> SUM_SHIFT
    return multiply_high(scaled, exp_neg(-log_scale)) < _UNIT
