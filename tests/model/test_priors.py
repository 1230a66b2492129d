"""Priors of the factors: densities against brute force, draws against their distributions."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, exp, factorial, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import beta, gamma, kstest, poisson

from thali.bits import Factor
from thali.model import Beta, Buffet, Fixed, Gamma, PerComponent
from thali.model.draws import SMALLEST_DENSITY
from thali.model.priors import (
    harmonic,
    log_bernoulli,
    log_buffet,
    log_rates,
    log_repeats,
    stick_odds,
)

# Inverting a distribution function at the midpoints of N strata puts the empirical one at a
# distance of exactly 1 / (2 N) from it: any excess is an error of the draw.
N = 500
PRESENT = np.array(0.5)
MIDPOINTS = (np.arange(N) + 0.5) / N
BOUND = 0.5 / N + 1e-9
EXTREMES = np.array([2.0**-54, 0.5, 1 - 2.0**-53])


# --- the Indian buffet process ------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_harmonic(n):
    """Harmonic numbers are sums of unit fractions."""
    assert harmonic(n) == pytest.approx(float(sum(Fraction(1, i) for i in range(1, n + 1))))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_buffet_is_a_law(n_rows):
    """Summed over all states of a size, the prior is the Poisson law of the number."""
    alpha = 0.8
    patterns = [p for p in product([False, True], repeat=n_rows) if any(p)]
    total = Counter()
    for multiplicities in product(range(4), repeat=len(patterns)):
        n = sum(multiplicities)
        if n > 3:
            continue
        z = np.repeat(np.array(patterns).T, multiplicities, axis=1)
        factor = Factor.from_dense(z)
        total[n] += exp(log_buffet(factor.sizes(), n_rows, alpha) - log_repeats([factor], []))
    assert [total[n] for n in range(4)] == pytest.approx(
        poisson.pmf(range(4), alpha * harmonic(n_rows))
    )


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=8))
def test_log_repeats(components):
    """Only components that agree in every mode are discounted, by the factorial of how many."""
    bits = np.array([[z & 1, z >> 1, u & 1, u >> 1] for z, u in components], bool).reshape(-1, 4)
    factors = [Factor.from_dense(bits[:, :2].T), Factor.from_dense(bits[:, 2:].T)]
    expected = sum(log(factorial(n)) for n in Counter(components).values())
    assert log_repeats(factors, []) == pytest.approx(expected)


@pytest.mark.parametrize(("size", "n_rows"), [(1, 1), (1, 50), (20, 50), (49, 50), (50, 50)])
def test_stick_odds(size, n_rows):
    """Weights of components are Beta(m, N - m + 1), returned as log odds."""
    odds = stick_odds(np.full(N, size), n_rows, MIDPOINTS)
    assert kstest(expit(odds), beta(size, n_rows - size + 1).cdf).statistic < BOUND


def test_stick_odds_extremes():
    """Huge data and extreme random numbers give finite odds; many users give large ones."""
    n = 10**9
    odds = np.array([stick_odds(np.full(3, m), n, EXTREMES) for m in (1, n // 2, n)])
    assert np.isfinite(odds).all()
    assert (np.diff(odds, axis=1) > 0).all()
    # Medians of Beta(1, n) and Beta(n, 1) are log(2) / n away from the ends.
    assert odds[:, 1] == pytest.approx([log(log(2) / n), 0.0, -log(log(2) / n)], abs=1e-6)


def test_alpha():
    """The concentration is drawn from its Gamma posterior, or stays when it is known."""
    buffet = Buffet(Gamma(2.0, 0.5))
    draws = [buffet.draw(7, 30, u) for u in MIDPOINTS]
    assert kstest(draws, gamma(2 + 7, scale=1 / (0.5 + harmonic(30))).cdf).statistic < BOUND
    assert Buffet(Gamma(), start=2.0).initial() == 2.0
    assert Buffet(1.7).initial() == Buffet(1.7).draw(7, 30, 0.3) == 1.7
    assert Buffet(Gamma(1e-3, 1.0)).draw(0, 10, 2.0**-54) > 0  # no underflow to zero


def test_alpha_prior_is_a_density():
    """The prior of the concentration integrates to one."""
    buffet = Buffet(Gamma(2.0, 0.5))
    assert quad(lambda a: exp(buffet.log_prior(a)), 0, np.inf)[0] == pytest.approx(1)
    assert Buffet(1.7).log_prior(1.7) == 0.0


@pytest.mark.parametrize("n_components", [0, 1, 9])
@pytest.mark.parametrize("prior", [Gamma(2.5, 4.0), Gamma(), 0.7], ids=str)
def test_concentration_summed_out(prior, n_components):
    """What depends on the concentration is integrated over its prior, or taken where it is known.

    That it is the integral over the prior, not the density at its mean, tells it from a mistake.
    """
    buffet, n_rows = Buffet(prior), 30

    def density(alpha):
        return exp(log_buffet(np.ones(n_components, int), n_rows, alpha) + buffet.log_prior(alpha))

    rates = log_rates(np.ones(n_components, int), n_rows).sum()
    if isinstance(prior, Gamma):
        largest = (prior.shape + n_components) / (prior.rate + harmonic(n_rows))
        total, _ = quad(density, 0.0, 60.0 * largest, points=[largest], epsrel=1e-10, epsabs=0.0)
        at_mean = log(density(prior.shape / prior.rate)) - rates
        assert buffet.log_sum(n_components, n_rows) != pytest.approx(at_mean, abs=1e-2)
    else:
        total = density(prior)
    assert buffet.log_sum(n_components, n_rows) == pytest.approx(log(total) - rates, abs=1e-8)


@pytest.mark.parametrize("n_rows", [1, 4, 9])
def test_rates_of_components(n_rows):
    """A component with m users has the rate (N - m)! (m - 1)! / N!, and they add up to H_N."""
    sizes = np.arange(1, n_rows + 1)
    rates = np.exp(log_rates(sizes, n_rows))
    expected = [factorial(n_rows - m) * factorial(m - 1) / factorial(n_rows) for m in sizes]
    assert rates == pytest.approx(expected)
    assert sum(r * comb(n_rows, m) for r, m in zip(rates, sizes, strict=True)) == pytest.approx(
        harmonic(n_rows)
    )


# --- Bernoulli entries --------------------------------------------------------------------------


def test_beta_draw():
    """One density is drawn from the ones and zeros of all components."""
    sizes = np.array([3, 0, 5])
    draws = [float(Beta(2.0, 3.0).draw(sizes, 10, np.array([u]), PRESENT)) for u in MIDPOINTS]
    assert kstest(draws, beta(2 + 8, 3 + 22).cdf).statistic < BOUND


@pytest.mark.parametrize("sizes", [[], [0] * 1000, [10**6] * 1000], ids=["none", "zeros", "ones"])
def test_beta_extremes(sizes):
    """Densities stay away from zero and one, so that their log odds are finite."""
    for u in EXTREMES:
        density = Beta(1e-3, 1e-3).draw(np.array(sizes, np.int64), 10**6, np.array([u]), PRESENT)
        assert SMALLEST_DENSITY <= density <= 1 - SMALLEST_DENSITY


def test_density_priors():
    """The prior of a density integrates to one; a known one is never drawn."""
    prior = Beta(2.0, 3.0, start=0.3)
    assert quad(lambda q: exp(prior.log_prior(np.array(q))), 0, 1)[0] == pytest.approx(1)
    assert prior.initial(5) == 0.3
    known = Fixed(0.2)
    assert known.initial(5) == known.draw(np.array([3]), 5, np.array([0.9]), PRESENT) == 0.2
    assert known.log_prior(np.array(0.2)) == 0.0


def test_grid():
    """Densities of components lie on equally likely quantiles of the prior."""
    prior = PerComponent(2.0, 3.0, n_values=8, tied=None)
    assert beta(2, 3).cdf(prior.grid) == pytest.approx((np.arange(8) + 0.5) / 8)
    assert np.isin(prior.initial(3), prior.grid).all()
    assert prior.initial(3).shape == (3,)
    assert exp(prior.log_prior(prior.initial(3))) == pytest.approx(8.0**-3)


@pytest.mark.parametrize("size", [0, 2, 6])
def test_grid_draw(size):
    """A component has each density of the grid with its posterior probability."""
    prior, n_rows = PerComponent(2.0, 3.0, n_values=5, tied=None), 6
    draws = prior.draw(np.full(N, size), n_rows, MIDPOINTS, np.full(N, prior.grid[0]))
    weights = [q**size * (1 - q) ** (n_rows - size) for q in prior.grid]
    frequencies = [(draws == q).mean() for q in prior.grid]
    # Stratified: each of the two ends of an interval is off by half a stratum.
    assert frequencies == pytest.approx(np.array(weights) / sum(weights), abs=1 / N)


def test_grid_draw_is_per_component():
    """Every component uses its own size and number; counts beyond floating point are fine."""
    prior = PerComponent(1.0, 1.0, 16)
    present = prior.initial(3)
    drawn = prior.draw(np.array([0, 10**6, 5 * 10**5]), 10**6, EXTREMES, present)
    grid = prior.grid
    assert drawn[:2].tolist() == [grid[0], grid[-1]]
    assert drawn[2] in grid[7:9]
    assert prior.draw(np.zeros(0, np.int64), 5, np.zeros(0), np.zeros(0)).shape == (0,)


def test_log_bernoulli():
    """A factor's prior is a product over its entries, with one density or one a component."""
    z = np.random.default_rng(0).random((6, 3)) < 0.5
    for q in (np.array(0.3), np.array([0.1, 0.5, 0.8])):
        expected = np.log(np.where(z, q, 1 - q)).sum()
        assert log_bernoulli(z.sum(axis=0), 6, q) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gamma(0.0, 1.0), r"^Gamma prior=0.0 was given; .* above 0; .*\.$"),
        (lambda: Buffet(float("inf")), r"^alpha=inf was given"),
        (lambda: Buffet(start=0.0), r"^start=0.0 was given"),
        (lambda: Beta(1.0, -1.0), r"^Beta prior=-1.0 was given"),
        (lambda: Beta(start=1.0), r"^start=1.0 was given"),
        (lambda: Fixed(1.0), r"^density=1.0 was given; .* strictly between 0 and 1; .*\.$"),
        (lambda: PerComponent(a=0.0), r"^Beta prior=0.0 was given"),
        (lambda: PerComponent(n_values=0, tied=None), r"^n_values=0 was given"),
    ],
)
def test_refusals(make, message):
    """A prior that makes no sense is refused in a sentence that says what was given."""
    with pytest.raises(ValueError, match=message):
        make()


def test_grid_of_densities_stays_inside():
    """Extreme priors do not put a density at 0 or 1, and the grid has a whole number of values."""
    grid = PerComponent(0.001, 0.001).grid
    assert 0.0 < grid.min() < grid.max() < 1.0
    with pytest.raises(ValueError, match=r"n_values=2.5 was given"):
        PerComponent(n_values=2.5)


def test_expected_number_of_components():
    """That at which a concentration is the mean of its posterior; fixed, the mean of the prior."""
    n_rows, n_components = 30, 40
    h_n = sum(1.0 / n for n in range(1, n_rows + 1))
    mean = n_components / (7.0 + h_n)  # of Gamma(n, 7 + H_N), but for the shape of the prior
    assert Buffet(Gamma(1.0, 7.0)).expected(mean, n_rows) == pytest.approx(n_components)
    assert Buffet(2.0).expected(2.0, n_rows) == pytest.approx(2.0 * h_n)
