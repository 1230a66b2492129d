"""Moves of whole components: exact, each of them, and rejected when their ratio is wrong."""

import numpy as np
import pytest

from support import compare, exact, mutants
from support.chains import NO_MOVES, X32, X33, as_exact, hide, run
from thali.model import (
    Beta,
    EqualRates,
    FixedRates,
    Gamma,
    Model,
    PerComponent,
    UnequalRates,
)
from thali.sampler import Schedule, Target, chain
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

FIXED = (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3))
LEARNED = (
    X33,
    ((1, 1), (2, 0)),
    Model(
        noise=UnequalRates((1.5, 6.0), (2.0, 5.0)), alpha=Gamma(2.0, 1.5), density=Beta(2.0, 3.0)
    ),
)


@pytest.fixture(autouse=True)
def _two_stages(monkeypatch):
    """Three columns are enough for a first decision by one of them, then by all."""
    monkeypatch.setattr("thali.sampler.moves.move._BLOCK", 1)


def compared(problem, n_sweeps, kind, **moves):
    x, hidden, model = problem
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=24)
    return (*run(tensor, model, n_sweeps, kind=kind, **moves), expected)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        pytest.param(FIXED, "parallel", id="fixed"),
        pytest.param(LEARNED, "serial", id="learned", marks=pytest.mark.slow),  # the next has it
    ],
)
def test_each_move_alone_is_exact(problem, kind, move):
    """Four tries a sweep leave the exact posterior as it is."""
    compare.assert_matches(*compared(problem, 8_000, kind, **{move: 4}))


@pytest.mark.parametrize("problem", [FIXED, LEARNED], ids=["fixed", "learned"])
def test_all_moves_together_are_exact(problem):
    """As they are used."""
    compare.assert_matches(
        *compared(
            problem,
            6_000,
            "parallel",
            split_merge=5,
            anchored=3,
            guided=5,
            compound=3,
            reseat=3,
            residual=2,
        )
    )


@pytest.mark.parametrize("mistake", mutants.WRONG_RATIOS)
def test_a_wrong_ratio_is_rejected(mistake, monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    mutants.wrong_ratio(mistake)(monkeypatch.setattr)
    move = "split_merge" if mistake == "partner" else mistake
    ks, fs, expected = compared(FIXED, 8_000, "parallel", **{move: 4})
    z = compare.max_abs_z(ks, fs, expected)
    assert compare.rejects(ks, fs, expected), f"largest |z| is only {z:.1f}"


def test_a_block_that_counts_twice_is_rejected(monkeypatch):
    """The columns of the first decision must not count again in the second."""
    mutants.block_counted_twice(monkeypatch.setattr)
    ks, fs, expected = compared(FIXED, 8_000, "parallel", split_merge=4, guided=4)
    z = compare.max_abs_z(ks, fs, expected)
    assert compare.rejects(ks, fs, expected), f"largest |z| is only {z:.1f}"


def test_a_random_choice_of_seats_is_exact(monkeypatch):
    """Not all other entries of a row are drawn together; which ones must not depend on them."""
    mutants.one_seat(monkeypatch.setattr)
    compare.assert_matches(*compared(FIXED, 12_000, "parallel", reseat=4))
    mutants.chosen_seat(monkeypatch.setattr)
    assert compare.rejects(*compared(FIXED, 12_000, "parallel", reseat=4))


def far_apart(n_sweeps, move):
    """Compare as above, with the columns of the problem in three words, all between unknown."""
    x, hidden, model = FIXED
    columns = [0, 70, 140]
    tensor, known = hide(x, *hidden)
    wide = np.full((3, 192), np.nan)
    wide[:, columns] = tensor
    schedule = Schedule(blocks=2, hold=0, **NO_MOVES | {move: 12})
    target = Target.prepare(wide, model, schedule, threads=1)
    ks, fs = np.empty(n_sweeps, int), np.empty(n_sweeps, int)
    for i, (state, info) in enumerate(chain(chain_key(1), target, n_sweeps)):
        users, codes = (factor.dense().astype(int) for factor in state.factors)
        ks[i] = info.n_components
        fs[i] = (users @ codes[columns].T > 0).ravel() @ (1 << np.arange(9))
    return ks, fs, exact.posterior_ibp(x, known, as_exact(model), max_components=24)


def test_two_decisions_about_a_seat_are_exact(monkeypatch):
    """By one word of columns first, then by all; the word must count once."""
    mutants.one_word_first(monkeypatch.setattr)
    compare.assert_matches(*far_apart(8_000, "reseat"))
    mutants.one_word_first(monkeypatch.setattr, ("- log_before - part", "- log_before + part"))
    assert compare.rejects(*far_apart(8_000, "reseat"))


def test_anchors_that_see_a_part_of_the_data_are_exact(monkeypatch):
    """One word of columns and one user more say what tells two components apart."""
    mutants.short_sight(monkeypatch.setattr)
    compare.assert_matches(*far_apart(8_000, "anchored"))


def test_anchors_that_see_less_in_a_merge_are_rejected(monkeypatch):
    """What they show must be the same whether one is split or two are merged."""
    less = ("in range(_ROUNDS):", "in range(_ROUNDS if first == second else 0):")
    mutants.short_sight(monkeypatch.setattr, less)
    assert compare.rejects(*compared(FIXED, 24_000, "parallel", anchored=16))


LEARNED_ALPHA = (
    X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=Gamma(2.0, 1.5), density=0.3)
)  # fmt: skip


