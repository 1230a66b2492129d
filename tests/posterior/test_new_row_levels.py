"""New rows under row and column effects: levels and memberships, summed in plain loops."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit

from support.mutants import mutate
from thali.bits import Unfolding, pack
from thali.data import BinaryTensor
from thali.model import Effects, Levels
from thali.model.levels import Hyper
from thali.posterior import new_row_level_chain, new_row_level_plan, new_row_plan, new_rows
from thali.posterior.new_rows import Components, log_scores, memberships, predictive

METHODS = ["enumeration", "gibbs"]
SMALL = Effects(
    row_levels=(-1.5, -0.5, 0.0, 0.5, 1.5),
    column_levels=(-3.0, -2.0, -1.0, 0.0, 1.0),
    jump_sizes=(1.0, 2.0, 3.0),
    spreads=(0.0, 0.5, 1.0, 2.0),
)
NOT_TOO_CLEAR = Effects(jump_sizes=tuple(np.arange(0.5, 6.1, 0.25)))


def make(n_rows, n_columns, n_components, *, seed=0, unknown=0.3, prior=SMALL, spread=2):
    """Return components, levels and jumps at random, and rows that have some of them."""
    rng = np.random.default_rng(seed)
    codes = rng.random((n_columns, n_components)) < 0.4
    odds = rng.normal(-0.5, 1.0, n_components)
    grids = prior.grids
    levels = rng.choice(len(grids.rows), n_rows, p=np.exp(grids.of_rows[spread]))
    columns, jumps = (rng.integers(len(grid), size=n_columns) for grid in grids[1:3])
    noise = Levels(prior, levels, columns, jumps, Hyper(spread, 2, 1, 1, 1, 7))
    has = rng.random((n_rows, n_components)) < 0.4
    covered = (has[:, None, :] & codes[None]).any(axis=2)
    log_odds = grids.rows[levels][:, None] + noise.column_odds[columns]
    log_odds = log_odds + grids.jumps[jumps] * covered
    dense = (rng.random(covered.shape) < expit(log_odds)).astype(float)
    dense[rng.random(dense.shape) < unknown] = np.nan
    return dense, Components(codes, odds, noise)


def brute_force(row, components):
    """Sum over all levels and states in plain loops: memberships, and chances of a one."""
    codes, odds, noise = components
    prior, n_columns, n_components = noise.prior, *codes.shape
    spread = prior.spreads[noise.hyper.row_spread]
    total, has, reads = 0.0, np.zeros(n_components), np.zeros(n_columns)
    if spread == 0.0:
        densities = [float(level == 0.0) for level in prior.row_levels]
    else:
        densities = [math.exp(-(level**2) / (2.0 * spread**2)) for level in prior.row_levels]
    for level, density in zip(prior.row_levels, densities, strict=True):
        for state in itertools.product((0, 1), repeat=n_components):
            weight = density * math.exp(sum(z * o for z, o in zip(state, odds, strict=True)))
            one = np.empty(n_columns)
            for d in range(n_columns):
                is_covered = any(z and codes[d, l] for l, z in enumerate(state))
                log_odds = (
                    level
                    + prior.column_levels[noise.columns[d]]
                    + prior.offsets[noise.hyper.offset]
                )
                log_odds += is_covered * prior.jump_sizes[noise.jumps[d]]
                one[d] = 1.0 / (1.0 + math.exp(-log_odds))
                if row[d] == 1:
                    weight *= one[d]
                elif row[d] == 0:
                    weight *= 1.0 - one[d]
            total += weight
            has += weight * np.array(state, float)
            reads += weight * one
    return has / total, reads / total


def assert_exact(dense, components):
    rows = BinaryTensor.from_any(dense)
    has, reads = memberships(rows, components), predictive(rows, components)
    for i, row in enumerate(dense):
        expected, chance = brute_force(row, components)
        np.testing.assert_allclose(has[i], expected, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(reads[i], chance, rtol=1e-11)


@pytest.mark.parametrize("n_components", range(5))
@pytest.mark.parametrize(("unknown", "spread"), [(0.0, 2), (0.4, 1), (0.4, 0)])
def test_enumeration_equals_the_sum_over_levels_and_states(n_components, unknown, spread):
    """Memberships and predictions equal brute force; with a spread of zero, there is one level."""
    seed = n_components + 10 * spread
    assert_exact(*make(4, 9, n_components, seed=seed, unknown=unknown, spread=spread))


def no_prior(noise):
    levels = new_row_level_plan.NewRowLevels.of(noise)
    return levels._replace(log_prior=np.zeros(len(levels.rows)))


def no_level(noise):
    levels = new_row_level_plan.NewRowLevels.of(noise)
    return levels._replace(rows=np.zeros(1), log_prior=np.zeros(1))


def as_on_average(noise):
    """One jump for all columns."""
    levels = new_row_level_plan.NewRowLevels.of(noise)
    return levels._replace(jumps=np.full_like(levels.jumps, levels.jumps.mean()))


@pytest.mark.parametrize("broken", [no_prior, no_level, as_on_average])
def test_wrong_levels_are_noticed(broken):
    """The comparison rejects levels without their prior, rows without levels, and equal jumps."""
    dense, components = make(4, 9, 3, seed=3)
    rows = BinaryTensor.from_any(dense)
    exact = np.array([brute_force(row, components)[0] for row in dense])
    wrong = memberships(rows, components._replace(noise=broken(components.noise)))
    assert np.abs(wrong - exact).max() > 0.01


def test_score_predicts_every_entry_from_the_other_parts():
    """An entry's probability is computed from a row in which its whole part is unknown."""
    dense, components = make(3, 9, 2, seed=1)
    scores = log_scores(BinaryTensor.from_any(dense), components)
    for i, row in enumerate(dense):
        expected = 0.0
        for d in np.flatnonzero(~np.isnan(row)):
            given = np.where(np.arange(9) % 5 == d % 5, np.nan, row)
            chance = brute_force(given, components)[1][d]
            expected += math.log(chance if row[d] == 1 else 1.0 - chance)
        assert scores.total[i] == pytest.approx(expected, rel=1e-11)
    np.testing.assert_array_equal(scores.n_known, (~np.isnan(dense)).sum(axis=1))


