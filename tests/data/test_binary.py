"""The labelled tensor knows its names, counts its entries and needs a known one."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from support.ternary_inputs import as_float
from thali.data import BinaryTensor


def test_default_names():
    read = BinaryTensor.from_any(np.ones((2, 3, 4), bool))
    assert read.mode_names == ("mode_0", "mode_1", "mode_2")
    assert read.row_names == (None, None, None)


def test_frame_brings_its_names():
    frame = pd.DataFrame([[0, 1]], index=pd.Index([7], name="cell"), columns=["a", 3])
    read = BinaryTensor.from_any(frame)
    assert read.mode_names == ("cell", "mode_1")
    assert read.row_names == (("7",), ("a", "3"))


def test_counting_index_is_no_name_but_any_other_is():
    assert BinaryTensor.from_any(pd.DataFrame([[0, 1]])).row_names == (None, None)
    tail = pd.DataFrame([[0, 1]] * 3).iloc[1:]
    assert BinaryTensor.from_any(tail).row_names == (("1", "2"), None)
    days = pd.DataFrame([[0, 1]], index=pd.to_datetime(["2020-01-02"]))
    assert BinaryTensor.from_any(days).row_names[0] == ("2020-01-02 00:00:00",)


def test_given_names_replace_those_of_the_input():
    frame = pd.DataFrame([[0, 1]], index=["r"], columns=pd.Index(["a", "b"], name="gene"))
    read = BinaryTensor.from_any(frame, mode_names=["row", "column"], row_names=[None, [1, 2]])
    assert read.mode_names == ("row", "column")
    assert read.row_names == (None, ("1", "2"))


def test_binary_tensor_comes_back_as_it_is_or_renamed():
    read = BinaryTensor.from_any([[0, 1]], row_names=[None, np.array(["a", "b"])])
    assert BinaryTensor.from_any(read) is read
    renamed = BinaryTensor.from_any(read, mode_names=("u", "v"))
    assert renamed.ones is read.ones
    assert renamed.mode_names == ("u", "v")
    assert renamed.row_names == (None, ("a", "b"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"mode_names": ["a"]}, r"mode_names are \('a',\); a tensor of 2 modes needs as many"),
        ({"mode_names": ["a", "a"]}, r"\('a', 'a'\).* all distinct"),
        ({"row_names": [None]}, r"lengths \(None,\) for a tensor of shape \(1, 2\)"),
        ({"row_names": [None, ["a"]]}, r"lengths \(None, 1\) .* one name per row, or None"),
        ({"row_names": [None, None, None]}, r"lengths \(None, None, None\)"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        BinaryTensor.from_any([[0, 1]], **names)


def test_frame_with_one_name_for_both_modes_needs_mode_names():
    frame = pd.DataFrame([[0, 1]]).rename_axis(index="id", columns="id")
    with pytest.raises(ValueError, match="all distinct, so pass other `mode_names`"):
        BinaryTensor.from_any(frame)
    assert BinaryTensor.from_any(frame, mode_names=["a", "b"]).mode_names == ("a", "b")


@pytest.mark.parametrize(
    "names", [{"mode_names": "ab"}, {"row_names": ["r", "ab"]}, {"row_names": 3}]
)
def test_names_of_the_wrong_kind_are_refused(names):
    with pytest.raises(TypeError, match=r"names are given as .*; a sequence of labels is needed"):
        BinaryTensor.from_any([[0, 1]], **names)


@pytest.mark.parametrize(
    "tensor",
    [
        np.full((2, 2), np.nan),
        [[None]],
        np.ma.masked_all((2, 2)),
        pd.DataFrame([[pd.NA]], dtype="boolean"),
        sparse.csr_array(np.full((2, 2), np.nan)),
    ],
)
def test_tensor_without_known_entry_is_refused(tensor):
    with pytest.raises(ValueError, match=r"all entries of the tensor of shape .* are unknown"):
        BinaryTensor.from_any(tensor)


def test_repr(codes):
    read = BinaryTensor.from_any(as_float(codes))
    assert repr(read) == "BinaryTensor(shape=(3, 4), known=10 of 12, ones=6)"


def test_reading_an_array_imports_neither_pandas_nor_scipy():
    script = (
        "import sys; from thali.data import BinaryTensor; before = set(sys.modules);"
        "BinaryTensor.from_any([[0, None, 1]]); new = set(sys.modules) - before;"
        "sys.exit(any(name.startswith(('pandas', 'scipy')) for name in new))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
