"""A run on disk can be read at any time, continued exactly, and says what is wrong with it."""

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import thali
from support.runs import read_header, rewrite_header
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.errors import TraceDamaged, TraceMismatch
from thali.model import Beta, FixedRates, Gamma, PerComponent, UnequalRates
from thali.sampler import Schedule, Target, chain
from thali.sampler.schedule import MOVES
from thali.streams import chain_key
from thali.trace import Run, Settings
from thali.trace.files import only_writer, read_arrays, write_arrays

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

DATA = thali.simulate((23, 70), 3, spurious=0.1, unknown=0.1, seed=1).tensor
SHORT = {"noise": "unequal", "chains": 2, "warmup": 12, "draws": 9, "thin": 2, "seed": 5}


def same(left, right):
    """Every bit of two posteriors is equal."""
    assert left.n_draws == right.n_draws
    for one, other in zip(left, right, strict=True):
        assert one.log_joint == other.log_joint
        assert one.log_likelihood == other.log_likelihood
        assert dict(one.moves) == dict(other.moves)
        a, b = one.state, other.state
        assert (a.noise, a.alpha, a.covered, a.sweep) == (b.noise, b.alpha, b.covered, b.sweep)
        for p, q in zip(a.densities, b.densities, strict=True):
            np.testing.assert_array_equal(p, q)
        for f, g in zip(a.factors, b.factors, strict=True):
            np.testing.assert_array_equal(f.words, g.words)
            assert f.n_rows == g.n_rows
    return True


