"""Everything that a user may have becomes the same labelled tensor, or a sentence says why not."""

import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

from thali.bits import PackedTensor
from thali.data import BinaryTensor, Pattern, convert
from thali.data import sparse as data_sparse

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
UNKNOWN = 2  # in the ternary arrays from which all inputs are made


def dense(entries):
    """Return a Boolean array of what a tensor holds, sparse or not."""
    if not isinstance(entries, Pattern):
        return entries
    data = np.ones(entries.indices.size, bool)
    return sparse.csr_array((data, entries.indices, entries.indptr), shape=entries.shape).toarray()


def ternary(tensor):
    codes = dense(tensor.ones).astype(int)
    if tensor.unknown is not None:
        is_unknown = dense(tensor.unknown)
        assert is_unknown.any()
        assert not (is_unknown & dense(tensor.ones)).any()
        codes[is_unknown] = UNKNOWN
    return codes


def as_float(codes, dtype=np.float64):
    return np.where(codes == UNKNOWN, np.nan, codes).astype(dtype)


def as_object(codes, missing):
    values = codes.astype(object)
    values[codes == UNKNOWN] = missing
    return values


def as_frame(codes, dtype):
    return pd.DataFrame(as_object(codes, pd.NA)).astype(dtype)


def ternaries(**sizes):
    return arrays(
        np.int8, array_shapes(**sizes), elements=st.integers(0, 2), fill=st.nothing()
    ).filter(lambda codes: (codes != UNKNOWN).any())


@pytest.fixture
def codes():
    return np.array([[0, 1, 2, 1], [1, 0, 0, 2], [1, 1, 1, 0]])


@pytest.fixture(params=[1, 3, 5, 1 << 20])
def block_entries(request, monkeypatch):
    monkeypatch.setattr(convert, "_BLOCK_ENTRIES", request.param)


# ---------------------------------------------------------------------------------------------
# Every kind of input gives the same tensor
# ---------------------------------------------------------------------------------------------


def dense_inputs(codes):
    hidden = as_float(codes)
    hidden[codes == UNKNOWN] = np.resize([7.0, np.inf, np.nan, 1.0], (codes == UNKNOWN).sum())
    yield as_float(codes)
    yield as_float(codes, np.float16)
    yield as_float(codes, ">f4")
    yield as_float(codes, np.longdouble)
    yield np.asfortranarray(as_float(codes))
    yield as_float(codes)[::-1][::-1]
    yield np.repeat(as_float(codes), 2, axis=-1)[..., ::2]
    yield as_object(codes, None)
    yield as_object(codes, np.nan)
    yield as_object(codes, pd.NA)
    yield np.where(codes == UNKNOWN, None, (codes == 1).astype(object))
    yield as_float(codes).tolist()
    yield as_object(codes, None).tolist()
    yield tuple(as_object(codes, pd.NA).tolist())
    yield list(as_float(codes))
    yield np.ma.masked_array(hidden, codes == UNKNOWN)
    yield np.ma.masked_array(codes, codes == UNKNOWN)
    yield np.ma.masked_array(codes == 1, codes == UNKNOWN)
    yield np.ma.masked_array(codes != 0, codes == UNKNOWN)
    yield list(np.ma.masked_array(codes, codes == UNKNOWN))
    yield [list(part) for part in np.ma.masked_array(codes, codes == UNKNOWN)]


@settings(deadline=None, max_examples=60)
@given(codes=ternaries(min_dims=2, max_dims=4, max_side=4))
def test_all_dense_kinds_agree(codes):
    for tensor in dense_inputs(codes):
        read = BinaryTensor.from_any(tensor)
        np.testing.assert_array_equal(ternary(read), codes)
        assert not read.is_sparse
        assert read.shape == codes.shape
        assert read.arity == codes.ndim
        assert read.n_ones == (codes == 1).sum()
        assert read.n_known == (codes != UNKNOWN).sum()
        assert (read.unknown is None) == (read.n_known == codes.size)


