"""Densities of components that may be the same, against enumeration and prior moments."""

import numpy as np
import pytest
from scipy.special import logsumexp

from support import compare, exact
from support.chains import X33, as_exact, hide, walk
from support.joint import NAMES, Problem, chain_samples, prior_samples
from thali.model import FixedRates, Gamma, Model, PerComponent, UnequalRates
from thali.model.per_component import Weighted
from thali.sampler import Schedule
from thali.trace.settings import Settings

PRIOR = PerComponent(0.4, 0.6, n_values=2, tied=0.5)
MODEL = Model(noise=FixedRates(0.1, 0.25), alpha=2.0, density=PRIOR)
MOVES = {"split_merge": 2, "guided": 2, "compound": 1, "residual": 1, "seeded": 1, "anchored": 1}
QUICK, LONG = 12_000, 60_000


def chain_and_exact():
    """Return a chain with moves that draw densities, and what is exact.

    With two densities, the weight of one of them is a single unknown number, and what the weights
    make of some components is a polynomial in it.
    """
    tensor, known = hide(X33, (0, 2))
    expected = exact.posterior_ibp(X33, known, as_exact(MODEL), max_components=24)
    return walk(tensor, MODEL, **MOVES), expected


@pytest.mark.parametrize("n_sweeps", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_enumeration(n_sweeps):
    """Weights are drawn before every sweep, for which they are then known."""
    walked, expected = chain_and_exact()
    ks, fs = np.array([next(walked) for _ in range(n_sweeps)]).T
    compare.assert_matches(ks, fs, expected)


def _from_the_prior(prior, density, uniforms):
    return GIVEN(prior, density[:0], uniforms)


GIVEN = PerComponent.given
MISTAKES = {
    "weights are never drawn": (PerComponent, "given", lambda prior, *_: prior),
    "weights do not depend on densities": (PerComponent, "given", _from_the_prior),
    "moves ignore weights": (Weighted, "choose", PerComponent.choose),
    "draws ignore weights": (Weighted, "_relative", 0.0),
    "births ignore weights": (Weighted, "log_weights", PerComponent.log_weights),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_rejected(name, monkeypatch):
    """The same comparison notices weights that are wrong or left out."""
    monkeypatch.setattr(*MISTAKES[name])
    compare.assert_rejected(*chain_and_exact(), LONG)


LEARNED = {"noise": UnequalRates((2.0, 8.0), (3.0, 7.0)), "alpha": Gamma(4.0, 3.0)}
PROBLEM = Problem(
    (4, 5), ((1, 2), (3, 0)), Model(**LEARNED, density=PerComponent(1.0, 2.0, 4, tied=0.7))
)


@pytest.mark.parametrize("n", [5_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_geweke(n):
    """Four densities, and everything learned."""
    chain = chain_samples(n, PROBLEM, "parallel", 2)
    compare.assert_geweke(prior_samples(4 * n, PROBLEM), chain, NAMES)


def test_the_prior_of_densities():
    """The sum over all densities of three components is one, and weights are those to expect."""
    prior = PerComponent(1.0, 2.0, n_values=3, tied=0.7)
    grid = prior.grid
    every = [[a, b, c] for a in grid for b in grid for c in grid]
    assert logsumexp([prior.log_prior(np.array(some)) for some in every]) == pytest.approx(0.0)
    for one in grid:  # p(three) = p(two) p(third | two)
        two = grid[[0, 1]]
        ratio = prior.log_prior(np.append(two, one)) - prior.log_prior(two)
        assert prior.expected(two).log_weights[grid == one] == pytest.approx(ratio)


def test_weights_are_those_of_a_dirichlet_distribution():
    """Means and variances of 20,000 draws, within five standard errors."""
    prior, n = PerComponent(1.0, 2.0, n_values=3, tied=0.7), 20_000
    density = prior.grid[[0, 0, 2]]
    uniforms = np.random.default_rng(1).random((n, 6))
    weights = np.exp([prior.given(density, u).log_weights for u in uniforms])
    shapes = np.array([2.0, 0.0, 1.0]) + 0.7 / 3
    mean = shapes / shapes.sum()
    variance = mean * (1 - mean) / (shapes.sum() + 1)
    assert np.abs(weights.mean(axis=0) - mean).max() < 5 * np.sqrt(variance / n).max()
    squares = (weights - mean) ** 2
    errors = squares.std(axis=0) / np.sqrt(n)
    assert (np.abs(squares.mean(axis=0) - variance) < 5 * errors).all()


def test_few_and_unlikely_densities():
    """Without components, weights come from their prior; tiny ones stay numbers."""
    prior = PerComponent(tied=1e-3)
    weighted = prior.given(np.zeros(0), np.full(48, 1e-12))
    assert np.isfinite(weighted.log_weights).all()
    assert {*weighted.choose(np.array([0.0, 0.5, 1.0 - 1e-16]))} <= {*prior.grid}
    drawn = weighted.draw(np.array([0, 5, 10]), 10, np.full(3, 0.5))
    assert {*drawn} <= {*prior.grid}
    assert (prior.counts(prior.grid) == 1).all()


@pytest.mark.parametrize("tied", [None, 0.3])
def test_settings_remember_it(tied):
    """Runs that were stored before densities could be tied have independent ones."""
    density = PerComponent(tied=tied)
    settings = Settings((4, 5), Model(density=density), Schedule(), seed=1, chains=1, draws=1)
    plain = settings.to_json()
    assert Settings.from_json(plain) == settings
    del plain["model"]["density"]["tied"]
    assert Settings.from_json(plain).model.density == PerComponent(tied=None)


@pytest.mark.parametrize("tied", [0.0, -1.0, float("nan"), "1"])
def test_numbers_that_cannot_tie(tied):
    """The sentence says what was given."""
    with pytest.raises((ValueError, TypeError), match=f"^tied={tied}|^tied='{tied}'"):
        PerComponent(tied=tied)
