# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Single-row components of a row: their number and their codes (eq. 6 to 8).

A row owns k components that no other row uses, with unknown codes. All k of them are off in a
column with probability (1 - q)^k. A covered or unknown entry does not depend on them, and an
uncovered entry contributes a factor that depends on the datum alone. The numbers of uncovered ones
and zeros of the row are therefore all that is needed. The tables made here hold the logarithms in
the integers of :mod:`thali.decide`; engines only add and compare.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.decide import fixed, threshold
from thali.model.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model.noise import Noise

NEGLIGIBLE = 38.0
"""Numbers of components less likely than exp(-NEGLIGIBLE), about 3e-17, are not tabulated."""


class CodeTables(NamedTuple):
    """Thresholds for drawing the bits of new codes, for each of G densities."""

    cover: NDArray[np.uint64]  # (G, K, 2): at least one of k covers an uncovered one or zero
    first: NDArray[np.uint64]  # (G, K): the next bit is on, given that one of the last m is
    plain: NDArray[np.uint64]  # (G,): the density


class BirthDeathTables(NamedTuple):
    """Tables with which an engine tries the birth or death of one single-row component."""

    factors: NDArray[np.int64]  # (G, 3): log prior of a density; log factors of a one and a zero
    odds: NDArray[np.int64]  # odds[j]: log of alpha / (N j)
    code: CodeTables


class BirthTables(NamedTuple):
    """Tables with which an engine draws all single-row components of a row at once."""

    number: NDArray[np.int64]  # (K, 3): log prior of k; log factors of an uncovered one and zero
    ceiling: np.int64  # log factor of an uncovered one for infinitely many components
    weights: Weights  # gain by covering an entry, by number of integrated components
    code: CodeTables


@lru_cache(maxsize=64)  # chains with fixed rates ask for the same few tables again and again
def birth_tables(
    rate: float, density: float, noise: Noise, most_ones: int, n_components: int
) -> BirthTables:
    """Make the tables for drawing all single-row components of a row at once.

    Parameters
    ----------
    rate
        Prior mean of the number of single-row components of a row, alpha / N.
    density
        Density q of the codes.
    noise
        Error rates.
    most_ones
        Largest number of ones in a row; the table is long enough for such a row.
    n_components
        Current number of components; no row can own more.
    """
    w1, w0 = noise.weights().pair()
    logs, cover, first = _tabulate(rate, density, w1, w0, most_ones, n_components + 1)
    count = fixed(logs)
    return BirthTables(
        count,
        np.int64(fixed(w1)),
        Weights((fixed(np.array([w1, w0])) - count[:, 1:])[None, None]),
        CodeTables(threshold(cover)[None], threshold(first)[None], threshold(np.array([density]))),
    )


def birth_death_tables(
    rate: float, densities: NDArray[np.float64], noise: Noise, n_components: int
) -> BirthDeathTables:
    """Make the tables of births and deaths for densities that are equally likely a priori."""
    return _birth_death_tables(rate, tuple(densities.tolist()), noise, n_components)


@lru_cache(maxsize=64)  # all blocks of a sweep ask for nearly the same tables
def _birth_death_tables(
    rate: float, densities: tuple[float, ...], noise: Noise, n_components: int
) -> BirthDeathTables:
    w1, w0 = noise.weights().pair()
    q = np.array(densities)
    ones, zeros = np.log1p(q * np.expm1(w1)), np.log1p(q * np.expm1(w0))
    count = np.stack([np.full(len(q), -np.log(len(q))), ones, zeros], axis=1)
    own = np.arange(n_components + 2)
    cover = np.zeros((len(q), 2, 2))  # there is one component, so only k = 1 is used
    cover[:, 1, 0] = q / (np.exp(-w1) * (1.0 - q) + q)
    cover[:, 1, 1] = q / (np.exp(-w0) * (1.0 - q) + q)
    return BirthDeathTables(
        fixed(count),
        fixed(np.log(rate) - np.log(np.maximum(own, 1))),
        CodeTables(threshold(cover), threshold(np.ones((len(q), 2))), threshold(q)),
    )


@jit
def _tabulate(
    rate: float, density: float, w1: float, w0: float, most_ones: int, least: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Compute the logarithms and probabilities of the tables, up to a negligible tail."""
    room = max(64, 2 * least)
    table = np.empty((room, 6))  # log prior, log factors of a one and a zero, cover (2), first
    best = -np.inf
    k = 0
    while True:
        log_prior = k * np.log(rate) - math.lgamma(k + 1.0)
        # A row of ones only has the heaviest tail: zeros make more components less likely.
        if k >= least and k > rate and log_prior + most_ones * w1 < best - NEGLIGIBLE:
            break
        if k == room:
            room *= 2
            longer = np.empty((room, 6))
            longer[:k] = table
            table = longer
        # The paper prints q^L' for the probability that all new codes of a column are zero;
        # with p(u = 1) = q it is (1 - q)^L'.
        none_on = (1.0 - density) ** k
        some_on = -math.expm1(k * math.log1p(-density))
        table[k, 0] = log_prior
        table[k, 1] = np.log(none_on + some_on * np.exp(w1))
        table[k, 2] = np.log(none_on + some_on * np.exp(w0))
        table[k, 3] = some_on / (none_on * np.exp(-w1) + some_on)
        table[k, 4] = some_on / (none_on * np.exp(-w0) + some_on)
        table[k, 5] = density / max(some_on, density)
        best = max(best, log_prior + most_ones * table[k, 1])
        k += 1
    return table[:k, :3].copy(), table[:k, 3:5].copy(), table[:k, 5].copy()
