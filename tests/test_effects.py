"""Row and column effects through the public calls: draws, storage, predictions, and refusals."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import thali
from support.places import GPU, place
from thali import inference
from thali.engines.cpu.engine import CpuEngine
from thali.errors import NotConverged, TraceMismatch
from thali.model import Effects, Levels, Model
from thali.posterior.answer import answer, in_words
from thali.posterior.beyond import NOTHING
from thali.report.reproduce import arguments
from thali.sampler import Schedule, Target, chain
from thali.sampler.level_likelihoods import CHUNK
from thali.streams import chain_key

pytestmark = pytest.mark.filterwarnings(f"ignore::{NotConverged.__module__}.NotConverged")
BRIEF = Schedule(starts=2, regrow=1)
SHORT = {
    "chains": 2, "warmup": 20, "draws": 12, "seed": 3, "progress": False, "schedule": BRIEF,
}  # fmt: skip


def table(n_rows=70, n_columns=40, seed=0):
    """Two components on rows and columns that are unequally full; some entries are unknown."""
    rng = np.random.default_rng(seed)
    users, codes = rng.random((n_rows, 2)) < 0.4, rng.random((n_columns, 2)) < 0.4
    odds = (
        rng.normal(size=(n_rows, 1)) + rng.normal(-1.0, 1.0, n_columns) + 4.0 * (users @ codes.T)
    )
    data = (rng.random(odds.shape) < expit(odds)).astype(float)
    data[rng.random(data.shape) < 0.05] = np.nan
    return data


DATA = table(seed=1)


@pytest.fixture(scope="module")
def posterior():
    return thali.sample(DATA, noise="effects", **SHORT)


def one(state):
    """The probability of a one at every entry, given a draw, by its definition (eq. 25)."""
    users, codes = (factor.dense() for factor in state.factors)
    noise = state.noise
    rows, columns, jumps = (
        np.array(grid)[levels]
        for grid, levels in (
            (noise.prior.row_levels, noise.rows),
            (noise.prior.column_levels, noise.columns),
            (noise.prior.jump_sizes, noise.jumps),
        )
    )
    offset = noise.prior.offsets[noise.hyper.offset]
    return expit(rows[:, None] + columns + offset + jumps * (users @ codes.T))


def test_components_and_effects_are_found(posterior):
    """Both components are found, and no more; both spreads are above zero."""
    assert posterior.n_components_table().idxmax() == 2
    assert posterior.noise["row_spread"].min() > 0.3
    assert posterior.noise["column_spread"].min() > 0.3
    assert posterior.noise["jump_spread"].mean() < 0.5  # there is none
    found = answer(posterior)
    assert found["noise"]["kind"] == "effects"
    beyond = posterior.beyond_rates()
    assert found["beyond_rates"] == beyond.plain()
    assert beyond.gain > 2 * beyond.standard_error > 0
    assert beyond.evidence > 0
    assert np.bincount(posterior.n_that_matter.ravel()).argmax() == 2


def test_starts_tell_candidates_apart(posterior):
    """Three are tried on the same hidden entries; one of them is chosen, and comes last."""
    for history in posterior.starts:
        assert {part.kind for part in history[:-4]} == {"fitted", "flat"}
        assert {part.stage for part in history[:-4]} <= {"grown", "pooled", "regrown"}
        assert all(part.tried is None for part in history[:-4])
        *tried, chosen = history[-4:]
        assert [part.kind for part in tried] == ["none", "fitted", "flat"]
        assert chosen.stage == "chosen"
        assert chosen._replace(stage="tried") in tried
        baselines = [part.tried.score - part.tried.gain for part in tried]
        np.testing.assert_allclose(baselines, baselines[0])
        assert len({part.tried.n_hidden for part in tried}) == 1
        families = {part.kind: part.evidence for part in history[:-4]}  # the last of each
        assert {part.kind: part.evidence for part in tried[1:]} == families
        assert tried[0].evidence < chosen.evidence


def test_a_one_gains_as_much_more_everywhere():
    """As integers, too: engines then need one count of ones for all classes."""
    prior = Effects()
    rng = np.random.default_rng(0)
    flat = prior.flat((200, 300), 0.1, 0.1)
    rows, columns = rng.integers(20, 45, 200), rng.integers(8, 25, 300)
    for size in prior.jump_sizes:
        noise = Levels(prior, rows, columns, flat.jumps, flat.hyper).with_jump(size)
        one, zero = np.moveaxis(noise.weights().fixed().table, -1, 0)
        assert np.unique(one - zero).tolist() == [round(size * 2**24)]
        assert abs(noise.weights().table - noise.rounded_weights().table).max() <= 2.0**-25


def test_without_components_none_is_found():
    """Row and column rates alone make no component, although rows and columns differ."""
    rng = np.random.default_rng(4)
    odds = rng.normal(size=(80, 1)) + rng.normal(-1.0, 1.5, 60)
    data = rng.random(odds.shape) < expit(odds)
    found = thali.sample(data, noise="effects", **SHORT)
    assert found.n_components_table().idxmax() == 0
    assert not found.beyond_rates().is_there
    assert in_words(answer(found))[2] == NOTHING
    without = thali.sample(data, noise="unequal", **SHORT)
    assert without.n_components_table().idxmax() > 0


def test_predictions_are_averages_over_draws(posterior):
    """All entries, listed entries and log scores."""
    draws = [posterior.draw(c, d) for c in range(2) for d in range(12)]
    expected = np.mean([one(draw.state) for draw in draws], axis=0)
    np.testing.assert_allclose(posterior.predict(), expected, rtol=1e-12)
    at = np.array([[0, 1], [3, 7], [69, 39]])
    np.testing.assert_allclose(posterior.predict_entries(at), expected[tuple(at.T)], rtol=1e-12)
    known = ~np.isnan(DATA)
    logs = np.log(np.where(DATA == 1.0, expected, 1.0 - expected))[known]
    assert posterior.log_score(DATA).total == pytest.approx(logs.sum(), rel=1e-10)
    for draw in draws:
        p = one(draw.state)
        logs = np.log(np.where(DATA == 1.0, p, 1.0 - p))[known]
        assert draw.log_likelihood == pytest.approx(logs.sum(), rel=1e-10)


def test_stored_runs_go_on_exactly(posterior, tmp_path):
    """A run on disk has the same draws, levels included, and continues with the same chain."""
    run = tmp_path / "run"
    thali.sample(DATA, noise="effects", **SHORT | {"draws": 5}, out=run)
    more = thali.resume(run, draws=12, progress=False)
    np.testing.assert_array_equal(more.log_joint, posterior.log_joint)
    kept, drawn = thali.load(run).draw(1, 11).state.noise, posterior.draw(1, 11).state.noise
    assert isinstance(kept, Levels)
    for name in ("rows", "columns", "jumps"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(drawn, name))
    assert kept.hyper == drawn.hyper
    assert thali.load(run).starts == posterior.starts


@pytest.mark.parametrize(
    ("shape", "n_components", "starts"), [((300, 90), 2, 0), ((5 * CHUNK, 12), 2, 0)]
)
def test_chains_do_not_depend_on_threads(shape, n_components, starts):
    """Any number of threads draws the same bits; rows are enough to be shared."""
    data, model = table(*shape), Model(n_components, noise=Effects(jumps=True))
    chains = []
    for threads in (1, 2):
        target = Target.prepare(data, model, Schedule(starts=starts), engine=CpuEngine(threads))
        sweeps = chain(chain_key(5), target, 8)
        chains.append([(info, state.noise.rows.tolist()) for state, info in sweeps])
    assert chains[0] == chains[1]


@pytest.mark.parametrize("engine", GPU)
def test_the_same_draws_on_a_gpu(engine):
    """Through the public call, with a start, missing entries and single-row components."""
    few = {"chains": 1, "warmup": 4, "draws": 4, "seed": 3, "progress": False}
    few["schedule"] = Schedule(starts=1, regrow=1)
    here, there = (
        thali.sample(table(40, 30), noise="effects", **few, engine=place(name))
        for name in ("1 thread", engine)
    )
    np.testing.assert_array_equal(here.log_joint, there.log_joint)
    for name in here.noise:
        np.testing.assert_array_equal(here.noise[name], there.noise[name])


def test_many_rows_start_on_some_of_them():
    """Levels of all rows are drawn before their memberships."""
    schedule = replace(BRIEF, first_rows=200)
    found = thali.sample(table(800), noise="effects", **SHORT | {"schedule": schedule})
    assert found.n_components_table().idxmax() == 2
    assert len(found.draw(0, 0).state.noise.rows) == 800


def test_checks_and_reports(posterior, tmp_path):
    """Replicated data are like the data; the report is written."""
    assert posterior.check()["p_value"].min() > 0.0
    thali.report.write(posterior, tmp_path / "report.html")
    assert "average row and column" in (tmp_path / "report.html").read_text()


def test_levels_by_name(posterior):
    """Means and deviations over the draws; without effects there are none."""
    states = [draw.state.noise for draw in posterior]
    rows = np.array(Effects().row_levels)[[noise.rows for noise in states]]
    columns = np.array([noise.column_odds[noise.columns] for noise in states])
    table = posterior.row_levels()
    np.testing.assert_allclose(table["mean"], rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(table["sd"], rows.std(axis=0), atol=1e-12)
    np.testing.assert_allclose(posterior.column_levels()["mean"], columns.mean(axis=0), atol=1e-12)
    jumps = np.array(Effects().jump_sizes)[[noise.jumps for noise in states]]
    np.testing.assert_allclose(
        posterior.column_levels()["jump_mean"], jumps.mean(axis=0), atol=1e-12
    )
    named = thali.sample(
        pd.DataFrame(DATA[:9, :4], list("abcdefghi"), list("wxyz")),
        n_components=1, noise="effects", **SHORT | {"warmup": 2, "draws": 2},
    )  # fmt: skip
    assert named.row_levels().index.to_list() == list("abcdefghi")
    assert named.column_levels().index.to_list() == list("wxyz")
    with pytest.raises(ValueError, match="without row and column effects was given"):
        thali.sample(DATA, n_components=1, **SHORT | {"draws": 2}).row_levels()


def test_levels_are_exported(posterior):
    """Spreads are quantities of the posterior; levels have a group of their own."""
    tree = posterior.to_datatree()
    assert {"row_spread", "column_spread", "jump_spread"} <= set(tree["posterior"].data_vars)
    levels = tree["levels"]
    assert levels["row_level"].dims == ("chain", "draw", posterior.mode_names[0])
    noise = posterior.draw(1, 3).state.noise
    for name, grid, own in (
        ("row_level", Effects().row_levels, noise.rows),
        ("column_level", noise.column_odds, noise.columns),
        ("jump", Effects().jump_sizes, noise.jumps),
    ):
        expected = np.array(grid)[own].astype(np.float32)
        np.testing.assert_array_equal(levels[name].sel(chain=1, draw=3), expected)
    assert "levels" not in posterior.to_datatree(factors=False).children


def test_levels_of_cells_and_genes(posterior, tmp_path):
    """They are columns of obs and var, and can be written; a later call removes what is old."""
    adata = thali.tl.to_anndata(posterior)
    rows, columns = posterior.row_levels(), posterior.column_levels()
    assert adata.obs.columns.to_list() == ["thali_level", "thali_level_sd"]
    jumps = ["thali_jump", "thali_jump_sd"]
    assert adata.var.columns.to_list() == ["thali_level", "thali_level_sd", *jumps]
    np.testing.assert_allclose(adata.obs["thali_level"], rows["mean"], rtol=1e-6)
    np.testing.assert_allclose(adata.var["thali_level_sd"], columns["sd"], rtol=1e-6)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    short = SHORT | {"warmup": 2, "draws": 2, "binarize": None, "n_components": 1}
    used = np.arange(40) % 2 == 0
    thali.tl.factorize(adata, noise="effects", mask_var=used, **short)
    assert {"thali_jump", "thali_jump_sd"} <= set(adata.var)
    assert "thali_jump" not in adata.obs
    np.testing.assert_array_equal(np.isnan(adata.var["thali_jump"]), ~used)
    thali.tl.factorize(adata, **short)
    assert not [*adata.obs, *adata.var]


def test_estimator(posterior, monkeypatch):
    """It places fitted rows and new ones, with levels that it does not know."""
    monkeypatch.setattr(inference, "sample", lambda *_, **__: posterior)  # saves the time
    model = thali.BooleanFactorization(noise="effects")
    has = model.fit_transform(DATA)
    users = posterior.point_estimate().factors[0].dense()
    assert ((has > 0.5) == users).mean() > 0.9
    columns = posterior.column_levels()
    np.testing.assert_array_equal(model.noise_.columns, columns["mean"])
    np.testing.assert_array_equal(model.noise_.jumps, columns["jump_mean"])
    spreads = posterior.noise["row_spread"].ravel()
    grid = np.array(Effects().row_levels)
    densities = np.array([np.exp(-(grid**2) / (2.0 * spread**2)) for spread in spreads])
    expected = (densities / densities.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(np.exp(model.noise_.log_prior), expected, rtol=1e-9, atol=1e-300)

    blank = np.full((1, 40), np.nan)
    np.testing.assert_allclose(model.transform(blank)[0], expit(model.prior_odds_), rtol=1e-9)
    chance = model.predict_proba(DATA)
    known = ~np.isnan(DATA)
    own = np.log(np.where(DATA == 1.0, chance, 1.0 - chance))[known].mean()
    assert own > model.score(DATA) > np.log(0.5)  # other entries say less than the entry itself
    covered = model.inverse_transform(users.astype(float))
    np.testing.assert_array_equal(covered, users @ model.components_)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(DATA), has)


def test_what_a_user_gets_by_default(tmp_path):
    """Effects for matrices whose number of components is inferred; a run goes on as it began."""
    few = {"chains": 1, "warmup": 1, "draws": 2, "seed": 1, "schedule": Schedule(starts=0)}
    for data, number, noise in [
        (DATA[:9, :8], None, "effects"),
        (DATA[:9, :8], 2, "unequal"),
        (np.eye(4).reshape(4, 2, 2), 2, "unequal"),
    ]:
        out = tmp_path / f"{number}-{data.ndim}"
        found = thali.sample(data, n_components=number, **few, out=out, progress=False)
        assert found.settings.model.noise == noise
        assert thali.resume(out, noise="auto", progress=False).n_draws == 2
        other = "unequal" if noise == "effects" else "equal"
        with pytest.raises(TraceMismatch, match=f"noise='{other}' was given"):
            thali.resume(out, noise=other)


def test_a_tensor_has_one_jump():
    """Whatever the effects of a matrix would be."""
    dense = np.random.default_rng(0).random((5, 4, 3)) < 0.4
    found = thali.sample(dense, n_components=1, noise=Effects(), **SHORT)
    assert all(np.ptp(draw.state.noise.jumps) == 0 for draw in found)


# --- steps of long rows --------------------------------------------------------------------------


def test_long_rows_have_small_steps(tmp_path):
    """By name, effects fit the table; a run knows its steps, and how it can be drawn again."""
    data = np.random.default_rng(1).random((6, 1300)) < 0.3
    few = {"chains": 1, "warmup": 2, "draws": 2, "seed": 1, "progress": False}
    long = thali.sample(data, **few, out=tmp_path / "run")
    short = thali.sample(data[:, :1280], **few)
    again = thali.resume(tmp_path / "run", noise="effects", draws=3, progress=False)
    assert again.n_draws == 3
    steps = [np.diff(p.settings.model.priors(2).noise.row_levels).round(3) for p in (long, short)]
    assert {*steps[0]} == {0.1}
    assert {*steps[1]} == {0.25}
    assert "noise" not in arguments(long.settings)  # the default
    given = replace(long.settings, model=replace(long.settings.model, noise=Effects()))
    assert arguments(given)["noise"] == Effects()


@pytest.mark.slow
def test_levels_of_long_rows_are_not_worth_components():
    """Rates of rows and columns alone have no component; with coarse levels, they have some."""
    rng = np.random.default_rng(3)
    rows, columns = rng.normal(0.0, 1.15, (249, 1)), rng.normal(1.9, 1.2, 6982)
    data = rng.random((249, 6982)) < expit(rows + columns)
    few = {"chains": 1, "warmup": 100, "draws": 50, "seed": 1, "progress": False}
    fine, coarse = (thali.sample(data, noise=n, **few) for n in ("effects", Effects()))
    assert fine.n_components.max() == 0
    assert coarse.n_components.min() > 2
