"""Geweke's joint-distribution test: prior moments survive alternating data and parameters."""

from functools import partial

import pytest

from support import compare, mutants
from support.joint import NAMES, Problem, chain_samples, prior_samples
from thali.model import Beta, Gamma, Model, PerComponent, UnequalRates
from thali.sampler.schedule import MOVES

SHAPE, HIDDEN = (4, 5), ((1, 2), (3, 0))
PRIORS = {"noise": UnequalRates((2.0, 8.0), (3.0, 7.0)), "alpha": Gamma(4.0, 3.0)}
SHARED = Problem(SHAPE, HIDDEN, Model(**PRIORS, density=Beta(3.0, 6.0)))
OWN = Problem(
    SHAPE, HIDDEN, Model(**PRIORS, density=PerComponent(2.0, 4.0, n_values=4, tied=None))
)

SCHEDULES = [
    (SHARED, "parallel", 2),
    (SHARED, "parallel", 3),
    (SHARED, "serial", 2),
    (SHARED, "serial-integrated", 2),
    (OWN, "parallel", 2),
]
IDS = ["parallel-2", "parallel-3", "serial", "serial-integrated", "own densities"]


QUICKLY = [
    pytest.param(*schedule, marks=[] if name == "parallel-2" else [pytest.mark.slow], id=name)
    for schedule, name in zip(SCHEDULES, IDS, strict=True)
]
"""One schedule is quick here: tests/statistics/test_enumeration.py has all others, and densities
per component, in less time."""


@pytest.mark.parametrize("n", [5_000, pytest.param(40_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("problem", "kind", "blocks"), QUICKLY)
def test_geweke(problem, kind, blocks, n):
    """All hyperparameters learned, unequal rates, some entries unknown."""
    compare.assert_geweke(
        prior_samples(4 * n, problem), chain_samples(n, problem, kind, blocks), NAMES
    )


@pytest.mark.parametrize(
    ("mutation", "kind", "n"),
    [
        (mutants.poisson_at_the_total, "serial", 4_000),
        pytest.param(mutants.printed_power, "serial", 40_000, marks=pytest.mark.slow),
        pytest.param(
            mutants.dropped_in_a_parallel_phase, "parallel", 40_000, marks=pytest.mark.slow
        ),
    ],
)
def test_geweke_rejects(mutation, kind, n, monkeypatch):
    """The same test rejects samplers with a known mistake."""
    mutation(monkeypatch.setattr)
    sampled = partial(chain_samples, problem=SHARED, kind=kind, blocks=2)
    assert compare.geweke_rejects_by(n, partial(prior_samples, problem=SHARED), sampled)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3_000, 30_000])
@pytest.mark.parametrize("move", MOVES)
def test_geweke_with_moves(move, n):
    """Each move of whole components leaves the joint distribution as it is.

    Enumeration has each of them quickly (tests/sampler/moves), and test_levels.py has all of them
    together with everything learned.
    """
    sampled = chain_samples(n, SHARED, "parallel", 2, **{move: 3})
    compare.assert_geweke(prior_samples(4 * n, SHARED), sampled, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("move", MOVES)
def test_geweke_rejects_a_wrong_ratio(move, monkeypatch):
    """The same test, at the same length, rejects a move with a wrong acceptance ratio.

    Slow: tests/sampler/moves rejects all of them quickly, by enumeration.
    """
    mutants.wrong_ratio(move)(monkeypatch.setattr)
    sampled = chain_samples(3_000, SHARED, "parallel", 2, **{move: 3})
    assert compare.geweke_rejects(prior_samples(12_000, SHARED), sampled)
