"""`mode=` moves the buffet to another mode; whatever comes back has the order of the data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import thali
from thali.bits import PackedTensor
from thali.cli import main
from thali.estimator import BooleanFactorization
from thali.posterior.tables import mode_labels, tables
from thali.report import write
from thali.views import levels

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

ANIMALS = Path(__file__).parents[1] / "examples" / "animals.csv"
FEW = {"chains": 2, "warmup": 10, "draws": 6, "seed": 3, "progress": False}
NAMES = ("who", "where", "when", "why")


def made(shape, noise="auto"):
    """Return data with names whose modes are all told apart, a few entries unknown."""
    data = thali.simulate(shape, 2, spurious=0.05, seed=len(shape)).tensor.astype(float)
    data.ravel()[::11] = np.nan
    labels = [[f"{name}{i}" for i in range(n)] for name, n in zip(NAMES, shape, strict=False)]
    names = NAMES[: len(shape)]
    return data, {"row_names": labels, "mode_names": names}, {"noise": noise} | FEW


CASES = {
    "matrix": (1, *made((12, 9), "unequal")),
    "effects": (1, *made((14, 10))),
    "last of three": (2, *made((9, 8, 9))),
    "second of four": (1, *made((4, 5, 3, 5))),
}


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    """Return a posterior with the buffet on one mode, and that of data with this mode first."""
    mode, data, names, settings = CASES[request.param]
    tensor = thali.BinaryTensor.from_any(data, **names)
    folder = tmp_path_factory.mktemp("runs") / "run"
    moved = thali.sample(tensor, mode=names["mode_names"][mode], out=folder, **settings)
    front = {k: [v[mode], *v[:mode], *v[mode + 1 :]] for k, v in names.items()}
    first = thali.BinaryTensor.from_any(np.moveaxis(data, mode, 0), **front)
    return mode, moved, thali.sample(first, **settings), folder


def back(mode, parts):
    """Return parts by mode in the order of the data."""
    first, *others = parts
    others.insert(mode, first)
    return others


def same_draws(one, other):
    np.testing.assert_array_equal(one.log_joint, other.log_joint)
    for a, b in zip(one, other, strict=True):
        for mine, yours in zip(a.state.factors, b.state.factors, strict=True):
            np.testing.assert_array_equal(mine.dense(), yours.dense())


def test_the_chains_are_those_of_data_with_the_mode_first(both):
    """The same draws, with factors, names and densities in the order of the data."""
    mode, moved, front, _ = both
    np.testing.assert_array_equal(moved.log_joint, front.log_joint)
    np.testing.assert_array_equal(moved.alpha, front.alpha)
    assert list(moved.shape) == back(mode, front.shape)
    assert list(moved.mode_names) == back(mode, front.mode_names)
    assert list(moved.row_names) == back(mode, front.row_names)
    for mine, yours in zip(moved.factors(1, 3), back(mode, front.factors(1, 3)), strict=True):
        np.testing.assert_array_equal(mine, yours)
    for mine, yours in zip(moved.densities, back(mode, front.densities), strict=True):
        assert (mine is None) == (yours is None)
        if mine is not None:
            np.testing.assert_array_equal(mine, yours)


def test_summaries(both):
    """Estimates, memberships, predictions and scores are those of the other order, moved."""
    mode, moved, front, _ = both
    for number, name in enumerate(moved.mode_names):
        pd.testing.assert_frame_equal(moved.memberships(number), front.memberships(name))
        pd.testing.assert_frame_equal(moved.components(name), front.components(name))
    rounded = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(moved.predict(), np.moveaxis(front.predict(), 0, mode), **rounded)
    place = [[1] * len(moved.shape), [0, *[2] * (len(moved.shape) - 1)]]
    expected = [moved.predict()[tuple(at)] for at in place]
    np.testing.assert_allclose(moved.predict_entries(place), expected, **rounded)
    np.testing.assert_allclose(
        moved.log_score(moved.tensor).mean, front.log_score(front.tensor).mean, rtol=1e-12
    )
    for ask in ("coverage", "n_components_table"):
        one, other = getattr(moved, ask)(), getattr(front, ask)()
        assert sorted(one.index) == sorted(other.index)
        np.testing.assert_allclose(one.loc[other.index], other)
    assert moved.point_estimate().error == front.point_estimate().error
    few = moved.n_components_table(least_users=3), front.n_components_table(least_users=3)
    pd.testing.assert_series_equal(*few)
    first = tables(moved)[f"factor_{mode_labels(moved.mode_names)[0]}"]
    assert (first.index.name, len(first)) == ("who", moved.shape[0])


def test_levels(both):
    """With effects, levels of every mode are those of the data with that mode first."""
    mode, moved, front, _ = both
    if "row_spread" not in moved.noise:
        with pytest.raises(ValueError, match="without row and column effects"):
            moved.row_levels()
        return
    pd.testing.assert_frame_equal(moved.row_levels(), front.column_levels())
    frames = back(mode, [front.levels(m) for m in range(len(front.shape))])
    for name, frame in zip(moved.mode_names, frames, strict=True):
        pd.testing.assert_frame_equal(moved.levels(name), frame)
    shown = back(mode, levels(front))
    for one, other in zip(levels(moved), shown, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_allclose(one.share, other.share)


def test_stored_runs(both):
    """A run keeps its mode: it is read, resumed and extended in the order of the data."""
    mode, moved, _, folder = both
    same_draws(thali.load(folder), moved)
    same_draws(thali.resume(folder, mode=mode, progress=False), moved)
    with pytest.raises(ValueError, match="mode=0 was given; the run has another value"):
        thali.resume(folder, mode=0, progress=False)
    more = thali.resume(folder, draws=8, progress=False)
    np.testing.assert_array_equal(more.log_joint[:, :6], moved.log_joint)
    assert [f.shape[0] for f in more.factors(0, 7)] == list(moved.shape)
    assert more.chain(1).factors(0, 0)[0].shape[0] == moved.shape[0]


def test_report_and_exports(both, tmp_path):
    """The page can be drawn and says how to repeat the run; a tree has the names of the data."""
    mode, moved, _, _ = both
    page = tmp_path / "page.html"
    write(moved, page)
    text = page.read_text()
    assert f"mode={mode}" in text
    assert f"--mode {mode}" in text
    tree = moved.to_datatree()
    assert tree["observed_data"]["tensor"].shape == moved.shape


def test_command_line(tmp_path):
    """``--mode`` takes a name or a number; what is wrong is told in one sentence."""
    command = ["fit", str(ANIMALS), "--chains", "1", "--warmup", "2", "-q"]
    command += ["--draws", "2", "--noise", "unequal", "--mode"]
    out = ["--out", str(tmp_path / "run")]
    ended = CliRunner().invoke(main, [*command, "1", *out])
    assert ended.exit_code == 0, ended.output
    assert thali.load(tmp_path / "run").settings.mode == 1
    ended = CliRunner().invoke(main, [*command, "week"])
    assert ended.exit_code != 0
    assert "--mode week was given; allowed are 0 to 1, or the names" in ended.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": 2}, "mode=2 was given; allowed are 0 to 1, or the names mode_0, mode_1"),
        ({"mode": "who"}, "mode='who' was given"),
        ({"mode": 1, "n_components": 2}, "which a fixed number of components does not have"),
    ],
)
def test_bad_modes(given, message):
    """One sentence, before anything is sampled."""
    with pytest.raises(ValueError, match=message):
        thali.sample(np.eye(4), **given, **FEW)


def test_estimator():
    """Rows are still the samples; with effects, new rows would need levels that columns have."""
    data = thali.simulate((20, 15), 2, spurious=0.05, seed=1).tensor
    settings = {k: v for k, v in FEW.items() if k != "seed"}
    model = BooleanFactorization(noise="unequal", mode=1, random_state=3, **settings).fit(data)
    assert model.transform(data).shape == (20, model.n_components_)
    assert model.components_.shape == (model.n_components_, 15)
    with pytest.raises(ValueError, match="mode=1 was given; with effects, memberships of new"):
        BooleanFactorization(mode=1).fit(data)


def test_packed_data_with_another_mode_first():
    """No bit is lost, whichever mode is longest and whether some are equally long."""
    rng = np.random.default_rng(1)
    for shape in ((5, 70, 70), (70, 5, 6), (3, 4, 4, 3), (66, 2)):
        data = (rng.random(shape) < 0.4).astype(float)
        data[rng.random(shape) < 0.1] = np.nan
        packed = PackedTensor.from_tensor(thali.BinaryTensor.from_any(data))
        for mode in range(len(shape)):
            other = np.moveaxis(data, mode, 0)
            expected = PackedTensor.from_tensor(thali.BinaryTensor.from_any(other))
            found = packed.with_first(mode)
            assert found.shape == expected.shape
            for mine, yours in zip(found.unfoldings, expected.unfoldings, strict=True):
                np.testing.assert_array_equal(mine.ones, yours.ones)
                np.testing.assert_array_equal(mine.known, yours.known)
