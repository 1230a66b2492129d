"""All blocks of a small matrix at once: the same as one block after another."""

from importlib import import_module as module

import numpy as np
import pytest

import thali
from support.chains import NO_MOVES
from support.mutants import mutate, one_quickly
from thali.bits import Totals
from thali.engines.cpu.engine import CpuEngine, divided
from thali.model import Model
from thali.sampler import Schedule, Target, chain
from thali.streams import Stream, chain_key

BLOCKS = "thali.engines.cpu.blocks"
DATA = thali.simulate(
    (70, 75), 4, spurious=0.2, dropped=0.2, unknown=0.1, seed=3, row_spread=1.0, column_spread=1.0
).tensor


def states(noise, *, is_at_once, threads=1):
    """Return what a chain with many single-row components goes through."""
    engine = CpuEngine(threads)
    model = Model(noise=noise, alpha=20.0)
    target = Target.prepare(DATA, model, Schedule(starts=0, warmup=0, **NO_MOVES), engine)
    if not is_at_once:
        target.engine.scan_blocks = lambda *_: None
    found = []
    n_new = 0
    for state, _ in chain(chain_key(0), target, 5):
        n_new += int((state.factors[0].sizes() == 1).sum())
        found.append([*(f.words.tolist() for f in state.factors), state.covered])
    assert n_new > 5  # births are compared as well
    return found


@pytest.mark.parametrize("noise", ["unequal", "effects"])
def test_all_blocks_at_once(noise, monkeypatch):
    """Factors and counts are the same bits, on one thread and on several."""
    expected = states(noise, is_at_once=False)
    assert states(noise, is_at_once=True) == expected
    assert states(noise, is_at_once=True, threads=2) == expected
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 1)  # a block is much work for threads
    assert states(noise, is_at_once=True, threads=3) == expected


def test_long_blocks_of_short_rows_are_not_done_so():
    """They are drawn 64 rows at a time."""
    codes = np.zeros((8, 64), np.uint64)
    assert not CpuEngine(2).is_vertical(400, codes, has_classes=False)
    assert CpuEngine(1).is_vertical(400, codes[:, :2], has_classes=True)


MISTAKES = {
    "single-row components are forgotten": (
        "weights, singles, scores", "weights, 0 * singles, scores"
    ),
    "components may lose all users": ("is_held, weights", "is_held & False, weights"),
    "the sticks of another block": ("_STICKS, block, sizes", "_STICKS, block + _ONE, sizes"),
    "zeros count as ones": ("tp += covered[i, 0]", "tp += covered[i, 1]"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", one_quickly(MISTAKES))
def test_mistakes_are_found(mistake, monkeypatch):
    """A mistake in doing all blocks at once changes the chain."""
    expected = states("unequal", is_at_once=False)
    mutant = mutate(BLOCKS, [MISTAKES[mistake]])
    monkeypatch.setattr(module("thali.engines.cpu.engine"), "blocks", mutant)
    assert states("unequal", is_at_once=True) != expected


@pytest.mark.parametrize("n_blocks", [2, 4, 7])
@pytest.mark.parametrize("n_rows", [7, 64, 9001])
def test_rows_are_divided_as_sorting_divides_them(n_rows, n_blocks, monkeypatch):
    """Without sorting, the same blocks; equal keys are left to sorting."""
    engine = CpuEngine(1)
    engine.totals = Totals((n_rows, 2), 2 * n_rows, 0, 0)
    streams = [Stream(np.uint64(3), np.uint64(sweep)) for sweep in range(5)]
    quick = [engine.partition(stream, n_blocks) for stream in streams]
    monkeypatch.setattr("thali.engines.cpu.engine.divided", lambda *_: [])
    for stream, blocks in zip(streams, quick, strict=True):
        for block, expected in zip(blocks, engine.partition(stream, n_blocks), strict=True):
            assert block.tolist() == expected.tolist()


def test_equal_keys_are_left_to_sorting():
    """Nothing is divided if it is not clear which row belongs where."""
    assert divided(np.array([5, 1, 1, 1], np.uint64), [0, 2, 4]) == []
    blocks = divided(np.array([5, 1, 1, 1], np.uint64), [0, 3, 4])
    assert [block.tolist() for block in blocks] == [[1, 2, 3], [0]]
