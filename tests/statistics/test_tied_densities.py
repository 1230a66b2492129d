"""Densities of components that may be the same, against enumeration and prior moments."""

import numpy as np
import pytest
from scipy.special import logsumexp

from support import compare, exact, mutants
from support.chains import X33, as_exact, hide, walk
from support.joint import NAMES, Problem, chain_samples, prior_samples
from thali.model import FixedRates, Gamma, Model, PerComponent, UnequalRates, draws, per_component
from thali.model.per_component import Weighted
from thali.sampler import Schedule, buffet
from thali.trace.settings import Settings

PRIOR = PerComponent(0.4, 0.6, n_values=2, tied=0.5)
MODEL = Model(noise=FixedRates(0.1, 0.25), alpha=2.0, density=PRIOR)
MOVES = {"split_merge": 2, "guided": 2, "compound": 1, "residual": 1, "seeded": 1, "anchored": 1}
QUICK, LONG = 4_000, 60_000


def chain_and_exact(moves=MOVES):
    """Return a chain, by default with moves that draw densities, and what is exact.

    With two densities, the weight of one of them is a single unknown number, and what the weights
    make of some components is a polynomial in it.
    """
    tensor, known = hide(X33, (0, 2))
    expected = exact.posterior_ibp(X33, known, as_exact(MODEL), max_components=24)
    return walk(tensor, MODEL, **moves), expected


@pytest.mark.parametrize("n_sweeps", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_enumeration(n_sweeps):
    """Weights are drawn before every sweep, for which they are then known."""
    walked, expected = chain_and_exact()
    ks, fs = np.array([next(walked) for _ in range(n_sweeps)]).T
    compare.assert_matches(ks, fs, expected)


GIVEN, TABLES, IN_TURN = PerComponent.given, buffet.birth_death_tables, draws.draw_in_turn


def _from_the_prior(prior, density, uniforms):
    return GIVEN(prior, density[:0], uniforms)


def _without_others(scores, numbers, share, uniforms):
    return IN_TURN(scores, numbers, 1e9, uniforms)


MISTAKES = {
    "weights are never drawn": (PerComponent, "given", lambda prior, *_: prior),
    "weights do not depend on densities": (PerComponent, "given", _from_the_prior),
    "moves ignore weights": (Weighted, "choose", PerComponent.choose),
    "births ignore weights": (buffet, "birth_death_tables", lambda *given: TABLES(*given[:-1])),
    "densities ignore others": (per_component, "draw_in_turn", _without_others),
}


LONGEST = {*MISTAKES} - {"densities ignore others"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LONGEST else name for name in MISTAKES],
)
def test_mistakes_are_rejected(name, monkeypatch):
    """The same comparison notices weights that are wrong or left out.

    Births and draws are seen sooner without moves, which would make up for them in part.
    """
    monkeypatch.setattr(*MISTAKES[name])
    compare.assert_rejected(*chain_and_exact(MOVES if "moves" in name else {}), LONG)


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
    uniforms = np.concatenate([np.full(16, 0.5), np.linspace(1e-12, 1.0 - 1e-12, 16)])
    weighted = prior.given(np.zeros(0), uniforms)
    logs = weighted.log_weights
    assert np.isfinite(logs).all()
    assert logs.min() < -1e5  # its weight itself is zero
    assert logs.argmax() == 15
    assert np.exp(logs).sum() == pytest.approx(1.0)
    assert (weighted.choose(np.array([0.0, 0.5, 1.0 - 1e-16])) == prior.grid[15]).all()
    assert (prior.counts(prior.grid) == 1).all()


def in_turn():
    """Return by how many standard errors frequencies of densities differ from probabilities.

    These are known for every outcome of the first two of three components.
    """
    prior, n = PerComponent(1.0, 2.0, n_values=3, tied=0.7), 20_000
    grid, sizes, present = prior.grid, np.array([2, 5, 4]), prior.grid[[0, 0, 2]]
    uniforms = np.random.default_rng(2).random((n, 3))
    drawn = np.array([prior.draw(sizes, 8, u, present) for u in uniforms])
    likely = grid ** sizes[:, None] * (1 - grid) ** (8 - sizes[:, None])
    first = likely[0] * (prior.counts(present[1:]) + 0.7 / 3)
    largest = 0.0
    for i, j in np.ndindex(3, 3):
        second = likely[1] * (prior.counts(np.array([grid[i], present[2]])) + 0.7 / 3)
        expected = first[i] / first.sum() * second[j] / second.sum()
        found = (drawn[:, :2] == [grid[i], grid[j]]).all(axis=1).mean()
        largest = max(largest, abs(found - expected) / np.sqrt(expected / n))
    return largest


def test_densities_in_turn():
    """Each is drawn given those of all others, with the weights summed out."""
    assert in_turn() < 5.0


def test_a_density_that_counts_for_itself_is_noticed(monkeypatch):
    """The same comparison sees it."""
    edits = [("counts[drawn[component]] -= 1.0", "pass"), ("counts[chosen] += 1.0", "pass")]
    wrong = mutants.mutate("thali.model.draws", edits)
    monkeypatch.setattr(per_component, "draw_in_turn", wrong.draw_in_turn)
    assert in_turn() > 5.0


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
