"""Chains of small data that are run by another process, or by one process after another."""

from threading import Event

import pytest

import thali
from thali import processes, workers
from thali.running import RunningChain

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

    is_waited_for = False


@pytest.fixture
def ended(monkeypatch):
    """Give every run a second process.

    If it is waited for, chains stay half way until it has taken one of them, or has ended.
    """
    ended, may_go_on = Ended(), Event()
    run, take, advance = workers.Process.run, workers._Workers._take, RunningChain.advance

    def run_and_note(self, take, stop):
        try:
            run(self, take, stop)
            ended.append((len(self.left), self._child.returncode))
        finally:
            may_go_on.set()

    def take_and_tell(self):
        chain = take(self)
        if chain is not None and ended.is_waited_for:
            assert 0 < chain.n_left < chain.n_sweeps
            ended.taken = chain.number
            may_go_on.set()
        return chain

    def wait_and_advance(self, stop):
        if ended.is_waited_for and self.n_left < self.n_sweeps // 2:
            assert may_go_on.wait(60.0)
        return advance(self, stop)

    monkeypatch.setattr(workers, "MANY_SWEEPS", 0)
    monkeypatch.setattr("thali.running._SLICE", 0.0)
    monkeypatch.setattr(workers.Process, "run", run_and_note)
    monkeypatch.setattr(workers._Workers, "_take", take_and_tell)
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


def test_a_chain_that_goes_on_in_another_process_is_the_same(ended, tmp_path):
    """Draws, states, counts of moves and starts do not depend on who runs a chain; nor on disk."""
    here = thali.sample(DATA, **SETTINGS | {"threads": 1})
    assert ended == []
    ended.is_waited_for = True
    run = tmp_path / "run"
    there = thali.sample(DATA, **SETTINGS | {"draws": 4}, out=run)
    assert [left for left, _ in ended] == [0]
    assert ended.taken in (0, 1)
    assert there.starts == here.starts
    ended.is_waited_for = False
    resumed = thali.resume(run, draws=6, threads=2, progress=False)
    assert values(resumed) == values(here)
    assert [left for left, _ in ended] == [0, 0]


@pytest.mark.parametrize(("what", "left"), [(DIES, (1, 3)), (CANNOT_READ, (0, 0))])
def test_the_chain_of_a_process_that_dies_goes_on_here(ended, monkeypatch, what, left):
    """Nothing is lost but time."""
    here = thali.sample(DATA, **SETTINGS | {"threads": 1})
    ended.is_waited_for = True
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what=what))
    there = thali.sample(DATA, **SETTINGS)
    assert ended == [left]
    assert values(there) == values(here)


def test_an_error_in_another_process_reaches_the_caller(ended, monkeypatch):
    """As one in this process does."""
    ended.is_waited_for = True
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what=FAILS))
    with pytest.raises(ZeroDivisionError, match="broken"):
        thali.sample(DATA, **SETTINGS)
    assert ended == []


def test_nobody_waits_for_a_process_that_has_nothing_to_do(ended, monkeypatch):
    """It is ended if all chains end before it has begun."""
    monkeypatch.setattr(processes, "_COMMAND", PROGRAM.format(what="time.sleep(60.0)"))
    there = thali.sample(DATA, **SETTINGS)
    assert there.n_chains == 2
    ((left, status),) = ended
    assert left == 0
    assert status != 0  # it was killed before it could end by itself
