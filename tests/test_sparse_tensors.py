"""Tensors that are given by coordinates go all the way: chains, runs, answers and pages."""

import json

import numpy as np
import pytest

import thali
from thali.bits.tensor import unfold_back
from thali.data.readers.files import read
from thali.trace import Run

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

SHAPE = (12, 9, 10)
FEW = {"n_components": 2, "chains": 2, "warmup": 5, "draws": 5, "seed": 4, "threads": 1}


def data():
    """Return a tensor with unknown entries, NaN."""
    return thali.simulate(SHAPE, 2, spurious=0.05, unknown=0.1, seed=2).tensor


def listed(values):
    """Return the same tensor, given by coordinates."""
    ones, known = np.argwhere(values == 1), np.argwhere(~np.isnan(values))
    return thali.BinaryTensor.from_any((ones, values.shape), observed=known)


def states(posterior):
    return [
        [f.words.tolist() for f in posterior.draw(chain, draw).state.factors]
        for chain in range(posterior.n_chains)
        for draw in range(posterior.n_draws)
    ]


@pytest.fixture(scope="module")
def dense():
    return thali.sample(data(), **FEW)


def test_chains_are_those_of_the_dense_tensor(dense):
    """Bit for bit, and so is a chain whose number of components is inferred."""
    thin = thali.sample(listed(data()), **FEW)
    assert states(thin) == states(dense)
    full = np.nan_to_num(data())
    buffet = FEW | {"n_components": None, "chains": 1, "warmup": 2, "draws": 2}
    coords = np.argwhere(full == 1)
    assert states(thali.sample((coords, SHAPE), **buffet)) == states(thali.sample(full, **buffet))


def test_a_run_keeps_the_tensor(dense, tmp_path):
    """It is stored packed, read without unpacking it as a whole, and can be continued."""
    values = data()
    stored = thali.sample(listed(values), **FEW, out=tmp_path / "run")
    loaded = thali.load(tmp_path / "run")
    for tensor in (loaded.tensor, Run.open(tmp_path / "run").data()[0]):
        for a, b in zip(tensor.unfoldings, dense.tensor.unfoldings, strict=True):
            np.testing.assert_array_equal(a.ones, b.ones)
            np.testing.assert_array_equal(a.known, b.known)
    again = read(tmp_path / "run" / "data.npz")
    np.testing.assert_array_equal(again.rows()[0], values == 1)
    np.testing.assert_array_equal(again.rows()[1], np.isnan(values))
    more = thali.resume(tmp_path / "run", listed(values), draws=6, threads=1)
    assert states(more)[:5] == states(stored)[:5]
    held_out = thali.BinaryTensor.from_any((np.argwhere(values == 1)[:9], SHAPE))
    plain = thali.BinaryTensor.from_any(held_out.rows()[0])
    assert loaded.log_score(held_out) == dense.log_score(plain)


def test_some_lines_of_a_large_tensor(monkeypatch):
    """A start looks at some lines, a block of rows at a time."""
    from thali.bits import tensor

    values = np.random.default_rng(0).random((9, 5, 70)) < 0.4
    words = thali.bits.PackedTensor.from_tensor(thali.BinaryTensor.from_any(values))
    lines = [np.arange(9), np.array([0, 3]), np.arange(2, 70, 3)]
    expected = values[np.ix_(*lines)]
    for most in (1, 800, 1 << 20):
        monkeypatch.setattr(tensor, "_BLOCK_ENTRIES", most)
        packed = words.of_lines(lines).as_matrix().unfoldings[0].ones
        np.testing.assert_array_equal(unfold_back(packed, expected.shape), expected)


def test_the_command_line_reads_lists(tmp_path, monkeypatch, capsys):
    """``--modes`` names the columns; every command shows the tensor with its names."""
    from thali.cli import main

    monkeypatch.chdir(tmp_path)
    truth = thali.simulate((12, 9, 8), 2, seed=2).tensor
    lines = [f"h{a},t{b},r{c}" for a, b, c in np.argwhere(truth)]
    (tmp_path / "triples.csv").write_text("\n".join(["head,tail,relation", *lines, ""]))

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert not ended.value.code, capsys.readouterr().err
        return capsys.readouterr()

    few = [
        "--components",
        "2",
        "--chains",
        "1",
        "--warmup",
        "5",
        "--draws",
        "5",
        "--threads",
        "1",
        "-q",
    ]
    told = run("fit", "triples.csv", "--modes", "head, tail,relation", *few, "--out", "t.run")
    names = read("triples.csv", modes=["head", "tail", "relation"])
    size = " x ".join(map(str, names.shape))
    assert told.out.startswith(f"{size} entries, all known: ")
    assert json.loads(run("summary", "t.run", "--json").out)["shape"] == list(names.shape)
    assert thali.load("t.run").row_names == names.row_names
    run("report", "t.run", "--out", "page.html")
    assert "relation" in (tmp_path / "page.html").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["fit", "triples.csv", "--modes", "head,tail,kind"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "thali: triples.csv: --modes head,tail,kind was given with 'kind', which is no column of "
        "it; its columns are 'head', 'tail', 'relation'; choose one of them for every mode.\n"
    )
