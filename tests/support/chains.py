"""Run chains of tiny problems and read off what enumeration can check."""

from itertools import islice

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


ENDLESS = 2**40
"""Number of sweeps of a chain that is followed as long as one likes."""

NO_MOVES = dict.fromkeys(MOVES, 0)
BROAD = Gamma(1.0, 1.0)
"""A prior that lets chains have more components than the default does: more to test."""


def run(tensor, model, n_sweeps, **settings):
    """Return the number of components and the prediction (a bit mask) after every sweep."""
    return collect(walk(tensor, model, **settings), n_sweeps)


def walk(tensor, model, *, kind="parallel", blocks=2, seed=1, burn=200, **moves):
    """Yield the same, without end.

    Moves of whole components are off unless asked for: they would repair mistakes elsewhere.
    """
    schedule = Schedule(kind, blocks=blocks, hold=0, **NO_MOVES | moves)
    target = Target.prepare(tensor, model, schedule, threads=1)
    for state, info in islice(chain(chain_key(seed), target, ENDLESS), burn, None):
        yield info.n_components, prediction(state)


def collect(walked, n_sweeps):
    """Return the next sweeps as arrays."""
    ks, fs = np.array(list(islice(walked, n_sweeps))).T
    return ks, fs


def prediction(state):
    """Return the noise-free tensor as a bit mask over its cells in C order.

    In plain integers: this is done after every sweep, and arrays of a few bits take longer.
    """
    cells = 0
    lines = [factor.words[:, 0].tolist() for factor in state.factors]
    for component in zip(*lines, strict=True):
        box, n_cells = 1, 1
        for word, factor in zip(component[::-1], state.factors[::-1], strict=True):
            copies = [box << row * n_cells for row in range(factor.n_rows) if word >> row & 1]
            box, n_cells = sum(copies), n_cells * factor.n_rows
        cells |= box
    return cells


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
    else:
        out |= {"noise": "effects", "effects": noise}
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
        out["density_tied"] = density.tied
    else:
        shared = density if isinstance(density, tuple) else (density,)
        out["density"] = tuple(shared[1:]) if model.is_finite else shared
    return exact.Priors(**out)
