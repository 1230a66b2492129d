"""Moves of whole components: exact, each of them, and rejected when their ratio is wrong."""

import pytest

import compare
import exact
import mutants
from chains import X33, as_exact, hide, run
from thali.model import Beta, FixedRates, Gamma, Model, UnequalRates
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

FIXED = (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3))
LEARNED = (
    X33,
    ((1, 1), (2, 0)),
    Model(
        noise=UnequalRates((1.5, 6.0), (2.0, 5.0)), alpha=Gamma(2.0, 1.5), density=Beta(2.0, 3.0)
    ),
)
MOVES = ("split_merge", "guided", "residual")


@pytest.fixture(autouse=True)
def _two_stages(monkeypatch):
    """Three columns are enough for a first decision by one of them, then by all."""
    monkeypatch.setattr("thali.sampler.moves._BLOCK", 1)


def compared(problem, n_sweeps, kind, **moves):
    x, hidden, model = problem
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=24)
    return (*run(tensor, model, n_sweeps, kind=kind, **moves), expected)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    ("problem", "kind"), [(FIXED, "parallel"), (LEARNED, "serial")], ids=["fixed", "learned"]
)
def test_each_move_alone_is_exact(problem, kind, move):
    """Four tries a sweep leave the exact posterior as it is."""
    compare.assert_matches(*compared(problem, 8_000, kind, **{move: 4}))


@pytest.mark.parametrize("problem", [FIXED, LEARNED], ids=["fixed", "learned"])
def test_all_moves_together_are_exact(problem):
    """As they are used."""
    compare.assert_matches(
        *compared(problem, 6_000, "parallel", split_merge=5, guided=5, residual=2)
    )


@pytest.mark.parametrize("move", MOVES)
def test_a_wrong_ratio_is_rejected(move, monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    mutants.wrong_ratio(move)(monkeypatch.setattr)
    ks, fs, expected = compared(FIXED, 8_000, "parallel", **{move: 4})
    z = compare.max_abs_z(ks, fs, expected)
    assert compare.rejects(ks, fs, expected), f"largest |z| is only {z:.1f}"


def test_a_block_that_counts_twice_is_rejected(monkeypatch):
    """The columns of the first decision must not count again in the second."""
    mutants.block_counted_twice(monkeypatch.setattr)
    ks, fs, expected = compared(FIXED, 8_000, "parallel", split_merge=4, guided=4)
    z = compare.max_abs_z(ks, fs, expected)
    assert compare.rejects(ks, fs, expected), f"largest |z| is only {z:.1f}"


def test_acceptance_is_told():
    """Every sweep says how often each move was tried and accepted."""
    target = Target.prepare(X33, schedule=Schedule(split_merge=3, guided=2, residual=1))
    told = [info.moves for _, info in chain(chain_key(0), target, 300)]
    assert {tuple(tries for tries, _ in moves) for moves in told} == {(3, 2, 1)}
    for kind in range(3):
        assert 0 < sum(moves[kind][1] for moves in told) < sum(m[kind][0] for m in told)
