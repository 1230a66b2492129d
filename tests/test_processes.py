"""Chains of small data that are run by another process, or by one process after another."""

import os
import signal
from threading import Event

import pytest

import thali
from thali import processes, workers
from thali.running import RunningChain
from thali.trace.disk_store import DiskStore

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to judge:thali.errors.NotConverged")

DATA = thali.simulate((30, 40), 2, spurious=0.05, seed=1).tensor
# With effects, starts are put on trial, which is shorter with fewer sweeps.
SETTINGS = {"noise": "unequal", "chains": 2, "warmup": 10, "draws": 6, "thin": 2, "seed": 5}
SETTINGS |= {"progress": False, "threads": 2}

PROGRAM = """
import os, sys, time
sys.path[:] = {{path!r}}
from thali import processes
{what}
processes.serve()
"""

DIES = """
def die(job, messages, stop, out):
    processes._tell(None, out)
    messages.get()
    os._exit(3)
processes._run = die
"""

DIES_LATER = """
from thali import running
running._SLICE, tell, told = 0.0, processes._tell, []
def tell_and_die(news, out):
    tell(news, out)
    told.append(news)
    if len(told) == 5:
        os._exit(3)
processes._tell = tell_and_die
"""

IN_TURNS = """
from thali import running
running._SLICE = processes._TURN = 0.0
"""

CANNOT_READ = """
def fail(_): raise ZeroDivisionError
processes.pickle.loads = fail
"""

FAILS = """
def fail(*_): raise ZeroDivisionError("broken")
processes._run = fail
"""


class Ended(list):
    """How many chains each process left undone, and its exit status."""

    waits_for = None
    """What chains wait for before their last third: that the other process has "begun" or has
    "taken" a chain, or that all are to be "stopped"."""
    n_taken = 0
    n_free = 0  # turns of chains that do not wait: a process begins after the first one


@pytest.fixture
def ended(monkeypatch):
    """Give every run a second process, for which chains can wait."""
    ended, is_half_way, may_go_on = Ended(), Event(), Event()
    process, team = workers.Process, workers._Workers
    begin, run, exchange, advance = (
        process._begin, process.run, team._exchange, RunningChain.advance
    )  # fmt: skip

    def begin_and_tell(self):
        child = begin(self)
        if ended.waits_for == "begun":
            may_go_on.set()
        return child

    def run_and_note(self, exchange, stop):
        try:
            run(self, exchange, stop)
            ended.append((len(self.left), self._child.returncode))
        finally:
            may_go_on.set()

    def exchange_and_tell(self, chain):
        if ended.waits_for in ("taken", "stopped"):
            assert is_half_way.wait(60.0)
        new = exchange(self, chain)
        if new is not None:
            ended.n_taken += 1
            if not may_go_on.is_set():
                assert 0 < new.n_left < new.n_sweeps
            may_go_on.set()
        return new

    def wait_and_advance(self, stop):
        if ended.n_free:
            ended.n_free -= 1
        elif ended.waits_for and self.n_left < self.n_sweeps // 3:
            is_half_way.set()
            assert (stop if ended.waits_for == "stopped" else may_go_on).wait(60.0)
        return advance(self, stop)

    def begin_anew():
        ended.n_free = 1
        is_half_way.clear()
        may_go_on.clear()

    ended.begin_anew = begin_anew
    monkeypatch.setattr(workers, "MANY_SWEEPS", 0)
    monkeypatch.setattr("thali.running._SLICE", 0.0)
    monkeypatch.setattr(process, "_begin", begin_and_tell)
    monkeypatch.setattr(process, "run", run_and_note)
    monkeypatch.setattr(team, "_exchange", exchange_and_tell)
    monkeypatch.setattr(RunningChain, "advance", wait_and_advance)
    return ended


def values(posterior):
    """Return all that the draws of all chains hold."""
    return [
        (
            [factor.words.tobytes() for factor in draw.state.factors],
            draw.state.noise.values(),
            draw.state.alpha,
            draw.log_joint,
            draw.log_likelihood,
            draw.moves,
        )
        for chain in range(posterior.n_chains)
        for draw in (posterior.draw(chain, i) for i in range(posterior.n_draws))
    ]


@pytest.fixture(scope="module")
def here():
    """Return what one process draws."""
    return thali.sample(DATA, **SETTINGS | {"threads": 1})


@pytest.mark.parametrize("what", ["", IN_TURNS])
def test_a_chain_that_goes_on_in_another_process_is_the_same(
    ended, here, what, tmp_path, monkeypatch
):
    """Draws, states, counts of moves and starts do not depend on who runs a chain; nor on disk."""
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what=what))
    ended.waits_for = "taken"
    run = tmp_path / "run"
    there = thali.sample(DATA, **SETTINGS | {"draws": 4}, out=run)
    assert [left for left, _ in ended] == [0]
    assert ended.n_taken > 0
    assert there.starts == here.starts
    n_before = ended.n_taken
    ended.begin_anew()
    resumed = thali.resume(run, draws=6, threads=2, progress=False)
    assert ended.n_taken > n_before
    assert values(resumed) == values(here)
    assert [left for left, _ in ended] == [0, 0]


@pytest.mark.parametrize(
    ("what", "left"), [(DIES, (1, 3)), (DIES_LATER, (1, 3)), (CANNOT_READ, (0, 0))]
)
def test_the_chain_of_a_process_that_dies_goes_on_here(ended, here, monkeypatch, what, left):
    """Nothing is lost but time."""
    ended.waits_for = "taken"
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what=what))
    there = thali.sample(DATA, **SETTINGS)
    assert ended == [left]
    assert values(there) == values(here)


def test_a_run_that_is_stopped_while_another_process_has_a_chain_can_be_resumed(
    ended, here, tmp_path, monkeypatch
):
    """Draws are those of a run that nobody stopped."""
    ended.waits_for = "stopped"
    put = DiskStore.put

    def put_and_interrupt(self, *new):
        put(self, *new)
        monkeypatch.setattr(DiskStore, "put", put)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(DiskStore, "put", put_and_interrupt)  # of what the process has drawn
    run = tmp_path / "run"
    stopped = thali.sample(DATA, **SETTINGS, out=run)
    assert stopped.n_draws < here.n_draws
    assert ended.n_taken > 0
    ended.waits_for = None
    assert values(thali.resume(run, threads=1, progress=False)) == values(here)


def test_an_error_in_another_process_reaches_the_caller(ended, monkeypatch):
    """As one in this process does."""
    ended.waits_for = "taken"
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what=FAILS))
    with pytest.raises(ZeroDivisionError, match="broken"):
        thali.sample(DATA, **SETTINGS)
    assert ended == []


def test_nobody_waits_for_a_process_that_has_nothing_to_do(ended, monkeypatch):
    """It is ended if all chains end before it has begun."""
    ended.waits_for = "begun"
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what="time.sleep(60.0)"))
    there = thali.sample(DATA, **SETTINGS)
    assert there.n_chains == 2
    ((left, status),) = ended
    assert left == 0
    assert status != 0  # it was killed before it could end by itself
