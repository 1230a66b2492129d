"""Lines that have a level in place of components, before the draws count."""

from itertools import count

import numpy as np
import pytest
from scipy.special import expit

from support.mutants import module, mutate
from thali.decide import SCALE
from thali.model import Effects, Levels, Model
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target, other_levels
from thali.sampler.other_levels import _explained, at_other_levels
from thali.sampler.starting import Starting
from thali.streams import Stream, chain_key

SHAPE, N_COMPONENTS, LOW, JUMP = (220, 260), 8, -4.0, 4.0
PRIOR = Effects()
GRIDS = PRIOR.grids


def truth():
    """Return data with levels of rows and columns, and the state from which they were drawn."""
    rng = np.random.default_rng(1)
    factors = [rng.random((n, N_COMPONENTS)) < 0.25 for n in SHAPE]
    levels = [rng.normal(size=n) for n in SHAPE]
    covered = factors[0].astype(int) @ factors[1].T.astype(int) > 0
    odds = LOW + np.add.outer(*levels) + JUMP * covered
    data = (rng.random(SHAPE) < expit(odds)).astype(float)
    data[rng.random(SHAPE) < 0.05] = np.nan
    target = Target.prepare(data, Model(noise=PRIOR), Schedule(), threads=1)
    rows, columns = (
        np.abs(grid[:, None] - level).argmin(axis=0)
        for grid, level in ((GRIDS.rows, levels[0]), (GRIDS.columns, LOW + levels[1]))
    )
    jumps = np.full(SHAPE[1], np.abs(GRIDS.jumps - JUMP).argmin())
    state = target.initial(chain_key(1), factors)
    hyper = Hyper(8, int(np.median(columns)), 8, int(jumps[0]), 0, state.noise.hyper.offset)
    noise = Levels(PRIOR, rows, columns, jumps, hyper)
    return target, target.recount(state._replace(noise=noise)), data, covered


def raised(state, target, mode):
    """Give every fifth line a level at which it has as many ones, but no component."""
    is_high = np.arange(SHAPE[mode]) % 5 == 0
    factors = [factor.dense() for factor in state.factors]
    covered = factors[0].astype(int) @ factors[1].T.astype(int) > 0
    high = 0.8 * JUMP * covered.mean(axis=1 - mode)
    factors[mode][is_high] = False
    grid, noise = state.noise.grid(mode), state.noise
    levels = np.asarray(noise.lines[mode], np.int64)
    levels = levels + is_high * np.rint(high / np.diff(grid).mean()).astype(int)
    levels = np.clip(levels, 0, len(grid) - 1)
    noise = (
        noise.with_columns(levels, noise.jumps, noise.hyper)
        if mode
        else noise.with_rows(levels, noise.hyper)
    )
    stuck = target.initial(chain_key(1), factors)
    stuck = stuck._replace(noise=noise, densities=(np.array(0.0), np.array(0.25)))
    return target.recount(stuck), is_high


def wrong_lines(mode, repair=at_other_levels):
    """Count lines that are wrong in more than 5% of their entries, before and after."""
    target, state, _, covered = truth()
    stuck, is_high = raised(state, target, mode)
    streams = (Stream(chain_key(1), np.uint64(number)) for number in count())
    *_, found = [stuck, *repair(streams, stuck, target, mode)]
    counts = []
    for one in (stuck, found):
        users, codes = (factor.dense().astype(int) for factor in one.factors)
        wrong = ((users @ codes.T > 0) != covered).mean(axis=1 - mode) > 0.05
        counts.append(int(wrong.sum()))
    assert counts[0] > 0.7 * is_high.sum()
    return counts


@pytest.mark.parametrize("mode", [0, 1])
def test_lines_get_their_components_back(mode):
    """Most of them: a few have hardly an entry that would tell."""
    before, after = wrong_lines(mode)
    assert after < 0.2 * before


MISTAKES = {
    "one sweep": ("_SWEEPS = 2", "_SWEEPS = 1"),
    "no other level": ("(-1.0, -2 / 3, -1 / 3, 1 / 3, 2 / 3, 1.0)", "(0.0,)"),
    "uncovered entries as covered ones": (
        "fixed(np.logaddexp(0.0, log_odds)),", "fixed(np.logaddexp(0.0, log_odds + further)),",
    ),
}  # fmt: skip
ROWS = ("no other level", "uncovered entries as covered ones")  # rows need two sweeps more rarely


