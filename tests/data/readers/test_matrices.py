"""Matrix Market files, alone or in a folder of 10x Genomics, list entries by position."""

import gzip
import io

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmwrite

from support.bad_files import MTX
from support.data_files import assert_refused, ternary, write
from thali.bits import PackedTensor
from thali.data import BinaryTensor, Packed, Pattern
from thali.data.readers import text
from thali.data.readers.files import read


@pytest.mark.parametrize("density", [0.002, 0.3])
@pytest.mark.parametrize("name", ["t.mtx", "t.mtx.gz"])
def test_matrix_market(tmp_path, density, name, monkeypatch):
    """SciPy's own files give SciPy's matrix, as positions or packed, whatever is smaller."""
    monkeypatch.setattr(text, "_BLOCK_BYTES", 100)
    rng = np.random.default_rng(1)
    dense = (rng.random((40, 1300)) < density).astype(int)
    buffer = io.BytesIO()
    mmwrite(buffer, sparse.coo_array(dense))
    tensor = read(write(tmp_path, buffer.getvalue(), name))
    assert isinstance(tensor.ones, Pattern if density < 0.01 else Packed)
    assert np.array_equal(ternary(tensor), dense)
    assert np.array_equal(ternary(tensor.transposed()), dense.T)
    packed = PackedTensor.from_tensor(tensor)
    again = PackedTensor.from_tensor(BinaryTensor.from_any(dense))
    for ours, theirs in zip(packed.unfoldings, again.unfoldings, strict=True):
        assert np.array_equal(ours.ones, theirs.ones)


@pytest.mark.parametrize(
    ("banner", "body", "expected"),
    [
        ("coordinate pattern general", "2 3 2\n1 3\n2 1\n", [[0, 0, 1], [1, 0, 0]]),
        ("coordinate pattern symmetric", "2 2 2\n1 1\n2 1\n", [[1, 1], [1, 0]]),
        ("coordinate real general", "% note\n\n1 2 2\n1 1 nan\n1 2 1.0\n", [[np.nan, 1]]),
        ("array integer general", "2 2\n1\n0\n0\n1\n", [[1, 0], [0, 1]]),
        ("array integer general", "2 3\n1\n1\n0\n0\n1\n0\n", [[1, 0, 1], [1, 0, 0]]),
        ("coordinate integer general", "2 2 3\n1 1 1\n1 1 1\n2 2 0\n", [[1, 0], [0, 0]]),
    ],
    ids=["pattern", "symmetric", "unknown", "array", "wide-array", "repeated"],
)
def test_kinds_of_matrix_market(tmp_path, banner, body, expected):
    """The kinds of matrices that the format knows, as far as they can hold zeros and ones."""
    path = write(tmp_path, f"%%MatrixMarket matrix {banner}\n{body}", "t.mtx")
    assert np.array_equal(ternary(read(path)), expected, equal_nan=True)


def tenx_folder(folder, *, is_packed):
    end = ".gz" if is_packed else ""
    lines = MTX + "3 2 3\n1 1 4\n3 1 1\n2 2 1\n"
    write(folder, lines, f"matrix.mtx{end}")
    write(folder, "AAC-1\nTTG-1\n", f"barcodes.tsv{end}")
    genes = "E1\tCD3\tGene Expression\nE2\tCD3\tGene Expression\nE3\tMS4A1\tGene Expression\n"
    write(folder, genes, f"features.tsv{end}" if is_packed else "genes.tsv")


@pytest.mark.parametrize("is_packed", [False, True])
def test_folder(tmp_path, is_packed):
    """A folder of 10x Genomics' form gives cells in rows, by the names of its genes."""
    tenx_folder(tmp_path, is_packed=is_packed)
    tensor = read(tmp_path, binarize=0)
    assert np.array_equal(ternary(tensor), [[1, 0, 1], [0, 1, 0]])
    assert tensor.row_names == (("AAC-1", "TTG-1"), ("CD3", "CD3", "MS4A1"))
    assert tensor.mode_names == ("cell", "gene")
    assert read(tmp_path, binarize=1).n_ones == 1
    assert read(tmp_path, binarize=0, transpose=True).shape == (3, 2)
    end = ".gz" if is_packed else ""
    assert_refused(tmp_path, f"{tmp_path}: matrix.mtx{end}: it holds 4 at line 3")
    barcodes = tmp_path / ("barcodes.tsv.gz" if is_packed else "barcodes.tsv")
    write(tmp_path, "AAC-1\n", barcodes.name)
    assert_refused(tmp_path, "has 1 line for 2", binarize=0)
    write(tmp_path, b"\xff\n", barcodes.name)
    assert_refused(tmp_path, f"{tmp_path}: {barcodes.name}: line 1", binarize=0)
    barcodes.write_bytes(gzip.compress(b"AAC-1\n")[:-9] if is_packed else b"A\xff\n")
    assert_refused(tmp_path, f"{tmp_path}: {barcodes.name}: ", binarize=0)
    barcodes.unlink()
    assert_refused(tmp_path, "no barcodes.tsv", binarize=0)
