"""sample(): arguments, progress, interruption, and what it says about trust."""

import logging
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import thali
from thali.errors import NotConverged
from thali.model import Model
from thali.progress import Bars, Progress, Reporter
from thali.running import RunningChain
from thali.sampler import Schedule, Target
from thali.trace import MemoryStore, Settings

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to judge:thali.errors.NotConverged")

DATA = thali.simulate((30, 40), 2, spurious=0.05, seed=1).tensor
SHORT = {"noise": "unequal", "chains": 2, "warmup": 30, "draws": 20, "seed": 1}


def test_a_fresh_seed_is_taken_and_told():
    """Without a seed every call differs, and can be repeated all the same."""
    settings = SHORT | {"seed": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        one = thali.sample(DATA, **settings)
        two = thali.sample(DATA, **settings)
        again = thali.sample(DATA, **settings | {"seed": one.settings.seed})
    assert one.settings.seed != two.settings.seed
    np.testing.assert_array_equal(one.log_joint, again.log_joint)
    assert not np.array_equal(one.log_joint, two.log_joint)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"chains": 0}, ValueError, "chains=0 was given; allowed are integers from 1 on"),
        ({"draws": 2.5}, ValueError, "draws=2.5 was given"),
        ({"thin": 0}, ValueError, "thin=0 was given"),
        ({"warmup": -1}, ValueError, "warmup=-1 was given"),
        ({"seed": -1}, ValueError, "seed=-1 was given; allowed are integers from 0"),
        ({"seed": "lucky"}, ValueError, "seed='lucky' was given"),
        ({"threads": 0}, ValueError, "threads=0 was given"),
        ({"threads": 10**20}, ValueError, "allowed are integers from 1 to 1024"),
        ({"checkpoint": 0}, ValueError, "checkpoint=0 was given"),
        ({"engine": "quantum"}, ImportError, "engine='quantum' was given"),
        ({"noise": "loud"}, ValueError, "noise='loud' was given"),
        ({"schedule": "later"}, ValueError, "schedule='later' was given"),
        ({"progress": 3}, TypeError, "progress=3 was given; allowed are True, False"),
        ({"n_components": -1}, ValueError, "n_components=-1 was given"),
        ({"n_components": 10**30}, ValueError, "allowed are integers from 0 to 9223372036854"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments, error, message, tmp_path):
    """Nothing is computed or written before all arguments are known to be good."""
    with pytest.raises(error, match=message):
        thali.sample(DATA, **SHORT | arguments, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (DATA + 1.0, ValueError, "allowed are 0, 1 and NaN"),
        (thali.simulate((5, 5), 1), TypeError, "pass their `.tensor` alone"),
        ("data.csv", TypeError, "the tensor is a str"),
        (np.zeros(4), ValueError, "at least 2 modes"),
        (np.full((2, 2), np.nan), ValueError, "all entries .* are unknown"),
    ],
)
def test_bad_data_are_one_sentence(data, error, message):
    """The same words as everywhere data come in."""
    with pytest.raises(error, match=message):
        thali.sample(data, **SHORT)


# --- progress ----------------------------------------------------------------------------------


def test_progress_is_told_from_the_main_thread_and_ends_at_the_end():
    """A callback sees every chain come to its last sweep."""
    seen = []
    thali.sample(
        DATA, **SHORT, progress=lambda now: seen.append((now, threading.current_thread()))
    )
    assert {thread for _, thread in seen} == {threading.main_thread()}
    for chain in range(2):
        sweeps = [now.sweep for now, _ in seen if now.chain == chain]
        assert sweeps == sorted(sweeps)
        assert sweeps[-1] == 50
    last = seen[-1][0]
    assert isinstance(last, Progress)
    assert (last.n_sweeps, last.is_warmup) == (50, False)
    assert np.isfinite(last.log_joint)


def test_a_failing_callback_cannot_stop_a_run(caplog):
    """It is logged once and not called again."""
    calls = []

    def fail(now):
        calls.append(now)
        raise RuntimeError("no")

    with caplog.at_level(logging.ERROR, "thali"):
        posterior = thali.sample(DATA, **SHORT, progress=fail)
    assert posterior.n_draws == 20
    assert len(calls) == 1
    assert "the progress callback failed" in caplog.text


