"""Parquet files hold tables of entries, or pairs."""

import numpy as np
import pandas as pd
import pytest

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
