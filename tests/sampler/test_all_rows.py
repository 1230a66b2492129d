"""Memberships and levels of rows that were not searched, given the components of some rows."""

import numpy as np
import pytest
from scipy.special import expit

from support.mutants import mutate
from thali.decide import SCALE
from thali.model import Effects, Model
from thali.sampler import Schedule, Target
from thali.sampler.all_rows import _explained, for_all_rows
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


@pytest.mark.parametrize(
    ("spread", "edit"),
    [
        # Levels as if nothing were covered: rows have high levels instead of components, for good.
        (0.0, ("state = yield from _at_best_level(key, state, target, odds)", "pass")),
        (1.0, ("state = yield from _at_best_level(key, state, target, odds)", "pass")),
        (1.0, ("(values > best)", "(values == values[0])")),
    ],
    ids=["no levels tried, flat", "no levels tried", "levels of nobody in particular"],
)
def test_mistakes_are_noticed(spread, edit):
    """The same comparison refuses them."""
    wrong = mutate("thali.sampler.all_rows", [edit]).for_all_rows
    assert wrong_entries(spread, wrong) > 0.04


def test_what_a_row_is_explained_by():
    """Differences between memberships and between levels are those of the log joint density.

    That is so if all columns have one jump; what the memberships of a row leave as it is may
    differ from the log joint density by a constant of the row.
    """
    data, users, codes, _ = table(1.0)
    target = Target.prepare(data, Model(noise=Effects(jumps=False)), Schedule(), threads=1)
    rng, odds = np.random.default_rng(2), np.linspace(-2.0, 0.0, N_COMPONENTS)
    other = users ^ (rng.random(users.shape) < 0.1)
    found, expected = [], []
    for bits, level in ((users, 30), (other, 30), (users, 34), (other, 33)):
        state = target.initial(KEY, [bits, codes])
        hyper = state.noise.hyper._replace(row_spread=5)
        noise = state.noise.with_rows(np.full(SHAPE[0], level), hyper)
        grids = noise.prior.grids
        found.append(_explained(state._replace(noise=noise), target, odds, level) / SCALE)
        cover = bits.astype(int) @ codes.T.astype(int) > 0
        log_odds = noise.column_odds[noise.columns] + grids.rows[level]
        log_odds = log_odds + cover * grids.jumps[noise.jumps]
        of_row = np.where(data, -np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds))
        of_row = of_row.sum(axis=1) + bits @ odds
        expected.append(of_row + grids.of_rows[noise.hyper.row_spread, level])
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(expected, axis=0), atol=1e-3)
