"""What components cover, kept up to date, equals what is counted from nothing."""

import numpy as np
import pytest

from thali.bits import PackedTensor, pack
from thali.data import BinaryTensor
from thali.optimize.cover import SPARE, cover_all, replace
from thali.optimize.join import (
    JOIN,
    KEEP,
    LEAVE,
    join_by_column,
    join_by_row,
    join_without_zeros,
    make_tools,
)
from thali.optimize.searcher import Problem
from thali.optimize.swaps import run_swaps
from thali.streams import chain_key

SHAPE, K = (130, 70), 9


@pytest.fixture
def problem():
    rng = np.random.default_rng(1)
    data = (rng.random(SHAPE) < 0.4).astype(float)
    data[rng.random(SHAPE) < 0.1] = np.nan
    return Problem.of(PackedTensor.from_tensor(BinaryTensor.from_any(data)), K, (1.0, 1.0))


def fill(sides, rng):
    for side, n in zip(sides, SHAPE, strict=True):
        side.lines[:] = pack(rng.random((K, n)) < 0.15)
    cover(sides)


def cover(sides):
    cover_all(sides[0], sides[1].lines)
    cover_all(sides[1], sides[0].lines)


def assert_up_to_date(problem, sides):
    again = problem.empty()
    for side, other in zip(sides, again, strict=True):
        other.lines[:] = side.lines
    cover(again)
    for side, other in zip(sides, again, strict=True):
        for kept, counted in zip(side, other, strict=True):
            assert (kept == counted).all()


def test_a_component_is_replaced(problem):
    """Cover is right after every change, whatever overlaps."""
    rng = np.random.default_rng(2)
    sides, spare = problem.empty(), np.zeros((SPARE, 3), np.uint64)
    fill(sides, rng)
    for component in range(K):
        rows, code = (pack(rng.random((1, n)) < 0.2)[0] for n in SHAPE)
        replace(sides, component, rows, code, spare)
        assert_up_to_date(problem, sides)


def test_a_change_behind_its_back_is_noticed(problem):
    """The comparison above fails if a component changes without its cover."""
    sides = problem.empty()
    fill(sides, np.random.default_rng(2))
    sides[0].lines[0, 0] ^= np.uint64(1)
    with pytest.raises(AssertionError):
        assert_up_to_date(problem, sides)


@pytest.mark.parametrize("ties", [LEAVE, KEEP, JOIN])
@pytest.mark.parametrize("costs", [(2.0, 3.0), (1.0, 1.0), (3.0, 1.0), (0.5, 2.5), (99.0, 1.0)])
def test_all_forms_of_a_join_agree(problem, costs, ties):
    """Popcounts and counters choose the same rows, which plain NumPy chooses, too.

    Counters are compared number by number, or in planes of equal costs or of a multiple.
    """
    rng = np.random.default_rng(3)
    sides, component = problem.empty(), 4
    fill(sides, rng)
    own, old = (side.lines[component] for side in sides)
    wanted = rng.random(SHAPE[1]) < 0.2
    code = pack(wanted[None])[0]
    columns = np.flatnonzero(wanted)
    out = [np.zeros_like(own) for _ in range(3)]
    tools = make_tools(np.uint64(0), max(SHAPE))
    counts = [
        join_by_row(sides[0], own, old, code, ties, costs, tools, out[0]),
        join_by_column(*sides, own, old, columns, ties, costs, tools, out[1]),
    ]
    if costs[0] > len(columns):
        counts.append(join_without_zeros(*sides, own, old, columns, ties, tools, out[2]))
    dense = [np.unpackbits(side.lines.view(np.uint8), axis=1, bitorder="little") for side in sides]
    users, codes = (part[:, :n].astype(bool) for part, n in zip(dense, SHAPE, strict=True))
    rest = np.arange(K) != component
    free = ~(users[rest].T @ codes[rest]) & wanted
    ones, zeros = (
        np.unpackbits(w.view(np.uint8), axis=1, bitorder="little")[:, : SHAPE[1]].astype(bool)
        for w in (sides[0].ones, sides[0].zeros)
    )
    n_ones, n_zeros = (free & ones).sum(axis=1), (free & zeros).sum(axis=1)
    value = costs[1] * n_ones - costs[0] * n_zeros
    equal = {LEAVE: False, KEEP: users[component], JOIN: True}[ties]
    chosen = (value > 0) | ((value == 0) & equal)
    for rows, found in zip(out, counts, strict=False):
        assert (rows == pack(chosen[None])[0]).all()
        assert found == (n_ones[chosen].sum(), n_zeros[chosen].sum())


@pytest.mark.parametrize("depth", [0, 3])
def test_a_search_keeps_its_books(problem, depth):
    """After many swaps and kicks, cover and errors are those of the factors."""
    sides, kept, saved = (problem.empty() for _ in range(3))
    best = tuple(side.lines.copy() for side in sides)
    least = np.array([0, problem.n_ones], np.int64)
    how = (problem.costs, (1.5, 1.0), chain_key(1), 0, 60, (20.0, 0.5), depth, False)
    run_swaps(sides, kept, saved, best, least, *how)
    assert_up_to_date(problem, sides)
    for side, lines in zip(sides, best, strict=True):
        side.lines[:] = lines
    cover(sides)
    wrong = (sides[0].zeros & sides[0].once), (sides[0].ones & ~sides[0].once)
    assert [int(np.bitwise_count(words).sum()) for words in wrong] == least.tolist()
    assert least.sum() < problem.n_ones
