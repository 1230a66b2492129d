"""Components of single columns against levels: the acceptance ratio, by its definition."""

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp

from support.levels import FINE, UNEVEN
from support.mutants import mutate
from thali.model import Effects, Levels, Model, PerComponent
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target, chain, single_columns
from thali.sampler.info import Info
from thali.sites import SingleIndex, Site
from thali.streams import Stream, chain_key

N_ROWS, N_COLUMNS = 70, 9
MODELS = {
    "one density": Model(noise=FINE),
    "own densities": Model(noise=FINE, density=PerComponent(1.0, 2.0, n_values=3, tied=None)),
    "tied densities": Model(noise=FINE, density=PerComponent(1.0, 2.0, n_values=3)),
    "without a lattice": Model(noise=UNEVEN),
}
SINGLE = 3
"""A column that has a component of its own, beside those that it shares."""


def problem(name):
    """Return a target and a state; the data are partly unknown."""
    rng, model = np.random.default_rng(5), MODELS[name]
    data = (rng.random((N_ROWS, N_COLUMNS)) < 0.4).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    factors = [rng.random((n, 4)) < 0.3 for n in data.shape]
    factors[1][:, 2] = np.arange(N_COLUMNS) == SINGLE
    target = Target.prepare(data, model, Schedule(), threads=1)
    state = target.initial(chain_key(1), factors)
    grids = model.noise.grids
    jumps = rng.integers(len(grids.jumps[:: grids.stride]), size=N_COLUMNS) * grids.stride
    noise = Levels(
        model.noise,
        rng.integers(len(grids.rows), size=N_ROWS),
        rng.integers(len(grids.columns), size=N_COLUMNS),
        jumps,
        Hyper(2, 1, 2, int(jumps[0]), 2, 0),
    )
    of_rows, of_codes = state.densities
    if isinstance(model.density, PerComponent):
        of_codes = model.density.grid[[0, 1, 1, 2]]
    state = state._replace(noise=noise, densities=(of_rows, of_codes))
    return target, target.recount(state), data


def counted(data, number):
    """Return whether every entry of a column is a one, and whether it is a zero."""
    return np.stack([data[:, number] == 1, data[:, number] == 0], axis=1).astype(np.int64)


def by_entry(state, data, number):
    """Log probability of every entry of a column at every level, as it is, and if covered."""
    noise = state.noise
    grids = noise.prior.grids
    z, u = (f.dense() for f in state.factors)
    jump = grids.jumps[noise.jumps[number]]
    odds = grids.rows[noise.rows] + grids.columns[:, None] + noise.offset
    is_covered = (z & u[number]).any(axis=1)
    plain, covered = odds + jump * is_covered, odds + jump
    x = data[:, number]
    return tuple(
        np.where(np.isnan(x), 0.0, np.where(x == 1, 1, 0) * o - np.logaddexp(0, o))
        for o in (plain, covered)
    )


def log_of_birth(functions, target, before, after, data, number):
    """The ratio of a birth that leads from one state to the other, by its definition."""
    every = np.ones(before.n_components, bool)
    found = functions.weigh(before, number, counted(data, number), every)
    plain, covered = by_entry(before, data, number)
    noise, share = before.noise, found.shares[:, None]
    of_levels = noise.prior.grids.of_columns[noise.hyper.column_mean, noise.hyper.column_spread]
    both = np.logaddexp(np.log1p(-share) + plain, np.log(share) + covered)
    alone, shared = of_levels + plain.sum(axis=1), of_levels + both.sum(axis=1)
    old, new = int(before.noise.columns[number]), int(after.noise.columns[number])
    is_user = after.factors[0].dense()[:, -1]
    log_users = np.where(is_user, np.log(share) + covered, np.log1p(-share) + plain) - both
    forth = shared[new] - logsumexp(shared) + log_users[new].sum() - np.log(N_COLUMNS)
    prior = target.priors.densities[1]
    if isinstance(prior, PerComponent):
        # Proposed with the probability that it has given a code of one column.
        grid, size = prior.grid, before.factors[1].n_rows
        used = (before.densities[1][:, None] == grid).sum(axis=0)
        share_of = 1.0 if prior.tied is None else used + prior.tied / prior.n_values
        weights = share_of * grid * (1.0 - grid) ** (size - 1)
        is_chosen = grid == after.densities[1][-1]
        forth += np.log(weights[is_chosen][0] / weights.sum())
    n_singles = (after.factors[1].sizes() == 1).sum()
    back = alone[old] - logsumexp(alone) - np.log(n_singles)
    gain = Info(after, target, False, {}).log_joint - Info(before, target, False, {}).log_joint
    return gain + back - forth