def error_of_chain(broken=None):
    """The difference of the chain's memberships from the exact ones; components are rare."""
    dense, components = make(60, 30, 3, seed=4, prior=NOT_TOO_CLEAR, spread=8)
    components = components._replace(odds=components.odds - 3.0)
    rows = BinaryTensor.from_any(dense)
    exact = memberships(rows, components, method="enumeration")
    assert ((exact > 0.02) & (exact < 0.98)).mean() > 0.3
    if broken is not None:
        components = components._replace(noise=broken(components.noise))
    return memberships(rows, components, method="gibbs") - exact


def rms(error):
    return np.sqrt((error**2).mean())


def test_gibbs_agrees_with_enumeration():
    """The chain is near the exact answer where a third or more of the memberships are uncertain.

    An average of 1000 conditional probabilities whose chain has an autocorrelation time of tau
    has a standard error of at most sqrt(tau / 1000) / 2: 0.03 for tau of 4. The root mean square
    over all rows must be below that, and the largest of 180 errors below five of them.
    """
    error = error_of_chain()
    assert rms(error) < 0.03
    assert np.abs(error).max() < 0.15
    dense, components = make(20, 30, 5, seed=4, prior=NOT_TOO_CLEAR, spread=8)
    rows = BinaryTensor.from_any(dense)
    for function in (memberships, predictive):
        exact, drawn = (function(rows, components, method=method) for method in METHODS)
        assert rms(drawn - exact) < 0.03
    scores = [log_scores(rows, components, method=m).total.sum() for m in METHODS]
    assert scores[0] == pytest.approx(scores[1], rel=0.01)


@pytest.mark.parametrize("broken", [no_prior, no_level, as_on_average])
def test_wrong_levels_of_a_chain_are_noticed(broken):
    """The same bound rejects levels without prior, rows without levels, and equal jumps."""
    assert rms(error_of_chain(broken)) > 0.03


FORGOTTEN = ("        both[n_levels + level] += prior\n", "        pass\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit", [FORGOTTEN, ("            if drawn != level:", "            if False:")]
)
def test_broken_chains_are_noticed(edit, monkeypatch):
    """Memberships drawn with the level but without their prior; levels that never change."""
    mutant = mutate("thali.posterior.new_row_level_chain", [edit])
    monkeypatch.setattr(new_row_level_plan, "sample_levels", mutant.sample_levels)
    assert rms(error_of_chain()) > 0.03


def scores_are_exact(score_both):
    """Whether scores of a level and a membership differ as the log joint density does."""
    rng = np.random.default_rng(6)
    codes = rng.random((12, 3)) < 0.5
    gains = rng.integers(-99, 99, (2, 12, 4))
    bare = rng.integers(-99, 99, 4)
    values = rng.integers(-1, 2, 12)

    def plain(has):
        covered = (codes & has).any(axis=1) & (values >= 0)
        return bare + sum(gains[values[d], d] for d in np.flatnonzero(covered))

    both = np.empty(8, np.int64)
    found = []
    for state in itertools.product((False, True), repeat=3):
        has, without = np.array(state), np.array([False, *state[1:]])
        now, n_covers, columns = plain(has), codes @ has.astype(int), np.flatnonzero(codes[:, 0])
        score_both(columns, state[0], np.int64(7), values, gains, n_covers, now, both)
        expected = [plain(without), plain(without | [True, False, False]) + 7]
        found.append(np.array_equal(both, np.concatenate(expected)))
    return all(found)


