"""Error rates: weights, draws and densities against their definitions."""

from itertools import product
from math import exp, log
from string import Formatter

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import beta, binom, kstest

from thali.bits import Confusion, Counts
from thali.model import AsPublished, EqualRates, FixedRates, Noise, UnequalRates
from thali.model.noise import LARGEST_LAMBDA, SMALLEST_RATE, draw_rate
from thali.model.noise_kinds import NOISE_KINDS


def counted(tp, fp, tn, fn):
    """Return the counts of a table whose rows and columns are all alike."""
    return Counts(Confusion(tp, fp, tn, fn))


# Inverting a distribution function at the midpoints of N strata puts the empirical one at a
# distance of exactly 1 / (2 N) from it: any excess is an error of the draw.
N = 500
MIDPOINTS = (np.arange(N) + 0.5) / N
BOUND = 0.5 / N
DEGENERATE = [
    counted(0, 0, 0, 0),
    counted(500, 0, 500, 0),
    counted(0, 500, 0, 500),
    counted(10**9, 0, 10**9, 0),
    counted(0, 10**9, 0, 10**9),
    counted(0, 0, 0, 1),
]


@pytest.mark.parametrize("noise", [Noise(0.1, 0.2), Noise(1e-12, 0.5)])
def test_entry_probabilities_are_those_of_reading_one(noise):
    """Both data together have probability one, and small probabilities are not rounded away."""
    zero, one = noise.entry_probabilities()
    assert one == pytest.approx([noise.reads_one(covered) for covered in (0, 1)], rel=1e-12)
    assert np.add(zero, one) == pytest.approx([1.0, 1.0], rel=1e-15)
    assert (zero[1], one[0]) == (noise.dropped, noise.spurious)


@pytest.mark.parametrize("prior", [UnequalRates, EqualRates, FixedRates, AsPublished])
def test_quantities_of_a_kind_of_noise_are_those_of_its_draws(prior):
    """Every quantity of a draw is reported once, and the sentence has a field for each."""
    names = tuple(quantity.name for quantity in Noise.quantities())
    assert names == Noise._fields
    kind = prior.kind
    reported = [name for quantity in kind.quantities for name in quantity.draws]
    assert sorted(reported) == sorted(names)
    fields = {field for _, field, _, _ in Formatter().parse(kind.sentence) if field}
    assert fields == {quantity.name for quantity in kind.quantities}
    assert NOISE_KINDS[kind.name] is kind


def distance(draws, a, b):
    """Return how far draws are from Beta(a, b) cut to (0, 1/2)."""
    law = beta(a, b)
    return kstest(draws, lambda x: law.cdf(x) / law.cdf(0.5)).statistic


@pytest.mark.parametrize(("spurious", "dropped"), [(0.1, 0.1), (0.03, 0.4)])
def test_weights(spurious, dropped):
    """A weight is what the log-likelihood gains when one more entry is covered."""
    noise = Noise(spurious, dropped)
    before = noise.log_likelihood(counted(tp=3, fp=2, tn=5, fn=4))
    one, zero = counted(tp=4, fp=2, tn=5, fn=3), counted(tp=3, fp=3, tn=4, fn=4)
    assert noise.weights().pair() == pytest.approx(
        [noise.log_likelihood(one) - before, noise.log_likelihood(zero) - before]
    )
    assert noise.weights().pair()[0] > 0 > noise.weights().pair()[1]


def test_log_likelihood():
    """The probability of the data is a product over entries by prediction and datum."""
    by_cell = (1 - 0.4) ** 3 * 0.4**2 * (1 - 0.1) ** 5 * 0.1**4
    counts = counted(tp=3, fp=2, tn=5, fn=4)
    assert Noise(0.1, 0.4).log_likelihood(counts) == pytest.approx(log(by_cell))
    assert Noise(0.1, 1.0).log_likelihood(counted(0, 7, 0, 0)) == 0.0  # nothing impossible


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 40), (40, 30), (0.5, 0.5), (900, 50)])
def test_draw_rate(a, b):
    """Rates follow the Beta distribution cut to (0, 1/2), also when little of it is left."""
    assert distance([draw_rate(a, b, u) for u in MIDPOINTS], a, b) < BOUND + 1e-7


@pytest.mark.parametrize("a", [1000, 1070, 2000])
def test_draw_rate_underflow(a):
    """Where the distribution function underflows, rates follow the tail at 1/2."""
    # Beta(a, 1) has the distribution function x**a; the linear slope is 1 / a too small, which
    # moves the distribution function by max(t exp(-t)) / a, and the curvature by as much again.
    draws = [draw_rate(a, 1, u) for u in MIDPOINTS]
    assert beta(a, 1).cdf(0.5) < 1e-300
    assert kstest(draws, lambda x: np.power(2 * x, a)).statistic < BOUND + 2 / a


@pytest.mark.parametrize("prior", [UnequalRates(), EqualRates(), AsPublished()], ids=repr)
@pytest.mark.parametrize("counts", DEGENERATE, ids=str)
def test_degenerate_counts(prior, counts):
    """No errors, errors only, or no entries give rates that a sampler can use."""
    for u in product([2.0**-54, 0.5, 1 - 2.0**-53], repeat=2):
        noise = prior.draw(counts, np.array(u))
        assert all(SMALLEST_RATE <= rate <= 0.5 for rate in noise)
        assert np.isfinite(noise.weights().table).all()