def test_more_tries_for_more_components_are_exact(monkeypatch):
    """Their number may depend on alpha, which no move changes, not on the components."""
    monkeypatch.setattr("thali.sampler.moves.move._FEW", 0.7)
    compare.assert_matches(*compared(LEARNED_ALPHA, 8_000, "parallel", guided=1, residual=1))
    mutants.tries_by_what_they_change(monkeypatch.setattr)
    assert compare.rejects(*compared(LEARNED_ALPHA, 8_000, "parallel", guided=1, residual=1))


OWN_DENSITIES = Model(
    noise=FixedRates(0.1, 0.25), alpha=1.4, density=PerComponent(1.0, 2.0, n_values=3)
)


@pytest.mark.parametrize("move", sorted({*MOVES} - {"reseat"}))
def test_moves_with_a_density_per_component(move):
    """A new component draws its own density; one that goes takes it along."""
    compare.assert_matches(
        *compared((X33, ((0, 2),), OWN_DENSITIES), 8_000, "parallel", **{move: 4})
    )


FINITE = {
    "fixed": (X33, ((0, 2),), Model(3, FixedRates(0.1, 0.2), density=(0.4, 0.3)), 0.4),
    "learned": (
        X32,
        (),
        Model(3, UnequalRates((2.0, 6.0), (2.0, 5.0)), density=Beta(2.0, 3.0)),
        None,
    ),
    "per-component": (
        X32,
        ((0, 1),),
        Model(3, EqualRates((2.0, 6.0)), density=PerComponent(1.0, 2.0, n_values=3)),
        None,
    ),
}


def compared_finite(name, n_sweeps, **moves):
    x, hidden, model, density_rows = FINITE[name]
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_finite(x, known, as_exact(model), 3, density_rows)
    return None, run(tensor, model, n_sweeps, **moves)[1], expected


@pytest.mark.parametrize("move", ["split_merge", "residual"])
@pytest.mark.parametrize("name", FINITE)
def test_moves_of_the_finite_model_are_exact(name, move):
    """Merge with split, and replacement: the number of components stays."""
    compare.assert_matches(*compared_finite(name, 8_000, **{move: 4}))


@pytest.mark.parametrize(
    ("mistake", "move"),
    [(mutants.wrong_exchange, "split_merge"), (mutants.wrong_replacement, "residual")],
)
def test_a_wrong_ratio_of_the_finite_model_is_rejected(mistake, move, monkeypatch):
    """The same comparison fails."""
    mistake(monkeypatch.setattr)
    ks, fs, expected = compared_finite("fixed", 8_000, **{move: 4})
    z = compare.max_abs_z(ks, fs, expected)
    assert compare.rejects(ks, fs, expected), f"largest |z| is only {z:.1f}"


@pytest.mark.parametrize(("n_columns", "tries"), [(16_384, 5), (16_385, 3)])
def test_half_the_tries_on_wide_data(n_columns, tries):
    """By the shape of the data, which no move changes; never less than one."""
    data = np.zeros((2, n_columns), bool)
    schedule = Schedule(**NO_MOVES | {"split_merge": 5, "residual": 1})
    target = Target.prepare(data, Model(alpha=1.0), schedule, threads=1)
    (_, info), *_ = chain(chain_key(0), target, 1)
    assert [n for n, _ in info.moves] == [tries, 0, 0, 0, 0, 1]


def test_acceptance_is_told():
    """Every sweep says how often each move was tried and accepted."""
    schedule = Schedule(split_merge=3, anchored=4, guided=2, compound=2, reseat=2, residual=1)
    target = Target.prepare(X33, Model(alpha=1.0), schedule)
    told = [info.moves for _, info in chain(chain_key(0), target, 300)]
    assert {tuple(tries for tries, _ in moves) for moves in told} == {(3, 4, 2, 2, 2, 1)}
    for kind in range(len(MOVES)):
        assert 0 < sum(moves[kind][1] for moves in told) < sum(m[kind][0] for m in told)
