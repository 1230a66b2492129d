"""Files become labelled tensors by their extension, or one sentence says what is wrong."""

import gzip
import io
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

import thali
from support.bad_files import BAD_FILES, MTX, tenx
from thali.bits import PackedTensor
from thali.data import BinaryTensor, Packed, Pattern
from thali.data.readers import arrays, cell_blocks, text
from thali.data.readers.files import read
from thali.errors import InvalidValue
from thali.sentences import say

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


# --- tricky tables -------------------------------------------------------------------------------


def write(path, content, name="t.csv"):
    path = path / name
    octets = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(octets) if path.suffix == ".gz" else octets)
    return path


TABLE = np.array([[0.0, 1.0], [1.0, np.nan]])


@pytest.mark.parametrize(
    ("content", "rows", "columns"),
    [
        (b"\xef\xbb\xbfn,a,b\nx,0,1\ny,1,\n", "xy", "ab"),
        ("n,a,b\r\nx,0,1\r\ny,1,\r\n", "xy", "ab"),
        ("n,a,b\rx,0,1\ry,1,\r", "xy", "ab"),
        ("n,a,b\nx,0,1\ny,1,NA", "xy", "ab"),
        ("\n\nn,a,b\n\nx,0,1\n  \ny,1,\n\n\n", "xy", "ab"),
        ("n,a,b,\nx,0,1,\ny,1,,\n", "xy", "ab"),
        (" n , a,b\nx , 0, 1\ny,\t1 ,nan\n", "xy", "ab"),
        ('"n","a","b"\n"x","0","1"\n"y","1",""\n', "xy", "ab"),
        ('n,"a,1","b\n2"\n"x ""1""",0,1\n"y",1,\n', ['x "1"', "y"], ["a,1", "b\n2"]),
        ("n,a,b\nx,0,1\nx,1,\n", "xx", "ab"),
        ("tier,größe,尾\nlöwe,0,1\n猫,1,\n", ["löwe", "猫"], ["größe", "尾"]),
        ("n,a,b\nx,0.0,1e0\ny,+1.000,null\n", "xy", "ab"),
        ("n,a,b\nx,FALSE,true\ny,True,None\n", "xy", "ab"),
        (",2010,2011\n1,0,1\n2,1,\n", "12", ["2010", "2011"]),
        ("a,b\n0,1\n1,\n", None, "ab"),
        ("2,5\n0,1\n1,\n", None, "25"),
    ],
    ids=[
        "BOM",
        "CRLF",
        "CR",
        "unended",
        "blank-lines",
        "trailing",
        "blanks",
        "quoted",
        "quotes-within",
        "duplicates",
        "unicode",
        "floats",
        "booleans",
        "unnamed",
        "no-row-names",
        "numbers-as-names",
    ],
)
def test_tricky_tables(tmp_path, content, rows, columns):
    """Tables as programs and people write them are read as they are meant."""
    for name in ("t.csv", "t.csv.gz"):
        tensor = read(write(tmp_path, content, name))
        assert np.array_equal(ternary(tensor), TABLE, equal_nan=True)
        assert tensor.row_names == (None if rows is None else tuple(rows), tuple(columns))


def test_matrix_without_names(tmp_path):
    """A first line that repeats itself can only hold entries; otherwise the user says so."""
    tensor = read(write(tmp_path, "0,1,1\n1,0,\n"))
    assert tensor.row_names == (None, None)
    assert np.array_equal(ternary(tensor), [[0, 1, 1], [1, 0, np.nan]], equal_nan=True)
    assert read(write(tmp_path, "x,0,1,1\ny,1,0,0\n")).row_names == (("x", "y"), None)
    path = write(tmp_path, "0,1\n1,0\n")
    assert read(path, kind="matrix").shape == (2, 2)
    assert read(path, kind="table").row_names == (None, ("0", "1"))
    assert read(write(tmp_path, "1 0  1\n0 1 1\n", "t.txt"), kind="matrix").n_ones == 4


def test_one_column(tmp_path):
    """A table of one column is a matrix, too."""
    assert read(write(tmp_path, "a\n0\n1\n")).shape == (2, 1)
    assert read(write(tmp_path, "1\n1\n0\n"), kind="matrix").shape == (3, 1)


def test_columns_without_names_are_counted(tmp_path):
    """From 1, as lines are, with the column of row names."""
    assert_refused(write(tmp_path, "0,1\n0,x\n"), "'x' at line 2, column 2;", kind="matrix")
    assert_refused(write(tmp_path, ",a,\nn,0,x\n"), "an entry in the last column")


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