CASES = {
    "buffet": (DATA, {}),
    "serial": (DATA, {"schedule": "serial"}),
    "own densities": (DATA, {"density": PerComponent(n_values=4, tied=None)}),
    "finite": (DATA, {"n_components": 3, "noise": "equal"}),
    "nothing there": (np.zeros((5, 4)), {"noise": FixedRates(0.1, 0.2), "alpha": 1e-9}),
    "tensor": (thali.simulate((6, 5, 70), 2, unknown=0.2, seed=2).tensor, {"n_components": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stored_run_reads_back_and_continues_exactly(case, tmp_path):
    """Memory, disk, stopped and continued runs hold the same bits, on any number of threads."""
    data, settings = CASES[case]
    settings = SHORT | settings
    whole = thali.sample(data, **settings, threads=2)
    stored = thali.sample(data, **settings, threads=1, out=tmp_path / "a", checkpoint=1e-9)
    assert same(whole, stored)
    assert same(whole, thali.load(tmp_path / "a"))
    assert whole.starts == stored.starts == thali.load(tmp_path / "a").starts
    thali.sample(data, **settings | {"draws": 4}, out=tmp_path / "b")
    assert thali.load(tmp_path / "b").n_draws == 4
    assert same(whole, thali.resume(tmp_path / "b", draws=9, threads=2))
    assert same(whole, thali.resume(tmp_path / "b"))  # nothing left to do
    assert thali.load(tmp_path / "b").settings == whole.settings


def test_each_chain_is_the_chain_run_alone():
    """Neither the other chains nor the threads change a chain."""
    four = thali.sample(DATA, **SHORT | {"chains": 4}, threads=3)
    target = Target.prepare(DATA, schedule=Schedule(warmup=12), threads=1)
    for number in range(4):
        states = [state for state, _ in chain(chain_key(5, number), target, 30)][13::2]
        for draw, state in enumerate(states):
            drawn = four.draw(number, draw).state
            assert drawn.noise == state.noise
            for f, g in zip(drawn.factors, state.factors, strict=True):
                np.testing.assert_array_equal(f.words, g.words)


def test_acceptance_is_that_of_the_sweeps_since_the_draw_before(tmp_path):
    """Tries and acceptances of thinned sweeps are added up; those of the warm-up do not count."""
    schedule = Schedule(warmup=12, starts=0)  # without components at first, so that some accept
    stored = thali.sample(DATA, **SHORT, schedule=schedule, out=tmp_path / "run", threads=1)
    target = Target.prepare(DATA, schedule=schedule, threads=1)
    everything = dict.fromkeys(MOVES, (0, 0))
    for number in range(2):
        totals = dict.fromkeys(MOVES, (0, 0))
        sweeps = [info.moves for _, info in chain(chain_key(5, number), target, 30)][12:]
        for draw in range(9):
            both = sweeps[2 * draw : 2 * draw + 2]
            expected = {n: tuple(np.sum([moves[n] for moves in both], axis=0)) for n in MOVES}
            assert dict(thali.load(tmp_path / "run").draw(number, draw).moves) == expected
            totals = {n: tuple(np.add(totals[n], expected[n])) for n in MOVES}
        assert stored.acceptance_by_chain[number] == {n: p for n, p in totals.items() if p[0]}
        everything = {n: tuple(np.add(everything[n], totals[n])) for n in MOVES}
    assert stored.acceptance == {n: pair for n, pair in everything.items() if pair[0]}
    assert sum(accepted for _, accepted in stored.acceptance.values()) > 0


def test_runs_that_counted_no_moves_are_read_and_continued(tmp_path):
    """Earlier versions did not store acceptance: there is none, until new draws have some."""
    thali.sample(DATA, **SHORT, out=tmp_path / "run")
    digests = {}
    for path in sorted((tmp_path / "run").glob("chain-*/draws-*.npz")):
        arrays = read_arrays(path)
        digests[path.parent] = write_arrays(
            path, {k: v for k, v in arrays.items() if not k.startswith("move")}
        )
    for folder, digest in digests.items():
        arrays = read_arrays(folder / "state.npz")
        arrays["digests"] = np.frombuffer(digest, np.uint8)[None]
        write_arrays(
            folder / "state.npz", {k: v for k, v in arrays.items() if not k.startswith("move")}
        )
    assert thali.load(tmp_path / "run").acceptance == {}
    assert thali.load(tmp_path / "run").acceptance_by_chain == ({}, {})
    more = thali.resume(tmp_path / "run", draws=11)
    assert more.acceptance["split_merge"][0] == 2 * 2 * 2 * 5  # chains, draws, sweeps, tries


def test_names_and_data_survive(tmp_path):
    """The packed copy has all entries, unknown ones, and every name."""
    rows = [f"cell “{i}”" for i in range(23)]
    tensor = BinaryTensor.from_any(DATA, row_names=(rows, None), mode_names=("cells", "genes"))
    thali.sample(tensor, **SHORT, out=tmp_path / "run")
    read = thali.load(tmp_path / "run")
    assert read.mode_names == ("cells", "genes")
    assert read.row_names == (tuple(rows), None)
    for one, other in zip(
        read.tensor.unfoldings, PackedTensor.from_tensor(tensor).unfoldings, strict=True
    ):
        np.testing.assert_array_equal(one.ones, other.ones)
        np.testing.assert_array_equal(one.known, other.known)
    stored = (tmp_path / "run" / "data.npz").stat().st_size
    assert stored < 2 * 23 * 128 / 8 + 3000  # two bits an entry, padded to words, and the names


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": UnequalRates((2.0, 5.0), (1.0, 3.0)), "alpha": Gamma(2.0, 0.5)},
        {"n_components": 3, "density": (0.2, Beta(1.0, 2.0)), "noise": "equal"},
        {"schedule": Schedule("serial", hold=3)},
        {"seed": 2**64 - 1},
    ],
)
def test_settings_survive_json(settings, tmp_path):
    """What was asked for reads back equal."""
    posterior = thali.sample(DATA, **SHORT | settings, out=tmp_path / "run")
    plain = json.loads(json.dumps(posterior.settings.to_json()))
    assert Settings.from_json(plain) == posterior.settings
    assert Run.open(tmp_path / "run").settings == posterior.settings


# --- what must be refused ----------------------------------------------------------------------


def test_the_time_of_all_sessions_adds_up(tmp_path, monkeypatch):
    """A clock that moves when it is read: going on adds to what the run took before."""
    ticks = iter(range(10**9))
    monkeypatch.setattr("thali.trace.disk_store.clock", lambda: float(next(ticks)))
    first = thali.sample(DATA, **SHORT, out=tmp_path / "run", checkpoint=1e9)
    assert thali.load(tmp_path / "run").wall_seconds == first.wall_seconds > 0
    again = thali.resume(tmp_path / "run", checkpoint=1e9)
    assert again.wall_seconds == first.wall_seconds  # nothing was left to do
    more = thali.resume(tmp_path / "run", draws=20, checkpoint=1e9)
    n_more = 2 * 11 * SHORT["thin"] * SHORT["chains"]  # every sweep of every chain reads it once
    assert first.wall_seconds < more.wall_seconds <= first.wall_seconds + 2 * n_more
    assert thali.load(tmp_path / "run").wall_seconds == more.wall_seconds


def test_runs_that_noted_no_time_are_read_and_continued(tmp_path):
    """Earlier versions wrote none: it is unknown, and stays so."""
    thali.sample(DATA, **SHORT, out=tmp_path / "run")
    for path in (tmp_path / "run").glob("chain-*/state.npz"):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files if name != "wall_seconds"}
        write_arrays(path, arrays)
    assert np.isnan(thali.load(tmp_path / "run").wall_seconds)
    more = thali.resume(tmp_path / "run", draws=11)
    assert np.isnan(more.wall_seconds)
    assert same(more, thali.sample(DATA, **SHORT | {"draws": 11}))


