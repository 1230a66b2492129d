"""A table, a run, and somebody at the command line."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import thali
from thali.cli import main


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command line in a folder of its own; return exit status, output, error output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def table(tmp_path):
    """A table without row names."""
    path = tmp_path / "table.csv"
    data = thali.simulate((12, 9), 2, seed=1).tensor.astype(int)
    np.savetxt(path, data, "%d", ",", header=",".join("abcdefghi"), comments="")
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run whose chains agree, and one whose chains had too little time. Not to be changed."""
    folder = tmp_path_factory.mktemp("runs")
    data = thali.simulate((24, 30), 2, spurious=0.03, unknown=0.05, seed=3).tensor
    names = [[f"row {i}" for i in range(24)], [f"column {i}" for i in range(30)]]
    tensor = thali.BinaryTensor.from_any(data, row_names=names, mode_names=["who", "what"])
    thali.sample(
        tensor, n_components=2, chains=2, warmup=30, draws=60, seed=1, out=folder / "agree"
    )
    few = {"noise": "unequal", "chains": 2, "warmup": 0, "draws": 30, "seed": 1}
    with pytest.warns(thali.errors.NotConverged):
        thali.sample(tensor, **few, out=folder / "differ")
    return folder


@pytest.fixture
def kept(finished, tmp_path):
    """A copy of the run whose chains agree, in the folder of the test."""
    shutil.copytree(finished / "agree", tmp_path / "kept.run")
    return tmp_path / "kept.run"


@pytest.fixture
def start(tmp_path):
    """Start the command line as a process of its own."""
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "thali.cli", *map(str, arguments)],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options,
            cwd=tmp_path,
            env=os.environ | {"PYTHONUNBUFFERED": ""},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
