"""Split and merge by what fits two rows."""

import pytest

from support import compare, mutants
from support.moves import (
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    QUICK,
    assert_exact,
    assert_wrong_ratio_is_rejected,
    compared,
    far_apart,
    with_moves,
)


def test_anchored_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "anchored")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_anchored_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "anchored", "serial")


@pytest.mark.slow  # densities are those of every SumOut: test_split_merge.py has them quickly
def test_anchored_with_a_density_per_component():
    """A new component draws its own density; one that goes takes it along."""
    assert_exact(OWN_DENSITIES, "anchored")


def test_a_wrong_ratio_of_anchored_is_rejected(monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    assert_wrong_ratio_is_rejected("anchored", "anchored", monkeypatch.setattr)


def test_anchors_that_see_a_part_of_the_data_are_exact(monkeypatch):
    """One word of columns and one user more say what tells two components apart.

    A wrong ratio has a |z| of 82 after 2,000 sweeps.
    """
    mutants.short_sight(monkeypatch.setattr)
    compare.assert_matches(*compared(far_apart("anchored"), QUICK // 2))


@pytest.mark.slow  # a wrong ratio of the same move is rejected quickly
def test_anchors_that_see_nothing_in_a_merge_are_rejected(monkeypatch):
    """What they show must be the same whether one is split or two are merged."""
    marks = "marks = _mark(free, ones, *weights)"
    blind = (marks, f"{marks}\n        marks *= np.uint64(first == second)")
    mutants.short_sight(monkeypatch.setattr, blind)
    compare.assert_rejected(*with_moves(FIXED, anchored=16), 12_000)


@pytest.mark.slow  # a finer mistake of the same kind as the one above
def test_anchors_that_see_less_in_a_merge_are_rejected(monkeypatch):
    """What they show must be the same whether one is split or two are merged."""
    less = (
        "marks = _mark(free, ones, *weights)",
        "marks = _mark(free, ones, *weights, _ROUNDS if first == second else 0)",
    )
    asked = ("def _mark(free: Words, ones: Words, w1: float, w0: float) -> Words:",
             "def _mark(free, ones, w1, w0, rounds):")  # fmt: skip
    mutants.short_sight(
        monkeypatch.setattr, less, asked, ("in range(_ROUNDS):", "in range(rounds):")
    )
    compare.assert_rejected(*with_moves(FIXED, anchored=16), 24_000)