def test_unequal_rates_draw():
    """Each rate is drawn from its own errors, its own prior and its own random number."""
    prior = UnequalRates(spurious=(2.0, 3.0), dropped=(1.5, 7.0))
    counts = counted(tp=20, fp=6, tn=30, fn=12)
    first = [prior.draw(counts, np.array([u, 0.1])) for u in MIDPOINTS]
    second = [prior.draw(counts, np.array([0.1, u])) for u in MIDPOINTS]
    assert distance([n.spurious for n in first], 2 + 12, 3 + 30) < BOUND + 1e-9
    assert distance([n.dropped for n in second], 1.5 + 6, 7 + 20) < BOUND + 1e-9
    assert len({n.dropped for n in first}) == len({n.spurious for n in second}) == 1


def test_equal_rates_draw():
    """One rate is drawn from all errors."""
    counts = counted(tp=20, fp=6, tn=30, fn=12)
    draws = [EqualRates((2.0, 3.0)).draw(counts, np.array([u, 0.1])) for u in MIDPOINTS]
    assert all(noise.spurious == noise.dropped for noise in draws)
    assert distance([n.dropped for n in draws], 2 + 18, 3 + 50) < BOUND + 1e-9


def test_priors_are_densities():
    """Prior densities integrate to one over the rates that can occur."""
    equal, unequal = EqualRates((2.0, 3.0)), UnequalRates((1.5, 4.0), (2.0, 1.0))
    assert quad(lambda e: exp(equal.log_prior(Noise(e, e))), 0, 0.5)[0] == pytest.approx(1)
    volume = dblquad(lambda x, y: exp(unequal.log_prior(Noise(x, y))), 0, 0.5, 0, 0.5)[0]
    assert volume == pytest.approx(1)


def test_draws_are_posteriors():
    """Prior times likelihood is proportional to the density that rates are drawn from."""
    prior, counts = UnequalRates((1.5, 4.0), (2.0, 1.0)), counted(tp=20, fp=6, tn=30, fn=12)
    density = [
        prior.log_prior(noise)
        + noise.log_likelihood(counts)
        - beta.logpdf(noise.spurious, 1.5 + 12, 4 + 30)
        - beta.logpdf(noise.dropped, 2 + 6, 1 + 20)
        for noise in map(Noise, [0.1, 0.2, 0.45], [0.3, 0.02, 0.45])
    ]
    assert density == pytest.approx([density[0]] * 3)


def test_as_published():
    """The published update is the rate of maximum likelihood, cut where that degenerates."""
    prior, uniforms = AsPublished(start=0.3), np.array([0.5, 0.5])
    rate = prior.draw(counted(tp=3, fp=2, tn=5, fn=1), uniforms).spurious
    grid = np.linspace(0.01, 0.49, 97)
    assert binom.pmf(3, 11, rate) >= binom.pmf(3, 11, grid).max()
    most = prior.draw(counted(10, 0, 10, 0), uniforms)
    assert most.weights().pair() == pytest.approx((LARGEST_LAMBDA, -LARGEST_LAMBDA))
    assert prior.draw(counted(1, 9, 1, 9), uniforms) == Noise(0.5, 0.5)
    assert prior.draw(counted(0, 0, 0, 0), uniforms) == prior.initial() == Noise(0.3, 0.3)
    assert prior.log_prior(most) == 0.0


def test_fixed_rates():
    """Known rates stay, whatever the counts."""
    prior = FixedRates(0.1, 0.6)
    assert prior.initial() == prior.draw(counted(1, 2, 3, 4), np.zeros(2)) == Noise(0.1, 0.6)
    assert prior.log_prior(Noise(0.1, 0.6)) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnequalRates(spurious=(0.0, 1.0)), r"^spurious=0.0 was given; .* above 0; .*\.$"),
        (lambda: UnequalRates(dropped=(1.0, float("nan"))), r"^dropped=nan was given"),
        (lambda: UnequalRates(dropped=(1.0,)), r"^dropped=\(1.0,\) was given; .* two positive"),
        (lambda: UnequalRates(start=0.5), r"^start=0.5 .* strictly between 0 and 0.5; .*\.$"),
        (lambda: EqualRates(prior=[1.0, 1.0]), r"^prior=\[1.0, 1.0\] was given"),
        (lambda: EqualRates(prior=(1.0, True)), r"^prior=True was given"),
        (lambda: EqualRates(start=0.0), r"^start=0.0 was given"),
        (lambda: AsPublished(start=-0.1), r"^start=-0.1 was given"),
        (lambda: FixedRates(0.0, 0.1), r"^spurious=0.0 was given; .* between 1e-12 and 1; .*\.$"),
        (lambda: FixedRates(0.1, "a"), r"^dropped='a' was given"),
        (lambda: FixedRates(0.5, 0.5), r"sum must be below 1, .*; lower one of them\.$"),
    ],
)
def test_refusals(make, message):
    """A prior that makes no sense is refused in a sentence that says what was given."""
    with pytest.raises(ValueError, match=message):
        make()
