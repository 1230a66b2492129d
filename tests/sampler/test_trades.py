"""Trades of a level against components: the acceptance ratio, against its definition."""

import numpy as np
import pytest
from scipy.special import expit, logit

from support.levels import FINE, UNEVEN
from support.mutants import mutate
from thali.decide import SCALE
from thali.model import Effects, Levels, Model, PerComponent
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target, chain, trades
from thali.streams import Stream, chain_key

N_ROWS, N_COLUMNS, N_COMPONENTS = 23, 17, 5
OWN = PerComponent(1.0, 2.0, n_values=3, tied=None)
MODELS = {
    "buffet": Model(noise=FINE),
    "finite": Model(N_COMPONENTS, FINE),
    "own densities": Model(noise=FINE, density=OWN),
    "without a lattice": Model(noise=UNEVEN),
    "one jump": Model(noise=FINE),
    "one level of columns": Model(noise=FINE),
    "all known": Model(noise=FINE),
}


def problem(name):
    """Return a target, and a state with levels of every kind and a component of one row."""
    rng, model = np.random.default_rng(4), MODELS[name]
    data = (rng.random((N_ROWS, N_COLUMNS)) < 0.4).astype(float)
    if name != "all known":
        data[rng.random(data.shape) < 0.1] = np.nan
    factors = [rng.random((n, N_COMPONENTS)) < 0.4 for n in data.shape]
    factors[0][:, 2] = np.arange(N_ROWS) == 7
    target = Target.prepare(data, model, Schedule(), threads=1)
    state = target.initial(chain_key(1), factors)
    prior = model.noise
    grids = prior.grids
    n_jumps = len(range(0, len(grids.jumps), grids.stride))
    rows, columns, jumps = (
        rng.integers(n, size=size)
        for n, size in (
            (len(grids.rows), N_ROWS),
            (len(grids.columns), N_COLUMNS),
            (n_jumps, N_COLUMNS),
        )
    )
    jump_spread = 0 if name == "one jump" else 2
    if not jump_spread:
        jumps[:] = 1
    column_spread = 2 * (name != "one level of columns")
    if not column_spread:
        columns[:] = 1
    hyper = Hyper(2, 1, column_spread, int(jumps[0]) * grids.stride, jump_spread, 0)
    noise = Levels(prior, rows, columns, jumps * grids.stride, hyper)
    return target, target.recount(state._replace(noise=noise)), data


def covered_by(factors):
    return (factors[0].astype(int) @ factors[1].T.astype(int)) > 0


def log_likelihoods(noise, factors, data, mode):
    """The log likelihood of every line, entry by entry."""
    grids = noise.prior.grids
    odds = grids.rows[noise.rows][:, None] + grids.columns[noise.columns] + noise.offset
    odds = odds + grids.jumps[noise.jumps] * covered_by(factors)
    return np.nansum(data * odds - np.logaddexp(0.0, odds) * ~np.isnan(data), axis=1 - mode)


def log_path(job, noise, start, factors, data, drawn):
    """The probability that a sweep at these levels draws ``drawn`` for all lines, step by step."""
    mode, now, total = job.mode, [f.copy() for f in factors], 0.0
    now[mode] = start.copy()
    for k in np.flatnonzero(~job.is_held):
        logs = []
        for bit in (False, True):
            now[mode][:, k] = bit
            logs.append(log_likelihoods(noise, now, data, mode))
        log_odds = logs[1] - logs[0] + job.odds[k] / SCALE
        total += np.log(np.where(drawn[:, k], expit(log_odds), expit(-log_odds)))
        now[mode][:, k] = drawn[:, k]
    return total


def log_ratios(job, offer, state, data):
    """What the acceptance ratios are by their definition."""
    mode, old, new = job.mode, state.noise, offer.noise
    before, factors = state.factors[mode].dense(), [f.dense() for f in state.factors]
    after = offer.factor.dense()
    others = [after if m == mode else f for m, f in enumerate(factors)]
    odds = np.where(job.is_held, 0.0, job.odds / SCALE)
    gain = log_likelihoods(new, others, data, mode) - log_likelihoods(old, factors, data, mode)
    gain += after @ odds - before @ odds
    gain += log_path(job, old, after, factors, data, before)
    gain -= log_path(job, new, before, factors, data, after)
    return gain + np.array([line_prior(new, i, old, mode) for i in range(len(gain))])


def line_prior(new, line, old, mode):
    """By how much the prior of all levels differs if those of one line change."""
    parts = {}
    for name in ("rows",) if mode == 0 else ("columns", "jumps"):
        parts[name] = np.array(getattr(old, name))
        parts[name][line] = getattr(new, name)[line]
    given = {name: getattr(old, name) for name in ("rows", "columns", "jumps")} | parts
    other = Levels(old.prior, *given.values(), old.hyper)
    return old.prior.log_prior(other) - old.prior.log_prior(old)


