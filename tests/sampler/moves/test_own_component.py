"""A row's own component against its other entries."""

import pytest

from support import compare, mutants
from support.moves import (
    FIXED,
    LEARNED,
    assert_exact,
    assert_wrong_ratio_is_rejected,
    compared,
    far_apart,
    with_moves,
)


def test_own_component_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "reseat")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_own_component_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "reseat", "serial")


def test_a_wrong_ratio_of_own_component_is_rejected(monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    assert_wrong_ratio_is_rejected("reseat", "reseat", monkeypatch.setattr)


@pytest.mark.slow  # only rows with more than eight other entries choose; all are drawn above
def test_a_random_choice_of_entries_is_exact(monkeypatch):
    """Not all other entries of a row are drawn together; which ones must not depend on them."""
    mutants.one_entry(monkeypatch.setattr)
    compare.assert_matches(*compared(with_moves(FIXED, reseat=4), 12_000))
    mutants.chosen_entry(monkeypatch.setattr)
    compare.assert_rejected(*with_moves(FIXED, reseat=4), 12_000)


@pytest.mark.slow  # only rows of more than 2,048 columns; test_tries.py has two decisions quickly
def test_two_decisions_are_exact(monkeypatch):
    """By one word of columns first, then by all; the word must count once."""
    mutants.one_word_first(monkeypatch.setattr)
    compare.assert_matches(*compared(far_apart("reseat"), 8_000))
    mutants.one_word_first(monkeypatch.setattr, ("- log_before - part", "- log_before + part"))
    compare.assert_rejected(*far_apart("reseat"), 8_000)
