"""``simulate`` writes what :func:`thali.simulate` draws, in files that ``fit`` reads."""

import errno
import os

import numpy as np
import pytest

import thali
from thali.cli import group, output
from thali.data.readers.files import read


def as_floats(tensor):
    ones, unknown = tensor.rows()
    return np.where(False if unknown is None else unknown, np.nan, ones)


@pytest.mark.parametrize("ending", ["csv", "tsv", "npy", "npz"])
def test_files_hold_what_was_drawn(run, tmp_path, ending):
    """With unknown entries; tables have names for rows and columns."""
    name = f"data.{ending}"
    words = "--shape 20x30 --components 3 --flip 0.05 --missing-rate 0.1 --seed 4"
    code, out, err = run("simulate", name, *words.split())
    assert (code, err) == (0, "")
    assert out == (
        f"{name}: 20 x 30 entries from 3 components.\nNext: thali fit {name} --out data.run\n"
    )
    expected = thali.simulate((20, 30), 3, spurious=0.05, unknown=0.1, seed=4).tensor
    found = read(tmp_path / name)
    np.testing.assert_array_equal(as_floats(found), expected)
    if ending in ("csv", "tsv"):
        assert found.row_names[0][:2] == ("row_1", "row_2")
        assert found.row_names[1][-1] == "column_30"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--components 2", {"n_components": 2}),
        (
            "--components 2 --spurious 0.02 --dropped 0.2",
            {"n_components": 2, "spurious": 0.02, "dropped": 0.2},
        ),
        ("--alpha 1.5 --flip 0", {"alpha": 1.5, "spurious": 0.0}),
    ],
)
def test_rates_and_numbers(run, tmp_path, words, settings):
    """One rate, two rates or the default; a number or a buffet."""
    assert run("simulate", "data.npy", "--shape", "9x8x7", *words.split())[0] == 0
    expected = thali.simulate((9, 8, 7), **settings).tensor
    np.testing.assert_array_equal(np.load(tmp_path / "data.npy"), expected)


def test_truth(run, tmp_path):
    """Factors and the entries before errors go to a file of their own."""
    words = "--shape 9x8 --components 2 --truth truth.npz"
    assert run("simulate", "data.csv", *words.split())[0] == 0
    expected = thali.simulate((9, 8), 2)
    with np.load(tmp_path / "truth.npz") as truth:
        np.testing.assert_array_equal(truth["noise_free"], expected.noise_free)
        for mode, factor in enumerate(expected.factors):
            np.testing.assert_array_equal(truth[f"factor_{mode}"], factor)


def test_effects(run, tmp_path):
    """Spreads of rows, columns and jumps; the truth has the levels."""
    words = "--shape 9x8 --components 2 --row-spread 1 --column-spread 0.5 --jump-spread 0.2"
    assert run("simulate", "data.npy", *words.split(), "--truth", "truth.npz")[0] == 0
    spreads = {"row_spread": 1.0, "column_spread": 0.5, "jump_spread": 0.2}
    expected = thali.simulate((9, 8), 2, **spreads)
    np.testing.assert_array_equal(np.load(tmp_path / "data.npy"), expected.tensor)
    with np.load(tmp_path / "truth.npz") as truth:
        for name, levels in zip(
            ("row_levels", "column_levels", "jumps"), expected.levels, strict=True
        ):
            np.testing.assert_array_equal(truth[name], levels)
    words = "--components 2 --flip 0 --row-spread 1"
    code, _, err = run("simulate", "x.npy", *words.split())
    assert code == 2
    assert "--spurious 0.0 and --dropped 0.0 were given; with row and column effects" in err


def test_files_are_replaced_on_demand(run, tmp_path):
    """--force, and nothing else, replaces them."""
    (tmp_path / "data.csv").write_text("mine")
    words = ("simulate", "data.csv", "--shape", "9x8", "--components", 2)
    assert run(*words)[0] == 2
    assert (tmp_path / "data.csv").read_text() == "mine"
    assert run(*words, "--force")[0] == 0
    assert read(tmp_path / "data.csv").shape == (9, 8)


def test_two_files_or_none(run, tmp_path, monkeypatch):
    """If the truth cannot be written, the data are not left alone."""

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thali.cli.simulation._write_truth", fail)
    words = "--shape 9x8 --components 2 --truth truth.npz"
    code, out, err = run("simulate", "data.csv", *words.split())
    assert (code, out) == (1, "")
    assert "could not be written (No space left on device); make room" in err
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written(run, monkeypatch):
    """This is known before anything is computed."""
    monkeypatch.setattr("thali.cli.output.os.access", lambda *_: False)
    monkeypatch.setattr("thali.simulate", lambda *_, **__: pytest.fail("it was simulated"))
    code, out, err = run("simulate", "data.csv", "--components", 2)
    assert (code, out) == (2, "")
    assert "data.csv cannot be written: nothing can be written to" in err


@pytest.mark.parametrize(("number", "code"), [(errno.EFBIG, 1), (errno.EROFS, 2)])
def test_a_page_that_says_itself_why_it_cannot_be_written(tmp_path, number, code):
    """The reason is told once, about the file that the user named, and nothing else is left."""
    path, reason = tmp_path / "page.html", os.strerror(number)
    with (
        pytest.raises(OSError, match=r"page\.html could not be written") as told,
        output.whole_file(path, force=False) as temporary,
    ):
        raise OSError(number, f"{temporary} could not be written ({reason}); try another.")
    said = str(told.value.strerror)
    assert said.startswith(f"{path} could not be written ({reason}); make room, or choose")
    assert said.count("could not be written") == 1
    assert group._exit_code(told.value) == code
    assert list(tmp_path.iterdir()) == []
