"""Windows of likely levels against tables of all levels: the same sums, and the same draws."""

from copy import copy

import numpy as np
import pytest
from scipy.special import logsumexp

from support.mutants import mutate
from thali.engines.base import LineCounts
from thali.engines.cpu.engine import CpuEngine
from thali.model import Effects
from thali.model.level_grids import NO_LATTICE
from thali.sampler import level_likelihoods, level_windows
from thali.sampler.level_likelihoods import Likelihoods
from thali.streams import Stream, chain_key, uniform

MODULE, WINDOWS = "thali.sampler.level_likelihoods", "thali.sampler.level_windows"
GRIDS = Effects().grids
GRID, ODDS, JUMPS = GRIDS.rows, np.array([-5.0, -2.0, 0.5]), (1.5, 4.0)
STREAM, SITE = Stream(chain_key(3), np.uint64(2)), 7
N_LINES = 3 * level_likelihoods.CHUNK // 2
N_FEW = level_likelihoods.CHUNK // 8
SHARP, NONE = 0, 1  # a line of very many entries, and one without any known entry


class Case:
    """Lines with few and with very many entries, each with one of two tables."""

    def __init__(self, *, has_unknown):
        rng = np.random.default_rng(6)
        scale = 10.0 ** rng.uniform(0.0, 4.5, (N_LINES, 1)) if has_unknown else 300.0
        self.known = rng.poisson(scale, (N_LINES if has_unknown else 1, 3)).astype(np.uint32)
        if has_unknown:
            self.known[SHARP], self.known[NONE] = 10**6, 0
        every = np.broadcast_to(self.known, (N_LINES, 3)).astype(np.int64)
        self.uncovered = rng.binomial(every, 0.6).astype(np.uint32)
        self.levels = rng.integers(len(GRID), size=N_LINES)
        self.which = rng.integers(2, size=N_LINES)
        odds = GRID[self.levels][:, None] + ODDS
        jumps = np.array(JUMPS)[self.which][:, None]
        both = (self.uncovered, odds), (every - self.uncovered, odds + jumps)
        self.n_ones = np.array(
            [rng.binomial(n, 1 / (1 + np.exp(-o))).sum(axis=1) for n, o in both]
        )
        self.odds = np.array([[(o, o + j) for o in ODDS] for j in JUMPS])
        self.softplus = np.logaddexp(0.0, self.odds[..., None] + GRID)

    def given(self, near=None, lattice=GRIDS.lattice):
        counts = LineCounts(self.uncovered, self.known, self.n_ones)
        near = self.levels if near is None else near
        return Likelihoods.of(
            counts, self.n_ones.sum(axis=0), self.odds, GRID, near, self.which, lattice
        )

    def few(self):
        """A case with so few of the lines that their likelihoods are kept."""
        few = copy(self)
        few.uncovered, few.n_ones = self.uncovered[:N_FEW], self.n_ones[:, :N_FEW]
        few.levels, few.which = self.levels[:N_FEW], self.which[:N_FEW]
        few.known = self.known[:N_FEW]
        return few

    def table(self):
        """The log likelihood of every level of every line, and the largest error of rounding.

        It is a sum of so many terms; each addition errs by half of the last bit of a partial sum,
        which is at most the sum of all sizes.
        """
        covered = self.known.astype(float) - self.uncovered
        cells = np.stack([self.uncovered.astype(float), covered], axis=-1)
        of_lines = self.softplus[self.which]
        ones = self.n_ones.sum(axis=0)[:, None] * GRID
        values = ones - np.einsum("ick,ickl->il", cells, of_lines)
        sizes = np.abs(ones) + np.einsum("ick,ickl->il", self.known[..., None] + cells, of_lines)
        return values, 16 * np.finfo(float).eps * sizes.max(axis=1)


PRIORS = {
    "spreads of rows": GRIDS.of_rows,
    "means, wide": np.array([-0.5 * ((GRID - m) / 4.0) ** 2 for m in (-8.0, 0.0, 8.0)]),
    "means, narrow": np.array([-0.5 * ((GRID - m) / 0.05) ** 2 for m in (-8.0, 0.0, 8.0)]),
    "one level each": np.where(np.eye(len(GRID)) == 1.0, 0.0, -np.inf),
}
PRIORS = {name: logs - logsumexp(logs, axis=1, keepdims=True) for name, logs in PRIORS.items()}


