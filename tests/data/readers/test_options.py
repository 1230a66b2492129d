"""Options on what entries mean hold for all formats that have such entries, and no others."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

from support.data_files import assert_refused, ternary, write
from thali.data.readers.files import read


def test_missing(tmp_path):
    """Further strings mean unknown, whatever else they would mean; text around them does not."""
    path = write(tmp_path, "n,a,b\nx,0,?\ny,-9,1\nz,1,-9.0\n")
    assert_refused(path, "holds '?' at line 2, column 'b'; allowed")
    assert_refused(path, "holds -9 at line 3, column 'a'; allowed", missing=["?"])
    assert_refused(path, "holds -9.0 at line 4, column 'b'", missing=["?", "-9"])
    tensor = read(path, missing=["?", "-9", "-9.0"])
    assert (tensor.n_known, tensor.n_ones) == (3, 2)
    assert read(path, missing=["?", "-9"], binarize=-10).n_ones == 4
    with pytest.raises(TypeError, match="a list of strings"):
        read(path, missing=[9])


def test_binarize(tmp_path):
    """Numbers above the threshold are ones, in every format that holds numbers."""
    counts = np.array([[0.0, 3.5, np.nan, 1.0], [2.0, 0.0, 0.0, 1e9], [0.25, 0.0, 1.0, 0.0]])
    text = "\n".join(",".join("" if np.isnan(v) else str(v) for v in row) for row in counts)
    np.save(tmp_path / "t.npy", counts)
    np.save(tmp_path / "deep.npy", counts[..., None])
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(counts))
    pd.DataFrame(counts, columns=list("abcd")).to_parquet(tmp_path / "t.parquet")
    mmwrite(tmp_path / "t.mtx", sparse.coo_array(counts))
    paths = [write(tmp_path, f"a,b,c,d\n{text}\n"), *tmp_path.glob("t.[nmp]*")]
    assert len(paths) == 5
    for threshold in (0, 0.25, 1, 3):
        expected = np.where(np.isnan(counts), np.nan, counts > threshold)
        for path in paths:
            tensor = read(path, binarize=threshold)
            assert np.array_equal(ternary(tensor), expected, equal_nan=True), path
            turned = read(path, binarize=threshold, transpose=True)
            assert np.array_equal(ternary(turned), expected.T, equal_nan=True), path
            assert turned.row_names == tensor.row_names[::-1]
        deep = read(tmp_path / "deep.npy", binarize=threshold)
        assert np.array_equal(ternary(deep)[..., 0], expected, equal_nan=True)
    for path in paths:
        assert_refused(path, "give `binarize`")
        with pytest.raises(ValueError, match="binarize=nan was given"):
            read(path, binarize=np.nan)
    for name in ("t.mtx", "t.npz"):
        assert_refused(tmp_path / name, "its zeros would all become ones", binarize=-1)


def test_baskets_take_no_numbers(tmp_path):
    """Options that mean nothing for a format are refused, not ignored."""
    path = write(tmp_path, "a b\nc\n", "t.txt")
    assert_refused(path, "binarize=1 was given for baskets", binarize=1)
    assert_refused(path, "missing=('?',) was given for baskets", missing=["?"])
    assert_refused(path, "it is for AnnData files", layer="x")
    np.save(tmp_path / "t.npy", np.eye(2))
    assert_refused(tmp_path / "t.npy", "it is for text", missing=["?"])
    assert_refused(tmp_path / "t.npy", "kind='pairs' was given", kind="pairs")
    with pytest.raises(ValueError, match="kind='heap' was given; allowed are 'table', 'matrix'"):
        read(path, kind="heap")
