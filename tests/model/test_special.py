"""Compiled code calls SciPy's own function, wherever that is in this process."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import betainc, betaincinv

from thali._jit import KERNELS, jit
from thali.model.special import ADDRESSES, _address, below_beta, inverse_beta


def test_the_same_bits_as_scipy():
    """For large, small and whole numbers of the parameters, and for tails."""
    before = len(KERNELS)

    @jit
    def invert(addresses, a, b, p, out):
        for i in range(out.shape[1]):
            out[0, i] = inverse_beta(addresses, a[i], b[i], p[i])
            out[1, i] = below_beta(addresses, a[i], b[i], p[i])

    del KERNELS[before:]
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(-3.0, 14.0, (2, 20_000)))
    a[::2], b[::2] = np.ceil(a[::2]), np.ceil(b[::2])
    p = rng.random(len(a)) ** rng.integers(1, 30, len(a))
    found = np.empty((2, len(a)))
    invert(ADDRESSES, a, b, p, found)
    expected = betaincinv(a, b, p), betainc(a, b, p)
    assert found.tobytes() == b"".join(values.tobytes() for values in expected)


def test_the_same_without_a_compiler():
    """The functions are SciPy's own if nothing is compiled."""
    assert inverse_beta(ADDRESSES, 2.0, 3.0, 0.5) == betaincinv(2.0, 3.0, 0.5)
    assert below_beta(ADDRESSES, 2.0, 3.0, 0.5) == betainc(2.0, 3.0, 0.5)


def test_an_unknown_function_has_no_address():
    """Another version of SciPy is needed then."""
    with pytest.raises(ImportError, match="no betainci for"):
        _address("betainci")


PROGRAM = """
from thali._jit import jit
from thali.model.special import ADDRESSES, inverse_beta

@jit
def invert(addresses):
    return inverse_beta(addresses, 2.0, 3.0, 0.25)

print(invert(ADDRESSES), sum(invert.stats.cache_hits.values()))
"""


def test_code_from_the_cache_finds_the_function(tmp_path):
    """Another process has it at another address, and uses the code that the first compiled."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = []
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )  # fmt: skip
        found.append(out.stdout.split())
    (first, misses), (second, hits) = found
    assert (misses, hits) == ("0", "1")
    assert first == second == str(float(betaincinv(2.0, 3.0, 0.25)))
