"""Arrays of NumPy, sparse matrices of SciPy and the data of a run are read from their files."""

import warnings

import numpy as np
import pandas as pd
import pytest

import thali
from support.data_files import VALUES, assert_refused, save, ternary
from thali.data.readers.files import read


def test_more_modes(tmp_path):
    """An array file may hold more than two modes."""
    np.save(tmp_path / "t.npy", np.ones((2, 3, 4), np.int8))
    assert read(tmp_path / "t.npy").shape == (2, 3, 4)


@pytest.mark.parametrize("has_names", [True, False])
def test_data_of_a_run(tmp_path, has_names):
    """The data that a run keeps can be read like any other file."""
    data = pd.DataFrame(VALUES, index=["x", "y"]) if has_names else VALUES
    run = {"n_components": 1, "warmup": 0, "draws": 1, "chains": 1, "progress": False, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thali.sample(data, out=tmp_path / "run", **run)
    tensor = read(tmp_path / "run" / "data.npz")
    assert np.array_equal(ternary(tensor), VALUES, equal_nan=True)
    assert tensor.row_names[0] == (("x", "y") if has_names else None)


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
