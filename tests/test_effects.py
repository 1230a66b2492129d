"""Row and column effects through the public calls: draws, storage, predictions, and refusals."""

import numpy as np
import pytest
from scipy.special import expit

import thali
from support.places import GPU, place
from thali.data import BinaryTensor
from thali.engines.cpu.engine import CpuEngine
from thali.errors import NotConverged
from thali.model import Effects, Levels, Model
from thali.posterior.answer import answer
from thali.posterior.new_rows import Components, memberships
from thali.sampler import Schedule, Target, chain
from thali.sampler.levels import CHUNK
from thali.streams import chain_key

pytestmark = pytest.mark.filterwarnings(f"ignore::{NotConverged.__module__}.NotConverged")
SHORT = {"chains": 2, "warmup": 20, "draws": 12, "seed": 3, "progress": False}


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
    return expit(rows[:, None] + columns + jumps * (users @ codes.T))


def test_components_and_effects_are_found(posterior):
    """Both components are found, and no more; both spreads are above zero."""
    assert posterior.n_components_table().idxmax() == 2
    assert posterior.noise["row_spread"].min() > 0.3
    assert posterior.noise["column_spread"].min() > 0.3
    assert np.all(posterior.noise["jump_spread"] == 0.0)
    assert answer(posterior)["noise"]["kind"] == "effects"


def test_without_components_none_is_found():
    """Row and column rates alone make no component, although rows and columns differ."""
    rng = np.random.default_rng(4)
    odds = rng.normal(size=(80, 1)) + rng.normal(-1.0, 1.5, 60)
    data = rng.random(odds.shape) < expit(odds)
    found = thali.sample(data, noise="effects", **SHORT)
    assert found.n_components_table().idxmax() == 0
    assert thali.sample(data, **SHORT).n_components_table().idxmax() > 0


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


@pytest.mark.parametrize(
    ("shape", "n_components", "starts"), [((300, 90), None, 1), ((3 * CHUNK, 12), 2, 0)]
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
    schedule = Schedule(first_rows=200)
    found = thali.sample(table(800), noise="effects", **SHORT, schedule=schedule)
    assert found.n_components_table().idxmax() == 2
    assert len(found.draw(0, 0).state.noise.rows) == 800


def test_checks_and_reports(posterior, tmp_path):
    """Replicated data are like the data; the report is written."""
    assert posterior.check()["p_value"].min() > 0.0
    thali.report.write(posterior, tmp_path / "report.html")
    assert "average row and column" in (tmp_path / "report.html").read_text()


def test_what_is_refused(posterior):
    """New rows, estimators and tensors: one sentence each."""
    components = Components(np.ones((40, 1), bool), np.zeros(1), posterior.draw(0, 0).state.noise)
    with pytest.raises(NotImplementedError, match="level of a new row is unknown"):
        memberships(BinaryTensor.from_any(DATA[:2]), components)
    with pytest.raises(NotImplementedError, match="an estimator must transform new rows"):
        thali.BooleanFactorization(noise="effects").fit(DATA)
    with pytest.raises(NotImplementedError, match="implemented for matrices only"):
        thali.sample(np.ones((2, 2, 2)), n_components=1, noise="effects", **SHORT)
