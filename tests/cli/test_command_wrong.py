"""Whatever is wrong is one sentence on the error stream, an exit code, and nothing left behind."""

import re
from pathlib import Path

import numpy as np
import pytest

import thali
from support.bad_files import BAD_FILES
from support.commands import FAST
from thali.cli import main
from thali.cli.messages import OPTIONS, CommandFace
from thali.sentences import say

PYTHON = (
    r"Traceback|\b(resume|load|sample|to_datatree)\(|\bn_components\b|\bthali\.\w+\("
    r"|\b[a-z_]+=|`[a-z_]+`"
)
# What is typed, and what must be in the sentence. `table.csv` and `kept.run` are in order.
WRONG_USAGE = [
    ("dance", "no such command 'dance' (see `thali --help`)"),
    ("--fast fit table.csv", "no such option"),
    ("fit", "missing argument 'DATA' (see `thali fit --help`)"),
    ("fit table.csv more.csv", "unexpected extra argument"),
    ("minimize table.csv", "neither --components nor --exact was given; give one of them"),
    ("minimize table.csv -k 0", "0 is not in the range x>=1"),
    ("minimize table.csv -k 2 --exact", "--exact finds the number of components"),
    ("minimize table.csv -k 1 --seconds 1 --sweeps 2", "allowed is one of them; leave the other"),
    ("minimize table.csv -k 1 --cost 1 0", "allowed are finite numbers above 0; choose one."),
    ("fit table.csv --drows 5", "no such option"),
    ("fit table.csv --draws 0", "invalid value for '--draws'"),
    ("fit table.csv --draws many", "'many' is not a valid integer"),
    ("fit table.csv --chains 0", "invalid value for '--chains'"),
    ("fit table.csv --warmup -1", "invalid value for '--warmup'"),
    ("fit table.csv --components -1", "invalid value for '--components'"),
    (
        "fit table.csv --noise loud",
        "'loud' is not one of 'auto', 'effects', 'unequal', 'equal', 'as-published'",
    ),
    *(
        (
            f"fit table.csv --density {value} --out new",
            f"'--density': '{value}' is not 'auto', 'shared', 'own', 'own:A,B' with two positive "
            "numbers, or a number strictly between 0 and 1",
        )
        for value in (
            *("1.5", "0", "1", "-0.1", "nan", "much", "1e-999"),
            *("own:", "own:1", "own:0,1", "own:1,-1", "own:1,inf", "own:1,2,3", "one:1,2"),
        )
    ),
    (
        "fit table.csv --density own --schedule serial --out new",
        "--density own was given for --schedule serial; components of a single row then cannot "
        "be drawn at once; use --schedule parallel",
    ),
    ("fit table.csv --schedule late", "is not one of 'parallel', 'serial', 'serial-integrated'"),
    ("fit table.csv --seed -1", "invalid value for '--seed'"),
    (f"fit table.csv --seed {2**64}", "is not in the range"),
    ("fit table.csv --threads 0", "invalid value for '--threads'"),
    ("fit table.csv --checkpoint 0", "invalid value for '--checkpoint'"),
    ("fit table.csv --engine steam --out new", "'steam' is not one of 'auto', 'cpu', 'gpu'"),
    (
        "fit table.csv --engine gpu --schedule serial --out new",
        "--engine gpu was given for --schedule serial; a GPU cannot speed up rows that are drawn "
        "one after another; use --engine cpu",
    ),
    ("fit table.csv --binarize high", "'high' is not a valid float"),
    ("fit absent.csv --out new", "absent.csv: there is no such file; check the path."),
    ("fit folder --out new", "folder: it is a folder without a matrix.mtx; allowed are files"),
    ("fit kept.run --out new", "it is the folder of a run"),
    ("fit kept.run --out new", "read the run with `thali summary kept.run`, or give a file"),
    ("fit bad.csv --out new", "bad.csv: it holds 2 at line 2, column 'b'; allowed"),
    ("fit bad.csv --out new", "give --binarize T, a number above which entries are ones"),
    ("fit no.csv --out new", "holds 'maybe' at line 2, column 'a'; allowed"),
    (
        "fit no.csv --out new",
        "replace it, or give it as --missing TEXT if it means unknown, as --ones",
    ),
    ("fit no.csv --out new", "or give --kind pairs if each line names a row and a column."),
    ("fit pairs.csv --missing 0", "--missing 0 was given for pairs of two columns"),
    ("fit list.basket --binarize 2", "--binarize 2.0 was given for baskets; these hold names and"),
    ("fit list.basket --binarize 2", "leave it out, or give --kind matrix for entries."),
    ("fit table.csv --kind heap", "--kind heap was given; allowed are 'table', 'matrix'"),
    ("fit table.csv --sep abc", "--sep abc was given; allowed is one sign that is no part"),
    ("fit table.csv --array a", "--array a was given; it is for files of several arrays"),
    ("fit table.csv --sheet a", "--sheet a was given; it is for workbooks (.xlsx); leave"),
    ("fit tensor.npy --sep ;", "--sep ';' was given; it is for text; leave it out."),
    ("fit table.csv --layer nope", "--layer nope was given; it is for AnnData files"),
    (
        "fit tensor.npy --missing 0",
        "--missing 0 was given; it is for text and workbooks; leave",
    ),
    (
        "fit tensor.npy --missing ? --missing no",
        "--missing '?' --missing no was given; it is for text",
    ),
    ("fit tensor.npy --transpose", "only a matrix, with 2, can be transposed; leave --transpose"),
    ("fit tensor.npy --binarize inf", "--binarize inf was given; allowed is a finite number"),
    ("fit notes.text --out new", "or give --kind KIND."),
    ("fit empty.csv --out new", "empty.csv: it is empty; check that it was written."),
    ("fit notes.text --out new", "files ending in '.text' were not expected"),
    ("fit table.csv --out kept.run", "exists already; if it is a run, `thali resume "),
    ("fit table.csv --out table.csv", "table.csv exists already; if it is a run, "),
    ("fit table.csv --out table.csv/new", "could not be made (Not a directory)"),
    ("resume", "missing argument 'RUN'"),
    ("resume absent.run", "absent.run is not a folder; give the folder that `thali fit --out`"),
    ("resume folder", "folder has no header.json; give the folder that `thali fit --out` made"),
    ("resume kept.run --draws 3", "--draws 3 was given; "),
    ("resume kept.run --draws 3", "60 draws per chain already; give at least as many, or read"),
    ("resume kept.run --draws 3", "or read the run with `thali summary "),
    ("resume kept.run --engine steam", "'steam' is not one of 'auto', 'cpu', 'gpu'"),
    ("summary absent.run", "absent.run is not a folder; give the folder that `thali fit --out`"),
    (
        "summary table.csv",
        "table.csv is not a folder; give the folder that `thali fit",
    ),
    ("summary damaged.run", "header.json is damaged"),
    ("summary early.run", "has no draws yet; `thali resume early.run` continues it."),
    ("fit table.csv --report new.pdf", "--report ends in '.pdf'; allowed is .html"),
    (
        "fit table.csv --report taken.html --out new",
        "another name, or replace it with --force.",
    ),
    ("report folder -o new.html", "folder has no header.json"),
    ("report kept.run -o new.pdf", "--out ends in '.pdf'; allowed is .html"),
    ("report kept.run -o table.csv/new.html", "there is no folder table.csv; make it first."),
    ("report kept.run -o taken.html", "taken.html exists already; choose another name, or"),
    ("export kept.run", "missing option '--to'"),
    ("export kept.run --to new.csv", "--to ends in '.csv'; allowed are a folder (for CSV files)"),
    ("export kept.run --to kept.run", "kept.run is not empty; choose another folder, or write"),
    ("export kept.run --to absent/new", "there is no folder absent; make it first."),
    ("export kept.run --to absent/new.nc", "there is no folder absent; make it first."),
    ("export kept.run --to taken", "taken is a file, but a folder should be written"),
    ("export kept.run --to taken.nc", "taken.nc exists already; choose another name, or"),
    ("export early.run --to new", "early.run has no draws yet"),
    ("convert table.csv", "missing argument 'OUT'"),
    ("convert table.csv new.npy", "OUT ends in '.npy'; allowed is .packed"),
    ("convert absent.csv new.packed", "there is no such file"),
    ("fit table.csv --engine mpi", "was started alone; start it with `mpiexec -n N`"),
    ("simulate", "missing argument 'OUT'"),
    ("simulate new.txt --components 2", "OUT ends in '.txt'; allowed are .csv, .tsv, .npy, .npz"),
    ("simulate new.csv", "give either --components (their number) or --alpha (to draw"),
    ("simulate new.csv --components 2 --alpha 1", "give either --components (their number) or"),
    ("simulate new.csv --components 2 --shape 5", "'5' is not a shape such as 200x500"),
    ("simulate new.csv --components 2 --shape 5x0", "'5x0' is not a shape such as 200x500"),
    ("simulate new.csv --components 2 --shape 5x5x5", "a table has two modes, but --shape has 3"),
    ("simulate new.csv --components 2 --flip 1.5", "'--flip': 1.5 is not in the range 0<=x<1"),
    ("simulate new.csv --components 2 --flip 0.1 --dropped 0.1", "give either --flip (one rate)"),
    ("simulate new.csv --components 2 --dropped 0.1", "give both --spurious and --dropped"),
    (
        "simulate new.csv --components 2 --missing-rate 1",
        "'--missing-rate': 1.0 is not in",
    ),
    ("simulate table.csv --components 2", "table.csv exists already; choose another name, or"),
    ("simulate new.csv --components 2 --truth new.csv", "--truth ends in '.csv'; allowed is .npz"),
    ("simulate new.npz --components 2 --truth new.npz", "OUT and --truth are the same file"),
    ("simulate new.csv --components 2 --truth taken.npz", "taken.npz exists already"),
    ("simulate absent/new.csv --components 2", "there is no folder absent; make it first."),
    ("simulate folder.npy --components 2 --force", "folder.npy is a folder, but a file should be"),
]


