"""The engine of many processes over MPI itself, started by mpiexec as users start it."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM
from time import monotonic, sleep

import numpy as np
import pytest

import thali
from support.cluster_program import CASES, told
from thali.engines.cpu.engine import CpuEngine
from thali.errors import NotConverged
from thali.sampler.grow.densities import OWN

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


def start(n, *command, timeout=300, **more):
    """Run a command in n processes; it must never hang."""
    return subprocess.run(
        [mpiexec(), "-n", str(n), *command], env=environment(), timeout=timeout, check=False,
        capture_output=True, text=True, **more,
    )  # fmt: skip


def environment():
    """Return the environment of all processes.

    Open MPI would refuse the administrator, whom containers often have, and more processes than
    there are cores.
    """
    folders = os.pathsep.join(filter(None, sys.path))
    allowed = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe")
    of_open_mpi = {f"OMPI_{name}": "1" for name in allowed}
    return {**os.environ, **of_open_mpi, "PYTHONPATH": folders, "OPENBLAS_NUM_THREADS": "1"}


def below(pid):
    """Return the processes that a process has started, and those that they have started."""
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in own] + [more for child in own for more in below(child)]


def ranks_of(job):
    """Return the processes of a job that run thali."""
    found = []
    for pid in below(job.pid):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"-m", b"thali"]:
                found.append(pid)
    return found


def command(*words):
    return [sys.executable, "-m", "thali", *map(str, words)]


def first_json(text):
    """Return what a program has written; Open MPI adds codes for terminals."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


def all_draws(posterior):
    """Return everything that was drawn, as bytes."""
    return [
        (draw.log_joint, draw.moves, *(factor.words.tobytes() for factor in draw.state.factors))
        for store in posterior._stores
        for draw in store
    ]


@pytest.mark.parametrize(
    ("n", "kind", "names"),
    [
        (2, "cpu", ["buffet", "effects"]),
        pytest.param(5, "cpu", ["own densities", "tensor"], marks=pytest.mark.slow),
        pytest.param(3, "gpu", [*CASES], marks=pytest.mark.gpu),
        pytest.param(5, "mixed", [*CASES], marks=pytest.mark.gpu),
    ],
)
def test_the_chain_of_one_process(n, kind, names):
    """The same digests over MPI as in one process, on CPUs and on GPUs."""
    # First: it compiles what all processes then have.
    expected = {name: list(told(CpuEngine(1), name, unknown=0.1)) for name in names}
    done = start(n, sys.executable, str(PROGRAM), kind, *names)
    assert done.returncode == 0, done.stderr
    assert first_json(done.stdout) == expected


