"""Tensors that are given by coordinates, as sparse arrays and as data frames that list entries."""

import re
import tracemalloc
from math import prod

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from support.data_files import ternary
from thali.bits import PackedTensor
from thali.data import BinaryTensor, Packed, Pattern, coordinates
from thali.errors import InvalidType, InvalidValue

SHAPES = [(5, 70), (4, 3, 5), (3, 66, 4), (2, 5, 3, 67)]


def random_tensor(shape, seed=0):
    """Return values that are NaN where they are unknown."""
    rng = np.random.default_rng(seed)
    values = (rng.random(shape) < 0.3).astype(float)
    values[rng.random(shape) < 0.2] = np.nan
    return values


class Coordinates:
    """What ``sparse.COO`` has, as far as it is needed to know it and to read it."""

    def __init__(self, coords, data, shape, fill_value=0.0):
        self.coords, self.data, self.shape = coords, np.asarray(data), shape
        self.fill_value, self.nnz = fill_value, len(data)
        self.dtype = self.data.dtype

    def __array__(self, *_args, **_options):
        msg = "it must not become dense"
        raise RuntimeError(msg)


# --- what is read -------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [3, 1 << 16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_coordinates(shape, block, monkeypatch):
    """Ones in any order, some twice, and the coordinates of unknown or of known entries."""
    monkeypatch.setattr(coordinates, "_BLOCK", block)
    values = random_tensor(shape)
    ones = np.random.default_rng(1).permutation(np.argwhere(values == 1))
    ones = np.concatenate([ones, ones[:7]])
    unknown, known = np.argwhere(np.isnan(values)), np.argwhere(~np.isnan(values))
    for kind in (np.int64, np.int32, np.uint8):
        tensor = BinaryTensor.from_any((ones.astype(kind), shape), unknown=unknown.astype(kind))
        np.testing.assert_array_equal(ternary(tensor), values)
    tensor = BinaryTensor.from_any((ones.tolist(), list(shape)), observed=known)
    np.testing.assert_array_equal(ternary(tensor), values)
    assert (tensor.n_ones, tensor.n_known) == (np.nansum(values), len(known))
    tensor = BinaryTensor.from_any((np.asfortranarray(ones), np.array(shape)))
    assert tensor.unknown is None
    np.testing.assert_array_equal(ternary(tensor), np.nan_to_num(values))
    np.testing.assert_array_equal(tensor.rows(1, 2)[0], np.nan_to_num(values[1:2]))


def test_a_matrix_with_few_ones_stays_a_list():
    """With three modes the bits are needed, so these are packed at once."""
    assert BinaryTensor.from_any(([[3, 900]], (1000, 1000))).is_sparse
    assert isinstance(BinaryTensor.from_any(([[3, 900]], (1000, 1000))).ones, Pattern)
    assert isinstance(BinaryTensor.from_any(([[3, 900, 0]], (1000, 1000, 2))).ones, Packed)


def test_unknown_counts_for_more_than_one():
    """A one that is unknown, or was not observed, is unknown, as below a mask."""
    ones = [[0, 1, 2], [1, 1, 1]]
    for mask in ({"unknown": [[1, 1, 1]]}, {"observed": [[0, 1, 2], [0, 0, 0]]}):
        tensor = BinaryTensor.from_any((ones, (2, 3, 4)), **mask)
        assert np.argwhere(tensor.rows()[0]).tolist() == [[0, 1, 2]]
    everything = np.argwhere(np.ones((2, 3, 4)))
    assert BinaryTensor.from_any((ones, (2, 3, 4)), observed=everything).unknown is None
    assert BinaryTensor.from_any((ones, (2, 3, 4)), unknown=[]).unknown is None
    assert BinaryTensor.from_any(([], (2, 3, 4))).n_ones == 0


def test_nested_tuples_are_still_a_matrix():
    """Two rows of entries are not coordinates with a shape."""
    for rows in (((0, 1, 1), (1, 0, 1)), (np.array([0, 1, 1]), [1, 0, 1])):
        np.testing.assert_array_equal(
            BinaryTensor.from_any(rows).rows()[0], [[0, 1, 1], [1, 0, 1]]
        )


@pytest.mark.parametrize("fill", [0.0, np.nan])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_arrays_of_coordinates(shape, fill):
    """Like ``sparse.COO``: stored NaN is unknown, what is not stored has the fill value."""
    values = random_tensor(shape)
    is_stored = (values != 0) if fill == 0 else ~np.isnan(values)
    coords = np.stack(np.nonzero(is_stored))
    tensor = BinaryTensor.from_any(Coordinates(coords, values[is_stored], shape, fill))
    np.testing.assert_array_equal(ternary(tensor), values)


def test_sparse_arrays_of_scipy_with_three_modes():
    """Those with three modes, which have coordinates; entries that are stored twice add up."""
    values = np.nan_to_num(random_tensor((4, 3, 5)))
    try:
        tensor = sparse.coo_array(values)
    except ValueError:
        pytest.skip("this SciPy has no sparse arrays of three modes")
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(tensor)), values)
    twice = sparse.coo_array((np.ones(2), ([1, 1], [0, 0], [2, 2])), shape=(4, 3, 5))
    with pytest.raises(InvalidValue, match=re.escape("holds 2.0 at (1, 0, 2); allowed are 0, 1")):
        BinaryTensor.from_any(twice)
    assert len(twice.data) == 2  # the user's array is as it was


