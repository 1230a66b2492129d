"""``summary``, ``report`` and ``export`` say what is in the run, and write whole files or none."""

import csv
import json
import os
import re
import shutil
import sys
import warnings
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import thali
from thali.cli.contents import _names
from thali.posterior.beyond import beyond_in_words
from thali.posterior.export import factors_of
from thali.posterior.remarks import start_in_words
from thali.posterior.verdict import Disagreement
from thali.sampler.moves.tries import BUFFET, FINITE
from thali.views import cards

# What is promised to machines: the type of every value, None where it may be missing.
NUMBER = {"mean": float, "interval": [float]}
NUMBERS = {"mode": int, "mean": float, "interval": [int], "pmf": {...: float}}
COVERAGE = {
    "ones_explained": NUMBER,
    "ones_outside": NUMBER,
    "zeros_inside": NUMBER,
    "rows_without": NUMBER,
    "unused": {...: NUMBER},
}
MOVES_TRIED = {...: {"tried": int, "accepted": int}}
PROMISED = {
    "run": str,
    "shape": [int],
    "modes": [str],
    "observed": int,
    "ones": int,
    "chains": int,
    "draws": int,
    "asked": int,
    "warmup": int,
    "seed": int,
    "n_components": NUMBERS,
    "shared_components": NUMBERS,
    "components_that_matter": NUMBERS,
    "beyond_rates": {
        "is_there": bool,
        "gain": float,
        "standard_error": float,
        "total": float,
        "evidence": float,
        "n_hidden": int,
    },
    "noise": {"kind": str, "spurious": NUMBER, "dropped": NUMBER},
    "alpha": NUMBER,
    "density": {...: NUMBER},
    "wrong_entries": NUMBER | {"share": float},
    "coverage": COVERAGE,
    "by_chain": [
        {
            "chain": int,
            "n_components": NUMBERS,
            "log_joint": NUMBER,
            "coverage": COVERAGE,
            "moves": MOVES_TRIED,
        }
    ],
    "in_all_chains": {"components": [int], "of": int},
    "r_hat": {...: float},
    "ess": {...: float},
    "moves": MOVES_TRIED,
    "starts": [
        [
            {
                "stage": str,
                "kind": str,
                "n_components": int,
                "evidence": float,
                "hidden": {
                    "score": float,
                    "gain": float,
                    "standard_error": float,
                    "n_hidden": int,
                },
            }
        ]
    ],
    "own_densities": bool,
    "same_rows": float,
    "agree": bool,
    "warning": str,
    "verdict": {"kind": str, "quantities": [str], "advised_draws": int},
    "wall_seconds": float,
    "version": str,
}
MAY_BE_NONE = {
    "alpha",
    "beyond_rates",
    "warning",
    "verdict",
    "wall_seconds",
    "r_hat",
    "ess",
    "starts",
    "same_rows",
    "in_all_chains",
}


def conforms(value, promised, path=""):
    """Check a JSON value against what is promised."""
    top = path.split(".")[1].rstrip("[]") if "." in path else ""
    if value is None:
        assert top in MAY_BE_NONE, path
    elif isinstance(promised, dict):
        if set(promised) == {...}:
            promised = dict.fromkeys(value, promised[...])
        assert list(value) == list(promised), path
        for name, part in value.items():
            conforms(part, promised[name], f"{path}.{name}")
    elif isinstance(promised, list):
        for part in value:
            conforms(part, promised[0], f"{path}[]")
    else:
        assert type(value) is promised, path


def no_constant(name):
    pytest.fail(f"{name} is no JSON")


@pytest.mark.parametrize("name", ["agree", "differ"])
def test_summary_for_machines(run, finished, name):
    """Strict JSON with the promised keys and types, and the numbers of the posterior."""
    code, out, err = run("summary", finished / name, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=no_constant)
    conforms(found, PROMISED)
    posterior = thali.load(finished / name)
    assert found["shape"] == [24, 30]
    assert found["modes"] == ["who", "what"]
    assert found["observed"] == posterior.tensor.n_known < 720
    assert (found["chains"], found["draws"]) == posterior.n_components.shape
    pmf = {str(k): p for k, p in posterior.n_components_table().items()}
    assert found["n_components"]["pmf"] == pmf
    assert found["noise"]["dropped"]["mean"] == posterior.dropped.mean()
    np.testing.assert_allclose(
        found["noise"]["spurious"]["interval"], np.quantile(posterior.spurious, [0.05, 0.95])
    )
    assert (found["alpha"] is None) == (name == "agree")
    assert found["agree"] == (found["warning"] is None) == (name == "agree")
    assert found["wall_seconds"] == posterior.wall_seconds > 0
    names = ("stage", "n_components", "evidence")
    starts = [[tuple(part[name] for name in names) for part in h] for h in found["starts"]]
    assert starts == [[part[:3] for part in history] for history in posterior.starts]
    assert all(starts) == (name == "differ")  # a number that is given is not grown
    assert found["wrong_entries"]["mean"] == pytest.approx(
        posterior.error.mean() * posterior.tensor.n_known
    )


