"""The evidence for components with the levels of rows and columns summed out."""

from importlib import import_module as module

import numpy as np
import pytest
from scipy.special import logsumexp

from support.mutants import mutate
from thali.bits import Factor
from thali.model import Effects, Levels, Model
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.sides import log_evidence
from thali.sampler.state import State
from thali.streams import chain_key

EVIDENCE = "thali.sampler.level_evidence"
PRIOR = Effects(
    row_levels=(-1.0, 0.0, 1.5), column_levels=(-2.0, -1.0, 0.5), jump_sizes=(1.0, 1.4, 2.2, 3.3),
    jump_stride=2, spreads=(0.0, 0.7), offsets=(-0.2, 0.0, 0.2),
)  # fmt: skip


def problem(hyper):
    """Return a target with unknown entries, and a state with levels that fit these spreads."""
    rng = np.random.default_rng(3)
    z, u = rng.random((9, 2)) < 0.5, rng.random((7, 2)) < 0.5
    data = (rng.random((9, 7)) < 0.4).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    rows = rng.integers(3, size=9) if hyper.row_spread else np.full(9, 1)
    columns = rng.integers(3, size=7) if hyper.column_spread else np.full(7, hyper.column_mean)
    jumps = 2 * rng.integers(2, size=7) if hyper.jump_spread else np.full(7, hyper.jump_mean)
    noise = Levels(PRIOR, rows, columns, jumps, hyper)
    target = Target.prepare(data, Model(noise=PRIOR), Schedule(), threads=1)
    densities = np.array(0.0), np.array(0.3)
    state = State((Factor.from_dense(z), Factor.from_dense(u)), noise, 1.0, densities, (0, 0), 0)
    return data, (z.astype(int) @ u.T) > 0, target.recount(state), target


def log_entries(data, covered, noise, rows, columns, jumps=None):
    """Return the log probability of every entry at given levels, by its definition (eq. 25)."""
    grids = noise.prior.grids
    odds = grids.rows[rows][:, None] + grids.columns[columns] + noise.offset
    odds = odds + grids.jumps[noise.jumps if jumps is None else jumps] * covered
    return np.nan_to_num(data * odds - np.logaddexp(0.0, odds) * ~np.isnan(data))


def by_definition(data, covered, noise):
    """Return the log of p(data, levels summed out) / p(data | levels), lines one by one."""
    grids, hyper = noise.prior.grids, noise.hyper
    rows, columns = noise.rows, noise.columns
    now = log_entries(data, covered, noise, rows, columns)
    total = 0.0
    if hyper.row_spread:
        logs = [log_entries(data, covered, noise, np.full(9, k), columns) for k in range(3)]
        prior = grids.of_rows[hyper.row_spread][:, None]
        total += (logsumexp(np.sum(logs, axis=2) + prior, axis=0) - now.sum(axis=1)).sum()
    if hyper.column_spread:
        logs = [log_entries(data, covered, noise, rows, np.full(7, k)) for k in range(3)]
        prior = grids.of_columns[hyper.column_mean, hyper.column_spread][:, None]
        total += (logsumexp(np.sum(logs, axis=1) + prior, axis=0) - now.sum(axis=0)).sum()
    if hyper.jump_spread:
        logs = [log_entries(data, covered, noise, rows, columns, np.full(7, k)) for k in (0, 2)]
        prior = grids.of_jumps[hyper.jump_mean, hyper.jump_spread - 1][:, None]
        total += (logsumexp(np.sum(logs, axis=1) + prior, axis=0) - now.sum(axis=0)).sum()
    return total


@pytest.mark.parametrize(
    "hyper",
    [
        Hyper(1, 1, 0, 0, 0, 2),
        Hyper(0, 1, 1, 0, 0, 0),
        Hyper(0, 1, 0, 1, 1, 0),
        Hyper(1, 2, 1, 1, 1, 1),
    ],
    ids=["rows", "columns", "jumps", "all"],
)
def test_levels_are_summed_out_line_by_line(hyper):
    """Sums over the levels of every line by their definition; a sum of another prior differs."""
    data, covered, state, target = problem(hyper)
    expected = by_definition(data, covered, state.noise)
    assert module(EVIDENCE).summed_out(state, target) == pytest.approx(expected, abs=1e-9)
    wrong = mutate(EVIDENCE, [("sum_out(engine, given, log_prior[None])[0]", "0.0")])
    assert wrong.summed_out(state, target) != pytest.approx(expected, abs=1e-3)


def test_no_levels_nothing_to_sum_out():
    """Where all lines have one level, nothing changes."""
    _, _, state, target = problem(Hyper(0, 1, 0, 0, 0, 1))
    assert module(EVIDENCE).summed_out(state, target) == 0.0


def test_evidence_of_rows_without_components_is_their_marginal_likelihood():
    """With effects of rows only, the evidence is the exact sum over all levels.

    The evidence at the levels themselves, which other draws of levels would change, is rejected.
    """
    rng = np.random.default_rng(1)
    data = (rng.random((40, 12)) < rng.random((40, 1))).astype(float)
    model = Model(noise=Effects(columns=False))
    target = Target.prepare(data, model, Schedule(), threads=1)
    growth = Growth(chain_key(1), target, is_flat=False)
    found = log_evidence(growth)
    noise, priors = growth.state.noise, target.priors
    grids, hyper = noise.prior.grids, noise.hyper
    assert hyper.row_spread > 0
    odds = grids.rows + grids.columns[hyper.column_mean] + noise.offset
    ones = data.sum(axis=1)[:, None]
    logs = ones * odds - 12 * np.logaddexp(0.0, odds) + grids.of_rows[hyper.row_spread]
    of_means = priors.noise.log_prior(noise) - priors.noise.log_levels(noise)
    expected = logsumexp(logs, axis=1).sum() + of_means + priors.buffet.log_sum(0, 40)
    assert found == pytest.approx(expected, abs=1e-8)
    edits = [("summed_out(state, target) - noise.prior.log_levels(noise)", "0.0")]
    wrong = mutate("thali.sampler.grow.sides", edits).log_evidence
    assert wrong(Growth(chain_key(1), target, is_flat=False)) < expected - 10.0
