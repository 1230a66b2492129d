"""Levels and jumps of columns, drawn together, against sums over all pairs of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

import thali
from support.mutants import mutate
from thali.model import Effects, Model
from thali.sampler import Target, level_pairs
from thali.streams import Stream, chain_key

KEY = chain_key(11)
PRIOR = Effects(
    row_levels=tuple(np.arange(-4.0, 4.25, 0.25)), column_levels=(-2.0, -1.0, 0.0, 1.0),
    jump_sizes=tuple(np.arange(0.5, 3.5, 0.5)), jump_stride=2, spreads=(0.0, 0.5, 1.0, 2.0),
)  # fmt: skip
N_DRAWS = 4000


def tiny(unknown=0.0):
    """Return a state with different levels of rows, and its target and data."""
    made = thali.simulate((14, 4), 2, spurious=0.2, dropped=0.2, unknown=unknown, seed=3)
    factors = [np.random.default_rng(5).random((n, 2)) < 0.5 for n in (14, 4)]
    target = Target.prepare(made.tensor, Model(2, noise=PRIOR), threads=1)
    state = target.initial(KEY, factors)
    noise = state.noise
    rows = noise.rows + np.random.default_rng(6).integers(-6, 7, 14)
    hyper = noise.hyper._replace(row_spread=2, column_mean=1, column_spread=2, jump_mean=3)
    noise = noise.with_rows(rows, hyper)
    return state._replace(noise=noise), target, made.tensor, factors


def exact(state, values, factors):
    """Return probabilities of the spreads, and of (level, jump) of every column given each."""
    noise, grids = state.noise, state.noise.prior.grids
    hyper, covered = noise.hyper, (factors[0].astype(int) @ factors[1].T.astype(int)) > 0
    base = noise.offset + grids.rows[noise.rows][:, None]
    of_levels = grids.of_columns[hyper.column_mean, hyper.column_spread]
    logs = np.empty((4, len(grids.columns), len(grids.jumps)))
    for at in np.ndindex(logs.shape[1:]):
        odds = base + grids.columns[at[0]] + grids.jumps[at[1]] * covered
        entries = np.where(values == 1, log_expit(odds), log_expit(-odds))
        logs[:, *at] = np.where(np.isnan(values), 0.0, entries).sum(axis=0) + of_levels[at[0]]
    common = np.full(len(grids.jumps), -np.inf)
    common[hyper.jump_mean] = 0.0
    priors = [common]
    for own in grids.of_jumps[hyper.jump_mean]:
        priors.append(np.full(len(grids.jumps), -np.inf))
        priors[-1][:: grids.stride] = own
    joint = np.array([logs + prior for prior in priors])  # spread, column, level, jump
    by_column = logsumexp(joint, axis=(2, 3))
    weights = by_column.sum(axis=1)
    return np.exp(weights - logsumexp(weights)), np.exp(joint - by_column[:, :, None, None])


def distances(module, unknown=0.0):
    """Return by how many standard errors frequencies differ from probabilities, at most."""
    state, target, values, factors = tiny(unknown)
    of_spreads, of_pairs = exact(state, values, factors)
    first = state.noise.prior.grids.first_spread
    spreads, pairs = np.zeros(len(of_spreads)), np.zeros(of_pairs.shape[1:])
    for number in range(N_DRAWS):
        stream = Stream(KEY, np.uint64(number))
        noise = module.draw_pairs(stream, state, target, PRIOR)
        spread = noise.hyper.jump_spread
        spreads[spread and spread - first + 1] += 1
        pairs[np.arange(4), noise.columns, noise.jumps] += 1
    expected = np.tensordot(of_spreads, of_pairs, axes=1)
    found = []
    for counts, chances in ((spreads, of_spreads), (pairs, expected)):
        is_possible = chances * N_DRAWS > 20  # so that a normal law is near
        errors = np.sqrt(N_DRAWS * chances * (1 - chances))
        found.append(np.abs((counts - N_DRAWS * chances)[is_possible] / errors[is_possible]))
        assert is_possible.sum() >= 3
    return max(map(np.max, found)), max(map(len, found))


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_pairs_are_drawn_by_their_probabilities(unknown):
    """Of some hundred frequencies, none is more than 4.5 standard errors off."""
    largest, n = distances(level_pairs, unknown)
    assert largest < 4.5  # p = 7e-6 for each
    assert n < 400


@pytest.mark.parametrize(
    "edit",
    [
        ("pick(pairs[j, size],", "pick(pairs[j, n_own],"),
        ("of_jumps[chosen - 1, k] + by_size", "by_size"),
        ("log_sums[0] += by_size[j, n_own]", "log_sums[0] += by_size[j, n_own] + 0.2"),
        ("value = log_prior[level] +", "value ="),
        ("* x - covered[at]", "* x"),
    ],
    ids=["another jump's levels", "no prior of jumps", "common is cheap", "no prior of levels",
         "covered entries forgotten"],
)  # fmt: skip
def test_wrong_pairs_are_rejected(edit):
    """The same comparison notices every mistake."""
    assert distances(mutate("thali.sampler.level_pairs", [edit]))[0] > 4.5


def test_who_has_no_pairs():
    """Without own jumps, without levels of columns, or with too many columns, nothing changes."""
    state, target, *_ = tiny()
    stream = Stream(KEY, np.uint64(0))
    for prior in (replace(PRIOR, jumps=False), replace(PRIOR, columns=False)):
        assert level_pairs.draw_pairs(stream, state, target, prior) is state.noise
    assert level_pairs.draw_pairs(stream, state, target, PRIOR) is not state.noise
