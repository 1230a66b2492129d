"""Merge two components and split a third: the number of components stays."""

import pytest

from support import compare, mutants
from support.moves import QUICK, QUICK_AND_SLOW, compared, finite


@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_exchange_is_exact(name):
    """Four tries per sweep leave the exact posterior as it is."""
    compare.assert_matches(*compared(finite(name, split_merge=4), QUICK))


def test_a_wrong_ratio_of_exchange_is_rejected(monkeypatch):
    """The same comparison fails when the divisions are not weighed: |z| is 18, the bound 6."""
    mutants.wrong_exchange(monkeypatch.setattr)
    compare.assert_rejected(*finite("fixed", split_merge=4), QUICK)