def test_summary_for_machines_with_one_error_rate(run, tmp_path):
    """Equal rates are one rate."""
    with pytest.warns(thali.errors.NotConverged):
        thali.sample(
            np.eye(4), noise="equal", chains=1, warmup=2, draws=3, seed=0, out=tmp_path / "run"
        )
    _, out, _ = run("summary", "run", "--json")
    found = json.loads(out, parse_constant=no_constant)
    conforms(found, PROMISED | {"noise": {"kind": str, "flip": NUMBER}})
    assert found["noise"]["kind"] == "equal"
    assert set(found["r_hat"].values()) == {None}  # of three draws
    code, out, _ = run("summary", "run")
    assert code == 0
    assert "\nflip " in out
    assert "\nspurious " not in out


def test_summary_with_row_and_column_effects(run, table, tmp_path):
    """What components explain beyond them, and by how much rows and columns differ."""
    fast = ("--warmup", 5, "--draws", 5, "--chains", 1, "--threads", 1, "--quiet")
    code, said, _ = run("fit", table, *fast, "--noise", "effects", "--out", "run")
    assert code == 0
    found = json.loads(run("summary", "run", "--json")[1], parse_constant=no_constant)
    names = ("spurious", "dropped", "row_spread", "column_spread", "jump_spread")
    conforms(found, PROMISED | {"noise": {"kind": str, **dict.fromkeys(names, NUMBER)}})
    assert found["beyond_rates"]["n_hidden"] > 0
    assert [history[-1]["stage"] for history in found["starts"]] == ["chosen"]
    assert all(history[-1]["hidden"] for history in found["starts"])
    _, out, _ = run("summary", "run")
    for name in (*names, "components_that_matter"):
        assert f"\n{name} " in out
    for line in (beyond_in_words(found["beyond_rates"]), start_in_words(found)):
        assert f"\n{line}\n" in out
    assert f"\n{beyond_in_words(found['beyond_rates'])}\n" in said


@pytest.mark.parametrize("name", ["agree", "differ"])
def test_summary_for_people(run, finished, name):
    """The lines, the start, probabilities, chains one by one, and a line for every quantity."""
    code, out, err = run("summary", finished / name)
    assert code == 0
    assert err.count("\n") == (name == "differ")
    answer, contents, probabilities, chains, quantities, moves = out.split("\n\n")
    assert ("`--chain N` shows the components of one chain" in contents) == (name == "differ")
    are_apart = "The 2 chains disagree: chain 1 has " in answer
    assert are_apart == (name == "differ")
    assert len(answer.splitlines()) == (7 if name == "agree" else 9)
    assert [line.split()[0] for line in chains.splitlines()] == ["chain", "1", "2"]
    assert len({len(line) for line in chains.splitlines()}) == 1
    assert ("Before its first sweep, each chain grew " in answer) == (name == "differ")
    assert answer.splitlines()[0] == str(finished / name)
    head, *lines = probabilities.splitlines()
    assert head == "components  probability"
    table = {int(line.split()[0]): float(line.split()[1]) for line in lines}
    expected = thali.load(finished / name).n_components_table()
    assert table == pytest.approx(expected.to_dict(), abs=6e-4)
    head, *lines = quantities.splitlines()
    assert head.split() == ["quantity", "mean", "5%", "95%", "R-hat", "ESS"]
    told = [line.split()[0] for line in lines]
    expected = {"n_components", "spurious", "dropped", "density_what", "wrong_entries"}
    assert {*expected, "density_who" if name == "agree" else "alpha", "log_joint"} <= set(told)
    assert len({len(line) for line in [head, *lines]}) == 1
    head, *lines = moves.splitlines()
    assert head.split() == ["move", "tried", "accepted", "share"]
    acceptance = thali.load(finished / name).acceptance
    shown = {move: (int(n), int(k)) for move, n, k, _ in map(str.split, lines)}
    assert shown == acceptance
    assert set(acceptance) == (set(FINITE) if name == "agree" else set(BUFFET))


