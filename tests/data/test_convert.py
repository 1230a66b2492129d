"""Arrays, lists, frames and sparse matrices give the same tensor, in little memory."""

import tracemalloc
import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import sparse

from support.ternary_inputs import (
    FORMATS,
    UNKNOWN,
    as_float,
    as_frame,
    as_object,
    dense_inputs,
    ternaries,
    ternary,
)
from thali.data import BinaryTensor, convert


@pytest.fixture(params=[1, 3, 5, 1 << 20])
def block_entries(request, monkeypatch):
    monkeypatch.setattr(convert, "_BLOCK_ENTRIES", request.param)


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


def test_sparse_columns_of_several_types_are_read():
    zero = pd.Series([True, False], dtype=pd.SparseDtype(bool, False))
    frame = pd.DataFrame({"a": zero, "b": pd.Series([np.nan, 1], dtype="Sparse[float]")})
    np.testing.assert_array_equal(ternary(BinaryTensor.from_any(frame)), [[1, UNKNOWN], [0, 1]])


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