def test_draws_in_memory_know_their_time():
    """Chains that are kept nowhere were timed as well."""
    assert 0 < thali.sample(DATA, **SHORT).wall_seconds < 600


def test_other_data_or_settings_are_refused(tmp_path):
    """Going on with something else is an error, with the same thing it is not."""
    out = tmp_path / "run"
    thali.sample(DATA, **SHORT | {"noise": "equal"}, out=out)
    other = DATA.copy()
    other[0, 0] = 1.0 - np.nan_to_num(other[0, 0])
    with pytest.raises(TraceMismatch, match="the data given are not those of"):
        thali.resume(out, other)
    for name, value in {
        "seed": 6, "chains": 3, "warmup": 13, "thin": 1, "noise": "unequal", "n_components": 4,
        "alpha": 1.0, "density": 0.5, "schedule": "serial",
    }.items():  # fmt: skip
        with pytest.raises(TraceMismatch, match=f"{name}=.*; the run has another value"):
            thali.resume(out, **{name: value})
    with pytest.raises(TypeError, match="sead=1 was given; allowed are seed, chains"):
        thali.resume(out, sead=1)
    with pytest.raises(ValueError, match=r"draws=3 was given; .* has 9 draws per chain already"):
        thali.resume(out, draws=3)
    given = {"seed": 5, "chains": 2, "warmup": 12, "thin": 2, "noise": "equal"}
    given |= {"alpha": None, "density": None}  # the defaults, as in sample
    assert thali.resume(out, DATA, **given, schedule="parallel").n_draws == 9
    with pytest.raises(TypeError, match=r"pass their `\.tensor` alone"):
        thali.resume(out, thali.simulate((23, 70), 3))


def test_an_existing_folder_is_not_overwritten(tmp_path):
    """A run, a file or any other content stays; an empty folder may be used."""
    thali.sample(DATA, **SHORT, out=tmp_path / "run")
    before = (tmp_path / "run" / "header.json").read_bytes()
    with pytest.raises(FileExistsError, match="exists already; if it is a run, "):
        thali.sample(DATA, **SHORT, out=tmp_path / "run")
    assert (tmp_path / "run" / "header.json").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        thali.sample(DATA, **SHORT, out=tmp_path / "file")
    (tmp_path / "empty").mkdir()
    thali.sample(DATA, **SHORT, out=tmp_path / "empty")
    assert thali.load(tmp_path / "empty").n_draws == 9


def test_what_is_no_run_is_refused(tmp_path):
    """A folder without header, a missing one, a header of the future or in pieces."""
    with pytest.raises(FileNotFoundError, match="is not a folder; give the folder that sample"):
        thali.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"has no header.json"):
        thali.load(tmp_path)
    out = tmp_path / "run"
    thali.sample(DATA, **SHORT, out=out)
    header = read_header(out)
    rewrite_header(out, format=99)
    with pytest.raises(TraceMismatch, match="in format 99"):
        thali.load(out)
    rewrite_header(out, format=header["format"], stream=99)
    assert thali.load(out).n_draws == 9  # can be read, but not continued
    with pytest.raises(TraceMismatch, match="random stream differs"):
        thali.resume(out)
    (out / "header.json").write_text(json.dumps({"format": 1, "settings": header["settings"]}))
    with pytest.raises(TraceDamaged, match=r"header.json is damaged \('version'\)"):
        thali.load(out)
    (out / "header.json").write_text("{")
    with pytest.raises(TraceDamaged, match="is damaged"):
        thali.load(out)


