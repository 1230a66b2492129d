"""The engine of many processes over MPI itself, started by mpiexec as users start it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thali
from support.cluster_program import told
from thali.engines.cpu.engine import CpuEngine
from thali.errors import NotConverged

PROGRAM = Path(__file__).parents[1] / "support" / "cluster_program.py"


def mpiexec():
    """Return the command that starts processes: that of the environment, or of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


try:
    import mpi4py
except ImportError:
    mpi4py = None
pytestmark = pytest.mark.skipif(
    mpi4py is None or mpiexec() is None, reason="mpi4py or mpiexec is missing (thali[mpi])"
)


def start(n, *command, timeout=100, **more):
    """Run a command in n processes; it must never hang."""
    folders = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": folders, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [mpiexec(), "-n", str(n), *command], env=environment, timeout=timeout, check=False,
        capture_output=True, text=True, **more,
    )  # fmt: skip


def command(*words):
    return [sys.executable, "-m", "thali", *map(str, words)]


def all_draws(posterior):
    """Return everything that was drawn, as bytes."""
    return [
        (draw.log_joint, draw.moves, *(factor.words.tobytes() for factor in draw.state.factors))
        for store in posterior._stores
        for draw in store
    ]


@pytest.mark.parametrize(
    ("n", "names"),
    [
        (2, ["buffet", "effects"]),
        pytest.param(3, ["own densities", "tensor"], marks=pytest.mark.slow),
    ],
)
def test_the_chain_of_one_process(n, names):
    """The same digests over MPI as in one process."""
    done = start(n, sys.executable, str(PROGRAM), *names)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in names:
        assert found[name] == list(told(CpuEngine(1), name, unknown=0.1))


def test_a_run_of_two_processes_goes_on_in_one(tmp_path):
    """`mpiexec -n 2 thali fit` stores the run of one process, which one process can continue."""
    data = thali.simulate((140, 70), 3, spurious=0.05, dropped=0.1, unknown=0.1, seed=2).tensor
    np.save(tmp_path / "data.npy", data)
    how = {"chains": 2, "warmup": 4, "seed": 3}
    options = [part for name, value in how.items() for part in (f"--{name}", value)]
    path, run = tmp_path / "data.npy", tmp_path / "data.run"
    done = start(2, *command("fit", path, "--out", run, "--draws", 3, "-q", *options))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("140 x 70 entries") == 1  # one process talks
    with pytest.warns(NotConverged):
        more = thali.resume(run, draws=5)
    with pytest.warns(NotConverged):
        expected = thali.sample(data, **how, draws=5)
    assert all_draws(more) == all_draws(expected)
    done = start(2, *command("fit", path, "--out", run))  # it exists: one sentence, by one process
    assert done.returncode == 2
    assert done.stderr.count("thali: ") == 1
    assert "exists already" in done.stderr