@pytest.fixture
def folder(tmp_path, table, kept):
    """A folder with all that can be mistaken for data or a run."""
    (tmp_path / "bad.csv").write_text("a,b\n0,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "no.csv").write_text("n,a\nx,maybe\n")
    (tmp_path / "list.basket").write_text("tea milk\ntea\n")
    (tmp_path / "pairs.csv").write_text("user,item\nann,tea\nbob,milk\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.npy").mkdir()
    for name in ("notes.text", "taken", "taken.html", "taken.nc", "taken.npz"):
        (tmp_path / name).write_text("mine")
    np.save(tmp_path / "tensor.npy", thali.simulate((6, 5, 4), 2).tensor)
    (tmp_path / "damaged.run").mkdir()
    (tmp_path / "damaged.run" / "header.json").write_text("{")
    early = tmp_path / "early.run"
    early.mkdir()
    for name in ("header.json", "data.npz"):
        (early / name).write_bytes((kept / name).read_bytes())
    for number in range(2):
        (early / f"chain-{number}").mkdir()
    return tmp_path


def contents(folder):
    """Everything in a folder, by name."""
    paths = [path for path in folder.rglob("*") if path.name != "lock"]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize(
    ("name", "make", "fragment"),
    [pytest.param(*row[1:], id=row[0]) for row in BAD_FILES],
)
def test_bad_files(run, tmp_path, name, make, fragment):
    """A malformed file is one sentence and exit code 2; no run is begun."""
    path = tmp_path / name
    path.write_bytes(make())
    code, out, err = run("fit", name, "--out", "new")
    assert (code, out) == (2, "")
    assert err.startswith("thali: ")
    assert say(fragment, CommandFace()) in err
    assert err.count("\n") == 1
    assert not re.search(PYTHON, err)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("typed", "sentence"), WRONG_USAGE)