@settings(deadline=None, max_examples=40)
@given(codes=ternaries(min_dims=2, max_dims=2, max_side=5))
def test_all_matrix_kinds_agree(codes):
    frames = [
        pd.DataFrame(as_float(codes)),
        pd.DataFrame(as_object(codes, None)),
        as_frame(codes, "boolean"),
        as_frame(codes, "Int64"),
        as_frame(codes, "Float64"),
        as_frame(codes, "Float64").astype("Sparse[float]"),
        as_frame(codes, "Float64").astype(pd.SparseDtype(float, 0.0)),
    ]
    kinds = ["boolean", "Float64", "object", "Sparse[float]", "Int64", "float64", "float32"]
    cycle = {column: kinds[column % len(kinds)] for column in range(codes.shape[1])}
    frames.append(as_frame(codes, "Float64").astype(cycle))
    plain = sparse.coo_array(as_float(codes))
    matrices = [plain.asformat(name) for name in FORMATS]
    matrices += [sparse.coo_matrix(plain).asformat(name) for name in FORMATS]
    for tensor in frames + matrices:
        np.testing.assert_array_equal(ternary(BinaryTensor.from_any(tensor)), codes)


@settings(deadline=None, max_examples=40)
@given(codes=ternaries(min_dims=2, max_dims=3, max_side=4).map(lambda codes: codes % 2))
def test_all_fully_known_kinds_agree(codes):
    inputs = [codes, codes.astype(np.uint64), codes.astype(">i4"), codes == 1, (codes == 1).T.T]
    inputs += [np.asfortranarray(codes == 1), (codes == 1)[:, ::-1][:, ::-1], codes.tolist()]
    inputs += [(codes == 1).tolist(), np.ma.masked_array(codes), np.where(codes == 1, 1.0, -0.0)]
    if codes.ndim == 2:
        inputs += [
            pd.DataFrame(codes),
            pd.DataFrame(codes == 1),
            pd.DataFrame(codes, dtype=object),
        ]
        inputs += [pd.DataFrame({j: codes[:, j] == 1 for j in range(codes.shape[1])})]
        with warnings.catch_warnings(action="ignore", category=PendingDeprecationWarning):
            inputs += [np.asmatrix(codes), np.ma.masked_array(np.asmatrix(codes))]
        for dtype in (bool, np.int8, np.float32):
            inputs += [sparse.coo_array(codes.astype(dtype)).asformat(name) for name in FORMATS]
    for tensor in inputs:
        read = BinaryTensor.from_any(tensor)
        np.testing.assert_array_equal(ternary(read), codes)
        assert read.unknown is None


@pytest.mark.usefixtures("block_entries")
@pytest.mark.parametrize("shape", [(7, 2), (2, 7), (3, 2, 4), (1, 1), (2, 3, 2, 2)])
def test_block_borders_do_not_show(shape):
    codes = np.random.default_rng(0).integers(0, 3, shape)
    codes.flat[0] = 1
    for tensor in dense_inputs(codes):
        np.testing.assert_array_equal(ternary(BinaryTensor.from_any(tensor)), codes)
    if len(shape) == 2:
        mixed = as_frame(codes, "Float64").astype({0: "boolean"})
        for frame in (mixed, pd.DataFrame(as_float(codes)), as_frame(codes, "Int64")):
            np.testing.assert_array_equal(ternary(BinaryTensor.from_any(frame)), codes)


@pytest.mark.usefixtures("block_entries")
@pytest.mark.parametrize("shape", [(7, 3), (2, 9), (2, 3, 4)])
def test_first_bad_entry_is_named_whatever_the_blocks(shape):
    """The first bad entry in C order is reported, with its place in the whole tensor."""
    tensor = np.zeros(shape)
    tensor[(1, *(1 for _ in shape[1:]))] = 5
    tensor[(1, *(2 for _ in shape[1:]))] = 6
    where = ", ".join("1" for _ in shape)
    with pytest.raises(ValueError, match=rf"holds 5\.0 at \({where}\)"):
        BinaryTensor.from_any(np.asfortranarray(tensor))


# ---------------------------------------------------------------------------------------------
# Copies, memory, immutability
# ---------------------------------------------------------------------------------------------


def test_contiguous_boolean_array_is_not_copied():
    tensor = np.eye(3, dtype=bool)
    read = BinaryTensor.from_any(tensor)
    assert np.shares_memory(read.ones, tensor)
    assert tensor.flags.writeable
    assert not read.ones.flags.writeable


