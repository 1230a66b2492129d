"""Sampled frequencies against the exact posterior of tiny problems, all states enumerated."""

import numpy as np
import pytest

from support import compare, exact
from support.chains import NO_MOVES, X32, X33, X222, X223, as_exact, hide, run
from thali.model import Beta, EqualRates, FixedRates, Gamma, Model, PerComponent, UnequalRates
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

QUICK, LONG = 12_000, 60_000
QUICK_FINITE = 6_000  # a prior that is left out has a |z| of 36 after 4,000 sweeps; the bound is 6

# q is not 1/2, alpha / N is of order one, some entries are unknown, rates are unequal: at rounder
# values several known mistakes would cancel.
BUFFETS = {
    "fixed": (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3)),
    "learned": (
        X32,
        (),
        Model(noise=EqualRates((2.0, 6.0)), alpha=Gamma(2.0, 2.0), density=Beta(2.0, 3.0)),
    ),
    "unequal": (
        X33,
        ((1, 1), (2, 0)),
        Model(
            noise=UnequalRates((1.5, 6.0), (2.0, 5.0)),
            alpha=Gamma(2.0, 1.5),
            density=Beta(2.0, 3.0),
        ),
    ),
}
ALL_MOVES = {"split_merge": 2, "anchored": 1, "guided": 2, "residual": 1}
SCHEDULES = [("parallel", 2), ("parallel", 3), ("serial", 2), ("serial-integrated", 2)]


def check_buffet(name, kind, blocks, n_sweeps):
    x, hidden, model = BUFFETS[name]
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=24)
    ks, fs = run(tensor, model, n_sweeps, kind=kind, blocks=blocks)
    compare.assert_matches(ks, fs, expected)


QUICKLY = [("unequal", *schedule) for schedule in SCHEDULES[1:]]
"""Every schedule with everything learned and unknown entries. Given rates have the controls in
test_negative_controls.py; the slow test below has all problems."""


@pytest.mark.parametrize(("name", "kind", "blocks"), QUICKLY)
def test_buffet(name, kind, blocks):
    """Number of components and prediction follow the exact posterior."""
    check_buffet(name, kind, blocks, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "blocks"), SCHEDULES)
@pytest.mark.parametrize("name", BUFFETS)
def test_buffet_long(name, kind, blocks):
    """The same at a resolution that separates every known mistake."""
    check_buffet(name, kind, blocks, LONG)


OWN_DENSITIES = Model(
    noise=FixedRates(0.1, 0.25), alpha=1.4, density=PerComponent(1.0, 2.0, n_values=3, tied=None)
)


@pytest.mark.slow  # moves of components with their own densities are compared quickly
@pytest.mark.parametrize("n_sweeps", [QUICK, LONG])
def test_buffet_with_a_density_per_component(n_sweeps):
    """Births and deaths with the density summed out."""
    tensor, known = hide(X33, (0, 2))
    expected = exact.posterior_ibp(X33, known, as_exact(OWN_DENSITIES), max_components=24)
    compare.assert_matches(*run(tensor, OWN_DENSITIES, n_sweeps), expected)


FINITE = {
    "matrix": (X33, ((0, 2),), Model(2, FixedRates(0.1, 0.2), density=(0.4, 0.3)), 0.4),
    "learned": (
        X32,
        (),
        Model(2, UnequalRates((2.0, 6.0), (2.0, 5.0)), density=Beta(2.0, 3.0)),
        None,
    ),
    "per-component": (
        X32,
        ((0, 1),),
        Model(2, EqualRates((2.0, 6.0)), density=PerComponent(1.0, 2.0, n_values=3, tied=None)),
        None,
    ),
    "tied": (
        X32,
        ((0, 1),),
        Model(2, EqualRates((2.0, 6.0)), density=PerComponent(1.0, 2.0, n_values=2, tied=0.8)),
        None,
    ),
    "tensor": (
        X222,
        ((0, 1, 0),),
        Model(2, FixedRates(0.15, 0.25), density=(0.45, 0.5, 0.6)),
        0.45,
    ),
    "longer tensor": (
        X223,
        (),
        Model(2, EqualRates((2.0, 6.0)), density=(0.45, 0.5, 0.6)),
        0.45,
    ),
}


@pytest.mark.parametrize("n_sweeps", [QUICK_FINITE, pytest.param(LONG, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FINITE)
def test_finite(name, n_sweeps):
    """A fixed number of components, arity 2 and 3."""
    x, hidden, model, density_rows = FINITE[name]
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_finite(x, known, as_exact(model), 2, density_rows)
    _, fs = run(tensor, model, n_sweeps)
    compare.assert_matches(None, fs, expected)


@pytest.mark.parametrize(
    ("kind", "blocks", "moves"),
    [
        # Without moves, test_buffet has these schedules quickly.
        *(pytest.param(*s, {}, marks=pytest.mark.slow) for s in SCHEDULES),
        ("parallel", 2, {"split_merge": 2, "guided": 2, "residual": 1}),
    ],
)
def test_whole_states(kind, blocks, moves):
    """Not only what is predicted: users and codes of every component, as a set."""
    x = np.array([[1, 0], [1, 1]])
    model = Model(noise=FixedRates(0.1, 0.2), alpha=0.9, density=0.3)
    expected = exact.posterior_states(x, np.ones(x.shape, bool), as_exact(model), 3)
    schedule = Schedule(kind, blocks=blocks, hold=0, **NO_MOVES | moves)
    target = Target.prepare(x, model, schedule, threads=1)
    keys = [
        exact.canonical([f.dense() for f in state.factors]).key
        for state, info in chain(chain_key(5), target, QUICK // 2 if moves else QUICK)
        if info.n_components <= 3
    ]
    compare.assert_states_match(keys, expected)
