"""Sums over bits, against their formulas."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit

from thali.sampler.grow.values import log_sums, softplus, sums_by_density
from thali.sampler.paths import log_paths

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


@pytest.mark.parametrize("scale", [0.1, 6.0, 80.0])
def test_sums_for_several_densities_are_those_for_each(scale):
    """Products of hundreds of factors, gains that decide by themselves, and the smallest odds."""
    gains = RNG.normal(0.0, scale, 900)
    odds = logit(np.array([1e-9, 0.1, 0.5, 0.8, 1.0 - 1e-9]))
    expected = [log_sums(gains[:, None], one[None])[0] for one in odds]
    assert sums_by_density(gains, odds) == pytest.approx(expected, rel=1e-12)
    assert sums_by_density(gains[:0], odds).tolist() == [0.0] * 5
    assert sums_by_density(gains[1:], odds) != pytest.approx(expected, rel=1e-6)


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
    odds = np.array([logit(0.1), np.nan, logit(0.8)])  # the bit of the second is not drawn
    alone = log_paths(SCORES[:, ::2], odds[::2], bits[:, ::2])
    assert log_paths(SCORES, odds, bits) == pytest.approx(alone)