def offers(name, functions, monkeypatch):
    """Yield found and expected ratios of several offers of rows and of columns."""
    target, state, data = problem(name)
    jobs = []
    plain = functions._offer

    def noted(state, target, job, *rest):
        jobs.append(job)
        return plain(state, target, job, *rest)

    monkeypatch.setitem(vars(functions), "_offer", noted)
    for number in range(4):
        stream, turn = Stream(chain_key(2), np.uint64(number)), number // 2
        ordered, offer = functions._offer_to_rows(stream, state, target, turn, number)
        yield offer, log_ratios(jobs[-1], offer, ordered, data)
        offer = functions._offer_to_columns(stream, state, target, turn)
        yield offer, log_ratios(jobs[-1], offer, state, data)


# Weights are rounded to 2^-24: a gain is wrong by no more than half of that for each of 23
# entries, a path by 5 gains on either side, and there are two paths.
EXACT = 2 * 5 * 2 * 23 * 2.0**-25


@pytest.mark.parametrize("name", MODELS)
def test_ratio_is_that_of_its_definition(name, monkeypatch):
    """Joint density and both ways, entry by entry, for rows and for columns."""
    n_changed = n_offers = 0
    for offer, expected in offers(name, trades, monkeypatch):
        is_offered = ~np.isneginf(offer.log_ratio)
        changes = np.zeros(len(expected), bool)
        for one, other in zip(offer.noise.lines, problem(name)[1].noise.lines, strict=True):
            changes |= (one != other) if len(one) == len(expected) else False
        if offer.mode:
            changes |= offer.noise.jumps != problem(name)[1].noise.jumps
        assert is_offered.tolist() == changes[offer.lines].tolist()  # all others are impossible
        np.testing.assert_allclose(
            offer.log_ratio[is_offered], expected[offer.lines][is_offered], rtol=0, atol=EXACT
        )
        n_offers += is_offered.sum()
        n_changed += (np.abs(expected[offer.lines][is_offered]) > 0.01).sum()
    assert n_offers > 40
    assert n_changed > 0.8 * n_offers


