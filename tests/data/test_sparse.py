"""Sparse matrices become lists of positions, on as many threads as the caller allows."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import thali
from thali import threads as thali_threads
from thali.data import BinaryTensor
from thali.data import sparse as data_sparse

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
        return thali_threads.share(kernel, n_rows, threads, *arguments, step=step)

    monkeypatch.setattr(data_sparse, "share", spy)
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
    model = thali.BooleanFactorization(warmup=1, draws=1, chains=1, threads=1, random_state=0)
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