def test_summary_names_the_columns_of_components(run, finished):
    """As many as are in the point estimate, in the order of the cards, six of them by name."""
    posterior = thali.load(finished / "agree")
    _, out, _ = run("summary", finished / "agree")
    head, *lines = out.split("\n\n")[1].splitlines()
    assert head.split() == ["component", "whos", "whats", "certainty", "surest", "whats"]
    for line, card in zip(lines, cards(posterior), strict=True):
        number, n_rows, n_columns, sure, names = line.split(maxsplit=4)
        assert (int(number), int(n_rows)) == (card["component"] + 1, card["users"])
        assert (int(n_columns), sure) == (card["columns"], f"{card['sure']:.0%}")
        first = [member["name"] for member in card["top"][1][:6]]
        more = f" and {card['columns'] - 6} more" if card["columns"] > 6 else ""
        assert names == ", ".join(first[: card["columns"]]) + more


def test_contents_of_odd_components():
    """Names are shortened and cannot control a terminal; tensors have all modes but the first."""
    words = ["row", "day"]
    top = [[], [{"name": "a\x1b[31m\n" + 50 * "b"}, {"name": "c"}]]
    card = {"top": top, "counts": [3, 1]}
    (shown,) = _names(card, words).split(", ")
    assert shown.startswith("a\\u001b[31m bbb")
    assert len(shown) == 40
    assert _names({"top": [[], []], "counts": [2, 0]}, words) == "none"
    top = [[], [{"name": "x"}], [{"name": "y"}]]
    assert _names({"top": top, "counts": [1, 1, 4]}, ["row", "day", "place"]) == (
        "day: x; place: y and 3 more"
    )


def test_summary_into_a_closed_pipe(start, kept):
    """No noise when nobody reads."""
    read, write = os.pipe()
    os.close(read)
    process = start("summary", kept, stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")


# --- report --------------------------------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch):
    """A module in place of the one that writes reports; it fails where asked to."""
    module = ModuleType("thali.report")
    calls = []

    def write(posterior, path, *, title=None):
        calls.append((posterior.n_draws, title))
        path.write_text("<html>")
        if title == "fail":
            msg = "no report"
            raise ValueError(msg)

    module.write = write
    monkeypatch.setitem(sys.modules, "thali.report", module)
    return calls


def test_report(run, kept, tmp_path, stand_in):
    """The file has its name when it is complete, and is replaced on demand only."""
    assert run("report", "kept.run", "-o", "out.html")[0] == 0
    assert (tmp_path / "out.html").read_text() == "<html>"
    (tmp_path / "out.html").write_text("mine")
    assert run("report", "kept.run", "-o", "out.html")[0] == 2
    assert (tmp_path / "out.html").read_text() == "mine"
    code, out, _ = run("report", "kept.run", "-o", "out.html", "--title", "A", "--force")
    assert (code, out) == (0, "out.html is written; open it in a browser.\n")
    assert (tmp_path / "out.html").read_text() == "<html>"
    assert run("report", "kept.run")[0] == 0
    assert (tmp_path / "report.html").exists()
    assert stand_in == [(60, None), (60, "A"), (60, None)]


def test_a_report_that_fails_leaves_nothing(run, kept, tmp_path, stand_in):
    """Not even a part of it, and what was there before stays."""
    (tmp_path / "out.html").write_text("mine")
    before = sorted(tmp_path.iterdir())
    code, _, err = run("report", "kept.run", "-o", "out.html", "--title", "fail", "--force")
    assert (code, err) == (2, "thali: no report\n")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "out.html").read_text() == "mine"


# --- export --------------------------------------------------------------------------------


