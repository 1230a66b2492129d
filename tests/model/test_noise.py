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
NOW = Noise(0.3, 0.3)
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


def distance(draws, a, b, upper=0.5):
    """Return how far draws are from Beta(a, b) cut to (0, upper)."""
    law = beta(a, b)
    return kstest(draws, lambda x: law.cdf(x) / law.cdf(upper)).statistic


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


@pytest.mark.parametrize("upper", [0.5, 0.3, 0.97])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 40), (40, 30), (0.5, 0.5), (500, 50)])
def test_draw_rate(a, b, upper):
    """Rates follow the Beta distribution cut to (0, upper), also when little of it is left."""
    assert distance([draw_rate(a, b, u, upper) for u in MIDPOINTS], a, b, upper) < BOUND + 1e-7


@pytest.mark.parametrize(("a", "upper"), [(1000, 0.5), (1070, 0.5), (2000, 0.5), (900, 0.3)])
def test_draw_rate_underflow(a, upper):
    """Where the distribution function underflows, rates follow the tail at the upper end."""
    # Beta(a, 1) has the distribution function x**a; the linear slope is 1 / a too small, which
    # moves the distribution function by max(t exp(-t)) / a, and the curvature by as much again.
    draws = [draw_rate(a, 1, u, upper) for u in MIDPOINTS]
    assert beta(a, 1).cdf(upper) < 1e-290
    assert kstest(draws, lambda x: np.power(x / upper, a)).statistic < BOUND + 2 / a


@pytest.mark.parametrize("prior", [UnequalRates(), EqualRates(), AsPublished()], ids=repr)
@pytest.mark.parametrize("counts", DEGENERATE, ids=str)
def test_degenerate_counts(prior, counts):
    """No errors, errors only, or no entries give rates that a sampler can use."""
    noise = prior.initial()
    for u in product([2.0**-54, 0.5, 1 - 2.0**-53], repeat=2):
        noise = prior.draw(counts, np.array(u), noise)
        assert all(rate >= SMALLEST_RATE for rate in noise)
        assert sum(noise) <= 1.0
        assert np.isfinite(noise.weights().table).all()


def test_unequal_rates_draw():
    """Each rate is drawn from its own errors and prior, so that the sum is below one."""
    prior = UnequalRates(spurious=(2.0, 3.0), dropped=(1.5, 7.0))
    counts, now = counted(tp=9, fp=20, tn=10, fn=15), Noise(0.3, 0.45)
    first = [prior.draw(counts, np.array([u, 0.1]), now) for u in MIDPOINTS]
    second = [prior.draw(counts, np.array([0.1, u]), now) for u in MIDPOINTS]
    assert distance([n.spurious for n in first], 2 + 15, 3 + 10, 1 - 0.45) < BOUND + 1e-9
    (spurious,) = {n.spurious for n in second}
    assert distance([n.dropped for n in second], 1.5 + 20, 7 + 9, 1 - spurious) < BOUND + 1e-9
    assert max(n.dropped for n in second) > 0.5
    assert max(sum(n) for n in first + second) < 1.0


def test_two_rates_keep_their_posterior():
    """Gibbs steps leave the posterior, a density over a triangle, as it is."""
    prior = UnequalRates(spurious=(2.0, 3.0), dropped=(1.5, 2.0))
    counts, n = counted(tp=2, fp=4, tn=3, fn=2), 30_000
    rng = np.random.default_rng(1)
    now, sums = Noise(0.2, 0.2), []
    for uniforms in rng.random((n, 2)):
        now = prior.draw(counts, uniforms, now)
        sums.append((*now, now.spurious * now.dropped))
    expected = [
        dblquad(
            lambda y, x, f=f: (
                f(x, y) * exp(prior.log_prior(p := Noise(x, y)) + p.log_likelihood(counts))
            ),
            *(0, 1, 0, lambda x: 1 - x),
        )[0]
        for f in (lambda *_: 1.0, lambda x, _: x, lambda _, y: y, lambda x, y: x * y)
    ]
    means = np.array(sums)[1000:].reshape(29, 1000, 3).mean(axis=1)  # batches, nearly independent
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    z = (means.mean(axis=0) - np.array(expected[1:]) / expected[0]) / error
    assert np.abs(z).max() < 4.0, z


def test_equal_rates_draw():
    """One rate is drawn from all errors."""
    counts = counted(tp=20, fp=6, tn=30, fn=12)
    draws = [EqualRates((2.0, 3.0)).draw(counts, np.array([u, 0.1]), NOW) for u in MIDPOINTS]
    assert all(noise.spurious == noise.dropped for noise in draws)
    assert distance([n.dropped for n in draws], 2 + 18, 3 + 50) < BOUND + 1e-9


def test_priors_are_densities():
    """Prior densities integrate to one over the rates that can occur."""
    equal, unequal = EqualRates((2.0, 3.0)), UnequalRates((1.5, 4.0), (2.0, 1.0))
    assert quad(lambda e: exp(equal.log_prior(Noise(e, e))), 0, 0.5)[0] == pytest.approx(1)
    volume = dblquad(lambda x, y: exp(unequal.log_prior(Noise(x, y))), 0, 1, 0, lambda y: 1 - y)[0]
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
    rate = prior.draw(counted(tp=3, fp=2, tn=5, fn=1), uniforms, NOW).spurious
    grid = np.linspace(0.01, 0.49, 97)
    assert binom.pmf(3, 11, rate) >= binom.pmf(3, 11, grid).max()
    most = prior.draw(counted(10, 0, 10, 0), uniforms, NOW)
    assert most.weights().pair() == pytest.approx((LARGEST_LAMBDA, -LARGEST_LAMBDA))
    assert prior.draw(counted(1, 9, 1, 9), uniforms, NOW) == Noise(0.5, 0.5)
    assert prior.draw(counted(0, 0, 0, 0), uniforms, NOW) == prior.initial() == Noise(0.3, 0.3)
    assert prior.log_prior(most) == 0.0


def test_fixed_rates():
    """Known rates stay, whatever the counts."""
    prior = FixedRates(0.1, 0.6)
    assert prior.initial() == prior.draw(counted(1, 2, 3, 4), np.zeros(2), NOW) == Noise(0.1, 0.6)
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
