"""Parquet files hold tables of entries, or pairs."""

import numpy as np
import pandas as pd
import pytest

from support.data_files import ternary
from thali.data.readers.files import read


@pytest.mark.parametrize(("threads", "expected"), [(1, False), (2, True), (None, True)])
@pytest.mark.parametrize("columns", ["ab", ["user", "item"]], ids=["table", "pairs"])
def test_one_thread_leaves_the_pool_of_pyarrow_alone(
    tmp_path, monkeypatch, columns, threads, expected
):
    parquet = pytest.importorskip("pyarrow.parquet")
    frame = pd.DataFrame(np.eye(2, dtype=int), columns=list(columns))
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    iter_batches = parquet.ParquetFile.iter_batches
    asked = []

    def spy(self, *arguments, use_threads=True, **options):
        asked.append(use_threads)
        return iter_batches(self, *arguments, use_threads=use_threads, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", spy)
    kind = None if columns == "ab" else "pairs"
    assert read(tmp_path / "t.parquet", kind=kind, threads=threads).n_ones == 2
    assert set(asked) == {expected}


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
