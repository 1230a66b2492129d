"""Sparse matrices become lists of positions, on as many threads as the caller allows."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import thali
from support.ternary_inputs import FORMATS, UNKNOWN, ternary
from thali import threads as thali_threads
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.data import sparse as data_sparse


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "lil", "dok"])
def test_huge_sparse_matrix_is_never_densified(name):
    rng = np.random.default_rng(1)
    shape = (200_000, 300_000)
    flat = rng.choice(shape[0] * shape[1] // 1000, 3000, replace=False) * 1000
    values = np.where(np.arange(3000) % 3 == 0, np.nan, 1.0)
    matrix = sparse.coo_array((values, np.divmod(flat, shape[1])), shape=shape).asformat(name)
    tracemalloc.start()
    try:
        read = BinaryTensor.from_any(matrix)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read.is_sparse
    assert read.shape == shape
    assert (read.n_ones, read.n_known) == (2000, shape[0] * shape[1] - 1000)
    assert peak < 20e6  # a few arrays of one number a row or column; dense it would be 60e9


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_compressed_rows_of_ones_are_the_callers_no_longer(dtype, index):
    """Their columns may come in any order; what the caller does to them later changes nothing."""
    matrix = sparse.csr_array((np.ones(3, dtype), [2, 0, 1], [0, 2, 2, 3]), shape=(3, 3))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    read = BinaryTensor.from_any(matrix)
    np.testing.assert_array_equal(read.ones.indptr, [0, 2, 2, 3])
    assert read.ones.indptr.dtype == np.int64
    assert read.ones.indices.dtype == np.int32
    assert matrix.indices.flags.writeable
    matrix.data[::2] = 0
    matrix.eliminate_zeros()  # moves columns inside their array
    matrix.indices[:] = 10**8
    np.testing.assert_array_equal(read.ones.indices, [2, 0, 1])
    packed = PackedTensor.from_tensor(read).unfoldings[0].ones[:, 0]
    np.testing.assert_array_equal(packed, [0b101, 0, 0b010])


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
@pytest.mark.parametrize("kind", ["sorted", "unsorted", "twice", "zeros", "unknown"])
def test_sparse_blocks_and_threads_change_nothing(kind, block, monkeypatch):
    """However few entries are looked at together, by however many threads."""
    rng = np.random.default_rng(3)
    codes = (rng.random((31, 40)) < 0.3).astype(int)
    codes[4:6] = 0
    matrix = sparse.csr_array(codes.astype(float))
    if kind == "unsorted":
        for lo, hi in pairwise(matrix.indptr):
            matrix.indices[lo:hi] = rng.permutation(matrix.indices[lo:hi])
    elif kind == "twice":  # 2 - 1 = 1, in the first row
        matrix = sparse.csr_array(
            (np.r_[2.0, -1.0, matrix.data[1:]], np.r_[matrix.indices[:1], matrix.indices],
             np.r_[0, matrix.indptr[1:] + 1]), shape=matrix.shape,
        )  # fmt: skip
    elif kind in ("zeros", "unknown"):
        where = matrix.indices % 3 == 0
        matrix.data[where] = np.nan if kind == "unknown" else 0
        codes[:, ::3] *= UNKNOWN if kind == "unknown" else 0
    monkeypatch.setattr(data_sparse, "_BLOCK", block)
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(matrix, threads=3)), codes)
    matrix.data[17] = 9
    row = np.searchsorted(matrix.indptr, 17, side="right") - 1
    with pytest.raises(ValueError, match=rf"holds 9.0 at \({row}, "):
        BinaryTensor.from_any(matrix, threads=3)


def test_stored_zeros_are_zeros():
    matrix = sparse.csr_array((np.array([0, 1]), [0, 1], [0, 2]), shape=(1, 2))
    read = BinaryTensor.from_any(matrix)
    assert (read.n_ones, read.n_known) == (1, 2)
    assert matrix.nnz == 2


def test_duplicates_sum_as_in_scipy():
    coordinates = ([0, 0, 1, 1], [1, 1, 0, 0])
    summed = sparse.coo_array(([2.0, -1.0, np.nan, 1.0], coordinates), shape=(2, 2))
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(summed)), [[0, 1], [UNKNOWN, 0]])
    assert summed.nnz == 4
    with pytest.raises(ValueError, match=r"holds 2 at \(0, 1\)"):
        BinaryTensor.from_any(sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(2, 2)))


def test_duplicates_in_csr_leave_the_input_alone():
    matrix = sparse.csr_array((np.array([2, -1]), [1, 1], [0, 2]), shape=(1, 2))
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(matrix)), [[0, 1]])
    np.testing.assert_array_equal(matrix.data, [2, -1])


def test_storage_beyond_what_is_used_is_ignored():
    matrix = sparse.csr_array((2, 3), dtype=float)
    matrix.data = np.array([1.0, 9.0])
    matrix.indices = np.array([2, 8], dtype=np.int32)
    matrix.indptr = np.array([0, 0, 1], dtype=np.int32)
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(matrix)), [[0, 0, 0], [0, 0, 1]])


def test_sparse_matrix_without_entries_is_all_zeros():
    read = BinaryTensor.from_any(sparse.csr_array((2, 3)))
    assert (read.n_ones, read.n_known, read.unknown) == (0, 6, None)


@pytest.mark.parametrize("name", FORMATS)
def test_bad_sparse_value_is_named(name):
    matrix = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 3]])).asformat(name)
    with pytest.raises(ValueError, match=r"holds 3 at \(1, 2\); allowed are 0, 1 and NaN"):
        BinaryTensor.from_any(matrix)


def test_sparse_input_of_other_arity_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\); at least 2 modes"):
        BinaryTensor.from_any(sparse.coo_array([0, 1, 0]))


@pytest.mark.parametrize(
    ("name", "values"),
    [("indices", [5, 0]), ("indices", [-1, 0]), ("indptr", [0, 2, 1]), ("indptr", [0, 1, 3])],
)
def test_corrupt_sparse_matrix_is_refused(name, values):
    matrix = sparse.csr_array((np.ones(2), [1, 0], [0, 1, 2]), shape=(2, 2))
    setattr(matrix, name, np.array(values, np.int32))
    with pytest.raises(ValueError, match="outside its columns"):
        BinaryTensor.from_any(matrix)


def test_sparse_frame_gives_a_named_sparse_tensor():
    matrix = sparse.eye_array(3, dtype=np.int8, format="csr")
    frame = pd.DataFrame.sparse.from_spmatrix(matrix, columns=["x", "y", "z"])
    read = BinaryTensor.from_any(frame)
    assert read.is_sparse
    assert read.row_names == (None, ("x", "y", "z"))
    np.testing.assert_array_equal(ternary(read), np.eye(3))


# ---------------------------------------------------------------------------------------------
# Threads
# ---------------------------------------------------------------------------------------------


def sparse_inputs():
    """Yield sparse input for every way through the reader: from plain ones to duplicates."""
    rng = np.random.default_rng(5)
    values = (rng.random((31, 40)) < 0.3).astype(float)
    values[0, :2] = 1.0
    plain = sparse.csr_array(values)
    yield plain
    yield sparse.csc_array(values)
    unsorted = plain.copy()
    unsorted.indices[:2] = unsorted.indices[1::-1].copy()
    unsorted.has_sorted_indices = False
    yield unsorted
    unknown = plain.copy()
    unknown.data[::3] = np.nan
    yield unknown
    yield sparse.coo_array(([2.0, -1.0, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    yield pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(values.astype(np.int8)))


@pytest.fixture
def asked(monkeypatch):
    """Record how many threads are asked for whenever work is shared, in blocks of one entry."""
    numbers = []

    def spy(kernel, n_rows, threads, *arguments, step=1):
        numbers.append(threads)
        return thali_threads.parallel_for(kernel, n_rows, threads, *arguments, step=step)

    monkeypatch.setattr(data_sparse, "parallel_for", spy)
    monkeypatch.setattr(data_sparse, "_BLOCK", 1)
    return numbers


def no_thread(*arguments):
    raise AssertionError("a thread was asked for")


@pytest.mark.parametrize("threads", [1, 2, None])
def test_threads_are_as_many_as_the_caller_says(asked, monkeypatch, threads):
    """None means all cores; with one thread, none is started beside the caller's."""
    monkeypatch.setattr(thali_threads, "available_cores", lambda: 3)
    if threads == 1:
        monkeypatch.setattr(thali_threads, "_tasks", no_thread)
    for matrix in sparse_inputs():
        asked.clear()
        BinaryTensor.from_any(matrix, threads=threads)
        assert asked
        assert set(asked) == {threads or 3}


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_passed_on_by_the_reader_of_files(asked, monkeypatch, tmp_path, threads):
    if threads == 1:
        monkeypatch.setattr(thali_threads, "_tasks", no_thread)
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(np.eye(30)))
    for options in ({}, {"binarize": 0}, {"transpose": True}):
        asked.clear()
        assert thali.read(tmp_path / "t.npz", threads=threads, **options).n_ones == 30
        assert set(asked) == {threads}


def test_threads_are_passed_on_by_the_estimator(asked):
    few = {"noise": "unequal", "warmup": 1, "draws": 1, "chains": 1}
    model = thali.BooleanFactorization(**few, threads=1, random_state=0)
    data = sparse.csr_array(np.eye(30))
    with pytest.warns(thali.errors.NotConverged):
        model.fit(data)
    model.transform(data)
    assert set(asked) == {1}


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_threads_that_cannot_be_are_refused(tmp_path, threads):
    """Whatever the input is, also where no thread would be started."""
    np.save(tmp_path / "t.npy", np.eye(2))
    for read in (
        lambda: BinaryTensor.from_any(np.eye(2), threads=threads),
        lambda: BinaryTensor.from_any(sparse.csr_array(np.eye(2)), threads=threads),
        lambda: thali.read(tmp_path / "t.npy", threads=threads),
    ):
        with pytest.raises(ValueError, match=r"threads=.* was given; allowed are integers from 1"):
            read()