def test_an_mpiexec_of_another_library(tmp_path):
    """Such processes do not know of each other, and each would do the whole work."""
    np.save(tmp_path / "data.npy", np.eye(5))
    others = {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "3"}
    done = subprocess.run(
        command("fit", tmp_path / "data.npy", "-q"), env=environment() | others, timeout=60,
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "3 processes were started, but " in done.stderr
    assert ", the library that mpi4py uses, knows of one; start them with" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data.npy"]


def test_a_run_of_two_processes_goes_on_in_one(tmp_path):
    """`mpiexec -n 2 thali fit` stores the run of one process, which one process can continue."""
    data = thali.simulate((140, 70), 3, spurious=0.05, dropped=0.1, unknown=0.1, seed=2).tensor
    np.save(tmp_path / "data.npy", data)
    # With effects, starts are put on trial; two error rates spare it.
    how = {"chains": 1, "warmup": 4, "seed": 3, "noise": "unequal"}
    options = [part for name, value in how.items() for part in (f"--{name}", value)]
    path, run = tmp_path / "data.npy", tmp_path / "data.run"
    with pytest.warns(NotConverged):
        expected = thali.sample(data, **how, draws=5)
    done = start(2, *command("fit", path, "--out", run, "--draws", 3, "-q", *options))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("140 x 70 entries") == 1  # one process talks
    with pytest.warns(NotConverged):
        more = thali.resume(run, draws=5)
    assert all_draws(more) == all_draws(expected)


@pytest.mark.slow
def test_the_density_is_chosen_together(tmp_path):
    """All processes have the model that one process would choose, and its draws."""
    rng = np.random.default_rng(0)
    users = rng.random((100, 8)) < 0.3
    codes = rng.random((3000, 8)) < [0.2, 0.2, 0.2, 0.25, 0.25, 0.7, 0.75, 0.8]
    data = (users @ codes.T) ^ (rng.random((100, 3000)) < 0.05)
    np.save(tmp_path / "data.npy", data.astype(float))
    how = {"chains": 1, "warmup": 2, "draws": 3, "seed": 3}
    options = [part for name, value in how.items() for part in (f"--{name}", value)]
    done = start(2, *command("fit", tmp_path / "data.npy", "--out", tmp_path / "run", *options))
    assert done.returncode == 0, done.stderr
    with pytest.warns(NotConverged):
        expected = thali.sample(data, **how)
    assert expected.settings.model.density == OWN
    found = thali.load(tmp_path / "run")
    assert found.settings == expected.settings
    assert all_draws(found) == all_draws(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["fit", "absent.npy"], 2, "there is no such file"),
        (["fit", "data.npy", "--draws", "0"], 2, "--draws"),
        (["fit", "data.npy", "--out", "data.run"], 2, "exists already"),
        (["fit", "few.npy"], 2, "2 processes were started for data of 1 row"),
    ],
)
def test_one_sentence_by_one_process(words, code, sentence, tmp_path):
    """What is wrong in all processes is told once, and nothing else is said."""
    np.save(tmp_path / "data.npy", np.eye(4))
    np.save(tmp_path / "few.npy", np.eye(1, 4))
    (tmp_path / "data.run").mkdir()
    (tmp_path / "data.run" / "something").touch()
    done = start(2, *command(*words), cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are found in /proc")
def test_killed_at_random_moments(tmp_path):
    """Ten times, a random process is killed; the run goes on with another number of them."""
    rng = np.random.default_rng(4)
    data = thali.simulate((200, 140), 4, spurious=0.05, dropped=0.1, seed=2).tensor
    np.save(tmp_path / "data.npy", data)
    path, run = tmp_path / "data.npy", tmp_path / "data.run"
    how = {"chains": 2, "warmup": 400, "draws": 400, "seed": 3}
    options = [part for name, value in how.items() for part in (f"--{name}", value)]
    n_killed, number = 0, 0
    while n_killed < 10:
        n = 2 + number % 2
        begun = (run / "header.json").exists()
        words = ["resume", run] if begun else ["fit", path, "--out", run, *options]
        more = ["-q", "--checkpoint", 0.3, "--threads", 1]
        with subprocess.Popen(
            [mpiexec(), "-n", str(n), *command(*words, *more)], env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as job:  # fmt: skip
            end = monotonic() + 60
            while len(ranks_of(job)) < n and job.poll() is None and monotonic() < end:
                sleep(0.1)
            sleep(rng.uniform(0.5, 8.0))
            running = ranks_of(job)
            if job.poll() is not None or not running:
                break  # it has ended by itself
            os.kill(running[rng.integers(len(running))], SIGKILL)
            began = monotonic()
            job.communicate(timeout=20)
            assert monotonic() - began < 10  # not a time of ours, but of a job that hangs
            assert job.returncode != 0
        n_killed, number = n_killed + 1, number + 1
    assert n_killed == 10
    assert all_draws(thali.resume(run)) == all_draws(thali.sample(data, **how))


@pytest.mark.slow
def test_the_end_of_its_time(tmp_path):
    """SIGTERM, which a job gets at the end of its time, leaves a run that can be resumed."""
    data = thali.simulate((200, 140), 4, spurious=0.05, dropped=0.1, seed=2).tensor
    np.save(tmp_path / "data.npy", data)
    run = tmp_path / "data.run"
    how = ["--warmup", 5, "--draws", 20000, "--chains", 1, "--out", run, "-q", "--threads", 1]
    with subprocess.Popen(
        [mpiexec(), "-n", "2", *command("fit", tmp_path / "data.npy", *how)], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as job:  # fmt: skip
        end = monotonic() + 90
        while not (run / "chain-0" / "state.npz").exists() and monotonic() < end:
            sleep(0.2)
        job.send_signal(SIGTERM)
        _, errors = job.communicate(timeout=60)
    assert job.returncode == 1
    assert "of 20000 draws per chain are kept" in errors
    assert thali.load(run).n_draws > 0


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path):
    """What the page "Beyond one machine" tells to type works; sampling is cut short."""
    root = Path(__file__).parents[2]
    text = (root / "docs" / "cluster.md").read_text()
    typed = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    (tmp_path / "examples").symlink_to(root / "examples")
    brief = {"fit": ["--warmup", "4", "--draws", "5", "--chains", "1", "--threads", "1"]}
    n_run = 0
    for line in typed:
        words = line.split()
        if "thali" not in words:
            continue
        before, own = words[: words.index("thali")], words[words.index("thali") + 1 :]
        own = [*("7" if word == "500" else word for word in own), *brief.get(own[0], [])]
        n = int(before[2]) if before else 1
        done = start(n, *command(*own), cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        n_run += 1
    assert n_run == 3
    assert thali.load(tmp_path / "animals.run").n_draws == 7