def test_a_folder_that_cannot_be_made(tmp_path):
    """The reason is in the sentence, and nothing is left behind."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"could not be made \(Not a directory\); choose a folder"):
        thali.sample(DATA, **SHORT, out=tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(OSError, match="could not be made"):
        thali.sample(DATA, **SHORT, out="/proc/run")


def test_two_writers_are_refused(tmp_path):
    """A run that is being written cannot be continued by somebody else."""
    pytest.importorskip("fcntl", reason="locks need POSIX")
    thali.sample(DATA, **SHORT, out=tmp_path / "run")
    with only_writer(tmp_path / "run"), pytest.raises(TraceMismatch, match="another process"):
        thali.resume(tmp_path / "run", draws=10)


def test_a_refused_resume_changes_nothing(tmp_path):
    """Neither bad arguments nor a locked folder touch the header."""
    out = tmp_path / "run"
    thali.sample(DATA, **SHORT, out=out)
    before = (out / "header.json").read_bytes()
    with pytest.raises(ImportError, match="engine='quantum'"):
        thali.resume(out, draws=20, engine="quantum")
    with pytest.raises(ValueError, match="draws=0 was given"):
        thali.resume(out, draws=0)
    pytest.importorskip("fcntl", reason="locks need POSIX")
    with only_writer(out), pytest.raises(TraceMismatch, match="another process"):
        thali.resume(out, draws=20)
    assert (out / "header.json").read_bytes() == before


def test_a_run_that_cannot_be_locked(tmp_path, monkeypatch, caplog):
    """A file system without locks is told once; a folder that cannot be written is an error."""
    fcntl = pytest.importorskip("fcntl", reason="locks need POSIX")

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    thali.sample(DATA, **SHORT, out=tmp_path / "run")
    assert "cannot be locked" in caplog.text
    (tmp_path / "run" / "lock").unlink()
    (tmp_path / "run" / "lock").mkdir()
    with pytest.raises(OSError, match=r"cannot be written \(Is a directory\); copy it"):
        thali.resume(tmp_path / "run", draws=10)


def test_paths_stay_what_they_are(tmp_path, monkeypatch):
    """A relative path is the same folder wherever one goes; ~ is home; other things no path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    thali.sample(DATA, **SHORT, out="~/run")
    read = thali.load("run")
    monkeypatch.chdir("/")
    assert read.factors(0, 0)[0].shape[0] == 23
    for call in (lambda: thali.load(5), lambda: thali.sample(DATA, **SHORT, out=5)):
        with pytest.raises(TypeError, match="5 was given; the path of a folder is needed"):
            call()


def test_an_empty_folder_is_filled_where_it_is(tmp_path):
    """Its permissions stay, and a link to it works."""
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "private")
    thali.sample(DATA, **SHORT, out=tmp_path / "link")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert thali.load(tmp_path / "private").n_draws == 9


def test_an_empty_folder_that_cannot_be_filled_stays_empty(tmp_path, monkeypatch):
    """Nothing of a run that could not be made is left; a second try is not refused."""
    (tmp_path / "own").mkdir()

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("thali.trace.run._write_header", refuse)
        with pytest.raises(OSError, match=r"could not be made \(No space left on device\)"):
            thali.sample(DATA, **SHORT, out=tmp_path / "own")
    assert list((tmp_path / "own").iterdir()) == []
    assert thali.sample(DATA, **SHORT, out=tmp_path / "own").n_draws == 9


# --- damage ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A run with many chunks, and its posterior."""
    out = tmp_path_factory.mktemp("runs") / "run"
    posterior = thali.sample(DATA, **SHORT, out=out, checkpoint=1e-9)
    assert len(list((out / "chain-0").glob("draws-*.npz"))) == 9
    return out, posterior


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path):
    """Flip a bit in each of so many bytes that not all are in the header of a part of the file.

    A bit of such a header can be one that nobody reads.
    """
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    for at in range(middle - 50, middle + 50):
        content[at] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [cut, flip, os.remove])
