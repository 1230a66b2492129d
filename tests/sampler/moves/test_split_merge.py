"""Split and merge."""

import pytest

from support.moves import (
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    assert_exact,
    assert_wrong_ratio_is_rejected,
)


def test_split_merge_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "split_merge")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_split_merge_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "split_merge", "serial")


@pytest.mark.slow  # densities come and go with components, as in residual moves
def test_split_merge_with_a_density_per_component():
    """A new component draws its own density; one that goes takes it along."""
    assert_exact(OWN_DENSITIES, "split_merge")


def test_a_wrong_ratio_of_split_merge_is_rejected(monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    assert_wrong_ratio_is_rejected("split_merge", "split_merge", monkeypatch.setattr)


@pytest.mark.slow  # the same comparison as above, of another mistake
def test_a_wrong_probability_of_the_partner_is_rejected(monkeypatch):
    """Which component was chosen to merge with another belongs into the ratio."""
    assert_wrong_ratio_is_rejected("partner", "split_merge", monkeypatch.setattr)
