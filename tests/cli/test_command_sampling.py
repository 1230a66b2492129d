"""``fit`` and ``resume`` answer in some lines, and what they keep can be continued."""

import errno
import inspect
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import thali
from support.commands import BRIEF, FAST, answer_of, without_time
from thali.cli import progress
from thali.cli.progress import Lines
from thali.data.readers.files import read as READ  # noqa: N812 - a constant: tests put others in its place
from thali.errors import TraceMismatch
from thali.model import Beta, PerComponent
from thali.progress import Bars, Progress
from thali.trace import Run

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")


def test_fit_answers_in_seven_lines(run, table):
    """How many, how many shared, whether they matter, effects, wrong entries, and trust."""
    code, out, err = run("fit", table, *BRIEF)
    assert code == 0
    (how_many, shared, beyond, effects, wrong, covers, trust), following = answer_of(out)
    assert how_many.startswith("12 x 9 entries, all known: most probably ")
    assert shared.startswith("Counting only components that two or more rows have: ")
    assert "row and column rates" in beyond
    assert re.match(r"In an average row and column, [\d.]+% \(90% between ", effects)
    assert re.match(r"\d+ known entries \([\d.]+%\) are ones outside all components \(", wrong)
    assert covers == "Without components, no entry is covered."
    assert re.match(r"2 chains of 5 draws, sampled in [\d.]+ s: not to be trusted yet", trust)
    fast = "--chains 2 --warmup 5 --draws 5 --threads 1"
    assert following == f"Nothing was kept. Next: thali fit {table} {fast} --out table.run"
    n_ones = int(np.loadtxt(table, skiprows=1, delimiter=",").sum())
    assert err.splitlines() == [
        f"thali: table.csv: 12 x 9 entries, 108 known, {n_ones} of them one; sampling 2 chains of "
        "10 sweeps (number of components inferred, noise: effects)",
        "thali: 5 draws per chain are too few to judge whether the chains agree (at least 25 are "
        "needed, some hundreds are sensible). Ask for more draws with --draws 400.",
    ]


def test_the_next_command_is_about_the_same_problem(run, table):
    """Options of reading and sampling are repeated as they were typed."""
    typed = ["--binarize", "0.5", "--transpose", "--missing", "?", "--missing", "-", "--noise"]
    code, out, _ = run("fit", table, *BRIEF, *typed, "equal", "-q", "--report", "page.html")
    assert code == 0
    told = shlex.split(out.splitlines()[-2])
    given = dict.fromkeys(["--binarize", "0.5", "--transpose", "?", "-", "equal", *BRIEF])
    assert given.keys() <= set(told)
    assert not {"--report", "--quiet", "-q"} & set(told)


def test_fit_writes_a_page(run, table, tmp_path):
    """The answer is followed by where the page is; what is in its way is told before sampling."""
    code, out, _ = run("fit", table, *FAST, "--report", "page.html")
    assert code == 0
    assert out.endswith("--out table.run\npage.html is written; open it in a browser.\n")
    page = (tmp_path / "page.html").read_text()
    assert "<title>table" in page
    assert run("fit", table, *FAST, "--report", "page.html", "--out", "new")[0] == 2
    assert (tmp_path / "page.html").read_text() == page
    assert not (tmp_path / "new").exists()


def test_an_answer_survives_a_page_that_does_not_fit(run, table, tmp_path, monkeypatch):
    """What took so long to find is said first; then what went wrong, and nothing half-written."""

    def write(posterior, path, *, title):
        path.write_text("<html>")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("thali.report.write", write)
    code, out, err = run("fit", table, *FAST, "--report", "page.html")
    assert code == 1
    assert len(answer_of(out)[0]) == 6
    assert "page.html could not be written (No space left on device)" in err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_what_fit_finds_is_what_sample_finds(run, table, tmp_path):
    """Every option arrives: the run on disk is the posterior that Python gives."""
    options = {"warmup": 7, "draws": 6, "chains": 3, "seed": 9}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    words += ["--noise", "equal", "--schedule", "serial", "--engine", "cpu", "--components", 2]
    assert run("fit", table, "--out", "run", "--quiet", *words)[0] == 0
    data = np.loadtxt(table, skiprows=1, delimiter=",")
    expected = thali.sample(data, n_components=2, noise="equal", schedule="serial", **options)
    found = thali.load(tmp_path / "run")
    assert found.settings == expected.settings
    np.testing.assert_array_equal(found.log_joint, expected.log_joint)


