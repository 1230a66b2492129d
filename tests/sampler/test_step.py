"""What a sweep reports, and what it refuses."""

from math import lgamma, log

import numpy as np
import pytest
from scipy.special import expit

import thali
from support import oracle
from support.mutants import mutate
from thali.model import Beta, EqualRates, FixedRates, Gamma, Model, PerComponent, UnequalRates
from thali.sampler import Info, Schedule, Target, chain, step
from thali.sampler.step import sweeps_per_draw, update_memberships
from thali.streams import Stream, chain_key

ALPHA, DENSITY = Gamma(2.0, 3.0), Beta(2.0, 4.0)
UNEQUAL, EQUAL = UnequalRates((2.0, 9.0), (3.0, 8.0)), EqualRates((2.0, 9.0))
MODELS = {
    "buffet": Model(noise=UNEQUAL, alpha=ALPHA, density=DENSITY),
    "equal": Model(noise=EQUAL, alpha=1.5, density=0.3),
    "fixed": Model(noise=FixedRates(0.1, 0.3), alpha=ALPHA, density=0.3),
    "own densities": Model(
        noise=UNEQUAL, alpha=ALPHA, density=PerComponent(1.0, 2.0, n_values=3, tied=None)
    ),
    "finite": Model(3, noise=UNEQUAL, density=(DENSITY, 0.4)),
}


def log_gamma(x, a, b):
    return a * log(b) - lgamma(a) + (a - 1) * log(x) - b * x


def expected_log_joint(model, state, cells, shape):
    """The density of everything, from its definition."""
    components = oracle.as_components([f.dense() for f in state.factors])
    densities = [d.tolist() for d in state.densities]
    is_buffet = not model.is_finite
    total = oracle.log_likelihood(cells, components, state.noise)
    total += oracle.log_factors(components, densities, state.alpha, shape, is_buffet=is_buffet)
    if model.noise is UNEQUAL:
        total += oracle.log_two_rates(state.noise, (UNEQUAL.spurious, UNEQUAL.dropped))
    elif model.noise is EQUAL:
        total += oracle.log_beta(state.noise.spurious, *EQUAL.prior, upper=0.5)
    if is_buffet and model.alpha is ALPHA:
        total += log_gamma(state.alpha, ALPHA.shape, ALPHA.rate)
    if isinstance(model.density, PerComponent):
        total -= len(components) * log(model.density.n_values)
    elif model.density is DENSITY:
        total += oracle.log_beta(densities[1], DENSITY.a, DENSITY.b)
    elif isinstance(model.density, tuple):
        total += oracle.log_beta(densities[0], DENSITY.a, DENSITY.b)
    return total


@pytest.mark.parametrize("name", MODELS)
def test_log_joint_is_the_density_of_everything(name):
    """Data, factors as a set, rates, densities and concentration, all normalised."""
    model = MODELS[name]
    data = thali.simulate((7, 9), 3, unknown=0.1, seed=1)
    cells = oracle.as_cells(data.tensor, ~np.isnan(data.tensor))
    target = Target.prepare(data.tensor, model, threads=1)
    for state, info in chain(chain_key(3), target, 6):
        expected = expected_log_joint(model, state, cells, data.tensor.shape)
        assert info.log_joint == pytest.approx(expected, abs=1e-8)


def test_identical_components_count_once():
    """Components are a multiset: equal ones, their own density included, have no order."""
    prior = PerComponent(1.0, 2.0, n_values=3, tied=None)
    z, u = np.ones((4, 3), bool), np.tile([[1], [0], [1], [1]], 3).astype(bool)
    model = Model(noise=UNEQUAL, alpha=ALPHA, density=prior)
    target = Target.prepare(np.eye(4), model, threads=1)
    for grid in ([0, 0, 0], [0, 1, 0], [0, 1, 2]):
        state = target.initial(chain_key(0), [z, u])
        state = state._replace(densities=(state.densities[0], prior.grid[grid]))
        found = Info(state, target, is_warmup=False, moves={}).log_joint
        expected = expected_log_joint(model, state, oracle.as_cells(np.eye(4)), (4, 4))
        assert found == pytest.approx(expected, abs=1e-9)


