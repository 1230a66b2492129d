"""Geweke's joint-distribution test: prior moments survive alternating data and parameters."""

from functools import cache
from itertools import islice

import numpy as np
import pytest

from support import compare, mutants
from support.chains import NO_MOVES
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Beta, Gamma, Model, PerComponent, UnequalRates
from thali.sampler import Schedule, State, Target, step
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

N_ROWS, N_COLUMNS = 4, 5
KNOWN = np.ones((N_ROWS, N_COLUMNS), bool)
KNOWN[1, 2] = KNOWN[3, 0] = False
ALPHA, DENSITY = Gamma(4.0, 3.0), Beta(3.0, 6.0)
NOISE = UnequalRates((2.0, 8.0), (3.0, 7.0))
MODEL = Model(noise=NOISE, alpha=ALPHA, density=DENSITY)
OWN_DENSITIES = Model(noise=NOISE, alpha=ALPHA, density=PerComponent(2.0, 4.0, n_values=4))
NAMES = [
    "L",
    "L²",
    "Z",
    "U",
    "singles",
    "F",
    "X",
    "errors",
    "alpha",
    "density",
    "spurious",
    "dropped",
]


def buffet(rng, alpha):
    """Draw from the Indian buffet process by its definition."""
    dishes = []
    for row in range(N_ROWS):
        for dish in dishes:
            dish[row] = rng.random() < dish[:row].sum() / (row + 1)
        for _ in range(rng.poisson(alpha / (row + 1))):
            dishes.append(np.arange(N_ROWS) == row)
    return np.array(dishes, bool).reshape(-1, N_ROWS).T


def two_rates(rng, *priors):
    while sum(rates := [rng.beta(a, b) for a, b in priors]) >= 1:
        pass
    return rates


def draw_data(rng, z, u, spurious, dropped):
    covered = (z.astype(int) @ u.T.astype(int)) > 0
    return rng.random(covered.shape) < np.where(covered, 1 - dropped, spurious), covered


def summarize(z, u, x, covered, alpha, density, spurious, dropped):
    sizes = z.sum(axis=0)
    n = len(sizes)
    errors = ((x != covered) & KNOWN).sum()
    return (
        n, n * n, z.sum(), u.sum(), (sizes == 1).sum(), covered.sum(), (x & KNOWN).sum(), errors,
        alpha, density, spurious, dropped,
    )  # fmt: skip


def draw_prior(rng, model):
    alpha = rng.gamma(ALPHA.shape, 1 / ALPHA.rate)
    z = buffet(rng, alpha)
    n = z.shape[1]
    if model is OWN_DENSITIES:
        densities = rng.choice(model.density.grid, n)
        density = densities.sum()
    else:
        densities = density = rng.beta(DENSITY.a, DENSITY.b)
    u = rng.random((N_COLUMNS, n)) < densities
    rates = two_rates(rng, NOISE.spurious, NOISE.dropped)
    return z, u, alpha, densities, density, rates


def prior_samples(n, model):
    """Return what independent draws show; tests of a model begin with the same ones."""
    drawn, more = _prior_samples(model)
    drawn.extend(islice(more, max(0, n - len(drawn))))
    return np.array(drawn[:n], float)


@cache
def _prior_samples(model):
    def draws():
        rng = np.random.default_rng(7)
        while True:
            z, u, alpha, _, density, rates = draw_prior(rng, model)
            x, covered = draw_data(rng, z, u, *rates)
            yield summarize(z, u, x, covered, alpha, density, *rates)

    return [], draws()


def chain_samples(n, model, kind, blocks, seed=3, **moves):
    """Alternate a sweep of the sampler and new data given its state."""
    rng = np.random.default_rng(seed)
    key = chain_key(seed)
    z, u, alpha, densities, _, rates = draw_prior(rng, model)
    x, _ = draw_data(rng, z, u, *rates)
    schedule = Schedule(kind, blocks=blocks, hold=0, **NO_MOVES | moves)
    target = Target.prepare(np.where(KNOWN, x.astype(float), np.nan), model, schedule, threads=1)
    noise = target.priors.noise.initial()._replace(spurious=rates[0], dropped=rates[1])
    factors = (Factor.from_dense(z), Factor.from_dense(u))
    state = State(factors, noise, alpha, (np.array(0.0), np.array(densities)), (0, 0), 0)
    out = np.empty((n, len(NAMES)))
    for i in range(n):
        state, _ = step(key, state, target)
        z, u = (f.dense() for f in state.factors)
        x, covered = draw_data(rng, z, u, *state.noise)
        density = state.densities[1].sum()
        out[i] = summarize(z, u, x, covered, state.alpha, density, *state.noise)
        tensor = PackedTensor.from_tensor(
            BinaryTensor(x & KNOWN, ~KNOWN, ("row", "column"), (None, None))
        )
        target = target._replace(engine=target.engine.load(tensor))
    return out


SCHEDULES = [
    (MODEL, "parallel", 2),
    (MODEL, "parallel", 3),
    (MODEL, "serial", 2),
    (MODEL, "serial-integrated", 2),
    (OWN_DENSITIES, "parallel", 2),
]
IDS = ["parallel-2", "parallel-3", "serial", "serial-integrated", "own densities"]


QUICKLY = [
    pytest.param(*schedule, marks=[] if name == "parallel-2" else [pytest.mark.slow], id=name)
    for schedule, name in zip(SCHEDULES, IDS, strict=True)
]
"""One schedule is quick here: tests/statistics/test_enumeration.py has all others, and densities
per component, in less time."""


@pytest.mark.parametrize("n", [8_000, pytest.param(40_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("model", "kind", "blocks"), QUICKLY)
def test_geweke(model, kind, blocks, n):
    """All hyperparameters learned, unequal rates, some entries unknown."""
    compare.assert_geweke(
        prior_samples(4 * n, model), chain_samples(n, model, kind, blocks), NAMES
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
    assert compare.geweke_rejects(prior_samples(4 * n, MODEL), chain_samples(n, MODEL, kind, 2))


@pytest.mark.slow
@pytest.mark.parametrize("n", [3_000, 30_000])
@pytest.mark.parametrize("move", MOVES)
def test_geweke_with_moves(move, n):
    """Each move of whole components leaves the joint distribution as it is.

    Enumeration has each of them quickly (tests/sampler/moves), and all together with everything
    learned (test_tries.py there).
    """
    sampled = chain_samples(n, MODEL, "parallel", 2, **{move: 3})
    compare.assert_geweke(prior_samples(4 * n, MODEL), sampled, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("move", MOVES)
def test_geweke_rejects_a_wrong_ratio(move, monkeypatch):
    """The same test, at the same length, rejects a move with a wrong acceptance ratio.

    Slow: tests/sampler/moves rejects all of them quickly, by enumeration.
    """
    mutants.wrong_ratio(move)(monkeypatch.setattr)
    sampled = chain_samples(3_000, MODEL, "parallel", 2, **{move: 3})
    assert compare.geweke_rejects(prior_samples(12_000, MODEL), sampled)
