"""The command line answers in a table, or in one line on the error stream."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thali
from thali.cli import main

FAST = ("--warmup", "5", "--draws", "5", "--chains", "2", "--threads", "1")


@pytest.fixture
def run(capsys):
    """Run the command line; return its exit status, output and error output."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)), prog_name="thali")
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    data = thali.simulate((12, 9), 2, seed=1).tensor.astype(int)
    np.savetxt(path, data, "%d", ",", header=",".join("abcdefghi"), comments="")
    return path


def probabilities(out):
    """Return the table of an answer as a dictionary."""
    lines = out.splitlines()
    start = lines.index("components  probability") + 1
    end = next(i for i, line in enumerate(lines) if line.startswith("spurious ones: "))
    return {int(k): float(p) for k, p, *_ in map(str.split, lines[start:end])}


def test_version(run):
    """The version is that of the package."""
    assert run("--version") == (0, f"thali, version {thali.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("fit", "--help")])
def test_help(run, arguments):
    """Help tells the usage and mentions what can be done."""
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: thali")
    assert "fit" in out
    assert ("--components" in out) == ("fit" in arguments)


def test_fit(run, table):
    """A fit tells what was read, how probable each number of components is, and the rates."""
    code, out, err = run("fit", table, *FAST)
    assert code == 0
    assert "Traceback" not in err
    assert out.startswith("table.csv: BinaryTensor(shape=(12, 9), known=108 of 108")
    assert sum(probabilities(out).values()) == pytest.approx(1, abs=5e-3)
    assert "\ndropped ones: " in out
    assert "\n10 draws in " in out  # two chains of five: the warm-up does not count


def test_defaults_are_those_of_sample():
    """The command line has them as numbers, because importing sample would make --help slow."""
    from thali.cli import fit
    from thali.inference import DRAWS, WARMUP

    given = {option.name: option.default for option in fit.params}
    assert (given["warmup"], given["draws"], given["chains"]) == (WARMUP, DRAWS, 4)


def test_fit_is_reproducible(run, table):
    """The same seed gives the same answer, whatever the threads; another seed gives another."""
    answers = [
        run("fit", table, *FAST, *more)[1].rsplit("\n", 2)[0]  # the last line has the time
        for more in [(), ("--threads", "2"), ("--seed", "1")]
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize("noise", ["unequal", "equal", "as-published"])
def test_fixed_number(run, table, noise):
    """With a number given the answer is that number."""
    code, out, _ = run("fit", table, *FAST, "--components", 2, "--noise", noise)
    assert code == 0
    assert probabilities(out) == {2: 1.0}


@pytest.mark.parametrize("schedule", ["serial", "serial-integrated"])
def test_schedules(run, table, schedule):
    """The other schedules run as well."""
    code, out, _ = run("fit", table, *FAST, "--schedule", schedule)
    assert code == 0
    assert probabilities(out)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bad.csv", "a,b\n0,2\n", "the tensor holds 2 at (0, 1)"),
        ("bad.xlsx", "0 1\n", "files ending in '.xlsx' were not expected"),
        ("absent.csv", None, "there is no such file"),
        ("empty.csv", "", "it is empty"),
    ],
)
def test_bad_data(run, tmp_path, name, content, reason):
    """Bad data end with status 2 and one line, without a traceback."""
    if content is not None:
        (tmp_path / name).write_text(content)
    code, out, err = run("fit", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("thali: ")
    assert reason in err
    assert err.count("\n") == 1


def test_tensors_need_a_number(run, tmp_path):
    """The number of components of a tensor must be given, and the message says so."""
    path = tmp_path / "tensor.npy"
    np.save(path, thali.simulate((6, 5, 4), 2).tensor)
    code, _, err = run("fit", path)
    assert code == 2
    assert err.startswith("thali: ")
    assert "give n_components" in err
    assert err.count("\n") == 1
    code, out, _ = run("fit", path, *FAST, "--components", 2)
    assert (code, probabilities(out)) == (0, {2: 1.0})


@pytest.mark.parametrize(
    "arguments", [("--components", "-1"), ("--draws", "0"), ("--noise", "x"), ("--seed", "-1")]
)
def test_bad_options(run, table, arguments):
    """Options out of range are refused by name, with status 2."""
    code, out, err = run("fit", table, *arguments)
    assert (code, out) == (2, "")
    assert arguments[0] in err


def test_seed_too_large(run, table):
    """Seeds have 64 bits."""
    code, _, err = run("fit", table, "--seed", 2**64)
    assert code == 2
    assert "is not in the range" in err


def test_a_run_is_kept_and_continued(run, table, tmp_path):
    """A folder keeps the run; going on equals a longer run; nothing is overwritten."""
    out = tmp_path / "run"
    assert run("fit", table, *FAST, "--out", out)[0] == 0
    code, told, err = run("fit", table, *FAST, "--out", out)
    assert code == 2
    assert "exists already and is never overwritten" in err
    code, told, err = run("resume", out, "--draws", 30)
    assert (code, err) == (0, "") or "thali: The 2 chains disagree" in err
    whole = run("fit", table, *FAST, "--draws", 30)[1]
    assert told.splitlines()[:-1] == whole.splitlines()[1:-1]
    code, told, err = run("resume", tmp_path / "nothing")
    assert (code, told) == (2, "")
    assert err.startswith("thali: ")
    assert "give the folder" in err


def test_too_few_draws_are_told(run, table):
    """The answer comes with a warning that says what to do."""
    code, _, err = run("fit", table, *FAST)
    assert code == 0
    assert "thali: 5 draws a chain are too few to judge" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_answer_that_cannot_be_written(table):
    """A full disk is one line and exit status 1."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "thali.cli", "fit", table, *FAST],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("thali: the answer could not be written (")
    assert "Traceback" not in run.stderr
