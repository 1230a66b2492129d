"""What a chain reached before its first sweep is kept with its draws."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import thali
from thali.sampler import Attempted, Schedule, Target, Tried
from thali.sampler import start as start_of_chain
from thali.streams import chain_key
from thali.trace.files import read_arrays, write_arrays
from thali.trace.starts import start_arrays, start_of

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

DATA = thali.simulate((23, 40), 3, spurious=0.1, unknown=0.1, seed=1).tensor
SCHEDULE = Schedule(starts=2, regrow=1)
SHORT = {
    "noise": "unequal", "chains": 2, "warmup": 4, "draws": 6, "seed": 5, "schedule": SCHEDULE,
}  # fmt: skip


def expected():
    """Return the history of both starts, each made alone."""
    target = Target.prepare(DATA, schedule=SCHEDULE, threads=1)
    return tuple(
        list(start_of_chain(chain_key(5, number), target))[-1].history for number in range(2)
    )


def states(out):
    return sorted(out.glob("chain-*/state.npz"))


def test_memory_and_disk_keep_what_the_start_reached(tmp_path):
    """The last history of the start, chain by chain, also after more draws in another session."""
    want = expected()
    assert [part.stage for part in want[0]][:2] == ["grown", "grown"]  # then only if they differ
    assert all(isinstance(part, Attempted) for history in want for part in history)
    assert thali.sample(DATA, **SHORT).starts == want
    out = tmp_path / "run"
    assert thali.sample(DATA, **SHORT, out=out).starts == want
    assert thali.load(out).starts == want
    assert thali.resume(out, draws=9).starts == want
    assert thali.load(out).starts == want


def test_a_number_that_is_given_needs_no_start(tmp_path):
    """Neither does a schedule without starts; then there is nothing to keep."""
    finite = {"n_components": 2} | SHORT
    assert thali.sample(DATA, **finite, out=tmp_path / "run").starts == ((), ())
    assert thali.load(tmp_path / "run").starts == ((), ())
    assert thali.sample(DATA, **SHORT | {"schedule": Schedule(starts=0)}).starts == ((), ())


def test_runs_that_noted_no_start_are_read_and_continued(tmp_path):
    """Earlier versions wrote none: it is empty, and stays so."""
    out = tmp_path / "run"
    thali.sample(DATA, **SHORT, out=out)
    for path in states(out):
        arrays = read_arrays(path)
        write_arrays(path, {k: v for k, v in arrays.items() if not k.startswith("start_")})
    assert thali.load(out).starts == ((), ())
    more = thali.resume(out, draws=8)
    assert more.starts == thali.load(out).starts == ((), ())
    np.testing.assert_array_equal(
        more.log_joint, thali.sample(DATA, **SHORT | {"draws": 8}).log_joint
    )


def test_runs_that_noted_less_of_the_start(tmp_path):
    """Before starts were tried on hidden entries, they had no kind; the rest is read."""
    out = tmp_path / "run"
    whole = thali.sample(DATA, **SHORT, out=out)
    for path in states(out):
        arrays = read_arrays(path)
        fewer = {k: v for k, v in arrays.items() if k not in ("start_kind", "start_tried")}
        write_arrays(path, fewer)
    assert thali.load(out).starts == whole.starts


def test_trials_are_kept():
    """What was tried is there again, what was not is not."""
    history = (
        Attempted("grown", 3, -10.0, "flat"),
        Attempted("tried", 3, -10.0, "flat", Tried(-0.4, 0.1, 0.02, 300)),
    )
    assert start_of(start_arrays(history)) == history
    assert start_of(start_arrays(())) == ()


@pytest.mark.parametrize("damage", ["cut off", "uneven"])
def test_a_damaged_state_loses_no_start(tmp_path, damage):
    """The draws are salvaged and the chain goes on; the first draws say what the start reached."""
    out = tmp_path / "run"
    whole = thali.sample(DATA, **SHORT, out=out)
    path = states(out)[0]
    if damage == "cut off":
        path.write_bytes(path.read_bytes()[:200])
    else:
        arrays = read_arrays(path)
        write_arrays(path, arrays | {"start_evidence": arrays["start_evidence"][1:]})
    read = thali.load(out, partial=True)
    assert read.starts == whole.starts
    np.testing.assert_array_equal(read.log_joint, whole.log_joint)
    again = thali.resume(out, draws=8)
    assert again.starts == whole.starts
    assert thali.load(out).n_draws == 8


def test_damaged_draws_leave_the_start(tmp_path):
    """It is in another file; a chain without any intact draw starts again, and the same."""
    out = tmp_path / "run"
    whole = thali.sample(DATA, **SHORT, out=out)
    (draws,) = (out / "chain-1").glob("draws-*.npz")
    draws.write_bytes(draws.read_bytes()[:-9])
    assert thali.load(out, partial=True).starts == whole.starts
    again = thali.resume(out)
    assert again.starts == whole.starts
    np.testing.assert_array_equal(again.log_joint, whole.log_joint)


CODE = """
import sys
sys.path.insert(0, {folder!r})
import test_starts
import thali
thali.sample(
    test_starts.DATA, **test_starts.SHORT | {{"draws": 100_000}}, out={out!r}, checkpoint=1e-9,
    threads=1, progress=False,
)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX")
def test_killed_and_resumed_a_run_has_its_start(tmp_path):
    """A checkpoint in the warm-up has it already."""
    out = tmp_path / "run"
    code = CODE.format(folder=str(__file__).rpartition("/")[0], out=str(out))
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while process.poll() is None and len(states(out)) < 2:
            time.sleep(0.002)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    want = expected()
    assert thali.load(out).starts == want
    n_draws = thali.load(out).n_draws + 3
    more = thali.resume(out, draws=max(n_draws, *(len(c) for c in thali.load(out)._chains)))
    assert more.starts == want