def test_bars_show_sweeps_components_and_log_joint(capsys):
    """progress=True draws bars even where nobody watches; None does not."""
    thali.sample(DATA, **SHORT, progress=True)
    told = capsys.readouterr().err
    assert "chain 1" in told
    assert "chain 2" in told
    assert "50/50" in told
    assert "2 components, log joint" in told
    thali.sample(DATA, **SHORT)
    assert capsys.readouterr().err == ""


def test_before_the_first_sweep_progress_says_how_the_start_goes():
    """What is done, how many components there are, and the best evidence as soon as it is known.

    No sweep is counted, and there is no log joint density yet.
    """
    schedule = Schedule(warmup=2, starts=4, regrow=6)
    settings = Settings(DATA.shape, Model(), schedule, seed=1, chains=1, draws=2)
    store = MemoryStore(settings)
    target = Target.prepare(DATA, schedule=settings.schedule, threads=1)
    chain = RunningChain(0, target, settings, store)
    seen = [now() for now in chain.sweeps]
    assert [now.sweep for now in seen if not now.start] == [1, 2, 3, 4]
    started = [now for now in seen if now.start]
    assert {now.sweep for now in started} == {0}
    assert all(np.isnan(now.log_joint) for now in started)
    stages = list(dict.fromkeys(now.start for now in started))
    assert stages[:2] == ["starting: start 1 of 4", "starting: start 2 of 4"]
    assert stages[-1] == "starting: done"
    assert "starting: replacing components, round 1" in stages
    assert all(np.isnan(now.evidence) for now in started if now.start == stages[0])
    assert started[-1].evidence == max(part.evidence for part in store.start)
    assert seen[-1].start == ""
    assert np.isnan(seen[-1].evidence)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            Progress(0, 0, 9, True, 3, np.nan, "starting: start 1 of 4"),
            "starting: start 1 of 4, 3 components",
        ),
        (
            Progress(0, 0, 9, True, 1, np.nan, "starting: start 2 of 4", -1259.13),
            "starting: start 2 of 4, 1 component, best log evidence -1259.1",
        ),
        (Progress(0, 1, 9, True, 3, -12.0), "warm-up, 3 components, log joint -12.0"),
        (Progress(0, 9, 9, False, 3, -12.0), "3 components, log joint -12.0"),
    ],
)
def test_progress_in_words(now, words, capsys):
    """The bar shows them, before the first sweep at zero."""
    assert now.words() == words
    bars = Bars()
    bars(now)
    bars.close()
    told = capsys.readouterr().err
    assert f"{now.sweep}/9" in told
    assert words in told


def test_a_start_is_reported_when_it_has_grown():
    """Not again if nothing changed."""
    seen = []
    reporter = Reporter(seen.append)
    first = Progress(0, 0, 9, True, 1, np.nan, "starting: start 1 of 4")
    for now in (first, first, first._replace(n_components=2)):
        reporter([now])
    assert [now.n_components for now in seen] == [1, 2]


def test_reporter_without_listener_does_nothing():
    """Silence costs nothing."""
    reporter = Reporter(False)
    reporter([Progress(0, 1, 2, True, 0, 0.0)])
    reporter.close()


# --- Ctrl-C ------------------------------------------------------------------------------------


def interrupt_at(sweep):
    """Return a callback that presses Ctrl-C when all chains have come that far."""
    reached = set()

    def press(now):
        if now.sweep >= sweep:
            reached.add(now.chain)
        if len(reached) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            reached.clear()

    return press


LONG = SHORT | {"draws": 100_000}


def test_an_interrupted_run_returns_what_was_drawn(caplog):
    """The draws are the first of the whole run."""
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "thali"):
        warnings.simplefilter("ignore", NotConverged)
        part = thali.sample(DATA, **LONG, progress=interrupt_at(80))
        whole = thali.sample(DATA, **LONG | {"draws": part.n_draws})
    assert 0 < part.n_draws < 100_000
    assert f"stopped early, after {part.n_draws} of 100000 draws per chain" in caplog.text
    np.testing.assert_array_equal(part.log_joint, whole.log_joint)


