"""Free entries of a few columns by class of rows, for sets of rows that moves propose."""

import numpy as np
import pytest

from support.classes import Case
from support.emulated_device import EmulatedDevice
from support.host_device import HostDevice
from support.places import GPU, needs_compiler, place
from thali.bits import pack
from thali.engines.gpu import row_sets
from thali.engines.gpu.engine import GpuEngine
from thali.model import Weights

SHAPE, N_BLOCK = (700, 400), 130


def orders(case, n_sets, seed):
    """Draw columns that begin anywhere, components that cover, and sets of rows."""
    rng = np.random.default_rng(seed)
    for n in n_sets:
        start = int(rng.integers(0, case.shape[1] - N_BLOCK + 1))
        is_counted = rng.random(case.n_components) < 0.5
        yield start, is_counted, rng.random((n, case.shape[0])) < rng.uniform(0.1, 0.9)


def by_loops(case, start, is_counted, sets):
    """Count with arrays of bits."""
    users, codes = (factor.dense()[:, is_counted] for factor in case.factors)
    columns = slice(start, start + N_BLOCK)
    free = case.known[:, columns] & ~(users.astype(int) @ codes[columns].T.astype(int) > 0)
    own = np.zeros(len(users), int) if case.weights.rows is None else case.weights.rows
    number = (sets * (1 << np.arange(len(sets)))[:, None]).sum(axis=0)
    counts = np.zeros((N_BLOCK, (1 << len(sets)) - 1, own.max() + 1, 2), int)
    for value in (0, 1):
        is_one = case.values[:, columns] == bool(value)
        for row in np.flatnonzero(number):
            counts[:, number[row] - 1, own[row], 1 - value] += (free & is_one)[row]
    return counts.reshape(N_BLOCK, -1, 2)


def compare(engine, share=0.9, *, has_classes=True, n_sets=(1, 2, 3, 6), shape=SHAPE):
    """Return whether the counts of some orders are right."""
    case = Case(shape, 40, density=0.1, n_classes=(7, 2), share=share)
    if not has_classes:
        case.weights = Weights(case.weights.table)
    rows = case.loaded(engine).row_sets(tuple(case.factors))
    asked, expected = [], []
    for start, is_counted, sets in orders(case, n_sets, 5):
        lines = rows.engine.upload(pack(sets)).words
        asked.append(
            rows.gains_of_columns((start, start + N_BLOCK), is_counted, lines, case.weights)
        )
        expected.append(by_loops(case, start, is_counted, sets))
    found = rows._count_columns(asked)
    return all(
        np.array_equal(rows.engine.device.to_host(a), b)
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("engine", GPU)
@pytest.mark.parametrize("has_classes", [False, True])
@pytest.mark.parametrize("piece", [100, 1 << 13])
def test_counts_of_columns(engine, has_classes, piece, monkeypatch):
    """More columns than are counted at once, more classes, and more rows than fit in counters."""
    monkeypatch.setattr(row_sets, "_PIECE", piece)
    assert compare(place(engine), has_classes=has_classes)
    assert compare(place(engine), 1.0, has_classes=has_classes)


@needs_compiler
def test_codes_of_a_block_must_fit():
    """Beyond what a block of threads has room for, nobody looks ahead."""
    case = Case(SHAPE, 40, density=0.1)
    engine = case.loaded(GpuEngine(HostDevice()))
    engine.device.shared = row_sets.shared_by_columns(engine, 40)
    assert engine.row_sets(tuple(case.factors)) is not None
    engine.device.shared -= 1
    assert engine.row_sets(tuple(case.factors)) is None


@needs_compiler
@pytest.mark.slow  # the same kernel with one thread per block is tested quickly above
def test_lanes_share_rows():
    """Threads and warps as on a GPU."""
    assert compare(GpuEngine(EmulatedDevice()), n_sets=(2, 3))


MISTAKES = {
    "the end of a column's word": ("if (shift && shift + left > 32)", "if (false)"),
    "a row of the next piece": ("place >= piece[1] ? NONE", "place > piece[1] ? NONE"),
    "counters that are full": ("(1 << PART_PLANES) - 1) / 4", "(4 << PART_PLANES) - 1) / 4"),
    "other components": ("masks[row * n_masks + m] & is_counted[m]", "masks[row * n_masks + m]"),
    "all columns are known": ("near.known ? near.word(", "0 ? near.word("),
}


@needs_compiler
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_counts_are_found(mistake):
    """The same comparison."""
    device = HostDevice()
    device.edit = MISTAKES[mistake]
    found = [
        compare(GpuEngine(device), has_classes=has, shape=(2_500, 400), n_sets=(1, 2))
        for has in (False, True)
    ]
    assert not all(found)
