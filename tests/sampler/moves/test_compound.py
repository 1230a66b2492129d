"""Birth and death of compounds."""

import pytest

from support.moves import (
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    assert_exact,
    assert_wrong_ratio_is_rejected,
)


def test_compound_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "compound")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_compound_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "compound", "serial")


@pytest.mark.slow  # densities are those of every SumOut: test_split_merge.py has them quickly
def test_compound_with_a_density_per_component():
    """A new component draws its own density; one that goes takes it along."""
    assert_exact(OWN_DENSITIES, "compound")


def test_a_wrong_ratio_of_compound_is_rejected(monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    assert_wrong_ratio_is_rejected("compound", "compound", monkeypatch.setattr)