def test_results_are_contiguous_and_read_only(codes):
    for tensor in dense_inputs(codes):
        read = BinaryTensor.from_any(tensor)
        for entries in (read.ones, read.unknown):
            assert entries.flags.c_contiguous
            assert not entries.flags.writeable
    read = BinaryTensor.from_any(sparse.csr_array(as_float(codes)))
    for pattern in (read.ones, read.unknown):
        assert not pattern.indptr.flags.writeable
        assert not pattern.indices.flags.writeable
        assert pattern.indptr.dtype == np.int64
    with pytest.raises(FrozenInstanceError):
        read.ones = None


def test_read_only_input_is_accepted_and_unchanged(codes):
    tensor = as_float(codes)
    tensor.setflags(write=False)
    before = tensor.copy()
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(tensor)), codes)
    np.testing.assert_array_equal(tensor, before)


def test_memory_stays_near_two_bytes_an_entry():
    """Beside the two Boolean results (a quarter of the input) only some blocks are allocated."""
    tensor = np.zeros((4000, 2000))
    tensor[::3] = 1
    tensor[::5, ::7] = np.nan
    tracemalloc.start()
    try:
        read = BinaryTensor.from_any(tensor)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read.unknown is not None
    # At most seven Boolean temporaries of a block are alive at a time.
    assert peak < 2 * tensor.size + 7 * convert._BLOCK_ENTRIES
    assert peak < tensor.nbytes / 2


def test_unknown_entries_cost_nothing_when_there_are_none():
    tensor = np.ma.masked_array(np.zeros((2000, 1000)), mask=np.zeros((2000, 1000), bool))
    tracemalloc.start()
    try:
        read = BinaryTensor.from_any(tensor)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert read.unknown is None
    assert size < 1.1 * tensor.size


@pytest.mark.skipif(
    int(pd.__version__.split(".")[0]) < 3, reason="older pandas consolidates a frame it slices"
)
def test_frame_of_many_blocks_is_not_copied_whole():
    frame = pd.DataFrame(index=range(500_000))
    for column in range(10):
        frame[column] = np.full(500_000, column % 2, float)
    tracemalloc.start()
    try:
        read = BinaryTensor.from_any(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read.n_ones == 2_500_000
    # The result, two consolidated blocks of floats (the last and the next) and the temporaries.
    assert peak < read.ones.size + (2 * 8 + 7) * convert._BLOCK_ENTRIES < frame.size * 8


# ---------------------------------------------------------------------------------------------
# Sparse matrices
# ---------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(data_sparse, "available_cores", lambda: 3)
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(matrix)), codes)
    matrix.data[17] = 9
    row = np.searchsorted(matrix.indptr, 17, side="right") - 1
    with pytest.raises(ValueError, match=rf"holds 9.0 at \({row}, "):
        BinaryTensor.from_any(matrix)


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


def test_sparse_input_of_three_modes_is_refused():
    try:
        tensor = sparse.coo_array(np.ones((2, 2, 2)))
    except ValueError:
        pytest.skip("this SciPy has no sparse arrays of three modes")
    with pytest.raises(ValueError, match=r"has 3 modes; sparse input must have 2"):
        BinaryTensor.from_any(tensor)


@pytest.mark.parametrize(
    ("name", "values"),
    [("indices", [5, 0]), ("indices", [-1, 0]), ("indptr", [0, 2, 1]), ("indptr", [0, 1, 3])],
)
def test_corrupt_sparse_matrix_is_refused(name, values):
    matrix = sparse.csr_array((np.ones(2), [1, 0], [0, 1, 2]), shape=(2, 2))
    setattr(matrix, name, np.array(values, np.int32))
    with pytest.raises(ValueError, match="outside its columns"):
        BinaryTensor.from_any(matrix)


# ---------------------------------------------------------------------------------------------
# Data frames and names
# ---------------------------------------------------------------------------------------------


def test_default_names():
    read = BinaryTensor.from_any(np.ones((2, 3, 4), bool))
    assert read.mode_names == ("mode_0", "mode_1", "mode_2")
    assert read.row_names == (None, None, None)


def test_frame_brings_its_names():
    frame = pd.DataFrame([[0, 1]], index=pd.Index([7], name="cell"), columns=["a", 3])
    read = BinaryTensor.from_any(frame)
    assert read.mode_names == ("cell", "mode_1")
    assert read.row_names == (("7",), ("a", "3"))


