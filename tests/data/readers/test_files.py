"""Files become labelled tensors by their extension, or one sentence says what is wrong."""

import numpy as np
import pytest

from support.bad_files import BAD_FILES
from support.data_files import VALUES, assert_refused, save, ternary
from thali.data.readers.files import read


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