FRAME = pd.DataFrame(
    {
        "who": ["bob", "ann", "bob", "bob", "ann"],
        "note": [1, 2, 3, 4, 5],
        "whom": pd.Categorical(["x", "y", "x", "y", "x"], categories=["y", "unused", "x"]),
        "week": [10, 9, 10, 9, 9],
        "value": [1, 1, 1, 0, None],
    }
)


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: frame,
        lambda frame: frame.convert_dtypes(),
        lambda frame: frame.astype(object),
        lambda frame: frame.astype({"value": pd.SparseDtype(float, 0.0)}),
    ],
    ids=["plain", "own types", "objects", "sparse"],
)
def test_data_frames_that_list_entries(convert):
    """Names in the order in which they come, or by value; a value may be zero or missing."""
    frame = convert(FRAME)
    tensor = BinaryTensor.from_any(frame, modes=["who", "whom", "week"])
    assert tensor.mode_names == ("who", "whom", "week")
    assert tensor.row_names == (("bob", "ann"), ("x", "y"), ("9", "10"))
    values = np.zeros((2, 2, 2))
    values[0, 0, 1] = values[1, 1, 0] = 1
    values[1, 0, 0] = np.nan
    np.testing.assert_array_equal(ternary(tensor), values)
    only = BinaryTensor.from_any(frame, modes=["who", "whom", "week"], unlisted="unknown")
    assert (only.n_known, only.n_ones) == (3, 2)
    plain = BinaryTensor.from_any(frame.drop(columns="value"), modes=("week", "who"))
    np.testing.assert_array_equal(ternary(plain), [[1, 1], [1, 0]])
    renamed = BinaryTensor.from_any(frame, modes=["who", "week"], mode_names=["a", "b"])
    assert renamed.mode_names == ("a", "b")


# --- what is refused ----------------------------------------------------------------------------

THREE = (2, 3, 5)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ([[0, 0, 0], [0, 3, 1], [9, 9, 9]], THREE),
            "`coords` has [0, 3, 1] at entry 1; allowed are row numbers from 0 to [1, 2, 4], as "
            "the shape is (2, 3, 5); correct or drop it.",
        ),
        (
            ([[0, 0, 0], [1, -1, 1]], THREE),
            "`coords` has [1, -1, 1] at entry 1; allowed are row numbers from 0 to [1, 2, 4], as "
            "the shape is (2, 3, 5); correct or drop it.",
        ),
        (
            ([[0.0, 0.0, 0.0], [1.0, 0.5, 1.0]], THREE),
            "`coords` has the type float64, with [1.0, 0.5, 1.0] at entry 1; allowed are "
            "integers; convert it, for instance with `.astype(int)`.",
        ),
        (
            ([["a", "b", "c"]], THREE),
            "`coords` has the type <U1, with ['a', 'b', 'c'] at entry 0; allowed are integers; "
            "convert it, for instance with `.astype(int)`.",
        ),
        (
            (np.zeros((3, 8), int), THREE),
            "`coords` has the shape (3, 8) for a tensor of 3 modes; allowed is an array with 3 "
            "columns, one per mode, and a row per entry; transpose it.",
        ),
        (
            (np.zeros((8, 2), int), THREE),
            "`coords` has the shape (8, 2) for a tensor of 3 modes; allowed is an array with 3 "
            "columns, one per mode, and a row per entry; reshape it.",
        ),
        (
            ([[0, 1], [1]], THREE),
            "`coords` has rows of different lengths for a tensor of 3 modes; allowed is an array "
            "with 3 columns, one per mode, and a row per entry; reshape it.",
        ),
        (
            (np.nonzero(np.ones((3, 1, 1))), THREE),
            "`coords` is a tuple of arrays; allowed is an array with 3 columns, one per mode, and "
            "a row per entry; join them with `np.stack(…, axis=1)`.",
        ),
        (
            ([[0, 0, 0]], (2, 0, 5)),
            "the tensor has shape (2, 0, 5); at least 2 modes are needed, each with a row or "
            "more; reshape or fill it.",
        ),
        (
            ([[0, 0, 0]], (2**33, 1, 1)),
            "8589934592 x 1 x 1 entries were given; at most 2147483647 rows of a mode are "
            "possible; divide them.",
        ),
        (
            Coordinates(np.zeros((3, 1), int), [1.0], THREE, fill_value=1.0),
            "the sparse tensor has the fill value 1; allowed are 0, and NaN for unknown; build it "
            "with one of these.",
        ),
        (
            Coordinates(np.array([[0], [2], [4]]), [2], THREE),
            "the tensor holds 2 at (0, 2, 4); allowed are 0, 1 and NaN for unknown; threshold it "
            "first, for instance `tensor > 0`.",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_coordinates_are_refused(given, sentence):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(sentence)}$"):
        BinaryTensor.from_any(given)