@pytest.mark.parametrize(
    ("typed", "density"),
    [
        ("0.2", 0.2),
        ("auto", None),
        ("shared", Beta()),
        ("own", PerComponent()),
        ("own:2,3.5", PerComponent(2.0, 3.5)),
    ],
    ids=["number", "auto", "shared", "own", "own by Beta(2, 3.5)"],
)
@pytest.mark.parametrize("components", [(), ("--components", 2)], ids=["buffet", "finite"])
def test_densities(run, table, tmp_path, typed, density, components):
    """Fixed, one for all components, or one for each; as in Python."""
    words = (*FAST, "--quiet", "--out", "run", "--density", typed, *components)
    assert run("fit", table, *words)[0] == 0
    data = np.loadtxt(table, skiprows=1, delimiter=",")
    number = components[-1] if components else None
    rest = {"noise": "unequal", "chains": 2, "warmup": 5, "draws": 5, "seed": 0}
    expected = thali.sample(data, n_components=number, density=density, **rest)
    found = thali.load(tmp_path / "run")
    assert found.settings == expected.settings
    np.testing.assert_array_equal(found.log_joint, expected.log_joint)


def test_densities_of_a_run_that_goes_on(run, table, tmp_path):
    """A run goes on with its own density; another one is refused where settings can be given."""
    assert run("fit", table, *FAST, "-q", "--out", "run", "--density", "own")[0] == 0
    assert run("resume", "run", "-q", "--draws", 7)[0] == 0
    assert thali.load(tmp_path / "run").settings.model.density == PerComponent()
    assert thali.resume(tmp_path / "run", density=PerComponent()).n_draws == 7
    for other in (None, 0.2, Beta(), PerComponent(n_values=4)):
        with pytest.raises(TraceMismatch, match=r"density=.* the run has another value"):
            thali.resume(tmp_path / "run", density=other)


def test_the_next_command_has_the_density(run, table):
    """As it was typed; the default is not repeated."""
    assert "--density own" in run("fit", table, *FAST, "--density", "own")[1]
    assert "--density 0.2" in run("fit", table, *FAST, "--density", "0.20")[1]
    assert "--density" not in run("fit", table, *FAST)[1]


def test_fit_is_reproducible(run, table):
    """The same seed gives the same answer, whatever the threads; another seed gives another."""
    answers = [
        without_time(run("fit", table, *FAST, *more)[1]).splitlines()[:5]
        for more in [(), ("--threads", "2"), ("--seed", "1")]
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ("unequal", "Outside the components "),
        ("equal", "Entries are flipped at a rate of "),
        ("as-published", "set as published: this is not a posterior."),
    ],
)
def test_fixed_number(run, table, noise, words):
    """With a number given the answer is that number; errors are told as they were modelled."""
    code, out, _ = run("fit", table, *FAST, "--components", 2, "--noise", noise)
    assert code == 0
    lines, _ = answer_of(out)
    assert lines[0] == "12 x 9 entries, all known: explained by 2 components, as asked."
    assert words in lines[2]


def test_tensors(run, tmp_path):
    """With a number of components any arity will do."""
    np.save(tmp_path / "tensor.npy", thali.simulate((6, 5, 4), 2).tensor)
    code, out, _ = run("fit", "tensor.npy", *FAST, "--components", 2)
    assert code == 0
    assert out.startswith("6 x 5 x 4 entries, all known: explained by 2 components, as asked.")


def test_options_of_the_reader_are_passed_on(run, table, monkeypatch):
    """All of them; those that were not given as the reader's own defaults."""
    given = []

    def read(path, **options):
        given.append(options)
        return thali.BinaryTensor.from_any(thali.simulate((5, 4), 1).tensor)

    monkeypatch.setattr("thali.engines.together.read", read)
    assert run("fit", table, *FAST)[0] == 0
    more = ["--binarize", "2.5", "--missing", "?", "--missing", "-", "--transpose"]
    assert run("fit", table, *FAST, *more, "--layer", "counts", "--kind", "table")[0] == 0
    everything = {"binarize": 2.5, "missing": ("?", "-"), "transpose": True}
    defaults = inspect.getfullargspec(READ).kwonlydefaults
    threads = {"threads": int(FAST[FAST.index("--threads") + 1])} if "--threads" in FAST else {}
    everything |= {"layer": "counts", "kind": "table"}
    assert given == [defaults | threads, defaults | everything | threads]


