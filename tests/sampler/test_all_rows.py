"""Memberships and levels of rows that were not searched, given the components of some rows."""

import numpy as np
import pytest
from scipy.special import expit

from support.mutants import mutate
from thali.model import Effects, Model
from thali.sampler import Schedule, Target
from thali.sampler.all_rows import for_all_rows
from thali.sampler.levels import draw_levels
from thali.streams import Stream, chain_key

KEY = chain_key(3)
SHAPE, N_FIRST, N_COMPONENTS = (1500, 600), 300, 8


def table(spread):
    """Return sparse data, in which most ones of a row are those of its components."""
    rng = np.random.default_rng(1)
    users, codes = (rng.random((n, N_COMPONENTS)) < 0.25 for n in SHAPE)
    covered = users.astype(int) @ codes.T.astype(int) > 0
    odds = spread * rng.normal(size=(SHAPE[0], 1)) - 3.9 + 4.3 * covered
    return rng.random(SHAPE) < expit(odds), users, codes, covered


def wrong_entries(spread, spread_all_rows=for_all_rows):
    """Give the true components of some rows to all; return the share of entries that are wrong."""
    data, users, codes, covered = table(spread)
    model = Model(noise=Effects(columns=False, jumps=False))
    target = Target.prepare(data, model, Schedule(), threads=1)
    few = target.on_host(np.arange(N_FIRST))
    state = few.initial(KEY, [users[:N_FIRST], codes])
    noise = model.priors(2).noise
    if spread == 0.0:
        noise = type(noise)(rows=False, columns=False, jumps=False)
    for number in range(8):
        drawn = draw_levels(Stream(KEY, np.uint64(number)), state, few, noise, number=number)
        state = state._replace(noise=drawn)
    *_, found = spread_all_rows(KEY, state, target)
    one, two = (factor.dense().astype(int) for factor in found.factors)
    return (((one @ two.T) > 0) != covered).mean()


@pytest.mark.parametrize(("spread", "most"), [(0.0, 0.001), (1.0, 0.02)])
def test_rows_get_the_components_that_they_have(spread, most):
    """Not a level that would explain the ones of their components as well."""
    assert wrong_entries(spread) < most


NO_LEVELS_TRIED = (
    "for found in at_first_level(streams, state, target, odds):",
    "for found in ():",
)
NO_OTHERS = ("if number == _PASSES:", "if False:")


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_levels_as_if_nothing_were_covered_are_noticed(spread):
    """The same comparison refuses them: rows have high levels instead of components, for good."""
    wrong = mutate("thali.sampler.all_rows", [NO_LEVELS_TRIED, NO_OTHERS]).for_all_rows
    assert wrong_entries(spread, wrong) > 0.04


def test_other_levels_are_worth_trying():
    """Without these, some rows keep a level in place of their components."""
    without = mutate("thali.sampler.all_rows", [NO_OTHERS])
    assert wrong_entries(1.0, without.for_all_rows) > 4.0 * wrong_entries(1.0)
