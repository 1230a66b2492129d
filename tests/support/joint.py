"""Geweke's alternation: a sweep of the sampler, and new data given its state, in turn.

If the sampler is right, parameters and data keep their joint distribution, so that averages over
such a chain are those over independent draws from the prior.
"""

from dataclasses import dataclass
from functools import cache, reduce
from itertools import islice

import numpy as np

from support.chains import NO_MOVES
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Beta, Model, PerComponent
from thali.sampler import Schedule, State, Target, step
from thali.streams import chain_key

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
"""What is compared; U are the factors of all modes but the first, together."""


@dataclass(frozen=True)
class Problem:
    """A model of a tensor with everything learned, and the entries that are unknown."""

    shape: tuple[int, ...]
    hidden: tuple[tuple[int, ...], ...]
    model: Model

    @property
    def known(self):
        """Return the mask of the known entries."""
        known = np.ones(self.shape, bool)
        for cell in self.hidden:
            known[cell] = False
        return known


def buffet(rng, alpha, n_rows):
    """Draw from the Indian buffet process by its definition."""
    dishes = []
    for row in range(n_rows):
        for dish in dishes:
            dish[row] = rng.random() < dish[:row].sum() / (row + 1)
        for _ in range(rng.poisson(alpha / (row + 1))):
            dishes.append(np.arange(n_rows) == row)
    return np.array(dishes, bool).reshape(-1, n_rows).T


def two_rates(rng, *priors):
    """Draw two error rates whose sum is below one."""
    while sum(rates := [rng.beta(a, b) for a, b in priors]) >= 1:
        pass
    return rates


def draw_prior(rng, problem):
    """Draw factors, concentration, densities by mode (the first has none) and error rates."""
    model = problem.model
    n_rows, *others = problem.shape
    alpha = rng.gamma(model.alpha.shape, 1 / model.alpha.rate)
    factors = [buffet(rng, alpha, n_rows)]
    n = factors[0].shape[1]
    densities = [np.array(0.0)]
    for n_lines in others:
        if isinstance(model.density, PerComponent):
            grid, tied = model.density.grid, model.density.tied
            weights = None if tied is None else rng.dirichlet(np.full(len(grid), tied / len(grid)))
            density = rng.choice(grid, n, p=weights)
        else:
            assert isinstance(model.density, Beta)
            density = rng.beta(model.density.a, model.density.b)
        factors.append(rng.random((n_lines, n)) < density)
        densities.append(np.array(density))
    rates = two_rates(rng, model.noise.spurious, model.noise.dropped)
    return factors, alpha, densities, rates


def draw_data(rng, factors, spurious, dropped):
    """Draw the data given components and error rates; return them with what is covered."""
    shape = tuple(len(factor) for factor in factors)
    covered = np.zeros(shape, bool)
    for lines in zip(*(factor.T for factor in factors), strict=True):
        covered |= reduce(np.logical_and.outer, lines)
    return rng.random(shape) < np.where(covered, 1 - dropped, spurious), covered


def summarize(problem, factors, x, covered, alpha, densities, spurious, dropped):
    """Return the values of all summaries, in the order of `NAMES`."""
    users, *others = factors
    sizes = users.sum(axis=0)
    n, known = len(sizes), problem.known
    errors = ((x != covered) & known).sum()
    return (
        n, n * n, users.sum(), sum(lines.sum() for lines in others), (sizes == 1).sum(),
        covered.sum(), (x & known).sum(), errors,
        alpha, sum(density.sum() for density in densities[1:]), spurious, dropped,
    )  # fmt: skip


def prior_samples(n, problem):
    """Return what independent draws show; tests of a problem begin with the same ones."""
    drawn, more = _prior_samples(problem)
    drawn.extend(islice(more, max(0, n - len(drawn))))
    return np.array(drawn[:n], float)


@cache
def _prior_samples(problem):
    def draws():
        rng = np.random.default_rng(7)
        while True:
            factors, alpha, densities, rates = draw_prior(rng, problem)
            x, covered = draw_data(rng, factors, *rates)
            yield summarize(problem, factors, x, covered, alpha, densities, *rates)

    return [], draws()


def chain_samples(n, problem, kind="parallel", blocks=2, seed=3, **moves):
    """Alternate a sweep of the sampler and new data given its state."""
    rng = np.random.default_rng(seed)
    key, known, arity = chain_key(seed), problem.known, len(problem.shape)
    dense, alpha, densities, rates = draw_prior(rng, problem)
    x, _ = draw_data(rng, dense, *rates)
    schedule = Schedule(kind, blocks=blocks, hold=0, **NO_MOVES | moves)
    data = np.where(known, x.astype(float), np.nan)
    target = Target.prepare(data, problem.model, schedule, threads=1)
    noise = target.priors.noise.initial()._replace(spurious=rates[0], dropped=rates[1])
    factors = tuple(map(Factor.from_dense, dense))
    state = target.recount(State(factors, noise, alpha, tuple(densities), (0, 0), 0))
    names = tuple(f"mode {mode}" for mode in range(arity)), (None,) * arity
    out = np.empty((n, len(NAMES)))
    for i in range(n):
        state, _ = step(key, state, target)
        dense = [factor.dense() for factor in state.factors]
        x, covered = draw_data(rng, dense, *state.noise)
        out[i] = summarize(problem, dense, x, covered, state.alpha, state.densities, *state.noise)
        tensor = PackedTensor.from_tensor(BinaryTensor(x & known, ~known, *names))
        target = target._replace(engine=target.engine.load(tensor))
        state = target.recount(state)
    return out
