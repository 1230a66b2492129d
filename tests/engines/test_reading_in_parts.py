"""Every process reads its own rows of a file; together they have what one process reads."""

import json
from pathlib import Path
from time import sleep

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse

from support.data_files import ternary
from support.thread_ranks import on_ranks
from thali.bits import PackedTensor
from thali.data.entries import Shared
from thali.data.readers import arrays, cell_blocks, parquet, stored
from thali.data.readers.files import read
from thali.data.readers.packed import write_packed
from thali.engines.cluster.engine import ClusterEngine
from thali.engines.cluster.parts import share
from thali.engines.cluster.reading import fingerprint, read_shared
from thali.errors import InvalidValue, ThaliError

N_ROWS, N_COLUMNS = 200, 70


def values(*, unknown, n_rows=N_ROWS):
    """Return zeros and ones, with unknown entries in the last rows only if there are any."""
    rng = np.random.default_rng(3)
    out = (rng.random((n_rows, N_COLUMNS)) < 0.3).astype(np.float64)
    if unknown:
        out[n_rows * 2 // 3 :][rng.random((n_rows - n_rows * 2 // 3, N_COLUMNS)) < 0.2] = np.nan
    return out


def names(letter, n):
    return [f"{letter}{i}" for i in range(n)]


def write_array(path, dense):
    np.save(path, dense)


def write_by_column(path, dense):
    np.save(path, np.asfortranarray(dense))


def write_tensor(path, dense):
    np.save(path, dense.reshape(len(dense), 10, 7))


def write_archive(path, dense):
    np.savez_compressed(path, dense)


def write_parquet(path, dense):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(dense, names("r", len(dense)), names("c", dense.shape[1]))
    frame.to_parquet(path, row_group_size=48)


def write_unnamed(path, dense):
    pytest.importorskip("pyarrow")
    pd.DataFrame(dense, columns=names("c", dense.shape[1])).to_parquet(path, row_group_size=70)


def write_cells(make):
    def write(path, dense):
        anndata = pytest.importorskip("anndata")
        axes = (pd.DataFrame(index=names(a, n)) for a, n in zip("cg", dense.shape, strict=True))
        cells = anndata.AnnData(make(dense), **dict(zip(("obs", "var"), axes, strict=True)))
        (cells.write_h5ad if path.suffix == ".h5ad" else cells.write_zarr)(path)

    return write


def write_10x(path, dense):
    h5py = pytest.importorskip("h5py")
    rows = sparse.csr_matrix(dense)
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(rows, name)
        group["shape"] = dense.shape[::-1]
        group["barcodes"] = names("b", len(dense))
        group.create_group("features")["name"] = names("g", dense.shape[1])


def write_mtx(path, dense):
    io.mmwrite(path, sparse.coo_matrix(dense))  # NaN is written as nan


def write_symmetric(path, dense):
    square = np.triu(dense[-N_COLUMNS:])
    lines = [f"{j + 1} {i + 1} {square[i, j]}" for i, j in np.argwhere(square != 0)]
    head = f"%%MatrixMarket matrix coordinate real symmetric\n{N_COLUMNS} {N_COLUMNS}"
    path.write_text("\n".join([f"{head} {len(lines)}", *lines]) + "\n")


def write_folder(path, dense):
    path.mkdir()
    io.mmwrite(path / "matrix.mtx", sparse.coo_matrix(dense.T))
    for name, letter, n in zip(("barcodes", "genes"), "bg", dense.shape, strict=True):
        (path / f"{name}.tsv").write_text("\n".join(names(letter, n)) + "\n")


FORMATS = {
    "array": ("t.npy", write_array),
    "array by column": ("t.npy", write_by_column),
    "tensor": ("t.npy", write_tensor),
    "archive": ("t.npz", write_archive),
    "parquet": ("t.parquet", write_parquet),
    "parquet without names": ("t.parquet", write_unnamed),
    "dense h5ad": ("t.h5ad", write_cells(np.asarray)),
    "sparse h5ad": ("t.h5ad", write_cells(sparse.csr_matrix)),
    "h5ad by column": ("t.h5ad", write_cells(sparse.csc_matrix)),
    "dense zarr": ("t.zarr", write_cells(np.asarray)),
    "sparse zarr": ("t.zarr", write_cells(sparse.csr_matrix)),
    "10x": ("t.h5", write_10x),
    "mtx": ("t.mtx", write_mtx),
    "symmetric mtx": ("t.mtx", write_symmetric),
    "10x folder": ("t", write_folder),
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of a few rows, so that parts begin and end inside them."""
    for module in (arrays, cell_blocks, parquet):
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", 9 * N_COLUMNS)


@pytest.mark.filterwarnings("ignore")  # of anndata, about itself
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_parts_are_the_whole(form, unknown, tmp_path):
    """One to three processes: rows, names and counts are those of the ordinary reader."""
    name, write = FORMATS[form]
    path = tmp_path / name
    write(path, values(unknown=unknown))
    expected = read(path)
    whole = PackedTensor.from_tensor(expected)
    for n in (1, 2, 3):
        found = on_ranks(n, lambda ranks: read_shared(path, ranks))
        assert found[0].row_names == expected.row_names
        for tensor in found:
            assert isinstance(tensor.ones, Shared)
            assert tensor.mode_names == expected.mode_names
            assert (tensor.shape, tensor.n_ones) == (expected.shape, expected.n_ones)
            assert tensor.n_known == expected.n_known
            assert (tensor.unknown is None) == (expected.unknown is None)
        ones = np.concatenate([tensor.ones.words for tensor in found])
        assert np.array_equal(ones, whole.unfoldings[0].ones)
        if expected.unknown is not None:
            known = np.concatenate([tensor.unknown.words for tensor in found])
            assert np.array_equal(known, whole.unfoldings[0].known)
        assert len(found[-1].ones.words) <= -(-len(ones) // n) + 64


def test_what_needs_all_rows_reads_them(tmp_path):
    """Such as the copy in a run; they can be forgotten again."""
    path = tmp_path / "t.npy"
    np.save(path, values(unknown=True))
    expected = read(path)

    def whole(ranks):
        tensor = read_shared(path, ranks)
        packed = PackedTensor.from_tensor(tensor)
        assert packed.has_mask
        words = packed.unfoldings[0]
        packed.release()
        assert not packed.unfoldings._made
        assert np.array_equal(ternary(tensor), ternary(expected), equal_nan=True)
        across = ternary(tensor.transposed())
        assert np.array_equal(across, ternary(expected).T, equal_nan=True)
        return words

    for ones, known in on_ranks(2, whole):
        first = PackedTensor.from_tensor(expected).unfoldings[0]
        assert np.array_equal(ones, first.ones)
        assert np.array_equal(known, first.known)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", ["t.csv", "t.packed", "t.npy"])
def test_what_cannot_be_read_in_parts(name, unknown, tmp_path, monkeypatch):
    """The first process reads and sends text and transposed data; packed files are mapped."""
    monkeypatch.setattr("thali.engines.cluster.reading._PIECE", 500)
    path, dense = tmp_path / name, values(unknown=unknown)
    if name == "t.csv":
        pd.DataFrame(dense, names("r", N_ROWS), names("c", N_COLUMNS)).to_csv(path)
    else:
        np.save(tmp_path / "t.npy", dense)
    if name == "t.packed":
        tensor = read(tmp_path / "t.npy")
        with path.open("wb") as file:
            write_packed(file, tensor, *PackedTensor.from_tensor(tensor).unfoldings[0])
    options = {"transpose": True} if name == "t.npy" else {}
    expected = read(path, **options)
    unfoldings = PackedTensor.from_tensor(expected).unfoldings

    def run(ranks):
        tensor = read_shared(path, ranks, **options)
        assert (tensor.shape, tensor.n_ones) == (expected.shape, expected.n_ones)
        assert (tensor.mode_names, tensor.n_known) == (expected.mode_names, expected.n_known)
        assert isinstance(tensor.ones, Shared) == (name != "t.packed")
        assert tensor.row_names == expected.row_names or ranks.number
        packed = PackedTensor.from_tensor(tensor)
        return share(packed, ranks)[0], packed.unfoldings[0]

    for n in (1, 3):
        found = on_ranks(n, run)
        for mode in range(2):
            for which in ("ones", "known") if unknown else ("ones",):
                parts = np.concatenate([getattr(part[mode], which) for part, _ in found])
                assert np.array_equal(parts, getattr(unfoldings[mode], which))
        assert all(np.array_equal(whole.ones, unfoldings[0].ones) for _, whole in found)


def test_an_error_of_the_first_process_alone(tmp_path):
    """Others do not read text, and raise its error, too."""
    (tmp_path / "t.csv").write_text("a,b\n0,1\n1,7\n")
    told = []

    def run(ranks):
        with pytest.raises(InvalidValue) as error:
            read_shared(tmp_path / "t.csv", ranks)
        told.append(str(error.value))

    on_ranks(3, run)
    assert len(set(told)) == 1
    assert "7" in told[0]


def test_more_processes_than_words_of_rows(tmp_path):
    """Some processes have no rows at all."""
    path = tmp_path / "t.npy"
    np.save(path, values(unknown=True, n_rows=70))
    found = on_ranks(3, lambda ranks: read_shared(path, ranks))
    assert sorted(len(tensor.ones.words) for tensor in found) == [0, 6, 64]
    engines = on_ranks(3, lambda ranks: ClusterEngine(ranks, 1, "cpu").load(
        PackedTensor.from_tensor(read_shared(path, ranks))))  # fmt: skip
    assert {engine.totals for engine in engines} == {PackedTensor.from_tensor(read(path)).totals()}


def test_one_header_at_a_time(monkeypatch, tmp_path):
    """Threads that parse headers at the same time can fail in Python 3.11."""
    path, inside, most = tmp_path / "t.npy", [], []
    np.save(path, values(unknown=True, n_rows=70))
    right = stored._HEADERS[1, 0]

    def slow(file):
        inside.append(1)
        most.append(len(inside))
        sleep(0.02)
        inside.pop()
        return right(file)

    monkeypatch.setitem(stored._HEADERS, (1, 0), slow)
    on_ranks(3, lambda ranks: read_shared(path, ranks))
    assert len(most) >= 3
    assert set(most) == {1}


@pytest.mark.filterwarnings("ignore")  # of anndata, about itself
@pytest.mark.parametrize("form", FORMATS)
def test_processes_without_rows(form, tmp_path):
    """Whatever the format."""
    name, write = FORMATS[form]
    write(tmp_path / name, values(unknown=True, n_rows=75))
    whole = PackedTensor.from_tensor(read(tmp_path / name)).unfoldings[0]
    found = on_ranks(4, lambda ranks: read_shared(tmp_path / name, ranks))
    assert np.array_equal(np.concatenate([tensor.ones.words for tensor in found]), whole.ones)


def test_a_folder_that_only_the_first_process_sees(tmp_path):
    """The others must not wait for something else than the first."""
    write_folder(tmp_path / "t0", values(unknown=False))
    with pytest.raises(ThaliError, match="t1: files ending in '' were not expected"):
        on_ranks(2, lambda ranks: read_shared(tmp_path / f"t{ranks.number}", ranks))


def test_names_of_too_few_rows(tmp_path):
    """As many as one process has rows are still too few."""
    h5py = pytest.importorskip("h5py")
    write_10x(tmp_path / "t.h5", values(unknown=False, n_rows=128))
    with h5py.File(tmp_path / "t.h5", "a") as file:
        del file["matrix/barcodes"]
        file["matrix/barcodes"] = names("b", 64)
    with pytest.raises(ThaliError) as expected:
        read(tmp_path / "t.h5")
    with pytest.raises(ThaliError) as found:
        on_ranks(2, lambda ranks: read_shared(tmp_path / "t.h5", ranks))
    assert str(found.value) == str(expected.value)


def test_all_entries_unknown(tmp_path):
    """A part may have no known entry, but not the whole."""
    dense = values(unknown=False)
    dense[64:] = np.nan
    np.save(tmp_path / "t.npy", dense)
    found = on_ranks(3, lambda ranks: read_shared(tmp_path / "t.npy", ranks))
    assert found[0].n_known == 64 * N_COLUMNS
    np.save(tmp_path / "t.npy", np.full_like(dense, np.nan))
    with pytest.raises(ThaliError, match="are unknown; at least one known 0 or 1") as expected:
        read(tmp_path / "t.npy")
    with pytest.raises(ThaliError) as told:
        on_ranks(3, lambda ranks: read_shared(tmp_path / "t.npy", ranks))
    assert str(told.value) == str(expected.value)


@pytest.mark.filterwarnings("ignore")  # of anndata, about itself
@pytest.mark.parametrize(
    "form", ["array", "array by column", "tensor", "parquet", "dense h5ad", "sparse h5ad"]
)
def test_a_bad_value_in_the_rows_of_one_process(form, tmp_path):
    """All processes raise the error that one process raises alone, with the row in the file."""
    name, write = FORMATS[form]
    dense = values(unknown=False)
    dense[150, 7] = 7
    write(tmp_path / name, dense)
    with pytest.raises(ThaliError) as expected:
        read(tmp_path / name)
    told = []

    def run(ranks):
        try:
            read_shared(tmp_path / name, ranks)
        except ThaliError as error:
            told.append(str(error))

    on_ranks(3, run)
    assert told == [str(expected.value)] * 3
    assert "holds 7.0 at (150" in told[0]


def test_a_file_that_one_process_cannot_read(tmp_path):
    np.save(tmp_path / "t0.npy", np.eye(80))
    (tmp_path / "t1.npy").write_bytes(b"nothing of this kind")
    told = []

    def run(ranks):
        with pytest.raises(InvalidValue) as error:
            read_shared(tmp_path / f"t{ranks.number}.npy", ranks)
        told.append(str(error.value))

    on_ranks(2, run)
    assert told[0] == told[1]
    assert "t1.npy: the file could not be read (it does not begin as arrays do)" in told[0]


def test_processes_that_see_different_files(tmp_path):
    for number in range(2):
        np.save(tmp_path / f"t{number}.npy", values(unknown=False) == number)
    with pytest.raises(InvalidValue, match="process 1 of 2 has other data than process 0"):
        on_ranks(2, lambda ranks: read_shared(tmp_path / f"t{ranks.number}.npy", ranks))


def test_fingerprint(tmp_path):
    """It depends on names, sizes and bytes; a folder of many files is compared as well."""
    for number in range(600):
        (tmp_path / f"{number}").write_text(json.dumps(number))
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    (tmp_path / "0").write_text("1")
    assert fingerprint(tmp_path) != before
    large = Path(tmp_path / "large")
    large.write_bytes(bytes(3_000_000))
    whole = fingerprint(large)
    large.write_bytes(bytes(2_999_999) + b"1")
    assert fingerprint(large) != whole