def sums_differ(found, case, log_prior):
    """Whether log probabilities differ by more than rounding, apart from what is negligible."""
    table, error = case.table()
    expected = logsumexp(table[:, None] + log_prior, axis=2).sum(axis=0)
    is_close = np.abs(found - expected) < 2 * error.sum() + 1e-15 * len(table) * len(GRID)
    return not np.all(is_close | (np.isneginf(found) & (expected < expected.max() - 49.0)))


def drawn(case, log_prior):
    """Draw by the definition, from all levels."""
    logs = case.table()[0] + log_prior
    weights = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    u = np.array(
        [uniform(*STREAM, np.uint64(SITE), np.uint64(i), np.uint64(0)) for i in range(len(logs))]
    )
    return (weights <= u[:, None] * weights[:, -1:]).sum(axis=1)


@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("name", PRIORS)
def test_windows_and_all_levels_agree(name, has_unknown, monkeypatch):
    """Sums within rounding, and equal draws; also if a prior is far from all likely levels."""
    case, engine = Case(has_unknown=has_unknown), CpuEngine(1)
    for is_kept in (True, False):
        monkeypatch.setattr(level_likelihoods, "KEPT", is_kept * level_windows.KEPT)
        given = case.given()
        assert len(given.relative) == is_kept * given.n_lines
        found = level_likelihoods.sum_out(engine, given, PRIORS[name])
        assert not sums_differ(found, case, PRIORS[name])
        for log_prior in PRIORS[name][[0, 1, -1]]:
            levels = level_likelihoods.draw_lines(engine, STREAM, SITE, given, log_prior)
            np.testing.assert_array_equal(levels, drawn(case, log_prior))


def test_what_is_kept_changes_nothing():
    """Sums and draws are the same bits the second time, and if each is the first."""
    case, engine, log_prior = Case(has_unknown=True).few(), CpuEngine(1), PRIORS["spreads of rows"]
    given, found = case.given(), []
    for likelihoods in (given, given, case.given()):
        sums = level_likelihoods.sum_out(engine, likelihoods, log_prior)
        found.append(sums.tolist())
    assert found[0] == found[1] == found[2]
    again, first = (
        level_likelihoods.draw_lines(engine, STREAM, SITE, likelihoods, log_prior[9])
        for likelihoods in (given, case.given())
    )
    np.testing.assert_array_equal(again, first)


def test_terms_are_the_same_without_a_lattice():
    """Tables that are read and tables that are computed differ by rounding only."""
    case = Case(has_unknown=False)
    read, computed = (case.given(lattice=lattice) for lattice in (GRIDS.lattice, NO_LATTICE))
    for name in ("covered", "change", "common"):
        some, others = getattr(read, name), getattr(computed, name)
        np.testing.assert_allclose(some, others, rtol=1e-13, atol=1e-15 * len(GRID))
        assert np.ptp(some[..., : len(GRID)]) > 0.5  # there is something to compare


