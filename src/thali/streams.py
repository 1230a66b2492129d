# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Counter-based random numbers: each is read at an address, not taken from a sequence.

Every decision of the sampler reads the random number at its own address
``(key, sweep, site, row, index)``. The chain is therefore the same for any number of threads,
blocks, devices and workers, and after a restart. No generator state has to be saved: the number of
completed sweeps is enough.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror & Shaw 2011).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inlined, inner, jit
from thali.checks import is_integer
from thali.sites import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
# Bits dropped from 64: with more than 52 bits, the largest number + 0.5 would round to 1.
_TAIL = np.uint64(12)
_STEP = 2.0**-52
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)


@inlined
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, key: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Encrypt a counter of four 32-bit words; return the four output words as two pairs.

    All arguments are ``uint64``; the counter words must be below 2**32. The function is inlined:
    in a loop over rows, the compiler computes the first rounds, which are the same for all rows,
    once before the loop. This halves the time.
    """
    k0 = key & _MASK
    k1 = key >> _HALF
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c1 = p1 & _MASK
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c3 = p0 & _MASK
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return c0 | (c1 << _HALF), c2 | (c3 << _HALF)


@inlined
def uniform64(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, index: np.uint64
) -> np.uint64:
    """Read the 64 random bits at an address."""
    return philox(index, row, site, sweep, key)[0]


@inlined
def fraction(word: np.uint64) -> float:
    """Turn 64 random bits into a number strictly between 0 and 1."""
    return (np.float64(word >> _TAIL) + 0.5) * _STEP


@inlined
def uniform(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, index: np.uint64
) -> float:
    """Read the random number at an address as a number strictly between 0 and 1."""
    return fraction(uniform64(key, sweep, site, row, index))


@inner
def read_uniform(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, index: np.uint64
) -> float:
    """Read a random number as :func:`uniform`, outside of loops: it is compiled only once."""
    return uniform(key, sweep, site, row, index)


@jit
def _bits(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, n: int
) -> NDArray[np.uint64]:
    out = np.empty(n, np.uint64)
    for index in range(n):
        out[index] = uniform64(key, sweep, site, row, np.uint64(index))
    return out


@jit
def read_uniforms(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, n: int
) -> NDArray[np.float64]:
    """Read the numbers at indices ``0 … n-1`` of a site and row, as :meth:`Stream.uniforms`."""
    out = np.empty(n)
    for index in range(n):
        out[index] = uniform(key, sweep, site, row, np.uint64(index))
    return out


@jit
def read_uniforms_at(
    key: np.uint64, sweep: np.uint64, site: np.uint64, row: np.uint64, indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Read the numbers at some indices of a site and row."""
    out = np.empty(indices.shape[0])
    for i in range(indices.shape[0]):
        out[i] = uniform(key, sweep, site, row, np.uint64(indices[i]))
    return out


class Stream(NamedTuple):
    """The random numbers of one sweep of one chain."""

    key: np.uint64
    sweep: np.uint64

    def bits(self, site: int, n: int, row: int = 0) -> NDArray[np.uint64]:
        """Return the 64-bit numbers at indices ``0 … n-1`` of a site and row."""
        return _bits(self.key, self.sweep, np.uint64(site), np.uint64(row), n)

    def uniforms(self, site: int, n: int, row: int = 0) -> NDArray[np.float64]:
        """Return ``n`` numbers strictly between 0 and 1, for inverse distribution functions."""
        return read_uniforms(self.key, self.sweep, np.uint64(site), np.uint64(row), n)

    def permutation(self, site: int, n: int, row: int = 0) -> NDArray[np.intp]:
        """Return a uniformly random order of ``0 … n-1``."""
        return self.bits(site, n, row).argsort(kind="stable")


def chain_key(seed: int, chain: int = 0) -> np.uint64:
    """Derive the key of a chain: different for each chain and for data simulated by that seed."""
    return _derive(Site.CHAIN, seed, chain)


def simulation_key(seed: int) -> np.uint64:
    """Derive the key of simulated data."""
    return _derive(Site.SIMULATION, seed, 0)


def start_key(key: np.uint64, number: int = 0) -> np.uint64:
    """Derive a key of the random numbers that a chain uses before its first sweep."""
    return Stream(key, np.uint64(0)).bits(Site.FIRST_ROWS, 1, row=1 + number)[0]


def _derive(site: Site, seed: int, chain: int) -> np.uint64:
    for name, value, end in (("seed", seed, 64), ("chain", chain, 32)):
        if not is_integer(value) or not 0 <= value < 2**end:
            msg = (
                f"{name}={value!r} was given; allowed are integers from 0 to 2**{end} - 1; "
                "choose another."
            )
            raise ValueError(msg)
    return Stream(np.uint64(seed), np.uint64(0)).bits(site, 1, row=chain)[0]
