"""Decisions in integers: exact probabilities, found by bisection over all random numbers."""

from decimal import Context, Decimal
from itertools import accumulate

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import oracle
from thali.decide import (
    LIMIT,
    SCALE,
    categorical,
    exp_neg,
    fixed,
    gibbs_bit,
    is_accepted,
    is_inverse_accepted,
    is_unlikely,
    multiply_high,
    threshold,
)

ONE = 1 << 64
UNIT = 1 << 52
UNIFORM = st.integers(0, ONE - 1)
SCORE = st.integers(-50 * SCALE, 50 * SCALE)
PRECISE = Context(prec=60)
check = settings(deadline=None, max_examples=100, derandomize=True)


def exp(score):
    """Return the exact exponential of a score."""
    return PRECISE.exp(PRECISE.divide(Decimal(score), Decimal(SCALE)))


def probability(decision):
    """Return the exact probability of a decision that holds for small random numbers only."""
    low, high = 0, ONE
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if decision(np.uint64(middle)) else (low, middle)
    return Decimal(low) / ONE


# --- numbers ------------------------------------------------------------------------------------


@check
@example(0)
@example(1)
@example(int(LIMIT) - 1)
@example(int(LIMIT))
@given(st.integers(0, 50 * SCALE))
def test_exp_neg(score):
    """The exponential is off by less than six units of 2**-64, and is the oracle's."""
    value = int(exp_neg(np.int64(score)))
    assert abs(value - exp(-score) * ONE) < 6
    assert value == oracle.exp_neg(score)


@check
@example(4095)
@example((1 << 24) - 1)
@given(st.integers(0, 24 * SCALE))
def test_exp_neg_decreases(score):
    """The exponential falls from one score to the next, also where table entries change."""
    # One step is exp(-score) * 2**40 units, above 12 (two errors) as long as score < 25 nats.
    assert exp_neg(np.int64(score + 1)) < exp_neg(np.int64(score))


@check
@example(ONE - 1, ONE - 1)
@given(UNIFORM, UNIFORM)
def test_multiply_high(a, b):
    """Compiled or not, the upper half of a product is that of Python's integers."""
    assert int(multiply_high(np.uint64(a), np.uint64(b))) == a * b >> 64
    assert int(compiled_multiply_high(np.uint64(a), np.uint64(b))) == a * b >> 64


@numba.njit
def compiled_multiply_high(a, b):
    return multiply_high(a, b)


@check
@given(st.floats(-1e12, 1e12) | st.sampled_from([-np.inf, np.inf, 0.5 / SCALE, 1.5 / SCALE]))
def test_fixed(value):
    """Log odds are rounded to the grid as the oracle does."""
    assert int(fixed(value)) == oracle.fixed(value)


def test_fixed_infinities():
    """Infinite log odds become certainties that fit in an integer."""
    low, zero, high = fixed(np.array([-np.inf, 0.0, np.inf]))
    assert (-low, zero, high) == (2**61, 0, 2**61)
    assert high > LIMIT


@check
@given(st.floats(0.0, 1.0))
def test_threshold(p):
    """A threshold is the probability in units of 2**-64, rounded down, as in the oracle."""
    assert int(threshold(p)) == oracle.threshold(p)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.0, 0),
        (5e-324, 0),
        (2.0**-65, 0),
        (2.0**-64, 1),
        (0.5, ONE // 2),
        (1 - 2.0**-53, ONE - 2**11),
        (1.0, ONE - 1),
    ],
)
def test_threshold_edges(p, expected):
    """Impossible stays impossible and certain stays certain, alone and in an array."""
    assert int(threshold(p)) == expected
    assert threshold(np.array([p, p])).tolist() == [expected] * 2


# --- bits ---------------------------------------------------------------------------------------


@check
@example(0)
@example(45 * SCALE)
@given(SCORE)
def test_unlikely_probability(score):
    """The less likely value has probability e / (1 + e), to a few units of 2**-64."""
    e = exp(-abs(score))
    p = probability(lambda r: is_unlikely(np.int64(score), r))
    assert abs(p - e / (1 + e)) * ONE < 8  # 6 for e, 1 for the product, 1 for the comparison


