"""In the warm-up of a chain with levels, components cost less; in draws they cost their price."""

import numpy as np
import pytest

from thali.model import Gamma, Model
from thali.model.priors import harmonic
from thali.sampler import Schedule, Target, chain
from thali.sampler.grow.released import fitted_levels
from thali.sampler.info import Info
from thali.sampler.step import step
from thali.sampler.warming import target_of
from thali.streams import chain_key

KEY = chain_key(3)
WARMUP = 100
RATE = Gamma().rate
EFFECTS = Model(noise="effects")


def table():
    """Return a table whose rows and columns differ, and a block of ones, with its factors."""
    rng = np.random.default_rng(5)
    odds = rng.normal(size=(30, 1)) + rng.normal(-1.5, 1.0, 20)
    users, code = np.arange(30) < 12, np.arange(20) < 9
    data = rng.random((30, 20)) < 1.0 / (1.0 + np.exp(-odds - 4.0 * np.outer(users, code)))
    return data, (users[:, None], code[:, None])


def begun(model, *, warmup=WARMUP):
    """Return a target and a state with one component and, with effects, fitted levels."""
    data, factors = table()
    schedule = Schedule(warmup=warmup, starts=0, hold=0)
    target = Target.prepare(data, model, schedule, "cpu", 1)
    state = target.initial(KEY, factors)
    if model.noise == "effects":
        state = state._replace(noise=fitted_levels(KEY, target).noise)
    return target, state


def tensor():
    """Return the same of the table beside its complement."""
    data, (users, code) = table()
    both = np.stack([data, ~data], axis=2)
    schedule = Schedule(warmup=WARMUP, starts=0, hold=0)
    target = Target.prepare(both, EFFECTS, schedule, "cpu", 1)
    state = target.initial(KEY, (users, code, np.array([[1], [0]])))
    return target, state._replace(noise=fitted_levels(KEY, target).noise)


def rate_at(sweep, target, state):
    return target_of(state._replace(sweep=sweep), target).priors.buffet.concentration.rate


def test_the_price_of_a_component_is_low_at_first_and_right_before_the_warm_up_ends():
    target, state = begun(EFFECTS)
    rates = np.array([rate_at(sweep, target, state) for sweep in range(WARMUP + 5)])
    assert np.allclose(rates[:61], RATE / 100)
    assert (np.diff(rates[60:86]) > 0).all()
    assert (rates[85:] == RATE).all()
    assert target_of(state._replace(sweep=85), target) is target


def without_components():
    target, state = begun(EFFECTS)
    return target, state.take(np.zeros(1, np.bool_))


def with_flat_levels():
    target, _ = begun(EFFECTS)
    return target, target.initial(KEY, table()[1])


LEFT_ALONE = {
    "no components": without_components,
    "flat levels": with_flat_levels,
    "no warm-up": lambda: begun(EFFECTS, warmup=0),
    "one sweep of warm-up": lambda: begun(EFFECTS, warmup=1),
    "two rates": lambda: begun(Model(noise="unequal")),
    "given concentration": lambda: begun(Model(noise="effects", alpha=0.5)),
    "given number": lambda: begun(Model(1, noise="effects")),
    "a prior with a low rate": lambda: begun(Model(noise="effects", alpha=Gamma(2.0, 0.5))),
    "a tensor": tensor,
}
"""Chains whose warm-up has the model as its target, by what is special about them."""


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_chains_are_left_alone(name):
    target, state = LEFT_ALONE[name]()
    assert target_of(state, target) is target


def test_draws_are_those_of_the_model():
    """After the warm-up a chain is one of the model's own steps; before it is not."""
    target, state = begun(EFFECTS)

    def are_the_same(first):
        now = state._replace(sweep=first)
        for there, _ in chain(KEY, target, 3, now):
            now, _ = step(KEY, now, target)
            if there.alpha != now.alpha or not np.array_equal(
                there.factors[0].words, now.factors[0].words
            ):
                return False
        return True

    assert are_the_same(WARMUP)
    assert are_the_same(85)
    assert not are_the_same(0)


def test_densities_are_told_of_the_model():
    """Those of the warm-up can be compared with those of draws."""
    target, state = begun(EFFECTS)
    assert target_of(state, target) is not target
    ((now, info),) = chain(KEY, target, 1, state)
    assert info.log_joint == Info(now, target, True, {}).log_joint
    assert info.log_joint != Info(now, target_of(state, target), True, {}).log_joint


def test_the_concentration_is_drawn_larger_by_what_the_rates_say():
    """The number of components is the same in both, as is the random number."""
    target, state = begun(EFFECTS)
    plain, _ = step(KEY, state, target)
    cheap, _ = step(KEY, state, target_of(state, target))
    assert plain.n_components == cheap.n_components
    h = harmonic(30)
    assert cheap.alpha / plain.alpha == pytest.approx((RATE + h) / (RATE / 100 + h))


def test_a_chain_that_was_stopped_continues_in_the_same_way():
    target, state = begun(EFFECTS)
    state = state._replace(sweep=58)  # the price soon changes in every sweep
    whole = [now.alpha for now, _ in chain(KEY, target, 6, state)]
    first = [now for now, _ in chain(KEY, target, 3, state)]
    rest = [now.alpha for now, _ in chain(KEY, target, 3, first[-1])]
    assert [now.alpha for now in first] + rest == whole
