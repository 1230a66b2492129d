"""However data come to the device, the bits there and on the host are those the host packs."""

import pickle
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
from scipy import sparse

from support.host_device import HostDevice
from support.places import GPU, needs_compiler, place
from thali.bits import PackedTensor, pack, unpack
from thali.bits import tensor as tensor_module
from thali.bits.words import n_words
from thali.data import BinaryTensor
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu import device_memory, loading
from thali.engines.gpu.engine import GpuEngine
from thali.sampler import Schedule, Target, chain

SHAPES = [(1, 1), (1, 64), (3, 65), (70, 31), (33, 129), (2, 9000), (500, 7)]
KINDS = ["sorted", "unsorted", "empty rows", "empty", "full", "unknown", "wide numbers"]


@pytest.fixture(params=GPU)
def engine(request):
    return place(request.param)


def made(shape, kind, seed=0):
    """Return a sparse matrix and its dense ones and unknown entries."""
    rng = np.random.default_rng(seed)
    density = {"empty": 0.0, "full": 1.0}.get(kind, 0.3)
    ones = rng.random(shape) < density
    if kind == "empty rows":
        ones[::2] = False
    unknown = np.zeros(shape, bool)
    if kind == "unknown":
        unknown = rng.random(shape) < 0.2
        unknown[0, 0] = False
    values = np.where(unknown, np.nan, ones & ~unknown)
    matrix = sparse.csr_array(values)
    if kind == "unsorted":
        for lo, hi in pairwise(matrix.indptr):
            matrix.indices[lo:hi] = rng.permutation(matrix.indices[lo:hi])
    if kind == "wide numbers":
        matrix.indices, matrix.indptr = (
            a.astype(np.int64) for a in (matrix.indices, matrix.indptr)
        )
    return matrix, ones & ~unknown, unknown


def packed_of(matrix):
    return PackedTensor.from_tensor(BinaryTensor.from_any(matrix))


def check(loaded, ones, unknown):
    """Compare both unfoldings on the device, padding too, and the first on the host."""
    host = loaded.tensor.unfoldings[0]
    known = ~unknown if unknown.any() else None
    assert loaded.tensor.listed is None
    assert loaded.tensor.n_ones == ones.sum()
    for mode, transposed in enumerate((lambda a: a, np.transpose)):
        for part, dense in zip(loaded.on_device(mode), (ones, known), strict=True):
            assert (part is None) == (dense is None)
            if dense is not None:
                words = loaded.device.to_host(part.words).view(np.uint64)
                width = n_words(transposed(dense).shape[1])
                np.testing.assert_array_equal(words[:, :width], pack(transposed(dense)))
                assert not words[:, width:].any()
    np.testing.assert_array_equal(host.ones, pack(ones))
    assert (host.known is None) == (known is None)
    if known is not None:
        np.testing.assert_array_equal(host.known, pack(known))


