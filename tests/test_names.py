"""Names under which people look for thali: modules to import and to run, arrays of factors."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import thali
from thali.bits import Factor


@pytest.mark.parametrize(
    ("name", "home"), [("thali.pl", "thali.plots"), ("thali.tl", "thali.single_cell")]
)
def test_short_names_can_be_imported(name, home):
    """``import thali.pl`` works like ``thali.pl``, and has all that the home of the names has."""
    module, real = importlib.import_module(name), importlib.import_module(home)
    assert module.__all__ == real.__all__
    for part in module.__all__:
        assert getattr(module, part) is getattr(real, part)
    assert getattr(thali, name.removeprefix("thali.")) is module


def test_the_package_can_be_run():
    """``python -m thali`` is the command."""
    ended = subprocess.run(
        [sys.executable, "-m", "thali", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == f"thali, version {thali.__version__}"


def test_a_factor_is_an_array():
    """NumPy takes a factor as the Boolean array that it packs, or as numbers if asked."""
    dense = np.random.default_rng(0).random((70, 3)) < 0.4
    factor = Factor.from_dense(dense)
    np.testing.assert_array_equal(np.asarray(factor), dense)
    assert np.asarray(factor).dtype == np.bool_
    assert np.array(factor, dtype=float).sum() == dense.sum()
    with pytest.raises(ValueError, match="always a copy"):
        np.asarray(factor, copy=False)