@pytest.mark.parametrize(
    ("name", "n_left"),
    [("draws-00000004.npz", 4), ("draws-00000000.npz", 0), ("state.npz", 9)],
)
def test_damaged_draws_are_told_and_computed_again(harm, name, n_left, intact, tmp_path):
    """Earlier draws can be read, and resuming gives the undamaged run back."""
    source, posterior = intact
    out = tmp_path / "run"
    shutil.copytree(source, out)
    harm(out / "chain-1" / name)
    with pytest.raises(TraceDamaged, match=rf"{name} is .*\. {n_left} draws per chain are intact"):
        thali.load(out)
    part = thali.load(out, partial=True)
    assert part.n_draws == n_left
    for draw in range(n_left):
        assert part.draw(1, draw).log_joint == posterior.draw(1, draw).log_joint
    assert same(thali.resume(out), posterior)
    assert same(thali.load(out), posterior)


def test_a_lost_chain_is_told_and_computed_again(intact, tmp_path):
    """A folder of a chain that is gone is damage, not a run without draws."""
    source, posterior = intact
    shutil.copytree(source, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "chain-1")
    with pytest.raises(TraceDamaged, match=r"chain-1 is missing\. 0 draws per chain are intact"):
        thali.load(tmp_path / "run")
    assert same(thali.resume(tmp_path / "run"), posterior)


@pytest.mark.parametrize("harm", [cut, flip, os.remove])
def test_damaged_data_are_told(harm, intact, tmp_path):
    """Data cannot be computed again."""
    shutil.copytree(intact[0], tmp_path / "run")
    harm(tmp_path / "run" / "data.npz")
    with pytest.raises(TraceDamaged, match=r"data.npz is (damaged|missing|not what was)"):
        thali.load(tmp_path / "run")


def test_a_full_disk_loses_nothing_that_was_written(tmp_path):
    """A file size limit stands for a full disk: one sentence, and the run goes on later."""
    out = tmp_path / "run"
    small = thali.sample(DATA, **SHORT, out=out, checkpoint=1e-9)
    code = (
        "import resource, sys, thali\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try:\n    thali.resume(sys.argv[1], draws=200)\n"
        "except OSError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, out],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "could not be written (File too large); make room" in run.stdout
    assert not list(out.rglob("*.tmp"))
    read = thali.load(out)
    for draw in range(9):
        assert read.draw(0, draw).log_joint == small.draw(0, draw).log_joint
    more = thali.resume(out, draws=40)
    assert same(more, thali.sample(DATA, **SHORT | {"draws": 40}))


# --- the power cut -----------------------------------------------------------------------------


def be_killed(folder):
    """Sample until somebody kills this process."""
    thali.sample(DATA, **KILLED, out=folder, checkpoint=1e-9, threads=2, progress=False)


KILLED = {
    "noise": "unequal", "chains": 2, "warmup": 20, "draws": 60, "seed": 3,
    "schedule": Schedule(starts=1, regrow=0),
}  # fmt: skip


@pytest.mark.parametrize("n_kills", [5, pytest.param(25, marks=pytest.mark.slow)])
def test_killed_at_any_moment_a_run_loads_and_continues_exactly(tmp_path, n_kills):
    """Many times SIGKILL, spread over the run: every time it loads and ends equal."""
    whole = thali.sample(DATA, **KILLED)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["thali.inference"])
    # The moments are spread over the life of the run by its own progress, not by the clock, so
    # that a slow machine is killed at as many different moments as a fast one.
    n_partial = 0
    for attempt in range(0, 25, -(-25 // n_kills)):
        out = tmp_path / f"run-{attempt}"
        process = processes.Process(target=be_killed, args=(out,))
        process.start()
        wait_for_sweep(out, process, sweep=3 * attempt)
        time.sleep(0.0007 * (attempt * 7 % 25))
        process.kill()
        process.join()
        read = thali.load(out)
        n_partial += 0 < read.n_draws < 60
        for draw in range(read.n_draws):
            assert read.draw(0, draw).log_joint == whole.draw(0, draw).log_joint
        resumed = thali.resume(out)
        assert same(resumed, whole)
        assert resumed.starts == whole.starts
    assert n_partial >= n_kills // 3  # the kills did hit running chains


def wait_for_sweep(out, process, sweep):
    """Wait until the run is there and its first chain has done so many sweeps."""
    while process.is_alive():
        try:
            with np.load(out / "chain-0" / "state.npz") as state:
                if int(state["sweep"][0]) >= sweep:
                    return
        except (OSError, ValueError, KeyError):
            if sweep == 0 and (out / "header.json").exists():
                return
        time.sleep(0.002)
