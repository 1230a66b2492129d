"""What is neither 0 nor 1 nor unknown is refused, in one sentence that says where it is."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from thali.data import BinaryTensor


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical([0, 1]),
        pd.Series(["0", "1"], dtype="string"),
        pd.to_datetime(["2020-01-01", "2020-01-02"]),
        pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("UTC"),
        pd.to_timedelta([0, 1]),
        pd.period_range("2020", periods=2, freq="D"),
        np.array([0j, 1j]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_column_of_other_type_is_named(column):
    frame = pd.DataFrame({"good": [0, 1], "bad": column, "worse": column})
    with pytest.raises(
        TypeError, match=r"column 'bad' of the data frame has type .*; allowed are"
    ):
        BinaryTensor.from_any(frame)


@pytest.mark.parametrize("dtype", ["int64", "float64", "object", "Int64", "Float64"])
def test_bad_value_in_a_frame_is_named_with_its_column(dtype):
    frame = pd.DataFrame({"x": [True, False], "y": pd.Series([1, 2], dtype=dtype)})
    with pytest.raises(ValueError, match=r"holds 2(\.0)? at \(1, 1\) in column 'y'; allowed are"):
        BinaryTensor.from_any(frame)


def test_string_in_an_object_column_is_named():
    frame = pd.DataFrame({"x": [0, 1], "y": pd.Series([1, "yes"], dtype=object)})
    with pytest.raises(ValueError, match=r"holds 'yes' at \(1, 1\) in column 'y'.* replace it"):
        BinaryTensor.from_any(frame)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ([[0, 1, 0, 2]], r"holds 2 at \(0, 3\); allowed are 0, 1 and NaN for unknown; threshold"),
        ([[0, -1]], r"holds -1 at \(0, 1\).*`tensor > 0`"),
        ([[0.5, 1]], r"holds 0\.5 at \(0, 0\)"),
        ([[np.inf, 1]], r"holds inf at \(0, 0\)"),
        ([[None, -np.inf]], r"holds -inf at \(0, 1\)"),
        ([[None, "a"]], r"holds 'a' at \(0, 1\).*replace it first"),
        ([[None, 10**30]], r"holds 10+ at \(0, 1\)"),
        ([[None, pd.NaT]], r"holds NaT at \(0, 1\)"),
        ([[None, 1j]], r"holds 1j at \(0, 1\)"),
        (np.ma.masked_array([[7, 8]], [[True, False]]), r"holds 8 at \(0, 1\)"),
        ([[[0, 1]], [[0, 4]]], r"holds 4 at \(1, 0, 1\)"),
    ],
)
def test_other_values_are_refused(tensor, message):
    with pytest.raises(ValueError, match=message):
        BinaryTensor.from_any(tensor)


@pytest.mark.parametrize(
    "tensor",
    [np.array(1.0), np.float64(1), [0, 1], [], pd.Series([0, 1]), [[]], np.ones((2, 0, 3))],
)
def test_shapes_without_two_filled_modes_are_refused(tensor):
    with pytest.raises(ValueError, match=r"has shape .*; at least 2 modes are needed, each"):
        BinaryTensor.from_any(tensor)


def test_empty_frame_and_sparse_matrix_are_refused():
    for tensor in (pd.DataFrame(), pd.DataFrame({"a": []}), sparse.csr_array((0, 3))):
        with pytest.raises(ValueError, match=r"has shape \(0, \d\)"):
            BinaryTensor.from_any(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        np.ones((2, 2), complex),
        np.array([["0", "1"]]),
        np.array([[b"0"]]),
        np.array([["2020-01-01"]], "datetime64[D]"),
        np.zeros((2, 2), [("a", int)]),
        [["0", 1]],
        sparse.csr_array(np.ones((2, 2), complex)),
    ],
)
def test_other_types_of_entries_are_refused(tensor):
    with pytest.raises(TypeError, match=r"tensor has type .*; allowed are Booleans, integers"):
        BinaryTensor.from_any(tensor)
