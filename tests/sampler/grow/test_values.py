"""Sums over bits and similarities, against their formulas."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit

from thali.sampler.grow.values import gains_of, log_paths, log_sums, similarities, softplus

RNG = np.random.default_rng(0)
SCORES = RNG.normal(0.0, 6.0, (7, 3))
DENSITIES = np.array([0.1, 0.5, 0.8])


def test_softplus():
    """log(1 + exp(x)), also where the exponential is nothing or everything."""
    for x in (-900.0, -40.5, -39.5, -1.0, 0.0, 0.3, 39.5, 40.5, 900.0):
        assert softplus(x) == pytest.approx(np.logaddexp(0.0, x), rel=1e-15, abs=1e-15)


def test_sums_are_over_both_values_of_every_bit():
    """The marginal likelihood of a code is the product of 1 - q + q exp(score)."""
    expected = np.log(1.0 - DENSITIES + DENSITIES * np.exp(SCORES)).sum(axis=0)
    found = log_sums(SCORES, logit(DENSITIES))
    assert found == pytest.approx(expected, rel=1e-12)
    assert log_sums(SCORES, logit(DENSITIES) + 0.01) != pytest.approx(expected, rel=1e-6)
    assert log_sums(np.zeros((7, 0)), np.zeros(0)).shape == (0,)


def test_paths_are_probabilities():
    """Every bit is drawn with odds exp(score) q / (1 - q): all patterns add up to one."""
    total = np.zeros(7)
    for pattern in product((False, True), repeat=3):
        bits = np.tile(np.array(pattern), (7, 1))
        paths = np.exp(log_paths(SCORES, logit(DENSITIES), bits))
        chances = expit(SCORES + logit(DENSITIES))
        assert paths == pytest.approx(np.where(bits, chances, 1.0 - chances).prod(axis=1))
        total += paths
    assert total == pytest.approx(np.ones(7))


def test_gains():
    """A covered one gains, a covered zero costs."""
    counts = np.array([[3, 2], [0, 0], [0, 5]])
    assert gains_of(counts, 0.7, -0.6) == pytest.approx([3 * 0.7 - 2 * 0.6, 0.0, -3.0])


def test_similarity_is_the_correlation_of_residuals():
    """Known and uncovered entries count, as data minus the rate of ones."""
    rng = np.random.default_rng(1)
    data, free, rate = rng.random((6, 40)) < 0.4, rng.random((6, 40)) < 0.7, 0.3
    row, other = data[0], free[0]
    counts = np.array(
        [
            [[(f & x & own).sum(), (f & ~x & own).sum()] for own in (other & row, other & ~row)]
            for x, f in zip(data, free, strict=True)
        ]
    )
    totals = np.stack([(free & data).sum(axis=1), (free & ~data).sum(axis=1)], axis=1)
    residuals = np.where(free, data - rate, 0.0)
    expected = residuals @ residuals[0] / np.linalg.norm(residuals, axis=1)
    assert similarities(counts, totals, rate) == pytest.approx(expected)
    assert similarities(counts, totals, 0.4) != pytest.approx(expected, rel=1e-3)
    assert similarities(0 * counts, 0 * totals, rate).tolist() == [0.0] * 6  # nothing is free