def test_an_interrupted_stored_run_goes_on(tmp_path):
    """What was drawn is on disk, and the rest follows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        part = thali.sample(  # chains take turns in one process, so that none is far ahead
            DATA, **LONG, out=tmp_path / "run", progress=interrupt_at(80), threads=1
        )
        assert thali.load(tmp_path / "run").n_draws == part.n_draws
        n = part.n_draws + 200
        whole = thali.resume(tmp_path / "run", draws=n)
        np.testing.assert_array_equal(
            whole.log_joint, thali.sample(DATA, **LONG | {"draws": n}).log_joint
        )


def test_an_interrupt_in_warm_up_is_an_interrupt():
    """There is nothing to return."""
    with pytest.raises(KeyboardInterrupt):
        thali.sample(DATA, **LONG | {"warmup": 10**6}, progress=interrupt_at(5))


def test_a_stored_run_interrupted_in_warm_up_can_be_read(tmp_path):
    """It has no draws yet, and says so when asked for something."""
    with pytest.raises(KeyboardInterrupt):
        thali.sample(
            DATA, **LONG | {"warmup": 10**6}, progress=interrupt_at(5), out=tmp_path / "run"
        )
    read = thali.load(tmp_path / "run")
    assert read.n_draws == 0
    assert repr(read) == "Posterior(2 chains of 0 draws, data (30, 40))"
    for question in (read.n_components_table, read.point_estimate, read.summary, read.predict):
        with pytest.raises(ValueError, match=r"there are no draws yet; go on with resume\(…\)"):
            question()


def test_an_error_in_a_chain_reaches_the_caller(monkeypatch):
    """A worker that fails stops the others, and its error is raised."""
    from thali import running

    def fail(*_args):
        yield from ()
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(running, "chain", fail)
    with pytest.raises(ZeroDivisionError, match="broken"):
        thali.sample(DATA, **SHORT)


# --- trust -------------------------------------------------------------------------------------


def test_chains_that_disagree_are_told():
    """Too short a warm-up from nothing is noticed; the warning says what to do."""
    data = thali.simulate((120, 300), 8, spurious=0.2, seed=3).tensor
    with pytest.warns(NotConverged, match=r"number of components"):
        thali.sample(
            data, noise="unequal", chains=4, warmup=0, draws=30, seed=1,
            schedule=Schedule(starts=0),
        )  # fmt: skip


def test_easy_data_give_no_warning():
    """Two clear components: nothing to say."""
    posterior = thali.sample(DATA, noise="unequal", chains=4, warmup=100, draws=200, seed=1)
    assert posterior.n_components_table().idxmax() == 2
    assert posterior.verdict() is None


def test_a_second_interrupt_writes_nothing(monkeypatch):
    """While a sweep is under way its chain is not touched: the last checkpoint is what counts."""
    from thali import workers

    def interrupted(*_args):
        raise KeyboardInterrupt

    def flush(_store):
        raise AssertionError("flushed beside a running sweep")

    monkeypatch.setattr(workers._Workers, "run", interrupted)
    monkeypatch.setattr(workers._Workers, "are_running", True)
    monkeypatch.setattr("thali.trace.draws.MemoryStore.flush", flush)
    with pytest.raises(KeyboardInterrupt):
        thali.sample(DATA, **SHORT)


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_an_interruption_waits_for_the_sweep_under_way():
    """What a thread still writes must not be written by another: it is waited for, to its end."""
    ended = []

    from thali import workers

    class Slow:
        now, is_starting = None, False

        def advance(self, stop):
            time.sleep(0.6)  # the sweep in which the signal comes
            ended.append(stop.is_set())
            return len(ended) < 5  # a signal that does not come is a failure, not a standstill

    team = workers._Workers([Slow()], 1)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        team.run(lambda: None)
    timer.join()
    assert ended == [True]
    assert not team.failures
    assert not team.are_running


def test_compilation_is_told_and_no_time_of_sampling():
    """A function that is compiled for the first time counts, and stops the clock."""
    import numba

    from thali.compiling import COMPILED, clock

    before, began, real = COMPILED.n_functions, clock(), time.monotonic()
    numba.njit(lambda x: x + 1)(1)
    took, shown = time.monotonic() - real, clock() - began
    assert COMPILED.n_functions > before
    assert not COMPILED.is_running
    assert shown < took
