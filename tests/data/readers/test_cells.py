"""Cells by genes are read from AnnData's files and from those of 10x Genomics."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from support.bad_files import tenx
from support.data_files import assert_refused, ternary
from thali.data.readers import arrays, cell_blocks
from thali.data.readers.files import read


def test_10x_file(tmp_path):
    """The same as a file of theirs."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        tenx([4, 1, 1], [0, 2, 1], [0, 2, 3], (3, 2))(file)
    tensor = read(tmp_path / "t.h5", binarize=0)
    assert np.array_equal(ternary(tensor), [[1, 0, 1], [0, 1, 0]])
    assert tensor.row_names == (("cell0", "cell1"), ("gene0", "gene1", "gene2"))


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("ending", ["h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore")  # of anndata, about itself
def test_anndata(tmp_path, make, ending, monkeypatch):
    """X or a layer of what anndata writes, dense or sparse."""
    anndata = pytest.importorskip("anndata")
    for module in (cell_blocks, arrays):
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", 5)
    counts = np.array([[0.0, 2.0, np.nan], [1.0, 0.0, 0.0], [0.0, 0.0, 7.0], [1.0, 1.0, 0.0]])
    frame = pd.DataFrame(index=["c1", "c2", "c3", "c4"])
    data = anndata.AnnData(make(counts), obs=frame, var=pd.DataFrame(index=["g", "g2", "g3"]))
    data.layers["binary"] = make((counts > 0).astype(np.float32))
    path = tmp_path / f"t.{ending}"
    (data.write_h5ad if ending == "h5ad" else data.write_zarr)(path)
    tensor = read(path, binarize=1)
    expected = np.where(np.isnan(counts), np.nan, counts > 1)
    assert np.array_equal(ternary(tensor), expected, equal_nan=True)
    assert tensor.row_names == (("c1", "c2", "c3", "c4"), ("g", "g2", "g3"))
    assert np.array_equal(ternary(read(path, layer="binary")), counts > 0)
    assert_refused(path, "holds 2.0 at (0, 1), cell 'c1' and gene 'g2'")
    assert_refused(path, "layer='logs' was given; its layers are ['binary']", layer="logs")