def test_sparse_frame_gives_a_named_sparse_tensor():
    matrix = sparse.eye_array(3, dtype=np.int8, format="csr")
    frame = pd.DataFrame.sparse.from_spmatrix(matrix, columns=["x", "y", "z"])
    read = BinaryTensor.from_any(frame)
    assert read.is_sparse
    assert read.row_names == (None, ("x", "y", "z"))
    np.testing.assert_array_equal(ternary(read), np.eye(3))


def test_sparse_columns_of_several_types_are_read():
    zero = pd.Series([True, False], dtype=pd.SparseDtype(bool, False))
    frame = pd.DataFrame({"a": zero, "b": pd.Series([np.nan, 1], dtype="Sparse[float]")})
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(frame)), [[1, UNKNOWN], [0, 1]])


def test_counting_index_is_no_name_but_any_other_is():
    assert BinaryTensor.from_any(pd.DataFrame([[0, 1]])).row_names == (None, None)
    tail = pd.DataFrame([[0, 1]] * 3).iloc[1:]
    assert BinaryTensor.from_any(tail).row_names == (("1", "2"), None)
    days = pd.DataFrame([[0, 1]], index=pd.to_datetime(["2020-01-02"]))
    assert BinaryTensor.from_any(days).row_names[0] == ("2020-01-02 00:00:00",)


def test_duplicated_columns_are_read_in_order():
    frame = pd.DataFrame([[0, True], [1, None]], columns=["a", "a"])
    read = BinaryTensor.from_any(frame)
    np.testing.assert_array_equal(ternary(read), [[0, 1], [1, UNKNOWN]])
    assert read.row_names[1] == ("a", "a")


def test_frame_is_not_modified(codes):
    for dtype in ("float64", "boolean", "object"):
        frame = as_frame(codes, "Float64").astype(dtype)
        before = frame.copy(deep=True)
        BinaryTensor.from_any(frame)
        pd.testing.assert_frame_equal(frame, before)


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


# ---------------------------------------------------------------------------------------------
# Refusals and the rest
# ---------------------------------------------------------------------------------------------


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
    with pytest.raises(
        ValueError, match=r"has shape .*; at least 2 modes are needed, each with a row"
    ):
        BinaryTensor.from_any(tensor)


def test_empty_frame_and_sparse_matrix_are_refused():
    for tensor in (pd.DataFrame(), pd.DataFrame({"a": []}), sparse.csr_array((0, 3))):
        with pytest.raises(ValueError, match=r"has shape \(0, \d\)"):
            BinaryTensor.from_any(tensor)


@pytest.mark.parametrize(
    "tensor",
    [[[0, 1], [0]], [[0, 1], 1], ([0, [1]],), [np.ones((2, 3)), np.ones((3, 3))]],
)
def test_ragged_lists_are_refused(tensor):
    with pytest.raises(
        ValueError, match=r"cannot be read as a rectangular array; make all"
    ) as caught:
        BinaryTensor.from_any(tensor)
    assert caught.value.__suppress_context__


def test_ragged_masked_lists_are_refused():
    with pytest.raises(ValueError, match="cannot be read as a rectangular array"):
        BinaryTensor.from_any([np.ma.masked_array([0, 1], [True, False]), [0]])


@pytest.mark.parametrize("tensor", [None, 1, "01", {"a": [0, 1]}, {0, 1}, (i for i in range(2))])
def test_other_objects_are_refused(tensor):
    kind = type(tensor).__name__
    with pytest.raises(TypeError, match=rf"the tensor is a {kind}; allowed are NumPy arrays"):
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


def test_objects_with_an_array_interface_are_read():
    class Wrapper:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2)

    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(Wrapper())), np.eye(2))


def test_object_that_fails_to_become_an_array_is_refused():
    class Elsewhere:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("on another device")

    with pytest.raises(
        ValueError, match="the tensor, a Elsewhere, cannot be read as a rectangular array"
    ):
        BinaryTensor.from_any(Elsewhere())


def test_list_of_frames_is_a_tensor_of_three_modes(codes):
    frames = [as_frame(codes, "boolean"), as_frame(codes, "boolean")]
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(frames)), [codes, codes])


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