def uniforms_of(turn, log_decision):
    """Random numbers of a try whose decision is a given one, which may be beyond 1."""
    uniforms = np.random.default_rng(turn).random(len(SingleIndex))
    uniforms[SingleIndex.DECISION] = np.exp(log_decision)
    return uniforms


CERTAIN, CLOSE = -500.0, 1e-6


def born(functions, name, number, turn):
    """Return the ratio of a birth, and whether it decides: accepted below, rejected above."""
    target, state, data = problem(name)
    stream, known = Stream(chain_key(2), np.uint64(turn)), counted(data, number)

    def decided(log_decision):
        uniforms = uniforms_of(turn, log_decision)
        return functions.birth(stream, state, target, turn, number, known, uniforms)

    expected = log_of_birth(functions, target, state, decided(CERTAIN), data, number)
    return expected, [decided(expected + d) is not None for d in (-CLOSE, CLOSE)]


def died(functions, name, turn):
    """The same for the death of the component that was there."""
    target, state, data = problem(name)
    known = counted(data, SINGLE)

    def decided(log_decision):
        return functions.death(state, target, 2, SINGLE, known, uniforms_of(turn, log_decision))

    at_last = state.take(np.array([0, 1, 3, 2]))
    expected = -log_of_birth(functions, target, decided(CERTAIN), at_last, data, SINGLE)
    return expected, [decided(expected + d) is not None for d in (-CLOSE, CLOSE)]


@pytest.mark.parametrize("name", MODELS)
def test_ratio_is_that_of_its_definition(name):
    """Joint density and both ways, entry by entry; a column may have such a component already."""
    ratios = []
    for turn in range(3):
        for number in (1, SINGLE):
            expected, is_accepted = born(single_columns, name, number, turn)
            assert is_accepted == [True, False]
            ratios.append(expected)
        expected, is_accepted = died(single_columns, name, turn)
        assert is_accepted == [True, False]
        ratios.append(expected)
    assert np.ptp(ratios) > 1.0