def test_a_run_is_kept_and_continued(run, table):
    """Going on equals a longer run; the answer names the next command."""
    code, out, err = run("fit", table, *FAST, "--out", "a run")
    assert code == 0
    assert answer_of(out)[1] == "Next: thali resume 'a run' --draws 400"
    assert "Go on with `thali resume 'a run' --draws 400`" in err
    code, more, err = run("resume", "a run", "--draws", 30, "--quiet")
    assert code == 0
    code, whole, _ = run("fit", table, *FAST, "--draws", 30, "--out", "another")
    assert without_time(more).splitlines()[:5] == without_time(whole).splitlines()[:5]
    np.testing.assert_array_equal(thali.load("a run").log_joint, thali.load("another").log_joint)


def test_an_existing_run_is_not_overwritten(run, table, kept):
    """It is told how to go on with it, and stays what it was."""
    before = {path: path.read_bytes() for path in kept.rglob("*.*") if path.is_file()}
    code, out, err = run("fit", table, *FAST, "--out", kept)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(
        f"exists already; if it is a run, `thali resume {kept}` continues it; to start anew, "
        "choose another name or replace it with --force.\n"
    )
    assert before == {path: path.read_bytes() for path in kept.rglob("*.*") if path.is_file()}


def test_chains_that_agree_lead_to_the_summary(run, kept):
    """A finished run is answered again, without sampling; nothing is left to warn of."""
    code, out, err = run("resume", "kept.run", "--quiet")
    assert (code, err) == (0, "")
    lines, following = answer_of(out)
    assert "they agree (R-hat at most 1.0" in lines[-1]
    assert following == "Next: thali summary kept.run"


def test_chains_that_disagree_are_told_in_commands(run, finished):
    """The advice is a command for this run, not a call in Python, and the next to try."""
    code, out, err = run("resume", finished / "differ", "--quiet")
    assert code == 0
    (go_on,) = re.findall("Go on with `(.*?)`", err)
    assert re.fullmatch(rf"thali resume {re.escape(str(finished))}/differ --draws \d+", go_on)
    assert "resume(" not in err
    assert answer_of(out)[1] == f"Next: {go_on}"


# --- stopped, killed, or nobody reads ------------------------------------------------------


def wait_for_draws(folder, n_chains=2):
    """Wait until every chain has draws on disk."""
    end = time.monotonic() + 120
    while len({path.parent for path in folder.glob("chain-*/draws-*.npz")}) < n_chains:
        assert time.monotonic() < end
        time.sleep(0.02)


ENDLESS = (*FAST, "--draws", 10**6, "--checkpoint", 0.01)