def test_the_first_bad_entry_is_named_in_any_block(monkeypatch):
    monkeypatch.setattr(coordinates, "_BLOCK", 4)
    coords = np.zeros((11, 3), int)
    coords[9, 2] = 5
    with pytest.raises(InvalidValue, match=re.escape("`coords` has [0, 0, 5] at entry 9;")):
        BinaryTensor.from_any((coords, THREE))
    with pytest.raises(InvalidValue, match=re.escape("`observed` has [0, 0, 5] at entry 9;")):
        BinaryTensor.from_any((coords[:1], THREE), observed=coords)


def test_too_large_a_tensor_is_refused():
    with pytest.raises(InvalidValue, match=r"^1000000 x 1000000 x 1000000 entries need \d+.* GB;"):
        BinaryTensor.from_any(([[0, 0, 0]], (10**6, 10**6, 10**6)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"unknown": [[0, 0, 0]], "observed": [[0, 0, 0]]},
            "`unknown` and `observed` were both given; one of them says which entries are "
            "unknown; leave the other out.",
        ),
        (
            {"modes": ["a", "b"]},
            "modes=['a', 'b'] was given with a tuple; it is for a data frame whose columns, its "
            "modes, list entries by name; leave it out.",
        ),
        (
            {"observed": []},
            "all entries of the tensor of shape (2, 3, 5) are unknown; at least one known 0 or 1 "
            "is needed, so check how missing values are marked.",
        ),
    ],
    ids=["both", "modes", "nothing"],
)
def test_options_that_do_not_go_with_coordinates(options, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        BinaryTensor.from_any(([[0, 0, 0]], THREE), **options)


@pytest.mark.parametrize(
    "data", [np.eye(3), sparse.eye_array(3), FRAME, BinaryTensor.from_any(np.eye(3))]
)
def test_masks_of_coordinates_go_with_coordinates(data):
    name = type(data).__name__
    sentence = (
        f"`unknown` was given with a {name}; it is for tensors that are given by coordinates; "
        "mark unknown entries with NaN instead."
    )
    with pytest.raises(InvalidValue, match=f"^{re.escape(sentence)}$"):
        BinaryTensor.from_any(data, unknown=[[0, 0]])


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        (
            {},
            {"modes": ["who", "where"]},
            "modes=['who', 'where'] was given with 'where', which is no column of it; its columns "
            "are 'who', 'note', 'whom', 'week', 'value'; choose one of them for every mode.",
        ),
        (
            {},
            {"modes": ["who"]},
            "modes=['who'] was given; allowed are two or more different names of columns; name a "
            "column for every mode.",
        ),
        (
            {},
            {"modes": "who"},
            "modes='who' was given; a list of names of columns is needed; make it one.",
        ),
        (
            {},
            {"modes": ["who", "week"], "unlisted": "one"},
            "unlisted='one' was given; allowed are 'zero' and 'unknown'; choose one.",
        ),
        (
            {},
            {"unlisted": "unknown"},
            "unlisted='unknown' was given with a DataFrame; it is for a data frame whose columns, "
            "its modes, list entries by name; leave it out.",
        ),
        (
            {"who": ["bob", "ann", None, "bob", "ann"]},
            {"modes": ["who", "week"]},
            "row 2 of the data frame has no name in column 'who'; fill it in or drop the row.",
        ),
        (
            {"value": [1, 1, 1, 7, 0]},
            {"modes": ["who", "week"]},
            "the tensor holds 7 at row 3 in column 'value'; allowed are 0, 1 and NaN for unknown; "
            "threshold it first, for instance `tensor > 0`.",
        ),
        (
            {"Ratings": 1},
            {"modes": ["who", "week"]},
            "its columns 'value' and 'Ratings' may both hold the values of entries; drop or "
            "rename one.",
        ),
    ],
    ids=["column", "one", "text", "unlisted", "alone", "name", "value", "values"],
)
def test_bad_lists_are_refused(change, options, sentence):
    with pytest.raises((InvalidValue, InvalidType), match=f"^{re.escape(sentence)}$"):
        BinaryTensor.from_any(FRAME.assign(**change), **options)


def test_a_list_of_nothing_is_refused():
    with pytest.raises(InvalidValue, match=r"^the data frame has no rows; list at"):
        BinaryTensor.from_any(FRAME[:0], modes=["who", "week"])


# --- memory -------------------------------------------------------------------------------------


def test_memory():
    """While all unfoldings are made, memory is one bit per entry and mode, and a tenth of that."""
    shape = (320, 448, 256)
    coords = np.random.default_rng(0).integers(0, shape, (20_000, 3))
    list(PackedTensor.from_tensor(BinaryTensor.from_any(([], (3, 4, 2)))).unfoldings)  # compile
    tracemalloc.start()
    try:
        packed = PackedTensor.from_tensor(BinaryTensor.from_any((coords, shape)), threads=1)
        list(packed.unfoldings)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 1.0 <= 8 * peak / prod(shape) / len(shape) < 1.1