MISTAKES = {
    "no choice of a component": (" - log(len(singles(state)) + 1)", ""),
    "no choice of a column": ("ratio += log(n_columns) - log(", "ratio += -log("),
    "users are not weighed": (" - log_how", ""),
    "any number of users": ("log_rate(n_users, n_rows)", "0.0"),
    "levels are not weighed": (
        "np.logaddexp.reduce(found.shared) - np.logaddexp.reduce(found.alone)",
        "found.shared[level] - found.alone[level]",
    ),
    "weights of the sweep": ("prior.expected(densities)", "prior"),
    "any code": ("(ratio + _log_code(state, target))", "(ratio)"),
    "any level": ("(rest, target, found, level,", "(rest, target, found, 0,"),
    "covered by itself": ("column, data, is_rest)", "column, data, is_rest | True)"),
    "there already": ("_log_ratio(rest, target", "_log_ratio(state, target"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_ratio_is_rejected(mistake):
    """The same comparison fails if a part of the ratio is missing or another."""
    mutant = mutate("thali.sampler.single_columns", [MISTAKES[mistake]])
    answers = [born(mutant, "tied densities", SINGLE, turn)[1] for turn in range(3)]
    answers += [died(mutant, "tied densities", turn)[1] for turn in range(3)]
    assert any(answer != [True, False] for answer in answers)


def test_users_are_drawn_as_they_are_weighed():
    """Row by row, with the probability that the entry gives at the drawn level."""
    target, state, data = problem("one density")
    for turn in range(4):
        stream, uniforms = Stream(chain_key(3), np.uint64(turn)), uniforms_of(turn, CERTAIN)
        known, every = counted(data, 1), np.ones(state.n_components, bool)
        after = single_columns.birth(stream, state, target, turn, 1, known, uniforms)
        level = int(after.noise.columns[1])
        share = single_columns.weigh(state, 1, known, every).shares[level]
        plain, covered = (part[level] for part in by_entry(state, data, 1))
        chance = expit(logit(share) + covered - plain)
        uniforms = stream.uniforms(Site.SINGLE_ROWS, N_ROWS, row=turn)
        assert (after.factors[0].dense()[:, -1] == (uniforms < chance)).all()
        assert len(np.unique(chance)) > 10
        assert after.factors[1].dense()[:, -1].tolist() == [j == 1 for j in range(N_COLUMNS)]
        columns = np.array(state.noise.columns)
        columns[1] = level
        assert after.noise.columns.tolist() == columns.tolist()


def test_levels_and_densities_are_drawn_by_weight():
    """As a share of all random numbers, whatever the scale of the weights."""
    weights = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logs = np.log(weights) - 700.0
    drawn = [single_columns.pick_by_weight(logs, u) for u in (np.arange(1000) + 0.5) / 1000]
    assert np.bincount(drawn).tolist() == [100, 0, 600, 300]
    assert single_columns.pick_by_weight(logs, 1.0) == 3


def test_columns_and_components_are_chosen_alike(monkeypatch):
    """Births choose any column, deaths any component of a single column, and know its data."""
    target, state, data = problem("one density")
    users = np.random.default_rng(1).random((N_ROWS, 2)) < 0.5
    codes = np.arange(N_COLUMNS)[:, None] == [0, 7]
    z, u = (f.dense() for f in state.factors)
    started = target.initial(chain_key(1), [np.hstack([z, users]), np.hstack([u, codes])])
    state = target.recount(state._replace(factors=started.factors, densities=started.densities))
    assert single_columns.singles(state).tolist() == [2, 4, 5]
    born, died = [], []

    def birth(_stream, _state, _target, _number, column, known, _uniforms):
        assert (known == counted(data, column)).all()
        born.append(column)

    def death(_state, _target, gone, column, known, _uniforms):
        assert (known == counted(data, column)).all()
        died.append((gone, column))

    monkeypatch.setattr(single_columns, "birth", birth)
    monkeypatch.setattr(single_columns, "death", death)
    counts = np.zeros(2, np.int64)
    for key in range(400):
        stream = Stream(chain_key(key), np.uint64(0))
        assert single_columns.offer_to_single_columns(stream, state, target, 1, counts) is state
    n_tries = 400 * single_columns._TRIES
    assert counts.tolist() == [n_tries, 0]
    for found, expected in ((born, range(N_COLUMNS)), (died, [(2, SINGLE), (4, 0), (5, 7)])):
        share = n_tries / 2 / len(expected)
        for choice in expected:
            assert abs(found.count(choice) - share) < 5.0 * np.sqrt(share)
    assert len(born) + len(died) == n_tries


def test_the_warm_up_proposes_no_components():
    """They are cheap there, so that tables would fill up with such components."""
    target, state, data = problem("one density")
    target = target._replace(schedule=Schedule(warmup=2))
    stream, uniforms = Stream(chain_key(2), np.uint64(0)), uniforms_of(0, CERTAIN)
    state = single_columns.birth(stream, state, target, 0, 1, counted(data, 1), uniforms)
    state = target.recount(state)
    changes = {1: set(), 2: set()}
    for sweep, found in changes.items():
        for key in range(60):
            stream, counts = Stream(chain_key(key), np.uint64(sweep)), np.zeros(2, np.int64)
            now = state._replace(sweep=sweep)
            after = single_columns.offer_to_single_columns(stream, now, target, 3, counts)
            found.add(after.n_components - state.n_components)
            assert 0 <= counts[1] <= counts[0]
            assert after.covered == target.recount(after).covered
    in_warmup, later = changes.values()
    assert -1 in in_warmup
    assert max(in_warmup) == 0
    assert max(later) > 0


def test_where_nothing_is_offered():
    """Where the number of components is given, or columns have one level."""
    target, state, _ = problem("one density")
    assert single_columns.has_levels_to_offer(state, target)
    finite = Target.prepare(np.eye(3), Model(2, FINE), Schedule(), threads=1)
    assert not single_columns.has_levels_to_offer(finite.initial(chain_key(1)), finite)
    hyper = state.noise.hyper._replace(column_spread=0)
    flat = state.noise.with_columns(state.noise.columns, state.noise.jumps, hyper)
    assert not single_columns.has_levels_to_offer(state._replace(noise=flat), target)


def left(schedule):
    """Start with components for twelve columns that only have a high level; count those left."""
    rng = np.random.default_rng(7)
    z, u = rng.random((300, 3)) < 0.3, rng.random((60, 3)) < 0.3
    own = np.arange(60) < 12
    u[own] = False
    odds = np.where(own, logit(0.2), -5.0 + 7.0 * ((z.astype(int) @ u.T.astype(int)) > 0))
    data = (rng.random(odds.shape) < expit(odds)).astype(float)
    factors = [np.hstack([z, data[:, own] == 1]), np.hstack([u, np.eye(60, dtype=bool)[:, own]])]
    target = Target.prepare(data, Model(noise=Effects()), schedule, threads=1)
    *_, (state, _) = chain(chain_key(1), target, 60, target.initial(chain_key(1), factors))
    return len(single_columns.singles(state))


def test_components_of_single_columns_give_way():
    """To levels, within 60 sweeps; without such trades many stay."""
    assert left(Schedule(starts=0, hold=0)) <= 1
    assert left(Schedule(starts=0, hold=0, trade=0)) >= 4
