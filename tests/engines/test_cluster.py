"""Processes that share the data draw the chain of one process: equality, not tolerance.

Threads take the part of processes here, with the same messages; ``test_mpi.py`` uses MPI.
"""

import sys
from functools import cache
from itertools import pairwise
from threading import Lock

import numpy as np
import pytest

import thali
from support.cluster_program import CASES, data_of, told
from support.host_device import HostDevice
from support.places import needs_compiler
from support.thread_ranks import on_ranks
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.engines.choose import processes_for
from thali.engines.cluster import engine as cluster_engine
from thali.engines.cluster.engine import ClusterEngine
from thali.engines.cluster.parts import Ranges, share
from thali.engines.cpu.engine import CpuEngine
from thali.engines.together import Alone
from thali.errors import EngineUnavailable, InvalidValue
from thali.sampler import Target
from thali.sampler.info import Info, _weigh
from thali.sampler.moves import at_once

_LOCK = Lock()


class OneAtATime(HostDevice):
    """The kernels on the host keep the shared memory of a block in one place."""

    def launch(self, *arguments, **more):
        with _LOCK:
            super().launch(*arguments, **more)


@pytest.fixture(autouse=True)
def _no_lock(monkeypatch):
    """Python 3.11 locks a cached property for all threads, and these wait for each other."""
    monkeypatch.setattr(Info, "_weighed", property(lambda i: _weigh(i._state, i._target)))


@cache
def alone(name, unknown):
    return told(CpuEngine(1), name, unknown=unknown)


@pytest.fixture
def _much_shared(monkeypatch):
    """Let a few processes share what otherwise only many do, and a few rows."""
    monkeypatch.setattr(cluster_engine, "MANY_RANKS", 2)
    monkeypatch.setattr(cluster_engine, "MANY_ROWS", 1)


def together(n, name, unknown, kinds=("cpu",)):
    def run(ranks):
        kind = kinds[ranks.number % len(kinds)]
        return told(ClusterEngine(ranks, 1, kind, OneAtATime()), name, unknown=unknown)

    results = on_ranks(n, run)
    assert all(result == results[0] for result in results)
    return results[0]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("name", CASES)
def test_the_chain_of_one_process(name, n):
    """All moves, effects, tensors and starts, with and without unknown entries."""
    unknown = 0.1 if n in (2, 5) else 0.0
    expected = alone(name, unknown)  # first: it compiles what threads then have
    assert together(n, name, unknown) == expected


@pytest.mark.usefixtures("_much_shared")
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("name", ["buffet", "effects", "windows", "windows with effects"])
def test_work_that_many_processes_share(name, n):
    assert together(n, name, 0.1) == alone(name, 0.1)


@pytest.fixture
def _impatient(monkeypatch):
    """Let tries of moves be examined together from the first sweep on."""
    monkeypatch.setattr(at_once, "PATIENCE", at_once.Patience(0))


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["windows", "windows with effects", "finite", "tiny"])
def test_processes_decide_about_tries_whose_columns_they_hold(name, n, monkeypatch):
    """They tell each other, and the chain is that of one process."""
    tell, decided = ClusterEngine.found_by_any, []

    def counted(engine, found):
        decided.append(int((~found).sum()))
        return tell(engine, found)

    monkeypatch.setattr(ClusterEngine, "found_by_any", counted)
    assert together(n, name, 0.1) == alone(name, 0.1)
    assert any(decided)


@pytest.mark.usefixtures("_impatient")
def test_tries_that_nobody_keeps_are_missed(monkeypatch):
    """Negative control: if what processes keep got lost, the chain would be another."""
    lost = lambda _, found: found & (np.arange(len(found)) == len(found) - 1)  # noqa: E731
    monkeypatch.setattr(ClusterEngine, "found_by_any", lost)
    assert together(3, "windows", 0.1) != alone("windows", 0.1)