def test_scores_of_levels_and_a_membership():
    """With and without a component, at every level; without the prior they are wrong."""
    assert scores_are_exact(new_row_level_chain.score_both)
    mutant = mutate("thali.posterior.new_row_level_chain", [FORGOTTEN])
    assert not scores_are_exact(mutant.score_both)


def test_gibbs_starts_at_the_best_level():
    """Dense components that cover nearly all columns look like a full row without components.

    A chain that starts at the best level without components stays there.
    """
    dense, components = make(8, 1000, 7, seed=2, prior=NOT_TOO_CLEAR, spread=8)
    rows = BinaryTensor.from_any(dense)
    exact, drawn = (memberships(rows, components, method=method) for method in METHODS)
    np.testing.assert_allclose(drawn, exact, atol=0.15)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_columns", [5, 64, 130])
def test_row_without_known_entries_gets_the_prior(method, n_columns):
    """Where nothing is known, the prior odds answer."""
    _, components = make(1, n_columns, 4, seed=1)
    nothing = pack(np.zeros((2, n_columns), bool))
    has = memberships(Unfolding(nothing, nothing), components, method=method)
    np.testing.assert_allclose(has, [expit(components.odds)] * 2, atol=1e-7)


@pytest.mark.parametrize(
    "function", [memberships, predictive, lambda *a, **k: log_scores(*a, **k).total]
)
@pytest.mark.parametrize("method", METHODS)
def test_row_depends_on_nothing_but_itself(function, method, monkeypatch):
    """Order, selection, blocks, threads and the other rows' unknown entries change no bit."""
    dense, components = make(13, 70, 3, seed=2)
    dense[:4] = np.nan_to_num(dense[:4])
    rows = BinaryTensor.from_any(dense)
    all_rows = function(rows, components, method=method, threads=1)
    order = np.random.default_rng(0).permutation(13)
    shuffled = BinaryTensor.from_any(dense[order])
    np.testing.assert_array_equal(function(shuffled, components, method=method), all_rows[order])
    known = BinaryTensor.from_any(dense[:4])
    assert known.unknown is None
    np.testing.assert_array_equal(function(known, components, method=method), all_rows[:4])
    np.testing.assert_array_equal(function(rows, components, method=method, threads=3), all_rows)
    monkeypatch.setattr(new_rows, "_BLOCK_ENTRIES", 4 * 70)
    np.testing.assert_array_equal(function(rows, components, method=method), all_rows)


def test_many_components_use_the_chain(monkeypatch):
    """From the limit on the chain answers, and below it the sum."""
    dense, components = make(3, 20, 6)
    rows = BinaryTensor.from_any(dense)
    results = {m: memberships(rows, components, method=m) for m in METHODS}
    np.testing.assert_array_equal(memberships(rows, components), results["enumeration"])
    monkeypatch.setattr(new_row_plan, "MOST_ENUMERATED", 5)
    np.testing.assert_array_equal(memberships(rows, components), results["gibbs"])
    assert (results["gibbs"] != results["enumeration"]).any()


def test_no_components():
    """Only the level is unknown; the chain draws it."""
    dense, components = make(3, 20, 0)
    rows = BinaryTensor.from_any(dense)
    exact, drawn = (predictive(rows, components, method=method) for method in METHODS)
    np.testing.assert_allclose(drawn, exact, atol=0.05)
    assert memberships(rows, components, method="gibbs").shape == (3, 0)


def test_levels_of_other_columns_are_refused():
    dense, components = make(3, 20, 2)
    with pytest.raises(ValueError, match="codes of 19 columns and levels of 20 columns were"):
        memberships(
            BinaryTensor.from_any(dense[:, 1:]), components._replace(codes=components.codes[1:])
        )


def test_extreme_rows_give_certainty_not_nonsense():
    """Thousands of columns at the ends of the grids overflow nothing."""
    prior = Effects()
    codes = np.zeros((6000, 2), bool)
    codes[:3000, 0] = codes[3000:, 1] = True
    noise = prior.flat((1, 6000), expit(-3.0), expit(-3.0))
    noise = noise.with_rows(noise.rows, noise.hyper._replace(row_spread=14))
    dense = np.zeros((1, 6000))
    dense[0, :3000] = 1.0
    for method in METHODS:
        components = Components(codes, np.zeros(2), noise)
        has = memberships(BinaryTensor.from_any(dense), components, method=method)
        np.testing.assert_allclose(has, [[1.0, 0.0]], atol=1e-12)