def test_windows_do_not_depend_on_where_a_search_starts():
    """Neither sums nor draws, bit by bit; nor on the number of threads."""
    case, log_prior = Case(has_unknown=True), PRIORS["spreads of rows"]
    found = []
    for near, threads in ((None, 1), (np.zeros(N_LINES, int), 1), (64 - case.levels, 2)):
        engine, given = CpuEngine(threads), case.given(near)
        sums = level_likelihoods.sum_out(engine, given, log_prior)
        levels = level_likelihoods.draw_lines(engine, STREAM, SITE, given, log_prior[9])
        found.append((sums.tolist(), levels.tolist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("present", "chosen"), [(9, 9), (9, 4), (0, 9), (9, 0), (0, 0)])
def test_levels_drawn_while_lines_are_summed_out(present, chosen):
    """They are those drawn under the prior that was drawn, whichever was the present one."""
    case, engine, log_prior = Case(has_unknown=True), CpuEngine(1), PRIORS["spreads of rows"]
    given, seen = case.given(), []

    def pick(sums):
        seen.extend(sums)
        return chosen

    found, levels = level_likelihoods.draw_with_prior(
        engine, STREAM, SITE, given, log_prior, present, pick
    )
    expected = level_likelihoods.draw_lines(engine, STREAM, SITE, given, log_prior[chosen])
    assert found == chosen
    assert seen == level_likelihoods.sum_out(engine, given, log_prior).tolist()
    np.testing.assert_array_equal(levels, expected)


def test_only_levels_that_matter_are_computed():
    """One block for a line of many entries, whose window is a few levels; all if it has none."""
    case = Case(has_unknown=True)
    values = np.full(len(GRID) + level_likelihoods.BLOCK, np.nan)
    n_computed = []
    for line in (SHARP, NONE):
        values[:] = np.nan
        compiled_window(line, tuple(case.given()), values)
        n_computed.append(int((~np.isnan(values[: len(GRID)])).sum()))
    assert n_computed == [level_likelihoods.BLOCK, len(GRID)]


def compiled_window(line, given, values):
    return level_windows._fill_window.py_func(line, level_likelihoods.BLOCK, given, values)


MISTAKES = {
    "a window that is too narrow": (WINDOWS, "FAR = 80.0", "FAR = 2.0"),
    "no line in full, for sums": (MODULE, "if len(unsure):", "if len(unsure) > 1000:"),
    "no line in full, for draws": (
        WINDOWS,
        "prior, weights)\n        if total < LEAST:",
        "prior, weights)\n        if total < 0.0:",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_about_windows_are_noticed(mistake):
    """The same comparison fails."""
    case, engine, log_prior = Case(has_unknown=True), CpuEngine(1), PRIORS["means, narrow"]
    name, *edit = MISTAKES[mistake]
    mutant = mutate(name, [tuple(edit)])
    if name == WINDOWS:
        mutant = mutate(MODULE, [], sum_windows=mutant.sum_windows)
    given = case.given()
    if "draws" in mistake:
        levels = mutant.draw_lines(engine, STREAM, SITE, given, log_prior[0])
        assert np.any(levels != drawn(case, log_prior[0]))
    else:
        name = "spreads of rows" if "narrow" in mistake else "means, narrow"
        assert sums_differ(mutant.sum_out(engine, given, PRIORS[name]), case, PRIORS[name])


def many_classes(n_known):
    """Counts of lines by 60 classes, which have 12 different log odds with cover and without."""
    rng = np.random.default_rng(8)
    levels, jumps = rng.choice([-2.0, -1.5, 0.0, 0.5], 60), rng.choice([0.5, 1.0, 3.0], 60)
    odds = np.stack([levels, levels + jumps], axis=-1)[None]
    known = rng.poisson(9.0, (n_known, 60)).astype(np.uint32)
    uncovered = rng.binomial(np.broadcast_to(known, (30, 60)), 0.6).astype(np.uint32)
    return uncovered, known, odds, rng.integers(300, size=30)


def table_of(uncovered, known, odds, n_ones, lattice):
    counts, near = LineCounts(uncovered, known, n_ones), np.zeros(30, np.int64)
    given = Likelihoods.of(counts, n_ones, odds, GRID, near, None, lattice)
    logs = [np.where(np.arange(len(GRID)) == k, 0.0, -np.inf)[None] for k in (0, 20, 64)]
    return [level_likelihoods.sum_out(CpuEngine(1), given, log_prior)[0] for log_prior in logs]


def merged(uncovered, known, odds, lattice, threads=1):
    counts = LineCounts(uncovered, known, np.zeros((2, len(uncovered)), np.int64))
    counts, odds = level_likelihoods.merge(CpuEngine(threads), counts, odds, lattice)
    return *counts[:2], odds


@pytest.mark.parametrize("n_known", [1, 30], ids=["all known", "some unknown"])
def test_classes_are_merged(n_known):
    """Counts by log odds give the same likelihoods; without a lattice, counts stay."""
    uncovered, known, odds, n_ones = many_classes(n_known)
    by_odds = merged(uncovered, known, odds, GRIDS.lattice)
    assert by_odds[0].shape == (30, len(np.unique(odds)))
    expected = table_of(uncovered, known, odds, n_ones, GRIDS.lattice)
    np.testing.assert_allclose(table_of(*by_odds, n_ones, GRIDS.lattice), expected, rtol=1e-13)
    swapped = merged(uncovered, known, odds[..., ::-1].copy(), GRIDS.lattice)
    assert np.abs(np.subtract(table_of(*swapped, n_ones, GRIDS.lattice), expected)).min() > 1.0
    assert merged(uncovered, known, odds, NO_LATTICE)[0].shape == (30, 60)
    few = merged(uncovered[:, :5], known[:, :5], odds[:, :5], GRIDS.lattice)
    assert few[0].shape == (30, 5)


def test_threads_merge_classes_of_their_own_lines():
    """Of many lines, each is merged as it is alone."""
    uncovered, known, odds, _ = many_classes(30)
    which = np.random.default_rng(9).integers(30, size=3 * level_likelihoods.CHUNK + 5)
    one = merged(uncovered, known, odds, GRIDS.lattice)[0]
    many = merged(uncovered[which], known[which], odds, GRIDS.lattice, threads=3)[0]
    np.testing.assert_array_equal(many, one[which])