def test_export_of_tables(run, kept, tmp_path):
    """Factors and probabilities with the names of the data, components, numbers, summary."""
    assert run("export", "kept.run", "--to", "tables") == (0, "tables is written.\n", "")
    folder = tmp_path / "tables"
    posterior = thali.load(kept)
    estimate, alignment = posterior.point_estimate(), posterior.align()
    for mode, (label, names) in enumerate(
        zip(["rows", "columns"], posterior.row_names, strict=True)
    ):
        factor = pd.read_csv(folder / f"factor_{label}.csv", index_col=0)
        means = pd.read_csv(folder / f"probability_{label}.csv", index_col=0)
        for table in (factor, means):
            assert tuple(table.index) == names
            assert table.index.name == posterior.mode_names[mode]
            assert list(table.columns) == ["component_1", "component_2"]
        np.testing.assert_array_equal(factor, estimate.factors[mode].dense())
        np.testing.assert_allclose(means, alignment.probabilities[mode])
    components = pd.read_csv(folder / "components.csv", index_col="component")
    np.testing.assert_array_equal(components["n_rows"], estimate.factors[0].sizes())
    np.testing.assert_allclose(components["matched"], alignment.matched)
    numbers = pd.read_csv(folder / "n_components.csv", index_col=0)
    assert numbers["probability"].to_dict() == {2: 1.0}
    told = json.loads((folder / "summary.json").read_text())
    assert told == json.loads(run("summary", "kept.run", "--json")[1])
    assert len(list(folder.iterdir())) == 7


def test_export_of_chains_that_disagree(run, kept):
    """The files average over all chains, which the error stream says; one chain can be had."""
    apart = Disagreement(2, 30, {"n_components": 2.0}, (4.0, 3.0), 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thali.Posterior, "verdict", lambda _: apart)
        code, out, err = run("export", "kept.run", "--to", "both")
    assert (code, out) == (0, "both is written.\n")
    assert "The 2 chains disagree" in err
    assert run("export", "kept.run", "--to", "one", "--chain", "1")[0] == 0
    assert run("export", "kept.run", "--to", "none", "--chain", "9")[0] == 2


def test_export_of_a_tensor(run, tmp_path):
    """Modes are numbered, and so are rows without names."""
    data = thali.simulate((6, 5, 4), 2, seed=1).tensor
    with pytest.warns(thali.errors.NotConverged):
        thali.sample(data, n_components=2, warmup=2, draws=3, seed=0, out=tmp_path / "run")
    assert run("export", "run", "--to", "tables/")[0] == 0
    for mode, n in enumerate(data.shape):
        table = pd.read_csv(tmp_path / "tables" / f"factor_mode_{mode}.csv", index_col=0)
        assert list(table.index) == list(range(n))


def test_export_into_a_folder_that_exists(run, kept, tmp_path):
    """An empty one is filled; another only on demand, and what else is in it stays."""
    folder = tmp_path / "tables.v1"  # the dot makes it no file
    folder.mkdir()
    assert run("export", "kept.run", "--to", folder)[0] == 0
    (folder / "notes").write_text("mine")
    (folder / "components.csv").write_text("old")
    assert run("export", "kept.run", "--to", folder)[0] == 2
    assert (folder / "components.csv").read_text() == "old"
    assert run("export", "kept.run", "--to", folder, "--force")[0] == 0
    assert (folder / "components.csv").read_text().startswith("component,")
    assert (folder / "notes").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"kept.run", "tables.v1"}


def test_export_that_fails_leaves_nothing(run, kept, tmp_path, monkeypatch):
    """The folder appears when all of its files are complete."""

    def tables(posterior):
        return {"first": pd.DataFrame({"a": [1]}), "second": None}

    monkeypatch.setattr("thali.posterior.tables.tables", tables)
    code, _, err = run("export", "kept.run", "--to", "new")
    assert code == 1
    assert err.startswith("thali: an unexpected error occurred (AttributeError")
    assert {path.name for path in tmp_path.iterdir()} == {"kept.run"}


def test_export_of_netcdf(run, kept, tmp_path):
    """The tree that ArviZ reads, with all draws."""
    xarray = pytest.importorskip("xarray")
    assert run("export", "kept.run", "--to", "run.nc") == (0, "run.nc is written.\n", "")
    posterior = thali.load(kept)
    with xarray.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["posterior"]["spurious"], posterior.spurious)
        for left, right in zip(factors_of(tree, 1, 59), posterior.factors(1, 59), strict=True):
            np.testing.assert_array_equal(left, right)
    assert {path.name for path in tmp_path.iterdir()} == {"kept.run", "run.nc"}


