"""Mergers of a start: exactly those that the joint density supports."""

import numpy as np
import pytest

from support.grown import grown, log_entries, log_sum_of_bits, log_users
from support.mutants import mutate
from thali.model import FixedRates, Model
from thali.sampler.grow.merges import merge_pairs
from thali.sampler.grow.sides import SumOutCodes, SumOutUsers

RATES, ALPHA, DENSITY = (0.15, 0.3), 0.1, 0.35
MODEL = Model(noise=FixedRates(*RATES), alpha=ALPHA, density=DENSITY)
N_PROBLEMS = 60


def problem(seed, n_components=2, n_columns=60):
    """Return data of 12 rows made by components that are a little alike, and their factors."""
    rng = np.random.default_rng(seed)
    users = rng.random((12, n_components)) < 0.4
    users[:n_components] |= np.eye(n_components, dtype=bool)  # no two have the same users
    codes = rng.random((n_columns, n_components)) < 0.4
    is_alike = rng.random(n_columns) < rng.random()
    codes[is_alike] = codes[is_alike, :1]
    covered = users.astype(int) @ codes.T.astype(int) > 0
    flips = np.where(covered, 0.2, 0.1) > rng.random(covered.shape)
    data = (covered ^ flips).astype(float)
    data[rng.random(data.shape) < 0.05] = np.nan
    return data, users, codes


def log_ratio(data, users, codes, one, other):
    """Return log p(data, merged) - log p(data, separate), codes of both summed out."""
    rest = np.delete(np.arange(users.shape[1]), [one, other])
    covered = users[:, rest].astype(int) @ codes[:, rest].T.astype(int) > 0
    pair = users[:, [one, other]]
    union = pair.any(axis=1, keepdims=True)
    separate, merged = (
        log_users(lines, ALPHA)
        + log_sum_of_bits(data, lines, np.full(lines.shape[1], DENSITY), RATES, covered)
        for lines in (pair, union)
    )
    return merged - separate


def wrong_decisions(merge):
    """Return the problems in which a decision about two components is not that of the ratio."""
    wrong = []
    for seed in range(N_PROBLEMS):
        growth = grown(problem(seed)[0], MODEL, problem(seed)[1:], side=SumOutCodes(), seed=seed)
        if merge(growth) != (log_ratio(*problem(seed), 0, 1) > 0.0):
            wrong.append(seed)
    return wrong


def test_two_components_merge_exactly_if_that_is_more_probable():
    """The decision is that of prior times marginal likelihood, by a sum over all codes."""
    ratios = np.array([log_ratio(*problem(seed), 0, 1) for seed in range(N_PROBLEMS)])
    assert 0.25 < np.mean(ratios > 0.0) < 0.75  # both occur often
    assert np.abs(ratios).min() > 1e-6  # no ties: rounding cannot matter
    assert not wrong_decisions(merge_pairs)


@pytest.mark.parametrize(
    "edit",
    [
        (" - log(self.growth.state.alpha)", ""),
        ("float(m - m1 - m2)", "0.0"),
        ("np.array([members[0] | members[1]])", "np.array([members[0]])"),
    ],
    ids=["without concentration", "without sizes", "users of one alone"],
)
def test_wrong_decisions_are_noticed(edit):
    """Some of the same decisions are wrong if a factor of the ratio is."""
    assert wrong_decisions(mutate("thali.sampler.grow.merges", [edit]).merge_pairs)


def test_a_merged_pair_has_the_users_of_both():
    """Where two components become one; otherwise nothing changes."""
    n_merged = 0
    for seed in range(10):
        data, users, codes = problem(seed)
        growth = grown(data, MODEL, [users, codes], side=SumOutCodes())
        if merge_pairs(growth):
            n_merged += 1
            users = users.any(axis=1, keepdims=True)
        else:
            assert growth.state.factors[1].dense().tolist() == codes.tolist()
        assert growth.state.factors[0].dense().tolist() == users.tolist()
        assert growth.state.covered == growth.target.recount(growth.state).covered
    assert 0 < n_merged < 10


def test_all_pairs_are_considered():
    """A thorough search leaves three components alone exactly if no pair gains by a merger."""
    n_left = 0
    for seed in range(40):
        data, users, codes = problem(seed, 3)
        growth = grown(data, MODEL, [users, codes], side=SumOutCodes(), seed=seed)
        pairs = [(0, 1), (0, 2), (1, 2)]
        expected = any(log_ratio(data, users, codes, *pair) > 0.0 for pair in pairs)
        n_merged = merge_pairs(growth, is_thorough=True)
        assert (n_merged > 0) == expected
        assert growth.state.n_components == 3 - n_merged
        n_left += not expected
    assert 5 < n_left < 35


def test_codes_of_a_merged_pair_are_drawn_from_their_posterior():
    """Every column is drawn given all users of the pair: averages are the exact probabilities.

    Of 300 draws, the average of a bit is within 5 standard errors but once in a million times.
    """
    seed = next(s for s in range(99) if log_ratio(*problem(s), 0, 1) > 0.0)
    data, users, codes = problem(seed)
    union = users.any(axis=1)
    rows = data[union]
    odds = np.log(DENSITY / (1.0 - DENSITY))
    odds = odds + log_entries(rows, True, RATES).sum(axis=0)
    odds -= log_entries(rows, False, RATES).sum(axis=0)
    chances = 1.0 / (1.0 + np.exp(-odds))
    total = np.zeros(len(codes))
    for number in range(300):
        growth = grown(data, MODEL, [users, codes], side=SumOutCodes(), seed=number)
        assert merge_pairs(growth) == 1
        total += growth.state.factors[1].dense()[:, 0]
    bound = 5.0 * np.sqrt(chances * (1.0 - chances) / 300) + 1e-3
    assert (np.abs(total / 300 - chances) < bound).all()
    assert ((chances > 0.05) & (chances < 0.95)).any()  # not all are certain


def test_a_window_of_columns_decides_first():
    """Where columns are many, a merger that is more probable by far is found all the same."""
    for is_same in (False, True):
        rng = np.random.default_rng(5)
        users = np.zeros((12, 2), bool)
        users[:5, 0] = users[5:10, 1] = True
        codes = rng.random((700, 2)) < 0.4
        codes[:, 1] = codes[:, 0] if is_same else codes[:, 1]
        covered = users.astype(int) @ codes.T.astype(int) > 0
        data = (covered ^ (rng.random(covered.shape) < 0.15)).astype(float)
        growth = grown(data, MODEL, [users, codes])
        assert (log_ratio(data, users, codes, 0, 1) > 0.0) == is_same
        assert merge_pairs(growth) == is_same


def test_users_are_not_merged_while_they_are_summed_out():
    """The users of a merged pair would be known, but not its code."""
    seed = next(s for s in range(99) if log_ratio(*problem(s), 0, 1) > 0.0)
    data, *factors = problem(seed)
    assert merge_pairs(grown(data, MODEL, factors, side=SumOutUsers()), is_thorough=True) == 0
    assert merge_pairs(grown(data, MODEL, factors, side=SumOutCodes()), is_thorough=True) == 1
