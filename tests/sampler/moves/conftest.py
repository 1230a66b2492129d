"""Settings of all tests of moves."""

import pytest


@pytest.fixture(autouse=True)
def _two_stages(monkeypatch):
    """Three columns are enough for a first decision by one of them, then by all."""
    monkeypatch.setattr("thali.sampler.moves.move._BLOCK", 1)