def test_wrong_usage(run, folder, typed, sentence):
    """Exit code 2, one sentence, no traceback, and the folder is as it was."""
    before = contents(folder)
    code, out, err = run(*typed.split())
    assert (code, out) == (2, "")
    assert err.startswith("thali: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not re.search(PYTHON, err)
    assert contents(folder) == before


def test_the_table_of_wrong_usage_has_every_command():
    """Nobody was forgotten."""
    assert {typed.split()[0] for typed, _ in WRONG_USAGE} >= set(main.commands)


# --- faults of the machine, and of thali ---------------------------------------------------


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write")
@pytest.mark.parametrize(
    "typed",
    [
        "fit table.csv --out /proc/new",
        "export kept.run --to /proc/new",
        "export kept.run --to /proc/new.nc",
        "simulate /proc/new.csv --components 2",
    ],
)
def test_a_folder_that_cannot_be_written(run, folder, typed):
    """The sentence names it, and says what to do."""
    code, out, err = run(*typed.split(), *(FAST if typed.startswith("fit") else ()))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(r"thali: /proc/new\S* could not be \w+ \(.*choose a folder that can be", err)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError(13, "Permission denied", "x/y"), 2, "x/y: Permission denied"),
        (MemoryError("too large"), 1, "there is not enough memory (too large); use fewer chains"),
        (
            RuntimeError("a\nb"),
            1,
            "an unexpected error occurred (RuntimeError: a b); `thali --",
        ),
        (KeyError("x"), 1, "an unexpected error occurred (KeyError: 'x')"),
        (ValueError("two\nlines"), 2, "two lines"),
        (ImportError("install it"), 2, "install it"),
    ],
)
@pytest.mark.parametrize("is_debugged", [False, True])
def test_errors_and_their_exit_codes(run, monkeypatch, error, code, sentence, is_debugged):
    """A run that failed is told from bad input; where it failed is shown on demand."""

    def load(path):
        raise error

    monkeypatch.setattr("thali.inference.load", load)
    debug = ("--debug",) if is_debugged else ()
    found, out, err = run(*debug, "summary", "x")
    assert (found, out) == (code, "")
    assert err.splitlines()[-1].startswith(f"thali: {sentence}")
    assert ("Traceback" in err) == is_debugged
    assert is_debugged or err.count("\n") == 1


def test_damaged_draws_are_told_and_computed_again(run, kept):
    """The sentence names the command that repairs, which says what it repaired."""
    (victim, *_) = kept.glob("chain-1/draws-*.npz")
    whole = thali.load(kept).log_joint
    victim.write_bytes(victim.read_bytes()[:-20])
    code, out, err = run("summary", "kept.run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    again = f"`thali resume {kept}` computes the others again."
    assert f"0 draws per chain are intact; {again}\n" in err
    code, _, err = run("resume", "kept.run", "--quiet")
    assert code == 0
    assert re.fullmatch(r"thali: .*The chain continues from its last intact draw\.\n", err)
    np.testing.assert_array_equal(thali.load(kept).log_joint, whole)


def test_options_are_those_of_the_commands():
    """What an argument of Python is called on the command line exists there."""
    there = {name for each in main.commands.values() for p in each.params for name in p.opts}
    assert {words.split()[0] for words in OPTIONS.values()} <= there