@pytest.mark.parametrize("block", [8, 1 << 12, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_listed_entries_are_packed_on_the_device(shape, kind, block, engine, monkeypatch):
    """Blocks may be smaller than a row, and rows empty."""
    if block is not None:
        monkeypatch.setattr(loading, "BLOCK", block)
        monkeypatch.setattr(loading, "_PART", 16)
    monkeypatch.setattr(engine, "threads", 3)
    matrix, ones, unknown = made(shape, kind)
    check(engine.load(packed_of(matrix)), ones, unknown)


@pytest.mark.parametrize("block", [8, 1 << 12, None])
@pytest.mark.parametrize("kind", ["sorted", "unknown"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packed_rows_travel_in_blocks(shape, kind, block, engine, monkeypatch):
    """Each row longer on the device than on the host."""
    monkeypatch.setattr(device_memory, "_SMALL", 0)
    if block is not None:
        monkeypatch.setattr(loading, "BLOCK", block)
        monkeypatch.setattr(loading, "_PART", 16)
    monkeypatch.setattr(engine, "threads", 3)
    matrix, ones, unknown = made(shape, kind)
    tensor = packed_of(matrix)
    assert tensor.unfoldings[0].ones.shape == (shape[0], n_words(shape[1]))  # packs on the host
    check(engine.load(tensor), ones, unknown)


def test_dense_tensors_still_load(engine):
    """All unfoldings of a tensor of three modes travel."""
    rng = np.random.default_rng(1)
    tensor = packed_of(rng.random((5, 70, 4)) < 0.5)
    loaded = engine.load(tensor)
    for mode, unfolding in enumerate(tensor.unfoldings):
        words = loaded.device.to_host(loaded.on_device(mode)[0].words).view(np.uint64)
        np.testing.assert_array_equal(words[:, : unfolding.ones.shape[1]], unfolding.ones)


@pytest.mark.parametrize(
    "edit",
    [
        ("bounds[row + 1] - first : n;", "bounds[row + 1] - first : n - 1;"),  # drops an entry
        ("? bounds[row] - first : 0;", "? bounds[row] - first : 1;"),  # of a row cut in two
        ("(columns[k] >> 5), 1u", "((columns[k] >> 5) & 1), 1u"),  # forgets all words but two
        ("words + row * stride + (columns", "words + (row + !row) * stride + (columns"),
    ],
    ids=["last", "cut", "words", "row"],
)
@needs_compiler
def test_a_broken_kernel_is_found_out(edit, monkeypatch):
    """The comparison above rejects mistakes made on purpose."""
    monkeypatch.setattr(loading, "BLOCK", 1 << 8)
    device = HostDevice()
    device.edit = edit
    matrix, ones, unknown = made((33, 129), "sorted")
    with pytest.raises(AssertionError, match="not equal"):
        check(GpuEngine(device).load(packed_of(matrix)), ones, unknown)


def test_nobody_transposes_the_matrix_on_the_host(engine, monkeypatch):
    """The device does, and sweeps read rows of the host; only a start needs columns there."""
    monkeypatch.setattr(tensor_module, "refold", None)
    monkeypatch.setattr(tensor_module, "_pack_listed", None)
    matrix, *_ = made((70, 90), "unknown", seed=2)
    schedule = Schedule(starts=0)
    target = Target.prepare(matrix, schedule=schedule, engine=engine)
    found = [info for _, info in chain(np.uint64(3), target, 4)]
    monkeypatch.undo()
    other = Target.prepare(matrix, schedule=schedule, engine="cpu")
    assert found == [info for _, info in chain(np.uint64(3), other, 4)]


# --- the host packs when it is asked ------------------------------------------------------------


def test_the_host_packs_once(monkeypatch):
    """Threads that ask together get the same arrays; what was listed is let go."""
    monkeypatch.setattr(tensor_module, "WORDS_PER_THREAD", 1)
    matrix, ones, _ = made((700, 130), "unsorted")
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(matrix), threads=3)
    assert tensor.listed is not None
    found = []
    threads = [Thread(target=lambda: found.append(tensor.unfoldings[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f is found[0] for f in found)
    assert tensor.listed is None
    np.testing.assert_array_equal(unpack(found[0].ones, 700), ones.T)
    np.testing.assert_array_equal(unpack(tensor.unfoldings[0].ones, 130), ones)


def test_the_cpu_packs_when_it_loads():
    """Not in the first sweep: by then the caller may have changed the matrix."""
    matrix, ones, _ = made((70, 90), "sorted")
    tensor = CpuEngine().load(packed_of(matrix)).tensor
    matrix.indices[:] = 0
    np.testing.assert_array_equal(unpack(tensor.unfoldings[-1].ones, 70), ones.T)


@pytest.mark.parametrize("shape", [(5, 70), (3, 4, 5)])
def test_unfoldings_survive_a_pickle(shape):
    values = np.random.default_rng(0).random(shape) < 0.5
    tensor = packed_of(sparse.csr_array(values) if len(shape) == 2 else values)
    again = pickle.loads(pickle.dumps(tensor))
    for mine, theirs in zip(again.unfoldings, tensor.unfoldings, strict=True):
        np.testing.assert_array_equal(mine.ones, theirs.ones)
    assert len(tensor.unfoldings[:]) == len(shape)
    with pytest.raises(IndexError):
        tensor.unfoldings[len(shape)]
