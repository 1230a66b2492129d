"""The state of a start: its first guesses, its medians, and its sweeps."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, gamma

from support.grown import covers, grown, log_sum_of_bits, parts, planted, reconstruction
from support.mutants import module, mutate
from thali.model import Beta, EqualRates, FixedRates, Gamma, Model, PerComponent
from thali.model.priors import harmonic
from thali.sampler import Target
from thali.sampler.grow.growth import Growth
from thali.streams import chain_key


def test_settled_values_are_medians():
    """Rate, density and concentration are in the middle of their conditional distributions."""
    model = Model(noise=EqualRates((2.0, 3.0)), alpha=Gamma(2.0, 5.0), density=Beta(2.0, 4.0))
    data, users, codes = planted((30, 40), 2, seed=1, unknown=0.1)
    growth = grown(data, model, [users, codes])
    growth.settle()
    state = growth.state
    n_ones = codes.sum()
    assert state.alpha == pytest.approx(gamma(2.0 + 2, scale=1 / (5.0 + harmonic(30))).median())
    density = beta(2.0 + n_ones, 4.0 + codes.size - n_ones).median()
    assert state.densities[1] == pytest.approx(density)
    n_wrong = ((data == 1) != covers(users, codes))[~np.isnan(data)].sum()
    law = beta(2.0 + n_wrong, 3.0 + (~np.isnan(data)).sum() - n_wrong)
    assert state.noise.spurious == state.noise.dropped
    assert law.cdf(state.noise.spurious) == pytest.approx(0.5 * law.cdf(0.5))


def test_first_guesses_stay_as_long_as_there_is_nothing_to_learn_from():
    """Medians without components would take everything for noise."""
    growth = grown(planted((30, 40), 2, seed=1)[0])
    before = growth.state
    growth.settle()
    growth.sweep()
    assert parts(growth.state) == parts(before)
    assert float(before.densities[1]) == 0.2


@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
def test_first_guesses_of_rates(share):
    """About half of the entries would be covered; a strict start tolerates few dropped ones."""
    data = np.random.default_rng(0).random((50, 60)) < share
    target = Target.prepare(data, threads=1)
    strict, tolerant = (
        Growth(chain_key(1), target, is_strict=is_strict).state.noise
        for is_strict in (True, False)
    )
    assert strict.spurious == pytest.approx(tolerant.spurious, rel=1e-2)
    assert strict.spurious < data.mean()
    assert strict.dropped <= 0.1 + 1e-3
    assert strict.dropped <= tolerant.dropped < 1.0 - tolerant.spurious
    known = Target.prepare(data, Model(noise=FixedRates(0.1, 0.3)), threads=1)
    assert Growth(chain_key(1), known).state.noise == (0.1, 0.3)


def test_result_without_components_has_the_rates_of_noise():
    """The median given that nothing is covered; everything else is as a chain begins."""
    data = np.random.default_rng(0).random((50, 60)) < 0.3
    growth = grown(data)
    state = growth.result()
    assert state.noise.spurious == pytest.approx(data.mean(), abs=1e-3)
    begun = growth.target.initial(growth.key)
    assert parts(state._replace(noise=begun.noise)) == parts(begun)


@pytest.mark.parametrize(
    "density", [None, PerComponent(1.0, 2.0, n_values=4, tied=None)], ids=["one", "own"]
)
def test_sweeps_make_no_components(density):
    """They correct users and codes, and drop what nobody uses; counts are those of the data."""
    model = Model() if density is None else Model(density=density)
    data, users, codes = planted((80, 120), 3, seed=2)
    rng = np.random.default_rng(0)
    noisy = [f ^ (rng.random(f.shape) < 0.1) for f in (users, codes)]
    useless = np.zeros((80, 1), bool)
    useless[0] = True
    noisy[0] = np.concatenate([noisy[0], useless], axis=1)
    noisy[1] = np.concatenate([noisy[1], ~covers(users, codes)[0][:, None]], axis=1)
    growth = grown(data, model, noisy)
    before = (reconstruction(growth.state) != covers(users, codes)).mean()
    for _ in range(4):
        growth.settle()
        growth.sweep()
        assert growth.state.n_components <= 4
        assert growth.state.covered == growth.target.recount(growth.state).covered
    assert growth.state.n_components == 3  # its only user has a reason not to use it
    assert (reconstruction(growth.state) != covers(users, codes)).mean() < min(0.02, before)


def test_every_stream_is_new():
    """No random number of a start is read twice."""
    growth = grown(planted((20, 30), 1, seed=1)[0])
    streams = [growth.stream() for _ in range(5)]
    assert len(set(streams)) == 5
    assert {int(s.key) for s in streams} == {int(growth.key)}


def test_odds_are_those_of_the_densities():
    """One for every component, whether they share a density or not."""
    data, users, codes = planted((20, 30), 2, seed=1)
    growth = grown(data, None, [users, codes])
    assert expit(growth.odds) == pytest.approx([0.2, 0.2])
    prior = PerComponent(1.0, 2.0, n_values=4, tied=None)
    growth = grown(data, Model(density=prior), [users, codes])
    growth.settle()
    assert all(min(abs(prior.grid - q)) < 1e-12 for q in expit(growth.odds))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_first_guesses_follow_the_share_of_ones(share):
    """They are fixed odds ratios from the share of ones, also where nearly all are ones."""
    data = np.random.default_rng(0).random((50, 60)) < share
    noise = Growth(chain_key(1), Target.prepare(data, threads=1), is_strict=False).state.noise
    odds = logit((data.sum() + 1.0) / (data.size + 2.0))
    assert noise == pytest.approx((expit(odds - 0.7), expit(-odds - 1.5)), rel=0.05, abs=1e-4)


# --- densities of single components -------------------------------------------------------------

TIED = PerComponent(1.0, 1.0, n_values=12, tied=0.1)
UNTIED = PerComponent(1.0, 1.0, n_values=12, tied=None)


def assert_densities(prior):
    """Compare settled densities with those that sums over all bits of the codes make the best.

    Each code is that of another size, as one is that was drawn when its density was another. The
    codes of the other components are as they are; densities are chosen one after another.
    """
    rates = 0.25, 0.25  # a bit of a code is uncertain
    data, users, true = planted((12, 60), 3, seed=3, rate=0.25, density=0.4, unknown=0.1)
    grown_codes = true & (np.random.default_rng(0).random(true.shape) < 0.5)
    growth = grown(data, Model(noise=FixedRates(*rates), density=prior), [users, grown_codes])
    expected = prior.grid[[4, 8, 10]]
    densities = growth.state.densities[0], expected.copy()
    growth.state = growth.state._replace(densities=densities)
    for k in range(3):
        others = np.delete(np.arange(3), k)
        covered = covers(users[:, others], grown_codes[:, others])
        scores = prior.expected(expected[others]).log_weights + [
            log_sum_of_bits(data, users[:, [k]], np.array([q]), rates, covered) for q in prior.grid
        ]
        expected[k] = prior.grid[np.argmax(scores)]
    growth.settle()
    np.testing.assert_array_equal(growth.state.densities[1], expected)


@pytest.mark.parametrize(
    "prior",
    [TIED, UNTIED, PerComponent(0.5, 1.0, n_values=40)],
    ids=["tied", "independent", "many values"],
)
def test_densities_are_the_best_with_codes_summed_out(prior):
    """They do not depend on a component's own code, which was drawn with another density."""
    assert_densities(prior)


GIVEN_CODES = "prior.draw(codes.sizes(), codes.n_rows, np.full(n, 0.5), density)"


@pytest.mark.parametrize(
    ("prior", "module_", "edit"),
    [
        (UNTIED, "growth", ("densities_without_codes(self, prior)", GIVEN_CODES)),
        (UNTIED, "sides", ("scores[:, k], odds) + log", "scores[:, 0], odds) + log")),
        (TIED, "sides", ("np.delete(densities, k)", "densities")),
        (TIED, "sides", (", odds) + log_weights).argmax()", ", odds)).argmax()")),
    ],
    ids=["given its code", "of another component", "itself counted", "weights forgotten"],
)
def test_wrong_densities_are_rejected(prior, module_, edit, monkeypatch):
    """The same comparison fails for a density given its code, and for wrong weights."""
    wrong = mutate(f"thali.sampler.grow.{module_}", [edit])
    if module_ == "growth":
        monkeypatch.setattr(Growth, "settle", wrong.Growth.settle)
    else:
        monkeypatch.setattr(
            module("thali.sampler.grow.growth"),
            "densities_without_codes",
            wrong.densities_without_codes,
        )
    with pytest.raises(AssertionError):
        assert_densities(prior)
