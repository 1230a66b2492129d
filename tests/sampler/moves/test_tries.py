"""All moves of a sweep together: exact, as often as they should be, and counted."""

import numpy as np
import pytest

from support import compare, mutants
from support.chains import NO_MOVES, X33
from support.moves import FIXED, LEARNED, compared, with_moves
from thali.model import FixedRates, Gamma, Model
from thali.sampler import Schedule, Target, chain
from thali.sampler.moves import tries
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

ALL = {
    "split_merge": 5, "anchored": 3, "guided": 5, "compound": 3, "reseat": 3, "residual": 2,
    "toggle": 2, "seeded": 2,
}  # fmt: skip


@pytest.mark.slow  # Geweke's test with effects has all moves, and everything learned, quickly
@pytest.mark.parametrize(
    "problem", [pytest.param(FIXED, id="fixed"), pytest.param(LEARNED, id="learned")]
)
def test_all_moves_together_are_exact(problem):
    """As they are used; each move alone has the fixed rates quickly."""
    compare.assert_matches(*compared(with_moves(problem, **ALL), 6_000))


def test_a_block_that_counts_twice_is_rejected(monkeypatch):
    """The columns of the first decision must not count again in the second."""
    mutants.block_counted_twice(monkeypatch.setattr)
    compare.assert_rejected(*with_moves(FIXED, split_merge=4, guided=4), 8_000)


LEARNED_ALPHA = (
    X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=Gamma(2.0, 1.5), density=0.3)
)  # fmt: skip


@pytest.mark.slow
def test_more_tries_for_more_components_are_exact(monkeypatch):
    """Their number may depend on alpha, which no move changes, not on the components.

    One move alone shows it best: after 4,000 sweeps the mistake has a |z| of 8.7, with two of 7.1.
    """
    monkeypatch.setattr(tries, "_FEW", 0.7)
    compare.assert_matches(*compared(with_moves(LEARNED_ALPHA, guided=1), 8_000))
    mutants.tries_by_what_they_change(monkeypatch.setattr)
    compare.assert_rejected(*with_moves(LEARNED_ALPHA, guided=1), 8_000)


@pytest.mark.parametrize(("n_columns", "n_tries"), [(16_384, 5), (16_385, 3)])
def test_half_the_tries_on_wide_data(n_columns, n_tries):
    """By the shape of the data, which no move changes; never less than one."""
    data = np.zeros((2, n_columns), bool)
    schedule = Schedule(**NO_MOVES | {"split_merge": 5, "residual": 1})
    target = Target.prepare(data, Model(alpha=1.0), schedule, threads=1)
    (_, info), *_ = chain(chain_key(0), target, 1)
    expected = dict.fromkeys(MOVES, 0) | {"split_merge": n_tries, "residual": 1}
    assert {name: n for name, (n, _) in info.moves.items()} == expected


def test_acceptance_is_reported():
    """Every sweep says how often each move was tried and accepted."""
    schedule = Schedule(**ALL)
    target = Target.prepare(X33, Model(alpha=1.0), schedule)
    reported = [info.moves for _, info in chain(chain_key(0), target, 300)]
    for name in tries.BUFFET:
        assert {moves[name][0] for moves in reported} == {ALL[name]}
        assert 0 < sum(moves[name][1] for moves in reported) < 300 * ALL[name]


def test_every_move_has_a_file_and_a_name():
    """The buffet has all moves of components, the finite model some of them; levels are traded."""
    assert {*tries.BUFFET, "trade"} == set(MOVES)
    assert set(tries.FINITE) <= set(MOVES)
    for move in (*tries.BUFFET.values(), *tries.FINITE.values()):
        assert type(move).__module__.startswith("thali.sampler.moves.")


def test_tensors_have_no_moves_yet():
    """Their codes cannot be summed out column by column."""
    target = Target.prepare(np.ones((2, 2, 2)), Model(2), Schedule(**ALL), threads=1)
    (_, info), *_ = chain(chain_key(0), target, 1)
    assert {n for n, _ in info.moves.values()} == {0}
