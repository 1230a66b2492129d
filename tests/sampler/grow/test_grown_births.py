"""Births of a start: what was planted is found, and nothing in noise."""

import numpy as np
import pytest
from scipy.special import expit

from support.grown import covers, grown, parts, planted, reconstruction
from support.mutants import mutate
from thali.model import FixedRates, Model, PerComponent
from thali.sampler.grow.births import _Residuals, add_components

SHAPES = [(80, 200), (300, 30)]  # codes summed out, users summed out
MODEL = Model(noise=FixedRates(0.1, 0.1), density=0.25)
N_SEEDS, N_TRIES = 6, 30


def born(data, seed, model=MODEL, births=add_components, factors=None):
    """Return a start after some births, and how many there were."""
    growth = grown(data, model, factors, seed=seed)
    return growth, births(growth, N_TRIES)


def in_noise(births):
    """Return how many components are born in pure noise of the rate that is known."""
    return [
        born(np.random.default_rng(seed).random(shape) < 0.1, seed, births=births)[1]
        for shape in SHAPES
        for seed in range(N_SEEDS)
    ]


@pytest.mark.parametrize("density", [0.25, PerComponent(1.0, 3.0, n_values=8, tied=None)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_planted_component_is_found(shape, density):
    """Nearly all its entries are covered, and hardly any others."""
    model = Model(noise=FixedRates(0.1, 0.1), density=density)
    for seed in range(N_SEEDS):
        data, users, codes = planted(shape, 1, seed=seed, unknown=0.05)
        growth, n_added = born(data, seed, model)
        assert n_added == growth.state.n_components >= 1
        assert (reconstruction(growth.state) != covers(users, codes)).mean() < 0.01
        assert growth.state.covered == growth.target.recount(growth.state).covered


def test_nothing_is_found_in_noise():
    """Of components that would lower the joint density, none is added."""
    assert not any(in_noise(add_components))


def test_births_that_are_not_weighed_are_noticed():
    """The same noise is full of components if they need not raise the joint density."""
    edits = [("best.value <= 0.0", "best.value <= -1e9")]
    assert min(in_noise(mutate("thali.sampler.grow.births", edits).add_components)) > 0


def test_what_is_covered_already_is_not_found_again():
    """Births are weighed by uncovered entries: beside the truth there are none."""
    for seed in range(N_SEEDS):
        data, *factors = planted((80, 200), 3, seed=seed)
        growth, n_added = born(data, seed, factors=factors)
        assert n_added == 0
        assert growth.state.n_components == 3
        _, n_of_two = born(data, seed, factors=[f[:, :2] for f in factors])
        assert n_of_two >= 1  # if one is missing, it is found


def test_births_gain_what_they_cover():
    """Within one round, entries that a new component covers no longer support another."""
    data, *_ = planted((80, 200), 1, seed=1)
    _, n_added = born(data, 1)
    edits = [("        rest.cover([line[0] for line in lines])\n", "")]
    wrong = mutate("thali.sampler.grow.births", edits).add_components
    _, n_wrong = born(data, 1, births=wrong)
    assert n_added < 3 < n_wrong


def test_births_depend_on_key_and_data_alone(monkeypatch):
    """The number of threads does not matter; another key finds other components."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    data, *_ = planted((80, 200), 3, seed=2, unknown=0.1)
    seen = []
    for threads, seed in ((1, 0), (2, 0), (1, 1)):
        growth = grown(data, MODEL, seed=seed, threads=threads)
        add_components(growth, N_TRIES)
        seen.append(parts(growth.state))
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("noise", [FixedRates(0.2, 0.1), "effects"], ids=["rates", "effects"])
def test_similarity_is_the_correlation_of_residuals(noise):
    """Known and uncovered entries count, as data minus the rate of ones of their classes."""
    data, users, codes = planted((40, 150), 2, seed=3, unknown=0.1)
    growth = grown(data, Model(noise=noise), [users, codes])
    state, rates = growth.state, np.full((40, 150), 0.2)
    if noise == "effects":
        rng, flat = np.random.default_rng(4), state.noise
        rows, columns = flat.rows + rng.integers(-5, 6, 40), rng.integers(5, 12, 150)
        levels = flat.with_rows(rows, flat.hyper._replace(row_spread=3))
        jumps = 5 * rng.integers(2, 9, 150)
        levels = levels.with_columns(columns, jumps, levels.hyper._replace(column_spread=3))
        state = state._replace(noise=levels)
        positions = np.indices((40, 150)).reshape(2, -1).T
        rates = expit(levels.entry_odds(positions, np.zeros(6000))).reshape(40, 150)
    is_free = ~np.isnan(data) & ~covers(users, codes)
    residuals = np.where(is_free, np.nan_to_num(data) - rates, 0.0)
    rest, found = growth.engine.uncovered(state.factors), _Residuals.of(state.noise)
    for seed in (0, 17):
        expected = residuals @ residuals[seed]
        np.testing.assert_allclose(found.similarities(rest, seed), expected, atol=1e-9)
        wrong = found._replace(rates=found.rates + 0.1).similarities(rest, seed)
        assert np.abs(wrong - expected).max() > 0.1
    np.testing.assert_allclose(found.norms(rest, 150), np.linalg.norm(residuals, axis=1))


@pytest.mark.parametrize("shape", [(1, 5), (2, 1), (3, 3)])
def test_tiny_data(shape):
    """There need not be rows to be similar to."""
    growth = grown(np.ones(shape), Model())
    assert add_components(growth, 5) == growth.state.n_components
    assert (growth.state.factors[0].sizes() > 0).all()