@pytest.mark.parametrize(("ending", "needs"), [("nc", "xarray"), ("h5ad", "anndata")])
def test_export_without_room(run, kept, tmp_path, monkeypatch, ending, needs):
    """It is not begun; where it fits, no more is written than was expected."""
    pytest.importorskip(needs)
    free, needed = shutil.disk_usage(tmp_path), []

    class Bytes(int):
        def __lt__(self, n_bytes):
            needed.append(n_bytes)
            return int(self) < n_bytes

    usage = free._replace(free=Bytes(10_000))
    monkeypatch.setattr("thali.cli.output.shutil.disk_usage", lambda _: usage)
    code, _, err = run("export", "kept.run", "--to", f"new.{ending}")
    said = f"new.{ending} could not be written (No space left on device); make room, or choose"
    assert code == 1
    assert said in err
    assert {path.name for path in tmp_path.iterdir()} == {"kept.run"}
    usage = free
    assert run("export", "kept.run", "--to", f"new.{ending}")[0] == 0
    assert (tmp_path / f"new.{ending}").stat().st_size <= needed[0]
    usage = free._replace(total=0, used=0, free=0)  # as file systems have it that do not tell
    assert run("export", "kept.run", "--to", f"other.{ending}")[0] == 0


def test_export_of_anndata(run, kept, tmp_path, monkeypatch):
    """The file is what the face for single cells makes of the posterior."""
    module = ModuleType("thali.single_cell")

    class Annotated:
        def __init__(self, posterior):
            self.n_draws = posterior.n_draws

        def write_h5ad(self, path):
            path.write_text(f"{self.n_draws} draws")

    module.to_anndata = Annotated
    monkeypatch.setitem(sys.modules, "thali.single_cell", module)
    assert run("export", "kept.run", "--to", "cells.h5ad")[0] == 0
    assert (tmp_path / "cells.h5ad").read_text() == "60 draws"


def test_one_chain_alone(run, finished, tmp_path):
    """By its number from 1, in the terminal and as a page; others are refused."""
    code, out, _ = run("summary", finished / "differ", "--chain", 2)
    assert code == 0
    assert out.startswith(f"{finished / 'differ'}, chain 2 alone\n")
    code, out, _ = run("summary", finished / "differ", "--chain", 2, "--json")
    found = json.loads(out)
    own = thali.load(finished / "differ").chain(1)
    assert found["chains"] == 1
    assert found["by_chain"][0]["chain"] == 2
    assert found["n_components"]["mean"] == pytest.approx(own.n_components.mean())
    code, _, _ = run("report", finished / "differ", "--chain", 1, "-o", "one.html")
    assert code == 0
    code, out, _ = run("summary", finished / "differ", "--chain", 2, "--after", 10)
    assert out.startswith(f"{finished / 'differ'}, chain 2 alone, without the first 10 draws\n")
    code, out, _ = run("summary", finished / "differ", "--after", 10, "--json")
    assert json.loads(out)["draws"] == 20
    code, _, err = run("summary", finished / "differ", "--after", 30)
    assert code == 2
    assert "has 30 draws per chain, and at least one must remain" in err
    code, _, err = run("summary", finished / "differ", "--chain", 3)
    assert code == 2
    assert "--chain 3 was given" in err


NASTY = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "a\r=1",
    "\uff1d1",
    "abc\u202edef",
    "\u2066x\u2069",
    "\x1b[31m",
]


def test_nasty_names_are_harmless(run, tmp_path):
    """No name is a formula in a table, and none turns the direction of a table or a page."""
    names = [*NASTY, *(f"row {i}" for i in range(3))]
    data = thali.simulate((13, 10), 2, seed=1).tensor
    tensor = thali.BinaryTensor.from_any(
        data, row_names=[names, NASTY], mode_names=["=a", "b\u202e"]
    )
    few = {"n_components": 2, "chains": 2, "warmup": 5, "draws": 6, "seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thali.sample(tensor, **few, out=tmp_path / "nasty.run")
    assert run("export", "nasty.run", "--to", "tables")[0] == 0
    assert run("report", "nasty.run", "-o", "page.html", "--title", "x\u202ey")[0] == 0
    assert thali.load(tmp_path / "nasty.run").row_names[1] == tuple(NASTY)  # the run keeps them
    for path in (tmp_path / "tables").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(tuple("=+@\t\uff1d"))], path
        assert not [cell for cell in cells if cell.startswith("-") and not is_number(cell)]
    rows = (tmp_path / "tables" / "factor_rows.csv").read_text(encoding="utf-8")
    assert "'=1+1," in rows
    assert "'-1," in rows
    assert "abc\\u202edef," in rows
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "abc\\u202edef" in page
    for text in (rows, page):
        assert not set(text) & set("\u202e\u2066\u2069\x1b")
    assert '"abc\\u202edef"' not in page  # in JSON this would be the character itself


def is_number(cell):
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell) is not None