MISTAKES = {
    "no way back": ("log_paths(back, odds, bits) - log_paths(forth", "0.0 - log_paths(forth"),
    "no way forth": (" - log_paths(forth, odds, bits)", ""),
    "no prior": ("log_prior + gains", "gains"),
    "levels change nothing": ("log_prior + gains +", "log_prior +"),
    "held components are drawn": ("np.where(job.is_held, np.nan,", "np.where(False, np.nan,"),
    "new bits": ("bits = before.dense()", "bits = after.dense()"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_ratio_is_rejected(mistake, monkeypatch):
    """The same comparison fails if a part of the ratio is missing or another."""
    mutant = mutate("thali.sampler.trades", [MISTAKES[mistake]])
    with np.errstate(invalid="ignore"):
        distances = [
            np.abs(offer.log_ratio - expected[offer.lines])[np.isfinite(offer.log_ratio)].max()
            for offer, expected in offers("buffet", mutant, monkeypatch)
        ]
    assert max(distances) > 0.1


def test_the_way_back_is_as_likely():
    """Distances up and down are equally likely, those of levels and jumps together."""
    stream = Stream(chain_key(1), np.uint64(0))
    for grid in (FINE.grids.rows, UNEVEN.grids.rows, np.arange(3) / 8.0):
        found = trades._distances(stream, 0, 0, 20_000, grid)
        assert 0 not in found
        values, counts = np.unique(found, return_counts=True)
        assert values.tolist() == (-values[::-1]).tolist()
        expected = len(found) / len(values)
        assert np.abs(counts - expected).max() < 5.0 * np.sqrt(expected)
    one, other = (
        trades._distances(stream, 1, 0, 20_000, g) for g in (FINE.grids.rows, np.arange(9.0))
    )
    pairs, counts = np.unique(np.stack([one, other]), axis=1, return_counts=True)
    of = {tuple(pair): int(n) for pair, n in zip(pairs.T.tolist(), counts, strict=True)}
    for pair, n in of.items():  # level up and jump down is as likely as the way back
        back = of[-pair[0], -pair[1]]
        assert abs(n - back) < 5.0 * np.sqrt(n + back)
    alone = trades._distances(stream, 0, 0, 50, np.zeros(1))
    assert (alone > 0).all()  # beyond the only level: never possible


def test_rows_at_a_high_level_find_their_components():
    """Rows that start with a level in place of components trade it back; else many keep it."""
    with_trades, without = (wrong_rows(Schedule(starts=0, trade=n)) for n in (4, 0))
    assert with_trades < 15
    assert without > 2 * with_trades


def wrong_rows(schedule):
    """Start a third of the rows at high levels without components; count rows that are wrong."""
    rng, low, jump = np.random.default_rng(3), -4.0, 6.0
    z, u = rng.random((240, 6)) < 0.4, rng.random((400, 6)) < 0.3
    odds = low + jump * covered_by((z, u)) + 0.8 * rng.normal(size=240)[:, None]
    data = (rng.random(odds.shape) < expit(odds)).astype(float)
    target = Target.prepare(data, Model(noise=Effects()), schedule, threads=1)
    is_high = np.arange(240) % 3 == 0
    state = target.initial(chain_key(1), [z & ~is_high[:, None], u])
    prior = Effects()
    grids = prior.grids
    rate = np.clip(data.mean(axis=1), 0.02, 0.98)
    levels = np.where(is_high, logit(rate) - low, 0.0)
    rows = np.abs(grids.rows[:, None] - levels).argmin(axis=0)
    columns = np.full(400, np.abs(grids.columns - low).argmin())
    jumps = np.full(400, np.abs(grids.jumps - jump).argmin())
    hyper = Hyper(8, int(columns[0]), 0, int(jumps[0]), 0, state.noise.hyper.offset)
    state = state._replace(noise=Levels(prior, rows, columns, jumps, hyper))
    *_, (state, _) = chain(chain_key(1), target, 60, target.recount(state))
    covered = covered_by([f.dense() for f in state.factors])
    return int(((covered != covered_by((z, u))).mean(axis=1) > 0.1).sum())


def test_where_nothing_is_traded(monkeypatch):
    """Without components, on tensors and on large tables, and where lines have one level."""
    cube = Target.prepare(np.ones((2, 3, 4)), Model(2, "effects"), Schedule(), threads=1)
    assert not trades.can_trade(cube)
    target, state, _ = problem("buffet")
    assert trades.can_trade(target)
    none = state.take(np.zeros(N_COMPONENTS, bool))
    assert trades.trade(Stream(chain_key(1), np.uint64(0)), none, target, 0) == (none, (0, 0))
    monkeypatch.setattr(trades, "_MOST", 10)
    assert not trades.can_trade(target)
    monkeypatch.undo()
    never = Target.prepare(np.eye(3), MODELS["buffet"], Schedule(trade=0), threads=1)
    state = never.initial(chain_key(1), [np.eye(3, dtype=bool)] * 2)
    after, counts = trades.trade(Stream(chain_key(1), np.uint64(0)), state, never, 0)
    assert after is state
    assert counts == (0, 0)
    always = Target.prepare(np.eye(3), MODELS["buffet"], Schedule(trade=3), threads=1)
    flat = always.initial(chain_key(1), [np.eye(3, dtype=bool)] * 2)
    flat = flat._replace(noise=flat.noise.with_rows(flat.noise.rows, Hyper(0, 1, 0, 0, 0, 0)))
    after, counts = trades.trade(Stream(chain_key(1), np.uint64(0)), flat, always, 0)
    assert after is flat
    assert counts == (0, 0)


def test_trades_are_counted():
    """As moves are: offers of other components, and how many of them were accepted."""
    target, state, _ = problem("finite")  # its components stay
    counts = [info.moves["trade"] for _, info in chain(chain_key(1), target, 40, state)]
    assert all(n == 0 for n, _ in counts[1::2])
    assert sum(n for n, _ in counts[::2]) > sum(k for _, k in counts) > 0


def settled(mode, functions=trades):
    """Accept the offers of every third line; say whether levels, bits and counts are right."""
    target, state, _ = problem("buffet")
    stream = Stream(chain_key(2), np.uint64(1))
    if mode == 0:
        state, offer = functions._offer_to_rows(stream, state, target, 0, 1)
    else:
        offer = functions._offer_to_columns(stream, state, target, 0)
    is_taken = offer.lines % 3 == 0
    offer = offer._replace(log_ratio=np.where(is_taken, np.inf, -np.inf))
    after = functions._settle(stream, state, target, 0, offer, np.zeros(2, np.int64))
    chosen = np.zeros(target.shape[mode], bool)
    chosen[offer.lines[is_taken]] = True
    parts = [(noise.rows, noise.columns, noise.jumps) for noise in (state.noise, offer.noise)]
    of_mode = (0,) if mode == 0 else (1, 2)
    levels = [
        np.where(chosen, new, old) if i in of_mode else old
        for i, (old, new) in enumerate(zip(*parts, strict=True))
    ]
    found = after.noise.rows, after.noise.columns, after.noise.jumps
    bits = np.where(chosen[:, None], offer.factor.dense(), state.factors[mode].dense())
    assert (bits != state.factors[mode].dense()).any()
    return (
        all((one == other).all() for one, other in zip(found, levels, strict=True)),
        (after.factors[mode].dense() == bits).all(),
        after.covered == target.recount(after).covered,
    )


@pytest.mark.parametrize("mode", [0, 1])
def test_a_trade_changes_level_and_bits_of_the_same_lines(mode):
    """Of all others nothing changes, and what is covered is counted again."""
    assert settled(mode) == (True, True, True)


SETTLED = {
    "bits of all lines": ("(before.words & ~chosen) | (after.words & chosen)", "after.words"),
    "bits without levels": ("state = state._replace(noise=changed)", "pass"),
    "counts of before": ("return target.recount(state.with_factor(", "return (state.with_factor("),
}


@pytest.mark.parametrize("mistake", SETTLED)
def test_a_trade_that_changes_something_else_is_noticed(mistake):
    """The same comparison fails."""
    assert settled(0, mutate("thali.sampler.trades", [SETTLED[mistake]])) != (True, True, True)
