"""Levels of the lines of every mode of a tensor are exact, by Geweke's test."""

from functools import partial

import numpy as np
import pytest

from support import compare, exact
from support.chains import NO_MOVES
from support.joint import buffet
from support.mutants import module, mutate
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Beta, Effects, Gamma, Levels, Model
from thali.model.levels import Hyper
from thali.sampler import Schedule, State, Target, step
from thali.streams import chain_key

SMALL = Effects(
    jumps=False,
    row_levels=(-1.5, 0.0, 1.5),
    column_levels=(-2.0, -0.5, 1.0),  # the same steps, so that both can shift
    jump_sizes=(1.0, 2.5),
    offsets=tuple(np.linspace(-0.6, 0.5, 12)),
    spreads=(0.0, 0.7, 1.5),
)
ALPHA, DENSITY = Gamma(4.0, 3.0), Beta(4.0, 4.0)
MODEL = Model(noise=SMALL, alpha=ALPHA, density=DENSITY)
SHAPES = {"three modes": (4, 3, 5), "four modes": (3, 2, 4, 2)}
ALL = {"residual": 1, "seeded": 1, "split_merge": 1}


def known_of(shape):
    known = np.ones(shape, bool)
    known.flat[[3, 17]] = False
    return known


def draw_prior(rng, shape):
    """Draw everything from its definition."""
    n_rows, n_columns, *more = shape
    alpha = rng.gamma(ALPHA.shape, 1 / ALPHA.rate)
    users = buffet(rng, alpha, n_rows)
    densities = rng.beta(DENSITY.a, DENSITY.b, size=len(shape) - 1)
    codes = [
        rng.random((n, users.shape[1])) < q for n, q in zip(shape[1:], densities, strict=True)
    ]
    spreads = rng.integers(len(SMALL.spreads), size=len(shape)).tolist()
    mean, jump, offset = (
        int(rng.integers(len(grid)))
        for grid in (SMALL.column_levels, SMALL.jump_sizes, SMALL.offsets)
    )

    def levels(grid, mean, spread, n):
        law = exact.level_law(grid, mean, SMALL.spreads[spread])
        return rng.choice(len(grid), size=n, p=law)

    noise = Levels(
        SMALL,
        levels(SMALL.row_levels, 0.0, spreads[0], n_rows),
        levels(SMALL.column_levels, SMALL.column_levels[mean], spreads[1], n_columns),
        np.full(n_columns, jump),
        Hyper(spreads[0], mean, spreads[1], jump, 0, offset, tuple(spreads[2:])),
        tuple(levels(SMALL.row_levels, 0.0, s, n) for s, n in zip(spreads[2:], more, strict=True)),
    )
    return [users, *codes], alpha, densities, noise


def draw_data(rng, factors, noise):
    letters = "abcd"[: len(factors)]
    terms = ",".join(f"{letter}k" for letter in letters)
    covered = np.einsum(f"{terms}->{letters}", *(f.astype(int) for f in factors)) > 0
    odds = np.full(covered.shape, SMALL.offsets[noise.hyper.offset])
    for mode, levels in enumerate(noise.lines):
        grid = np.array(SMALL.column_levels if mode == 1 else SMALL.row_levels)
        odds += grid[levels].reshape([-1 if m == mode else 1 for m in range(covered.ndim)])
    odds += SMALL.jump_sizes[noise.hyper.jump_mean] * covered
    return rng.random(covered.shape) < 1 / (1 + np.exp(-odds)), covered


def summarize(factors, x, covered, alpha, densities, noise):
    sizes = factors[0].sum(axis=0)
    x = x & known_of(x.shape)
    found = [
        len(sizes), len(sizes) ** 2, (sizes == 1).sum(), covered.sum(), x.sum(),
        (x & covered).sum(), alpha, *densities, *noise.hyper.flat(),
        *(noise.hyper.spread_of(mode) == 0 for mode in range(x.ndim)),
    ]  # fmt: skip
    for mode, (factor, levels) in enumerate(zip(factors, noise.lines, strict=True)):
        margin = x.sum(axis=tuple(m for m in range(x.ndim) if m != mode))
        found += [factor.sum(), levels.sum(), levels.var(), margin @ levels]
    return found


def prior_samples(n, shape):
    rng = np.random.default_rng(7)
    out = []
    for _ in range(n):
        factors, alpha, densities, noise = draw_prior(rng, shape)
        out.append(summarize(factors, *draw_data(rng, factors, noise), alpha, densities, noise))
    return np.array(out, float)


def chain_samples(n, shape, seed=3):
    """Alternate a sweep of the sampler and new data given its state."""
    rng, key, known = np.random.default_rng(seed), chain_key(seed), known_of(shape)
    factors, alpha, densities, noise = draw_prior(rng, shape)
    x, _ = draw_data(rng, factors, noise)
    schedule = Schedule(blocks=2, hold=0, starts=0, **NO_MOVES | ALL)
    target = Target.prepare(np.where(known, x.astype(float), np.nan), MODEL, schedule, threads=1)
    packed = tuple(map(Factor.from_dense, factors))
    state = State(packed, noise, alpha, (np.array(0.0), *map(np.array, densities)), (0, 0), 0)
    names = tuple(f"mode {m}" for m in range(len(shape)))
    out = []
    for _ in range(n):
        state, _ = step(key, state, target)
        factors = [factor.dense() for factor in state.factors]
        x, covered = draw_data(rng, factors, state.noise)
        densities = [float(q) for q in state.densities[1:]]
        out.append(summarize(factors, x, covered, state.alpha, densities, state.noise))
        data = BinaryTensor(x & known, ~known, names, (None,) * len(shape))
        target = target._replace(engine=target.engine.load(PackedTensor.from_tensor(data)))
    return np.array(out, float)


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        ("three modes", 1_000),
        pytest.param("three modes", 20_000, marks=pytest.mark.slow),
        pytest.param("four modes", 20_000, marks=pytest.mark.slow),
    ],
)
def test_geweke_with_levels_of_every_mode(shape, n):
    """Prior moments of everything survive alternating data and parameters, with all moves."""
    compare.assert_geweke(prior_samples(2 * n, SHAPES[shape]), chain_samples(n, SHAPES[shape]))


MISTAKES = {
    # Log odds must stay among those of the grids: tables have no others.
    "levels of the third mode forget the others": (
        "thali.sampler.levels",
        "_likelihoods(noise, counts, odds + offset,",
        "_likelihoods(noise, counts, (odds + offset) * (mode != 2),",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_about_levels_of_modes_is_rejected(mistake, monkeypatch):
    """The same comparison with the prior fails."""
    name, *edit = MISTAKES[mistake]
    mutant = mutate(name, [tuple(edit)])
    monkeypatch.setattr(module("thali.sampler.step"), "draw_levels", mutant.draw_levels)
    shape = SHAPES["three modes"]
    sampled = partial(chain_samples, shape=shape)
    assert compare.geweke_rejects_by(1_000, partial(prior_samples, shape=shape), sampled)