def test_binarize_does_not_swallow_names(tmp_path):
    """A header of numbers, or a column that counts, would become ones without a word."""
    path = write(tmp_path, "2010,2011\n0,7\n3,0\n")
    assert_refused(path, "first line holds entries", binarize=0)
    assert read(path, binarize=0, kind="table").row_names[1] == ("2010", "2011")
    assert read(path, binarize=0, kind="matrix").n_ones == 4
    path = write(tmp_path, "id,a,b\n1,0,7\n2,3,0\n3,0,0\n")
    assert_refused(path, "first column, 'id', counts the lines", binarize=0)
    assert read(path, binarize=0, kind="table").n_ones == 5


# --- pairs and baskets ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "rows", "columns", "modes"),
    [
        (
            "user,item\nann,tea\nbob,tea\nann,milk\nann,tea\n",
            {},
            "ann bob",
            "tea milk",
            "user item",
        ),
        ("Row,Column,Value\nx,p,1\ny,p,true\nx,q,1\ny,q,0\n", {}, "x y", "p q", "Row Column"),
        (
            "userId,itemId,rating\n7,2,5\n10,2,4\n7,9,3\n10,9,1\n",
            {"binarize": 2},
            "7 10",
            "2 9",
            "userId itemId",
        ),
        ("7,9\n10,2\n7,2\n", {"kind": "pairs"}, "7 10", "2 9", "row column"),
        ("a,p,1\nb,p,1\na,q,1\n", {"kind": "pairs"}, "a b", "p q", "row column"),
        ("who,what,much\na,p,1\nb,p,1\na,q,1\n", {"kind": "pairs"}, "a b", "p q", "who what"),
        ("who,what\na,p\nb,p\na,q\n", {"kind": "pairs"}, "a b", "p q", "who what"),
        ("row,column\nrow,p\nb,p\nrow,column\n", {}, "row b", "p column", "row column"),
        ("user,item\n0,0\n1,0\n0,1\n", {"kind": "pairs"}, "0 1", "0 1", "user item"),
        ('user,item\n"a, b",p\nc,p\n"a, b",q\n', {}, None, "p q", "user item"),
    ],
    ids=[
        "names",
        "values",
        "ratings",
        "numbers",
        "unnamed",
        "other-names",
        "other-two-names",
        "names-that-come-again",
        "digits",
        "quoted",
    ],
)
def test_pairs(tmp_path, content, options, rows, columns, modes):
    """Pairs give the places of the ones; all that is not listed is zero."""
    tensor = read(write(tmp_path, content), **options)
    rows = ("a, b", "c") if rows is None else tuple(rows.split())
    assert tensor.row_names == (rows, tuple(columns.split()))
    assert tensor.mode_names == tuple(modes.split())
    assert np.array_equal(ternary(tensor), [[1, 1], [1, 0]])


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("ann,tea\nbob,milk\nann,milk\n", "'ann'"),
        ("ann,tea\nbob,tea\n", "'tea'"),
        ("ann,7\nann,8\n", "'ann'"),
        ('"a ""b""",p\n"a ""b""",q\n', "'a \"b\"'"),
    ],
    ids=["row", "column", "number", "quoted"],
)
def test_a_first_pair_is_not_taken_for_a_header(tmp_path, content, name):
    """A name of the first line that comes again may be a pair's: nothing is lost in silence."""
    path = write(tmp_path, content)
    assert_refused(path, f"read as a header, and {name} comes again below it", kind="pairs")
    whole = read(write(tmp_path, "row,column\n" + content))
    assert whole.n_ones == content.count("\n")


def test_unknown_pairs(tmp_path):
    """A pair with an unknown value is unknown, also where another line says one."""
    tensor = read(write(tmp_path, "row,column,value\nx,p,1\ny,p,NA\nx,q,\nx,q,1\ny,q,0\n"))
    assert np.array_equal(ternary(tensor), [[1, np.nan], [np.nan, 0]], equal_nan=True)


def test_missing_is_for_values_of_pairs(tmp_path):
    """Pairs of two columns have nothing that could be unknown; a third column has."""
    path = write(tmp_path, "user,item\nann,tea\nbob,milk\n")
    assert_refused(path, "missing=('0',) was given for pairs of two columns", missing=["0"])
    assert_refused(path, "binarize=0 was given for pairs of two columns", binarize=0)
    path = write(tmp_path, "user,item,value\nann,tea,1\nbob,tea,0\nbob,milk,1\n")
    tensor = read(path, missing=["0"])
    assert np.array_equal(ternary(tensor), [[1, 0], [np.nan, 1]], equal_nan=True)