def test_start_of_a_chain_shares_nothing_with_simulated_data():
    """The same seed for data and chain does not start the chain at the truth."""
    data = thali.simulate((200, 300), 4, seed=3)
    start = Target.prepare(data.tensor, Model(4), threads=1).initial(chain_key(3))
    for factor, truth in zip(start.factors, data.factors, strict=True):
        agreement = (factor.dense() == truth).mean()
        # Independent fair bits agree in half of n entries, give or take 1/(2 sqrt(n)).
        assert abs(agreement - 0.5) < 5 * 0.5 / np.sqrt(truth.size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", None, 3), "key='a' was given; chain_key"),
        ((-1, None, 3), "key=-1 was given; chain_key"),
        ((0, np.eye(3), 3), "target=ndarray was given; Target.prepare"),
        ((0, None, -1), "n_sweeps=-1 was given"),
        ((0, None, 1.5), "n_sweeps=1.5 was given"),
    ],
)
def test_bad_arguments_of_a_chain(arguments, message):
    """Said at once, not in the first sweep."""
    key, target, n_sweeps = arguments
    target = Target.prepare(np.eye(3)) if target is None else target
    with pytest.raises((TypeError, ValueError), match=message):
        chain(key, target, n_sweeps)


def test_seed_in_place_of_a_key_is_a_key():
    """Any 64-bit integer is a key."""
    target = Target.prepare(np.eye(3))
    assert [i for _, i in chain(7, target, 2)] == [i for _, i in chain(np.uint64(7), target, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "unequal"}, "model='unequal' was given; a Model is needed"),
        ({"schedule": 100}, "schedule=100 was given; a Schedule is needed"),
        ({"schedule": "sideways"}, "schedule='sideways' was given; allowed are"),
        ({"engine": None}, "give the name of an engine"),
        ({"tensor": thali.simulate((3, 3), 1)}, r"pass their `\.tensor`"),
    ],
)
def test_bad_arguments_of_a_target(arguments, message):
    """One sentence for what does not fit."""
    with pytest.raises((TypeError, ValueError), match=message):
        Target.prepare(**({"tensor": np.eye(3)} | arguments))


def test_schedule_by_name():
    """A schedule may be given by its kind."""
    assert Target.prepare(np.eye(3), schedule="serial").schedule == Schedule("serial")


def test_step_changes_nothing_it_was_given():
    """A step is a function: the state before it is the same afterwards."""
    target = Target.prepare(thali.simulate((30, 40), 3).tensor, threads=1)
    *_, (state, _) = chain(chain_key(1), target, 5)
    before = [f.words.copy() for f in state.factors]
    one, again = step(chain_key(1), state, target), step(chain_key(1), state, target)
    assert one[1] == again[1]
    assert all(np.array_equal(a, f.words) for a, f in zip(before, state.factors, strict=True))


# --- memberships at given odds -----------------------------------------------------------------


def frequencies(update, n_draws):
    """Return how often each row has each of two components, and the exact probabilities."""
    data = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]])
    model = Model(noise=FixedRates(0.2, 0.3), alpha=1.5, density=0.3)
    target = Target.prepare(data, model, threads=1)
    codes = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], bool)  # disjoint: rows decide about each
    state = target.initial(chain_key(0), [np.ones((5, 2), bool), codes])
    odds = np.array([-1.0, 0.5])
    drawn = np.zeros((5, 2))
    for number in range(n_draws):
        after = update(Stream(chain_key(1), np.uint64(number)), state, target, odds)
        assert after.densities is state.densities
        assert after.covered == target.recount(after).covered
        drawn += after.factors[0].dense()
    gains = data @ codes * log(0.7 / 0.2) + (1 - data) @ codes * log(0.3 / 0.8)
    return drawn / n_draws, expit(odds + gains)


def test_memberships_at_given_odds():
    """Rows draw from prior odds times likelihood ratio: all are within five standard errors."""
    found, expected = frequencies(update_memberships, 1_000)
    bound = 5.0 * np.sqrt(expected * (1.0 - expected) / 1_000)
    assert (np.abs(found - expected) < bound).all()


def test_memberships_at_the_odds_of_codes_are_noticed():
    """The same frequencies are off if the odds of memberships are not used."""
    edits = [("densities=(expit(odds), *of_codes[1:])", "densities=(of_codes[1], *of_codes[1:])")]
    found, expected = frequencies(mutate("thali.sampler.step", edits).update_memberships, 1_000)
    bound = 5.0 * np.sqrt(expected * (1.0 - expected) / 1_000)
    assert (np.abs(found - expected) > bound).any()


def test_levels_are_drawn_more_rarely_in_larger_tables():
    """The number of sweeps per draw depends on the number of known entries alone."""
    sizes = (1, 1 << 17, 1 << 19, 1 << 31, 1 << 32)
    assert [sweeps_per_draw(n) for n in sizes] == [1, 1, 4, 8, 16]