@pytest.mark.parametrize("nats", [-3.0, -0.7, 0.0, 0.2, 2.0])
def test_gibbs_frequency(nats):
    """Over many addresses a bit is one as often as the logistic function says."""
    n = 20_000
    key, sweep, site, score = np.uint64(9), np.uint64(1), np.uint64(1), np.int64(nats * SCALE)
    ones = sum(
        gibbs_bit(score, key, sweep, site, np.uint64(i % 100), np.uint64(i // 100))
        for i in range(n)
    )
    p = 1 / (1 + np.exp(-nats))
    assert abs(ones / n - p) < 5 * (p * (1 - p) / n) ** 0.5  # five standard errors


@check
@example(int(LIMIT), 0, 0)
@example(-int(LIMIT), 0, 0)
@example(2**61, 0, 0)
@given(SCORE, UNIFORM, st.integers(0, 2**32 - 1))
def test_gibbs_is_the_oracle(score, key, index):
    """A bit is the oracle's at every score and address."""
    address = [np.uint64(v) for v in (key, 3, 1, 4, index)]
    r = oracle.Stream(key, 3).bits(1, 4, index)
    assert gibbs_bit(np.int64(score), *address) == bool(oracle.gibbs(score, r))


# --- choices ------------------------------------------------------------------------------------


@check
@given(st.lists(SCORE, min_size=1, max_size=8), UNIFORM)
def test_categorical_is_the_oracle(scores, r):
    """A choice is the oracle's for every random number."""
    chosen = categorical(np.array(scores, np.int64), len(scores), np.uint64(r))
    assert chosen == oracle.categorical(scores, r)


@check
@example([0, 0, 0])
@example([-60 * SCALE, 0, -60 * SCALE])
@given(st.lists(st.integers(-8 * SCALE, 8 * SCALE), min_size=1, max_size=6))
def test_categorical_probabilities(scores):
    """Choices have probabilities proportional to the exponentials of their scores."""
    n, array = len(scores), np.array(scores, np.int64)
    weights = [exp(s - max(scores)) for s in scores]
    for k, cumulative in enumerate(accumulate(weights)):
        p = probability(lambda r, k=k: categorical(array, n, r) <= k)
        # Every weight is a unit of 2**-52 too small at most, relative to a sum of at least 1.
        assert abs(p - cumulative / sum(weights)) * UNIT < 4 * n


def test_categorical_reads_only_n():
    """Scores beyond the number given do not count."""
    scores = np.array([0, 0, 40 * SCALE], np.int64)
    assert {int(categorical(scores, 2, np.uint64(r))) for r in (0, ONE // 2, ONE - 1)} == {0, 1}


# --- births and deaths --------------------------------------------------------------------------


@check
@example(0, [0])
@example(-1, [0])
@example(3 * SCALE, [0, 0])
@example(-60 * SCALE, [0])
@given(
    st.integers(-12 * SCALE, 12 * SCALE),
    st.lists(st.integers(-6 * SCALE, 0), max_size=20).map(lambda scores: [0, *scores]),
)
def test_acceptance(log_scale, scores):
    """A move and its inverse are accepted with min(1, ratio) and min(1, 1 / ratio)."""
    total = sum(int(exp_neg(np.int64(-s))) >> 12 for s in scores)
    ratio = exp(log_scale) * total / UNIT
    move, total = np.int64(log_scale), np.uint64(total)
    accept = probability(lambda r: is_accepted(move, total, r))
    inverse = probability(lambda r: is_inverse_accepted(move, total, r))
    assert accept == 1 or log_scale < 0
    # Both compare fractions of 2**-52: two roundings down, and the error of the exponential.
    assert abs(accept - min(1, ratio)) * UNIT < 4
    assert abs(inverse - min(1, 1 / ratio)) * UNIT < 4
    assert abs(accept - ratio * inverse) * UNIT < 4 * (1 + ratio)  # detailed balance
