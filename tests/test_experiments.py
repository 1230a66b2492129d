"""The experiments run, from nothing to their pages, on something small."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import thali

FOLDER = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script as `python experiments/SCRIPT` would, in this process: nothing starts anew.

    Simulated data are smaller than in the experiments.
    """
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("_runs.SHAPE", (60, 120))

    def run_script(script, *arguments):
        path = str(FOLDER / script)
        monkeypatch.setattr("sys.argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return run_script


def store(path, data, **extra):
    np.savez(path, shape=data.shape, bits=np.packbits(data), meta=json.dumps({}), **extra)


@pytest.mark.slow  # other experiments use the same parts
def test_recovery(run, tmp_path):
    """One data set, two methods, the usual noise; a second call finds everything done."""
    out = tmp_path / "recovery.jsonl"
    small = ("--components", 2, "--flips", 0.1, "--seeds", 1, "--jobs", 1, "--out", out)
    run("recovery.py", *small, "--methods", "as printed", "thali")
    lines = out.read_text()
    page = (tmp_path / "recovery.md").read_text()
    assert "| 10% | thali | 1/1 | **1/1** |" in page
    assert 'with\n`noise="effects"`, which learns levels of rows and columns' in page
    assert (tmp_path / "recovery.svg").exists()
    run("recovery.py", *small, "--methods", "as printed", "thali")
    assert out.read_text() == lines


def test_mixing(run, tmp_path):
    """Chains from a bad start arrive; unequal rates come out."""
    out = tmp_path / "mixing.jsonl"
    small = ("--parts", "starts", "unequal", "--seeds", 1, "--jobs", 1, "--out", out)
    run("mixing.py", *small, "--noise", "unequal")
    page = (tmp_path / "mixing.md").read_text()
    assert "| with moves | 1/1 |" in page
    assert "**1 of 1** runs" in page


def test_real_data(run, tmp_path):
    """A table and its null, beside all baselines; tensors are left out."""
    rng = np.random.default_rng(0)
    users, codes = rng.random((40, 2)) < 0.4, rng.random((25, 2)) < 0.4
    store(
        tmp_path / "small.npz",
        (users @ codes.T) ^ (rng.random((40, 25)) < 0.1),
        labels=users[:, 0],
    )
    store(tmp_path / "cube.npz", rng.random((3, 4, 5)) < 0.5)
    out = tmp_path / "real_data.jsonl"
    run("real_data.py", tmp_path, "--warmup", 10, "--draws", 10, "--jobs", 1, "--out", out)
    page = (tmp_path / "real_data.md").read_text()
    assert "| small | 40 x 25 |" in page
    assert "cube" not in page
    assert "nulls" in page


@pytest.mark.filterwarnings("ignore::scipy.cluster.hierarchy.ClusterWarning")  # two types only
def test_single_cell(run, tmp_path):
    """Cells of two types are told apart, and their genes are named."""
    users, codes = np.zeros((40, 2), bool), np.zeros((60, 2), bool)
    users[:20, 0] = users[20:, 1] = codes[:30, 0] = codes[30:, 1] = True
    data = (users.astype(int) @ codes.T.astype(int) > 0) ^ (
        np.random.default_rng(0).random((40, 60)) < 0.05
    )
    store(
        tmp_path / "cells.npz",
        data,
        labels=np.repeat(["left", "right"], 20),
        row_names=np.array([f"cell{i}" for i in range(40)]),
        col_names=np.array([f"gene{i}" for i in range(60)]),
    )
    budget = ("--warmup", 30, "--draws", 20, "--out", tmp_path)
    run("single_cell.py", tmp_path / "cells.npz", *budget)
    page = (tmp_path / "single_cell.md").read_text()
    assert "gene3" in page
    assert (tmp_path / "single_cell" / "cells.png").exists()


def test_published(run, tmp_path):
    """A file that is there is measured, and only that."""
    data = thali.simulate((30, 17), 3, spurious=0.05, seed=0).tensor
    store(tmp_path / "cg_zoo.npz", data)
    told = run(
        "published.py", tmp_path, "--files", "cg_zoo", "cg_apb", "--seconds", 0.2, "--jobs", 1,
        "--out", tmp_path,
    )  # fmt: skip
    assert "cg_apb.npz is not in" in told
    page = (tmp_path / "published.md").read_text()
    assert page.count("| `cg_zoo` |") == 3


def test_roles(run, tmp_path):
    """A table of roles, one without a published number, and one that nobody asked for."""
    rng = np.random.default_rng(3)
    users, codes = rng.random((40, 5)) < 0.3, rng.random((5, 25)) < 0.3
    data = users @ codes
    store(tmp_path / "rolemining_small.npz", data, best_known_k=5)
    store(tmp_path / "rolemining_other.npz", data, mask=np.packbits(rng.random(data.shape) < 0.9))
    store(tmp_path / "beside.npz", data)
    run("roles.py", tmp_path, "--seconds", 1, "--out", tmp_path)
    page = (tmp_path / "roles.md").read_text()
    assert "| `rolemining_small` | 40 x 25 | 5 | **5** | 5 | yes |" in page
    assert "| `rolemining_other` | 40 x 25 |  | 5 | 5 | yes |" in page
    assert "beside" not in page
    assert "experiments/roles.py FOLDER --seconds 1" in page


def test_tensors(run, tmp_path):
    """A simulated tensor, a real one beside both baselines, and one without components."""
    data = thali.simulate((12, 10, 8), 2, spurious=0.05, seed=1).tensor
    store(tmp_path / "cube.npz", data, labels=np.arange(12) % 2)
    store(tmp_path / "table.npz", data[0])
    out = tmp_path / "tensors.jsonl"
    small = ("--shapes", "four", "--seeds", 1, "--warmup", 10, "--draws", 10, "--jobs", 1)
    small += ("--chains", 1, "--nulls", 1, "--components", 2)
    run("tensors.py", tmp_path, *small, "--out", out)
    page = (tmp_path / "tensors.md").read_text()
    assert "| cube | 12 x 10 x 8 |" in page
    assert "## Tensors without components" in page
    assert "| 20 x 18 x 16 x 14 | 2 |" in page
    assert "table.npz" not in page