@pytest.mark.parametrize(
    ("mistake", "mode"), [*((m, 1) for m in MISTAKES), *((m, 0) for m in ROWS)]
)
def test_mistakes_are_noticed(mistake, mode):
    """Lines then keep their levels, or get components that overlap theirs."""
    wrong = mutate("thali.sampler.other_levels", [MISTAKES[mistake]])
    assert wrong_lines(mode, wrong.at_other_levels)[1] > 1.5 * wrong_lines(mode)[1]


@pytest.mark.parametrize("mode", [0, 1])
def test_what_a_line_is_explained_by(mode):
    """Differences between bits and between levels are those of the log joint density.

    That is so if all columns have one jump; what all bits and levels of a line leave as it is may
    differ from the log joint density by a constant of the line.
    """
    target, state, data, _ = truth()
    rng, odds = np.random.default_rng(2), np.linspace(-2.0, 0.0, N_COMPONENTS)
    found, expected = [], []
    for share, aside in ((0.0, 0), (0.1, 0), (0.0, 3), (0.2, -2)):
        factors = [factor.dense() for factor in state.factors]
        factors[mode] ^= rng.random(factors[mode].shape) < share
        noise, grid = state.noise, state.noise.grid(mode)
        levels = np.clip(np.asarray(noise.lines[mode], np.int64) + aside, 0, len(grid) - 1)
        if mode:
            noise = noise.with_columns(levels, noise.jumps, noise.hyper)
            prior = GRIDS.of_columns[noise.hyper.column_mean, noise.hyper.column_spread]
        else:
            noise = noise.with_rows(levels, noise.hyper)
            prior = GRIDS.of_rows[noise.hyper.row_spread]
        other = target.initial(chain_key(1), factors)._replace(noise=noise)
        found.append(_explained(other, target, mode, odds) / SCALE)
        covered = factors[0].astype(int) @ factors[1].T.astype(int) > 0
        log_odds = GRIDS.rows[noise.rows][:, None] + GRIDS.columns[noise.columns] + noise.offset
        log_odds = log_odds + covered * GRIDS.jumps[noise.jumps]
        gain = data * log_odds - np.logaddexp(0.0, log_odds)
        of_line = np.nansum(gain, axis=1 - mode) + factors[mode] @ odds + prior[levels]
        if mode == 0:  # what columns give is the same for all levels and bits of the row
            of_line -= np.nansum(data * (log_odds - GRIDS.jumps[noise.jumps] * covered), axis=1)
            of_line += GRIDS.rows[levels] * np.nansum(data, axis=1)
        else:
            of_line -= np.nansum(data * (log_odds - GRIDS.jumps[noise.jumps] * covered), axis=0)
            of_line += GRIDS.columns[levels] * np.nansum(data, axis=0)
        expected.append(of_line)
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(expected, axis=0), atol=1e-3)


def test_nothing_is_tried_where_lines_have_no_levels():
    """Without spread, with a single level, or without components."""
    target, state, _, _ = truth()
    streams = (Stream(chain_key(1), np.uint64(number)) for number in count())
    flat = state.noise.hyper._replace(row_spread=0)
    without = state._replace(noise=state.noise.with_rows(state.noise.rows, flat))
    assert list(at_other_levels(streams, without, target, 0)) == []
    one_level = Effects(row_levels=(0.0,))
    lone = Levels(
        one_level, np.zeros(SHAPE[0], int), state.noise.columns, state.noise.jumps,
        state.noise.hyper,
    )  # fmt: skip
    assert list(at_other_levels(streams, state._replace(noise=lone), target, 0)) == []
    empty = state.take(np.zeros(N_COMPONENTS, bool))
    assert list(at_other_levels(streams, empty, target, 1)) == []
    assert len(list(at_other_levels(streams, state, target, 0))) == len(other_levels._ASIDE) + 1


@pytest.mark.parametrize("is_tried", [True, False])
def test_a_start_ends_with_other_levels(is_tried, monkeypatch):
    """Columns that a search left without components have them in the first state of the chain."""
    target, state, _, covered = truth()
    stuck, _ = raised(state, target, 1)
    starts = module("thali.sampler.start")
    monkeypatch.setattr(starts, "_search", lambda *_: iter([Starting(stuck, (), "done")]))
    if not is_tried:
        monkeypatch.setattr(starts, "at_other_levels", lambda *_: iter(()))
    first = starts.first_state(chain_key(1), target)
    users, codes = (factor.dense().astype(int) for factor in first.factors)
    wrong = ((users @ codes.T > 0) != covered).mean(axis=0) > 0.05
    assert (wrong.sum() < 10) == is_tried
    assert target.recount(first).covered == first.covered
