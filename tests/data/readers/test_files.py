"""Files become labelled tensors by their extension, or one sentence says what is wrong."""

import sys
import time
import tracemalloc

import numpy as np
import pytest

from support.bad_files import BAD_FILES
from support.data_files import VALUES, assert_refused, save, ternary, write
from support.odd_files import ODD_FILES
from support.odd_files import VALUES as ODD_VALUES
from thali.data.readers.files import read
from thali.errors import MissingLibrary


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.npy", "t.npz", "sparse.npz", "T.CSV"])
def test_formats(tmp_path, name):
    """Every format holds the same values, whether the path is a string or not."""
    path = save(tmp_path, name)
    for tensor in (read(path), read(str(path))):
        assert np.array_equal(ternary(tensor), VALUES, equal_nan=True)
        assert tensor.is_sparse == (name == "sparse.npz")
        assert tensor.row_names == (None, ("a", "b", "c") if path.suffix[1] in "ctC" else None)


@pytest.mark.parametrize(
    ("name", "make", "fragment"),
    [row[1:] for row in BAD_FILES],
    ids=[row[0].replace(" ", "-") for row in BAD_FILES],
)
def test_bad_files(tmp_path, name, make, fragment):
    """Bad content is refused in one line that names the file and the reason."""
    (tmp_path / name).write_bytes(make())
    assert_refused(tmp_path / name, fragment)


@pytest.mark.parametrize("name", ["t.xls", "t", "t.npy.gz"])
def test_unknown_extension(tmp_path, name):
    """Another extension is refused, with those that are allowed."""
    save(tmp_path, name)
    assert_refused(tmp_path / name, "allowed are .csv, .tsv, .basket, .dat, .txt, .npy, .npz")


def test_missing_file(tmp_path):
    """A missing file is no traceback from a library."""
    with pytest.raises(FileNotFoundError, match=r"absent.csv: there is no such file; check"):
        read(tmp_path / "absent.csv")


def test_folders_that_are_no_data(tmp_path):
    """A folder is called one, and a run is known as such."""
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert_refused(
        folder, "it is a folder without a matrix.mtx; allowed are files, folders of 10x"
    )
    (folder / "header.json").write_text("{}")
    assert_refused(
        folder,
        f"it is the folder of a run, and data are expected; read the run with "
        f"thali.load({str(folder)!r})",
    )


@pytest.mark.parametrize(
    ("name", "make", "options"),
    [row[1:] for row in ODD_FILES],
    ids=[row[0].replace(" ", "-") for row in ODD_FILES],
)
def test_odd_files(tmp_path, name, make, options):
    """Unusual files hold what they are meant to hold."""
    (tmp_path / name).write_bytes(make())
    tensor = read(tmp_path / name, **options)
    assert np.array_equal(ternary(tensor), ODD_VALUES, equal_nan=True)


def test_there_are_many_of_them():
    """Malformed and unusual files, each with its own name."""
    names = [row[0] for row in (*BAD_FILES, *ODD_FILES)]
    assert len(set(names)) >= 120


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    """Workbooks and .zst files need one; the sentence says how to get it."""
    for name, module in (("t.xlsx", "openpyxl"), ("t.csv.zst", "zstandard")):
        (tmp_path / name).write_bytes(next(row[2] for row in ODD_FILES if row[1] == name)())
        monkeypatch.setitem(sys.modules, module, None)
        if module == "openpyxl" or sys.version_info < (3, 14):
            with pytest.raises(MissingLibrary, match=rf"{module} is needed .*thali\[io\]"):
                read(tmp_path / name)


def test_archives_are_read_in_blocks(tmp_path):
    """A packed file of zeros, 120 MB, is never in memory as what it unpacks to."""
    path = tmp_path / "t.npz"
    np.savez_compressed(path, np.zeros((1_500, 10_000)))
    tracemalloc.start()
    tensor = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tensor.shape == (1_500, 10_000)
    assert peak < 40 << 20  # some blocks of 8 MB, and 2 MB of bits


def test_a_line_of_a_million_columns(tmp_path):
    """It takes about a second for ten million; quadratic time would take minutes."""
    n = 1_000_000
    path = write(tmp_path, b"0,1," * (n // 2) + b"1\n")
    begun = time.process_time()
    assert read(path).shape == (1, n + 1)
    assert time.process_time() - begun < 5
