"""Levels and jumps of columns, drawn together, against sums over all pairs of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp, softmax

import thali
from support.mutants import mutate
from thali.model import Effects, Model
from thali.sampler import Target, level_pairs, levels
from thali.streams import Stream, chain_key

KEY = chain_key(11)
PRIOR = Effects(
    row_levels=tuple(np.arange(-4.0, 4.25, 0.25)), column_levels=(-2.0, -1.0, 0.0, 1.0),
    jump_sizes=tuple(np.arange(0.5, 3.5, 0.5)), jump_stride=2, spreads=(0.0, 0.5, 1.0, 2.0),
)  # fmt: skip
N_DRAWS = 4000


def tiny(unknown=0.0, prior=PRIOR):
    """Return a state with different levels of rows, and its target and data."""
    made = thali.simulate((14, 4), 2, spurious=0.2, dropped=0.2, unknown=unknown, seed=3)
    factors = [np.random.default_rng(5).random((n, 2)) < 0.5 for n in (14, 4)]
    target = Target.prepare(made.tensor, Model(2, noise=prior), threads=1)
    state = target.initial(KEY, factors)
    noise = state.noise
    rows = noise.rows + np.random.default_rng(6).integers(-6, 7, 14)
    hyper = noise.hyper._replace(row_spread=2, column_mean=1, column_spread=2, jump_mean=3)
    noise = noise.with_rows(rows, hyper)
    return state._replace(noise=noise), target, made.tensor, factors


def exact(state, values, factors):
    """Return probabilities of means and spreads, and of (level, jump) of every column.

    The mean comes first, given the present spread, and stays if that is zero; the spread follows.
    """
    noise, grids = state.noise, state.noise.prior.grids
    hyper, covered = noise.hyper, (factors[0].astype(int) @ factors[1].T.astype(int)) > 0
    n_jumps, base = len(grids.jumps), noise.offset + grids.rows[noise.rows][:, None]
    of_levels = grids.of_columns[hyper.column_mean, hyper.column_spread]
    logs = np.empty((4, len(grids.columns), n_jumps))
    for at in np.ndindex(logs.shape[1:]):
        odds = base + grids.columns[at[0]] + grids.jumps[at[1]] * covered
        entries = np.where(values == 1, log_expit(odds), log_expit(-odds))
        logs[:, *at] = np.where(np.isnan(values), 0.0, entries).sum(axis=0) + of_levels[at[0]]
    priors = np.full((n_jumps, 1 + grids.of_jumps.shape[1], n_jumps), -np.inf)
    priors[np.arange(n_jumps), 0, np.arange(n_jumps)] = 0.0
    priors[:, 1:, :: grids.stride] = grids.of_jumps
    joint = logs + priors[:, :, None, None]  # mean, spread, column, level, jump
    by_column = logsumexp(joint, axis=(3, 4))
    weights = by_column.sum(axis=2)
    of_means = np.arange(n_jumps) == hyper.jump_mean
    if hyper.jump_spread:
        of_means = softmax(weights[:, hyper.jump_spread - grids.first_spread + 1])
    chances = of_means[:, None] * softmax(weights, axis=1)
    of_pairs = np.exp(joint - by_column[..., None, None])
    return chances, np.tensordot(chances, of_pairs, axes=2)


def distances(module, unknown=0.0, spread=0):
    """Return by how many standard errors frequencies differ from probabilities, at most."""
    state, target, values, factors = tiny(unknown)
    hyper = state.noise.hyper._replace(jump_spread=spread)
    jumps = state.noise.prior.grids.stride * np.array([0, 1, 2, 1])
    if spread:
        state = state._replace(noise=state.noise.with_columns(state.noise.columns, jumps, hyper))
    expected = exact(state, values, factors)
    first = state.noise.prior.grids.first_spread
    priors, pairs = (np.zeros(chances.shape) for chances in expected)
    for number in range(N_DRAWS):
        stream = Stream(KEY, np.uint64(number))
        noise = module.draw_pairs(stream, state, target, PRIOR)
        hyper = noise.hyper
        priors[hyper.jump_mean, hyper.jump_spread and hyper.jump_spread - first + 1] += 1
        pairs[np.arange(4), noise.columns, noise.jumps] += 1
    found = []
    for counts, chances in zip((priors, pairs), expected, strict=True):
        is_possible = chances * N_DRAWS > 20  # so that a normal law is near
        errors = np.sqrt(N_DRAWS * chances * (1 - chances))
        found.append(np.abs((counts - N_DRAWS * chances)[is_possible] / errors[is_possible]))
        assert is_possible.sum() >= 3
    return max(map(np.max, found)), max(map(len, found))


@pytest.mark.parametrize("spread", [0, 2])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_pairs_are_drawn_by_their_probabilities(unknown, spread):
    """Of some hundred frequencies, none is more than 4.5 standard errors off."""
    largest, n = distances(level_pairs, unknown, spread)
    assert largest < 4.5  # p = 7e-6 for each
    assert n < 400


@pytest.mark.parametrize(
    "edits",
    [
        [("pick(pairs[j, size],", "pick(pairs[j, n_own],")],
        [("of_jumps[mean, chosen - 1, k] + by_size", "by_size")],
        [("log_sums[0] += by_size[j, n_own]", "log_sums[0] += by_size[j, n_own] + 0.2")],
        [("value = log_prior[level] +", "value =")],
        [("of_ones - covered[of_pairs[k, level]]", "of_ones")],
        [
            ("    if present:\n", "    former = mean\n    if present:\n"),
            ("jumps[mean : mean + 1]", "jumps[former : former + 1]"),
        ],
        [("of_jumps[:, present - 1]), to_mean", "of_jumps[:, 0]), to_mean")],
    ],
    ids=["another jump's levels", "no prior of jumps", "common is cheap", "no prior of levels",
         "covered entries forgotten", "the former mean", "another spread's means"],
)  # fmt: skip
def test_wrong_pairs_are_rejected(edits):
    """The same comparison notices every mistake."""
    assert distances(mutate("thali.sampler.level_pairs", edits), spread=2)[0] > 4.5


@pytest.mark.parametrize("far", [1.0, 50.0, 2000.0])
def test_sums_of_terms_that_are_far_apart(far):
    """Terms that are left out, or too small for a number, do not change a sum by its rounding.

    The far ends of priors and likelihoods are opposite, so that all products are tiny.
    """
    rng = np.random.default_rng(4)
    by_size = -far * np.arange(6.0) + rng.random((5, 6))
    of_spreads = -far * np.arange(5.0)[::-1] / np.arange(1.0, 4.0)[:, None]
    found = level_pairs._weigh_spreads(by_size, of_spreads)
    terms = logsumexp(by_size[:, None, :5] + of_spreads, axis=2)
    expected = np.append(by_size[:, 5].sum(), terms.sum(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_who_has_no_pairs(monkeypatch):
    """Without own jumps, without levels of columns, or with too many columns, nothing changes."""
    state, target, *_ = tiny()
    stream = Stream(KEY, np.uint64(0))
    for prior in (replace(PRIOR, jumps=False), replace(PRIOR, columns=False)):
        assert level_pairs.draw_pairs(stream, state, target, prior) is state.noise
    assert level_pairs.draw_pairs(stream, state, target, PRIOR) is not state.noise
    monkeypatch.setattr(level_pairs, "_MOST_COLUMNS", 3)
    assert level_pairs.draw_pairs(stream, state, target, PRIOR) is state.noise


def test_levels_without_a_lattice_have_no_pairs():
    """Their sums are not points of a table. They are drawn in turn, as in other draws."""
    uneven = replace(PRIOR, column_levels=(-2.0, -1.0, 0.0, 0.97123))
    state, target, *_ = tiny(prior=uneven)
    assert len(uneven.grids.lattice.softplus) == 0
    assert level_pairs.draw_pairs(Stream(KEY, np.uint64(0)), state, target, uneven) is state.noise


def test_when_pairs_are_drawn(monkeypatch):
    """In one of eight draws, if there is a component and nothing is held."""
    state, target, *_ = tiny()
    seen = []

    def drawn(stream, state, *_):
        seen.append(int(stream.sweep))
        return state.noise

    monkeypatch.setattr(levels, "draw_pairs", drawn)
    empty = target.recount(state.take(np.zeros(2, np.bool_)))
    for number in range(20):
        stream = Stream(KEY, np.uint64(number))
        levels.draw_levels(stream, state, target)
        levels.draw_levels(stream, state, target, is_jump_held=True)
        levels.draw_levels(stream, state, target, is_column_held=True)
        levels.draw_levels(stream, empty, target)
    assert seen == [1, 9, 17]
