"""Files become labelled tensors by their extension, or one sentence says what is wrong."""

import numpy as np
import pytest
from scipy import sparse

from thali.data.files import read

VALUES = np.array([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]])


def ternary(tensor):
    """Return the values of a tensor, NaN where unknown."""
    ones, unknown = tensor.rows()
    return ones.astype(float) if unknown is None else np.where(unknown, np.nan, ones)


def save(path, name):
    """Write the values in the format that an extension stands for."""
    path = path / name
    if path.suffix == ".npy":
        np.save(path, VALUES)
    elif name == "sparse.npz":
        sparse.save_npz(path, sparse.csr_array(VALUES))
    elif path.suffix == ".npz":
        np.savez_compressed(path, anything=VALUES)
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        lines = ["a b c", "0 1 ", "1 1 0"]
        path.write_text("\n".join(line.replace(" ", separator) for line in lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.npy", "t.npz", "sparse.npz", "T.CSV"])
def test_formats(tmp_path, name):
    """Every format holds the same values, whether the path is a string or not."""
    path = save(tmp_path, name)
    for tensor in (read(path), read(str(path))):
        assert np.array_equal(ternary(tensor), VALUES, equal_nan=True)
        assert tensor.is_sparse == (name == "sparse.npz")
        assert tensor.row_names == (None, ("a", "b", "c") if path.suffix[1] in "ctC" else None)


@pytest.mark.parametrize(
    ("text", "values", "rows", "mode"),
    [
        ("animal,a,b\ncat,0,1\ndog,1,\n", [[0, 1], [1, np.nan]], ("cat", "dog"), "animal"),
        (",a,b\n5,0,1\n7,1,0\n", [[0, 1], [1, 0]], ("5", "7"), "mode_0"),
        ("a,b\n0,1\n1,0\n", [[0, 1], [1, 0]], None, "mode_0"),
        ("a,b,c\nTrue,0,1\n,1,1\n", [[1, 0, 1], [np.nan, 1, 1]], None, "mode_0"),
        ("a,b\nTRUE,False\nFALSE,True\n", [[1, 0], [0, 1]], None, "mode_0"),
        ("a\n0\n1\n", [[0], [1]], None, "mode_0"),
    ],
    ids=["names", "unnamed", "none", "gap", "booleans", "single"],
)
def test_tables(tmp_path, text, values, rows, mode):
    """A first column of text, or without a header, names the rows; empty cells are unknown."""
    path = tmp_path / "table.csv"
    path.write_text(text)
    tensor = read(path)
    assert np.array_equal(ternary(tensor), np.array(values, float), equal_nan=True)
    assert tensor.row_names[0] == rows
    assert tensor.mode_names[0] == mode


def test_more_modes(tmp_path):
    """An array file may hold more than two modes."""
    np.save(tmp_path / "t.npy", np.ones((2, 3, 4), np.int8))
    assert read(tmp_path / "t.npy").shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"", "it is empty"),
        ("t.csv", b"0,1\n1,0\n", "first line holds entries; give it a line of column names"),
        ("t.csv", b"a,b\n?,0\n1,1\n", r"first column, 'a', holds entries and '\?'"),
        ("t.csv", b"id,a\n1,0\n2,1\n", "'id', holds entries and '2'; leave its header empty"),
        ("t.csv", b"n;a;b\nx;0;1\n", "one column of text; fields are expected"),
        ("t.csv", b"a,b\n", "a header and no rows"),
        ("t.csv", b"a,b\n0,1\n0,1,1\n", "line 3 has 3 fields, the header 2"),
        ("t.csv", b"a,b\n0,1\n1\n", "line 3 has 1 fields, the header 2"),
        ("t.csv", b"a,b\nx,0,1\n", "line 2 has 3 fields, the header 2"),
        ("t.csv", b"a,b,a\n0,1,1\n", "the header names 'a' twice"),
        ("t.csv", b"n,a\nx,0\ny,maybe\n", "column 'a'"),
        ("t.csv", b"a,b\n0,1\nTRUE,1\n", "column 'a'"),
        ("t.csv", b"a,b\n0,1\n1,2\n", r"holds 2 at \(1, 1\) in column 'b'"),
        ("t.csv", b"a,b\n0,0.5\n", r"holds 0\.5"),
        ("t.csv", b"a,b\n,\n", "unknown"),
        ("t.csv", b"\xff\xfe\x00", "it is UTF-16 text; save it as UTF-8"),
        ("t.npy", b"", "could not be read"),
        ("t.npy", b"zeros and ones", "could not be read"),
        ("t.npz", b"", "could not be read"),
        ("t.npz", b"zeros and ones", "could not be read"),
    ],
)
def test_bad_content(tmp_path, name, content, reason):
    """Bad content is refused in one line that names the file and the reason."""
    (tmp_path / name).write_bytes(content)
    assert_refused(tmp_path / name, reason)


def assert_refused(path, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        read(path)
    message = str(caught.value)
    assert type(caught.value) is ValueError
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([[0, None]], object), "holds Python objects, which are never read"),
        (np.array(1), "at least 2 modes"),
        (np.zeros((3, 0)), "at least 2 modes"),
        (np.array([["a"]]), "has type"),
    ],
    ids=["pickled", "scalar", "empty", "text"],
)
@pytest.mark.parametrize("name", ["t.npy", "t.npz"])
def test_bad_arrays(tmp_path, name, array, reason):
    """Arrays that hold no zeros and ones are refused, and nothing is ever unpickled."""
    (np.save if name == "t.npy" else np.savez)(tmp_path / name, array)
    assert_refused(tmp_path / name, reason)


def test_truncated_array(tmp_path):
    """A file that ends too early is refused."""
    path = save(tmp_path, "t.npy")
    path.write_bytes(path.read_bytes()[:-8])
    assert_refused(path, "could not be read")


@pytest.mark.parametrize("cut", [8, 30, 200])
def test_truncated_archive(tmp_path, cut):
    """So is an archive, whatever the unpacker makes of it."""
    path = save(tmp_path, "t.npz")
    path.write_bytes(path.read_bytes()[:-cut])
    assert_refused(path, "could not be read")


def test_archive_that_only_looks_sparse(tmp_path):
    """A sparse matrix with parts missing is refused."""
    np.savez(tmp_path / "t.npz", format=np.array("csr"), data=np.ones(3))
    assert_refused(tmp_path / "t.npz", "could not be read")


def test_several_arrays(tmp_path):
    """An archive must hold one array: thali does not guess which."""
    np.savez(tmp_path / "t.npz", a=VALUES, b=VALUES)
    assert_refused(tmp_path / "t.npz", "holds 2 arrays")


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.npy.gz"])
def test_unknown_extension(tmp_path, name):
    """Another extension is refused, with those that are allowed."""
    save(tmp_path, name)
    assert_refused(
        tmp_path / name, r"allowed are \.csv, \.tsv, \.basket, \.dat, \.txt, \.npy, \.npz"
    )


def test_missing_file(tmp_path):
    """A missing file, or a folder in its place, is no traceback from a library."""
    (tmp_path / "folder.csv").mkdir()
    for name in ("absent.csv", "folder.csv"):
        with pytest.raises(FileNotFoundError, match=rf"{name}: there is no such file; check"):
            read(tmp_path / name)
