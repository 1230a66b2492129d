"""Birth and death of components like what is left, and their replacement."""

import pytest

from support import compare, mutants
from support.moves import (
    FINITE,
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    assert_exact,
    assert_wrong_ratio_is_rejected,
    compared,
    finite,
)


def test_residual_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "residual")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_residual_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "residual", "serial")


@pytest.mark.slow  # test_split_merge.py and others have densities per component quickly
def test_residual_with_a_density_per_component():
    """A new component draws its own density; one that goes takes it along."""
    assert_exact(OWN_DENSITIES, "residual")


def test_a_wrong_ratio_of_residual_is_rejected(monkeypatch):
    """The same comparison fails when the proposal is left out of the acceptance ratio."""
    assert_wrong_ratio_is_rejected("residual", "residual", monkeypatch.setattr)


@pytest.mark.parametrize(
    "name", [n if n == "fixed" else pytest.param(n, marks=pytest.mark.slow) for n in FINITE]
)
def test_replacement_is_exact(name):
    """The number of components stays."""
    compare.assert_matches(*compared(finite(name, residual=4), 8_000))


def test_a_wrong_ratio_of_replacement_is_rejected(monkeypatch):
    """The same comparison fails when what is replaced is not weighed."""
    mutants.wrong_replacement(monkeypatch.setattr)
    compare.assert_rejected(*finite("fixed", residual=4), 8_000)