@pytest.mark.usefixtures("_much_shared")
def test_rows_over_processes():
    """Arrays that a function makes are those of one process, also sums over some rows."""
    n_rows, per = 1000, 192

    def fill(lo, hi, words, sums, numbers):
        for row in range(lo, hi):
            words[row // 64] |= np.uint64(1) << np.uint64(row % 64)
            sums[row // per] += 1 / (1 + row)
            numbers[row] = row

    def made(engine):
        arrays = np.zeros(16, np.uint64), np.zeros((6, 1)), np.zeros(n_rows, np.int64)
        pers = zip(arrays, (64, per, 1), strict=True)
        engine.over_rows(fill, n_rows, *arrays, step=per, made=tuple(pers))
        return [array.tobytes() for array in arrays]

    def run(ranks):
        return made(ClusterEngine(ranks, 1, "cpu").load(PackedTensor.from_tensor(data)))

    data = BinaryTensor.from_any(np.eye(20))
    expected = made(CpuEngine(1))
    for n in (1, 2, 3, 8):
        assert on_ranks(n, run) == [expected] * n


@pytest.mark.usefixtures("_much_shared")
@pytest.mark.parametrize("name", ["windows", "windows with effects"])
def test_a_wrong_window_is_found_out(name, monkeypatch):
    """Negative control: counts in windows that are wrong give another chain."""
    add, n_calls = ClusterEngine._added_up, []

    def wrong(engine, columns, cover, sets, of_rows):
        n_calls.append(columns)
        counts = add(engine, columns, cover, sets, of_rows)
        return counts // 2

    monkeypatch.setattr(ClusterEngine, "_added_up", wrong)
    assert together(3, name, 0.1) != alone(name, 0.1)
    assert n_calls


@needs_compiler
@pytest.mark.parametrize("name", ["buffet", "effects", "own densities", "tensor with effects"])
def test_processes_on_devices_and_on_threads(name):
    """Some processes compute on GPUs and others on CPUs; here, kernels are built for the host."""
    assert together(3, name, 0.1, ("gpu", "cpu")) == alone(name, 0.1)


def test_a_wrong_engine_is_found_out(monkeypatch):
    """Negative control: an engine that forgets the births of others is not equal."""
    monkeypatch.setattr(ClusterEngine, "_all_births", lambda _, born, numbers: born)
    with pytest.raises((EngineUnavailable, ValueError, AssertionError)):
        assert together(3, "own densities", 0.1) == alone("own densities", 0.1)


def test_processes_that_disagree_stop(monkeypatch):
    """A process that has come to another state is named, by all."""
    numbers = iter(range(100))
    monkeypatch.setattr("thali.engines.cluster.put_together._digest", lambda _: next(numbers))
    with pytest.raises(EngineUnavailable, match="have come to another state than process 0"):
        together(2, "finite", 0.0)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [1, 64, 65, 300, 1000])
def test_ranges(n_rows, n_ranks):
    """Every row is held once, ranges begin at whole words, and none is much longer."""
    ranges = Ranges(n_rows, n_ranks)
    rows = [ranges.rows(number) for number in range(n_ranks)]
    assert rows[0][0] == 0
    assert rows[-1][1] == n_rows
    assert all(left[1] == right[0] for left, right in pairwise(rows))
    assert all(lo % 64 == 0 or lo == n_rows for lo, _ in rows)
    assert max(ranges.lengths) - min(ranges.lengths) <= 1
    assert sum(ranges.lengths) == -(-n_rows // 64)


@pytest.mark.parametrize("piece", [1, 1 << 14, None])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("shape", [(130, 300), (300, 70), (40, 66, 9)], ids=str)
def test_the_other_unfoldings(shape, is_sparse, piece, monkeypatch):
    """What processes send each other is the transpose, which one process makes for itself."""
    if piece is not None:
        monkeypatch.setattr("thali.engines.cluster.parts._PIECE", piece)
    dense = data_of(shape, unknown=0.1)
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(dense))
    if is_sparse and len(shape) == 2:
        from scipy import sparse

        tensor = PackedTensor.from_tensor(BinaryTensor.from_any(sparse.csr_array(dense == 1)))
        assert tensor.listed is not None
    whole = PackedTensor.from_unfolding(shape, tensor.rows(0, shape[0]))
    found = on_ranks(3, lambda ranks: share(tensor, ranks)[0])
    for mode, (ones, known) in enumerate(whole.unfoldings):
        assert (np.concatenate([parts[mode].ones for parts in found]) == ones).all()
        if known is not None:
            assert (np.concatenate([parts[mode].known for parts in found]) == known).all()


def test_more_processes_than_rows():
    data = np.eye(3)
    with pytest.raises(InvalidValue, match="4 processes were started for data of 3 rows"):
        on_ranks(4, lambda ranks: Target.prepare(data, engine=ClusterEngine(ranks, 1)))


def test_processes_with_other_data():
    def run(ranks):
        data = np.eye(8)
        data[0, 1 + ranks.number // 2] = 1  # as many ones
        return Target.prepare(data, engine=ClusterEngine(ranks, 1))

    with pytest.raises(InvalidValue, match="process 2 of 3 has other data than process 0"):
        on_ranks(3, run)


def test_a_serial_schedule_is_refused():
    with pytest.raises(ValueError, match="cannot speed up one row after another"):
        on_ranks(2, lambda ranks: Target.prepare(
            np.eye(3), schedule="serial", engine=ClusterEngine(ranks, 1)))  # fmt: skip


@pytest.mark.parametrize("engine", ["mpi", "mpi-cpu", "mpi-gpu"])
def test_started_alone(engine, monkeypatch):
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EngineUnavailable, match="was started alone; start it with `mpiexec -n N`"):
        thali.sample(np.eye(3), engine=engine)


def test_without_mpi4py(monkeypatch):
    """Under mpiexec, every process would sample by itself: that is refused, also for "auto"."""
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(EngineUnavailable, match=r"pip install \"thali\[mpi\]\""):
        thali.sample(np.eye(3))
    monkeypatch.setenv("PMI_SIZE", "1")  # such as a notebook that srun has started
    assert isinstance(processes_for("auto"), Alone)