def test_pairs_of_parquet(tmp_path):
    """Pairs may be in a Parquet file."""
    pairs = pd.DataFrame({"user": ["a", "b", "a"], "item": [3, 3, 11], "rating": [1, 5, 2]})
    pairs.to_parquet(tmp_path / "t.parquet", index=False)
    tensor = read(tmp_path / "t.parquet", binarize=1)
    assert tensor.row_names == (("a", "b"), ("3", "11"))
    assert np.array_equal(ternary(tensor), [[0, 1], [1, 0]])
    pairs[["item", "rating"]].to_parquet(tmp_path / "p.parquet", index=False)
    assert read(tmp_path / "p.parquet", kind="pairs").shape == (2, 3)
    again = pd.DataFrame({"who": ["who", "b"], "what": ["p", "what"]})  # a header beyond doubt
    again.to_parquet(tmp_path / "p.parquet", index=False)
    assert read(tmp_path / "p.parquet", kind="pairs").row_names == (("who", "b"), ("p", "what"))


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("tea milk\n\nbread  tea \n", "tea milk bread"),
        ("whole milk, tea\nbread,whole milk,\n", ["whole milk", "tea", "bread"]),
        ("10 2\n33 10\n", "2 10 33"),
        ("tea\tmilk\r\nbread\ttea\r\n", "tea milk bread"),
    ],
    ids=["blanks", "commas", "numbers", "tabs"],
)
@pytest.mark.parametrize("suffix", ["basket", "dat", "txt.gz"])
def test_baskets(tmp_path, content, names, suffix):
    """One basket a line; a comma anywhere means that names may hold blanks."""
    tensor = read(write(tmp_path, content, f"t.{suffix}"))
    names = tuple(names.split() if isinstance(names, str) else names)
    assert tensor.row_names == (None, names)
    baskets = [[names[i] for i in np.flatnonzero(row)] for row in ternary(tensor)]
    separator = "," if "," in content else None
    lines = [line.strip(" ,") for line in content.splitlines() if line.strip()]
    assert [set(b) for b in baskets] == [{p.strip() for p in x.split(separator)} for x in lines]


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


# --- Matrix Market, 10x Genomics, AnnData --------------------------------------------------------


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
    assert_refused(tmp_path, "has 1 lines for 2", binarize=0)
    write(tmp_path, b"\xff\n", barcodes.name)
    assert_refused(tmp_path, f"{tmp_path}: {barcodes.name}: line 1", binarize=0)
    barcodes.write_bytes(gzip.compress(b"AAC-1\n")[:-9] if is_packed else b"A\xff\n")
    assert_refused(tmp_path, f"{tmp_path}: {barcodes.name}: ", binarize=0)
    barcodes.unlink()
    assert_refused(tmp_path, "no barcodes.tsv", binarize=0)


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


# --- Parquet and runs ----------------------------------------------------------------------------


def test_parquet(tmp_path):
    """A table with missing entries; pandas' index or a first column of text names the rows."""
    table = pd.DataFrame({"a": [True, False], "b": [1, None]}, index=["x", "y"])
    table.to_parquet(tmp_path / "t.parquet")
    tensor = read(tmp_path / "t.parquet")
    assert np.array_equal(ternary(tensor), [[1, 1], [0, np.nan]], equal_nan=True)
    assert tensor.row_names == (("x", "y"), ("a", "b"))
    table.reset_index(names="animal").to_parquet(tmp_path / "t.parquet", index=False)
    tensor = read(tmp_path / "t.parquet")
    assert (tensor.row_names[0], tensor.mode_names[0]) == (("x", "y"), "animal")
    table.reset_index(drop=True).to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").row_names == (None, ("a", "b"))


@pytest.mark.parametrize("has_names", [True, False])
def test_data_of_a_run(tmp_path, has_names):
    """The data that a run keeps can be read like any other file."""
    data = pd.DataFrame(VALUES, index=["x", "y"]) if has_names else VALUES
    run = {"warmup": 0, "draws": 1, "chains": 1, "progress": False, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thali.sample(data, out=tmp_path / "run", **run)
    tensor = read(tmp_path / "run" / "data.npz")
    assert np.array_equal(ternary(tensor), VALUES, equal_nan=True)
    assert tensor.row_names[0] == (("x", "y") if has_names else None)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make", "fragment"),
    [row[1:] for row in BAD_FILES],
    ids=[row[0].replace(" ", "-") for row in BAD_FILES],
)
def test_bad_files(tmp_path, name, make, fragment):
    """Bad content is refused in one line that names the file and the reason."""
    (tmp_path / name).write_bytes(make())
    assert_refused(tmp_path / name, fragment)


def assert_refused(path, reason, **options):
    with pytest.raises(ValueError, match=re.escape(say(reason))) as caught:
        read(path, **options)
    message = str(caught.value)
    assert type(caught.value) is InvalidValue
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