def test_killed_and_resumed(run, start, table, tmp_path):
    """A run that was killed goes on as if nothing had happened."""
    process = start("fit", table, "--out", "run", *ENDLESS)
    wait_for_draws(tmp_path / "run")
    process.kill()
    process.communicate()
    stored = Run.open(tmp_path / "run")
    n_draws = max(len(stored.chain(number)) for number in range(2)) + 5
    code, _, _ = run("resume", "run", "--draws", n_draws, "--quiet")
    assert code == 0
    data = np.loadtxt(table, skiprows=1, delimiter=",")
    whole = thali.sample(data, noise="unequal", chains=2, warmup=5, draws=n_draws, seed=0)
    np.testing.assert_array_equal(thali.load("run").log_joint, whole.log_joint)


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
@pytest.mark.parametrize("is_kept", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_stopped_by_hand(start, table, tmp_path, is_kept):
    """Ctrl-C gives the answer so far, says what was kept and how to go on; exit status 1."""
    process = start("fit", table, *ENDLESS, *(("--out", "run") if is_kept else ()))
    if is_kept:
        wait_for_draws(tmp_path / "run")
    else:
        assert "sampling 2 chains" in process.stderr.readline()
        for line in process.stderr:  # after ten seconds, how far the chains are
            if not re.search("starting|warm-up", line):
                break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    found = re.match(r"thali: stopped early: (\d+) of 1000000 draws per chain are (.*)", last)
    following = answer_of(out)[1]
    if is_kept:
        assert found[2] == "kept in run; `thali resume run` continues."
        assert following == "Next: thali resume run"
        assert thali.load(tmp_path / "run").n_draws == int(found[1])
    else:
        assert found[2] == "not kept; use --out RUN to keep them."
    assert err.count("stopped early") == 1


@pytest.mark.parametrize("is_kept", [True, False])
def test_stopped_in_the_warm_up(run, table, monkeypatch, is_kept):
    """There is no answer yet; what was sampled is kept all the same."""

    def sample(tensor, *, out, **settings):
        if is_kept:
            Path(out).mkdir()
            (Path(out) / "header.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("thali.inference.sample", sample)
    code, out, err = run("fit", table, "--out", "new.run")
    assert (code, out) == (1, "")
    kept = "new.run keeps the state of the chains; `thali resume new.run` continues."
    end = kept if is_kept else "nothing was kept."
    assert err == f"thali: stopped before the first draw; {end}\n"


def test_stopped_while_reading(run, table, monkeypatch):
    """Ctrl-C before there is anything to keep."""

    def read(path, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("thali.engines.together.read", read)
    code, out, err = run("fit", table)
    assert (code, out) == (1, "")
    assert err.strip() == "thali: stopped; nothing was written."


def test_nobody_reads_the_answer(start, table, tmp_path):
    """A closed pipe ends the command without noise, and the run is kept."""
    read, write = os.pipe()
    os.close(read)
    process = start("fit", table, *FAST, "--out", "run", "--quiet", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err == ""
    assert thali.load(tmp_path / "run").n_draws == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_answer_that_cannot_be_written(table):
    """A full disk is one line and exit status 1."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "thali.cli", "fit", table, *FAST, "--quiet"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert re.fullmatch(r"thali: the answer could not be written \(.*\)\.\n", ended.stderr)


# --- progress ------------------------------------------------------------------------------


def test_a_log_gets_a_line_now_and_then(capsys):
    """At most one in ten seconds, about all chains."""
    now = [0.0]
    lines = Lines(2, clock=lambda: now[0])
    for seconds, chain, sweep, is_warmup, number in [
        (1, 0, 10, True, 3),
        (9, 1, 12, True, 5),
        (11, 0, 20, False, 3),
        (12, 1, 30, False, 3),
        (22, 1, 40, False, 3),
    ]:
        now[0] = float(seconds)
        lines(Progress(chain, sweep, 50, is_warmup, number, -1.0))
    assert capsys.readouterr().err.splitlines() == [
        "thali: 32 of 100 sweeps (warm-up, 3 to 5 components)",
        "thali: 60 of 100 sweeps (3 components)",
    ]


def test_a_log_says_how_the_start_goes(capsys):
    """No sweep is counted; evidence is left out until it is known."""
    now = [0.0]
    lines = Lines(2, clock=lambda: now[0])
    nothing = Progress(0, 0, 50, True, 1, np.nan, "starting: start 1 of 4")
    later = nothing._replace(n_components=12, start="starting: done", evidence=-1259.13)
    swept = Progress(1, 3, 50, True, 11, -900.0)
    for seconds, shown in [
        (11, nothing),
        (22, later),
        (23, later._replace(chain=1, n_components=9, evidence=-1246.1)),
        (34, later),
        (45, swept),
        (56, swept._replace(chain=0)),
    ]:
        now[0] = float(seconds)
        lines(shown)
    assert capsys.readouterr().err.splitlines() == [
        "thali: 0 of 100 sweeps (starting: start 1 of 4, 1 component)",
        "thali: 0 of 100 sweeps (starting: done, 12 components, best log evidence -1259.1)",
        "thali: 0 of 100 sweeps (starting: done, 9 to 12 components, best log evidence -1259.1 "
        "to -1246.1)",
        "thali: 3 of 100 sweeps (starting: done, 11 to 12 components, best log evidence -1259.1)",
        "thali: 6 of 100 sweeps (warm-up, 11 components)",
    ]


def test_compilation_is_told_in_a_log_and_as_a_bar(capsys):
    """In place of what the chains do; without more, the bars are those of the chains."""
    now = [0.0]
    lines = Lines(2, clock=lambda: now[0])
    compiling = Progress(0, 0, 50, True, 1, np.nan, kernels=(20, 80))
    now[0] = 11.0
    lines(compiling)
    assert capsys.readouterr().err == "thali: compiling kernels (once): 20 of about 80\n"
    bars = Bars()
    bars(compiling)
    bars(compiling._replace(kernels=(90, 90)))
    bars(Progress(1, 3, 50, True, 11, -900.0))
    bars.close()
    first, *_, last = capsys.readouterr().err.strip().splitlines()
    assert "compiling kernels (once):  25%" in first
    assert "chain 2:   6%" in last


def test_a_terminal_is_told_what_is_read_before_slow_libraries_are_imported(table, tmp_path):
    """With every command that reads; a log gets it from none, so that errors stand alone."""
    script = (
        "import sys; sys.stderr.isatty = lambda: True; from thali.cli import main, messages\n"
        "def told(sentence): print(sentence, *sys.modules); sys.exit()\n"
        "messages.tell = told; main()"
    )
    for words in (["fit", table], *([name, "a.run"] for name in ("resume", "summary", "report"))):
        told = subprocess.run(
            [sys.executable, "-c", script, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert told[:2] == ["reading", str(words[1])]
        assert not {"numpy", "numba", "pandas"} & set(told)


def test_a_terminal_gets_bars(run, table, monkeypatch):
    """They are drawn after the beginning was told; quiet shows neither."""
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    _, _, err = run("fit", table, *FAST)
    assert err.index("sampling 2 chains") < err.index("chain 1:")
    _, _, err = run("fit", table, *FAST, "--quiet")
    assert "chain" not in err.replace("draws per chain", "").replace("the chains agree", "")


def test_force_replaces_a_run_and_nothing_else(run, table, tmp_path):
    """A run and its page are replaced; a folder of something else is not."""
    typed = ("fit", table, "--out", "a.run", "--report", "a.html", *FAST)
    assert run(*typed)[0] == 0
    assert run(*typed)[0] == 2
    assert run(*typed, "--force", "--seed", 3)[0] == 0
    assert thali.load(tmp_path / "a.run").settings.seed == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    code, _, err = run("fit", table, "--out", "mine", "--force", *FAST)
    assert code == 2
    assert "is not a run, and --force replaces only runs" in err
    assert (tmp_path / "mine" / "diary.txt").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".old")]


@pytest.mark.parametrize("how", ["a wrong setting", "stopped in the warm-up", "out of memory"])
def test_force_keeps_a_run_that_is_not_replaced(run, table, tmp_path, monkeypatch, how):
    """The earlier run is there as before, whether or not the new one has made its folder."""
    typed = ("fit", table, "--out", "a.run", *FAST)
    assert run(*typed)[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "a.run").rglob("*.*")}

    def sample(*data, out, **settings):
        (out / "chain-0").mkdir(parents=True)
        (out / "header.json").write_text("{}")
        raise KeyboardInterrupt if "stopped" in how else MemoryError

    if how == "a wrong setting":
        code, _, err = run(*typed, "--force", "--mode", "foo")
        assert code == 2
        assert "--mode foo was given" in err
    else:
        monkeypatch.setattr(thali, "sample", sample)
        code, _, err = run(*typed, "--force")
        assert code == 1
        assert ("a.run is what it was before." in err) == ("stopped" in how)
    assert {path: path.read_bytes() for path in (tmp_path / "a.run").rglob("*.*")} == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".old")]


def test_force_keeps_what_a_stopped_run_has_drawn(run, table, tmp_path, monkeypatch):
    """The earlier run goes as soon as there is something in its place."""
    typed = ("fit", table, "--out", "a.run", *FAST)
    assert run(*typed)[0] == 0
    sample = thali.sample

    def fail(*data, **settings):
        sample(*data, **settings)
        raise MemoryError

    monkeypatch.setattr(thali, "sample", fail)
    assert run(*typed, "--force", "--seed", 3)[0] == 1
    assert thali.load(tmp_path / "a.run").settings.seed == 3
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".old")]


def test_advice_changes_once_it_was_followed(run, finished, tmp_path):
    """The command that is named next is not the one that has just failed."""
    shutil.copytree(finished / "differ", tmp_path / "d.run")
    posterior = thali.load(tmp_path / "d.run")
    assert posterior.extended_from is None
    code, out, _ = run("resume", "d.run", "--draws", 31, "--quiet")
    assert code == 0
    again = thali.load(tmp_path / "d.run")
    assert again.extended_from == 30
    if again.verdict() is not None and again.verdict().kind == "disagreement":
        assert "Next: thali summary d.run --chain " in out
