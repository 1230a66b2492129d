"""Compiled code calls SciPy's own function, wherever that is in this process."""

import os
import subprocess
import sys

import numpy as np
from scipy.special import betaincinv

from thali._jit import KERNELS, jit
from thali.model.special import INVERSE_BETA, _address, inverse_beta


def test_the_same_bits_as_scipy():
    """For large, small and whole numbers of the parameters, and for tails."""
    before = len(KERNELS)

    @jit
    def invert(address, a, b, p, out):
        for i in range(out.shape[0]):
            out[i] = inverse_beta(address, a[i], b[i], p[i])

    del KERNELS[before:]
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(-3.0, 14.0, (2, 20_000)))
    a[::2], b[::2] = np.ceil(a[::2]), np.ceil(b[::2])
    p = rng.random(len(a)) ** rng.integers(1, 30, len(a))
    found = np.empty_like(a)
    invert(INVERSE_BETA, a, b, p, found)
    assert found.tobytes() == betaincinv(a, b, p).tobytes()
    assert inverse_beta(INVERSE_BETA, 2.0, 3.0, 0.5) == betaincinv(2.0, 3.0, 0.5)


def test_an_unknown_function_has_no_address():
    """A caller then does without it."""
    assert INVERSE_BETA != 0
    assert _address("betaincinv", 7) == 0


PROGRAM = """
from thali._jit import jit
from thali.model.special import INVERSE_BETA, inverse_beta

@jit
def invert(address):
    return inverse_beta(address, 2.0, 3.0, 0.25)

print(invert(INVERSE_BETA), sum(invert.stats.cache_hits.values()), INVERSE_BETA)
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
    (first, misses, _), (second, hits, _) = found
    assert (misses, hits) == ("0", "1")
    assert first == second == str(float(betaincinv(2.0, 3.0, 0.25)))
