"""Run chains of tiny problems and read off what enumeration can check."""

import numpy as np

from support import exact
from thali.model import Beta, EqualRates, FixedRates, Gamma, PerComponent, UnequalRates
from thali.sampler import Schedule, Target, chain
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

X33 = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])
X32 = np.array([[1, 1], [1, 0], [0, 1]])
X222 = np.array([[[1, 1], [0, 1]], [[1, 0], [0, 0]]])
X223 = np.array([[[1, 1, 0], [0, 1, 1]], [[1, 0, 1], [0, 0, 1]]])


def hide(x, *cells):
    """Return data with unknown entries, and the mask."""
    known = np.ones(x.shape, bool)
    for cell in cells:
        known[cell] = False
    return np.where(known, x.astype(float), np.nan), known


NO_MOVES = dict.fromkeys(MOVES, 0)
BROAD = Gamma(1.0, 1.0)
"""A prior that lets chains have more components than the default does: more to test."""


def run(
    tensor, model, n_sweeps, *, kind="parallel", blocks=2, seed=1, burn=200, module=chain, **moves
):
    """Return the number of components and the prediction (a bit mask) after every sweep.

    Moves of whole components are off unless asked for: they would repair mistakes elsewhere.
    """
    schedule = Schedule(kind, blocks=blocks, hold=0, **NO_MOVES | moves)
    target = Target.prepare(tensor, model, schedule, threads=1)
    return draws(target, n_sweeps, seed=seed, burn=burn, module=module)


def draws(target, n_sweeps, *, seed=1, burn=200, module=chain):
    ks, fs = np.empty(n_sweeps, int), np.empty(n_sweeps, int)
    for i, (state, info) in enumerate(module(chain_key(seed), target, burn + n_sweeps)):
        if i >= burn:
            ks[i - burn] = info.n_components
            fs[i - burn] = prediction(state)
    return ks, fs


def prediction(state):
    """Return the noise-free tensor as a bit mask over its cells in C order."""
    shape = [f.n_rows for f in state.factors]
    n_cells = int(np.prod(shape))
    cells = np.zeros(n_cells, bool)
    for component in range(state.n_components):
        box = np.ones(1, bool)
        for factor in state.factors:
            word = int(factor.words[component, 0])
            bits = np.array([word >> i & 1 for i in range(factor.n_rows)], bool)
            box = np.outer(box, bits).ravel()
        cells |= box
    return int(cells @ (1 << np.arange(n_cells)))


def as_exact(model):
    """Return the same priors for the exact posterior."""
    out = {}
    noise = model.noise
    if isinstance(noise, FixedRates):
        out |= {"noise": "fixed", "spurious": noise.spurious, "dropped": noise.dropped}
    elif isinstance(noise, EqualRates):
        out |= {"noise": "equal", "error_prior": noise.prior}
    elif isinstance(noise, UnequalRates):
        out |= {
            "noise": "unequal",
            "spurious_prior": noise.spurious,
            "dropped_prior": noise.dropped,
        }
    if not model.is_finite:
        if isinstance(model.alpha, Gamma):
            out["alpha_prior"] = (model.alpha.shape, model.alpha.rate)
        else:
            out["alpha"] = model.alpha
    density = model.density
    if isinstance(density, Beta):
        out["density_prior"] = (density.a, density.b)
    elif isinstance(density, PerComponent):
        out["density_grid"] = (density.grid, np.full(density.n_values, 1 / density.n_values))
    else:
        shared = density if isinstance(density, tuple) else (density,)
        out["density"] = tuple(shared[1:]) if model.is_finite else shared
    return exact.Priors(**out)
