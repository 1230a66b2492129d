"""Chains of tiny problems with moves of whole components, beside their exact posterior."""

import numpy as np
import pytest

from support import compare, exact, mutants
from support.chains import ENDLESS, NO_MOVES, X32, X33, as_exact, collect, hide, walk
from thali.model import (
    Beta,
    EqualRates,
    FixedRates,
    Gamma,
    Model,
    PerComponent,
    UnequalRates,
)
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

FIXED = (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3))
LEARNED = (
    X33,
    ((1, 1), (2, 0)),
    Model(
        noise=UnequalRates((1.5, 6.0), (2.0, 5.0)), alpha=Gamma(2.0, 1.5), density=Beta(2.0, 3.0)
    ),
)
OWN_DENSITIES = (
    X33,
    ((0, 2),),
    Model(
        noise=FixedRates(0.1, 0.25),
        alpha=1.4,
        density=PerComponent(1.0, 2.0, n_values=3, tied=None),
    ),
)
FINITE = {
    "fixed": (X33, ((0, 2),), Model(3, FixedRates(0.1, 0.2), density=(0.4, 0.3)), 0.4),
    "learned": (
        X32,
        (),
        Model(3, UnequalRates((2.0, 6.0), (2.0, 5.0)), density=Beta(2.0, 3.0)),
        None,
    ),
    "per-component": (
        X32,
        ((0, 1),),
        Model(3, EqualRates((2.0, 6.0)), density=PerComponent(1.0, 2.0, n_values=3, tied=None)),
        None,
    ),
}

QUICK_AND_SLOW = [
    # Rates and densities are drawn after the moves, as test_enumeration.py sees quickly.
    pytest.param(name, marks=pytest.mark.slow) if name == "learned" else name
    for name in FINITE
]


def with_moves(problem, kind="parallel", **moves):
    """Return a chain with some moves, and what is exact."""
    x, hidden, model = problem
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=24)
    return walk(tensor, model, kind=kind, **moves), expected


def finite(name, **moves):
    """Return the same of a model with three components."""
    x, hidden, model, density_rows = FINITE[name]
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_finite(x, known, as_exact(model), 3, density_rows)
    return walk(tensor, model, **moves), expected


def far_apart(move):
    """Return the same with the columns of the problem in three words, all between unknown."""
    x, hidden, model = FIXED
    known = hide(x, *hidden)[1]
    return _far_apart(move), exact.posterior_ibp(x, known, as_exact(model), max_components=24)


def _far_apart(move):
    x, hidden, model = FIXED
    columns = [0, 70, 140]
    tensor, _ = hide(x, *hidden)
    wide = np.full((3, 192), np.nan)
    wide[:, columns] = tensor
    schedule = Schedule(blocks=2, hold=0, **NO_MOVES | {move: 12})
    target = Target.prepare(wide, model, schedule, threads=1)
    for state, info in chain(chain_key(1), target, ENDLESS):
        users, codes = (factor.dense().astype(int) for factor in state.factors)
        cells = (users @ codes[columns].T > 0).ravel()
        yield info.n_components, int(cells @ (1 << np.arange(9)))


def compared(chain_and_exact, n_sweeps):
    """Return what the first sweeps of a chain draw, and what is exact."""
    walked, expected = chain_and_exact
    return (*collect(walked, n_sweeps), expected)


QUICK, LONG = 4_000, 8_000
NEEDS_LONG = ("split_merge", "toggle")
"""Sweeps of a comparison with fixed rates; others are long unless their mistakes were measured. A
z-score grows with the root of the number of sweeps. After 4,000, the largest of every wrong ratio
is 16 or more, ten standard errors beyond the bound: none could be missed. Only those of toggle and
of the partner in split_merge are 5 and 6 then. With own densities, that of residual is 32."""


def assert_exact(problem, move, kind="parallel"):
    """Four tries per sweep leave the exact posterior as it is."""
    is_clear = problem is FIXED or (problem is OWN_DENSITIES and move == "residual")
    n_sweeps = QUICK if is_clear and move not in NEEDS_LONG else LONG
    compare.assert_matches(*compared(with_moves(problem, kind, **{move: 4}), n_sweeps))


def assert_wrong_ratio_is_rejected(mistake, move, patch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    mutants.wrong_ratio(mistake)(patch)
    compare.assert_rejected(*with_moves(FIXED, **{move: 4}), 8_000)
