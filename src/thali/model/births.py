# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Single-row components of a row: their number and their codes (eq. 6 to 8).

A row owns k components that no other row uses, with unknown codes. All k of them are off in a
column with probability (1 - q)^k. A covered or unknown entry does not depend on them, and an
uncovered entry contributes a factor that depends on the datum and on its error rates alone. The
numbers of uncovered ones and zeros of the row, by class of column, are therefore all that is
needed. The tables made here hold the logarithms in
the integers of :mod:`thali.decide`; engines only add and compare.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.decide import fixed, threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model.noise import Noise
    from thali.model.weights import Weights

NEGLIGIBLE = 38.0
"""Numbers of components less likely than exp(-NEGLIGIBLE), about 3e-17, are not tabulated."""


class CodeTables(NamedTuple):
    """Thresholds for drawing the bits of new codes, for each of G densities.

    R and C are the numbers of classes of rows and columns, K that of numbers of new components.
    """

    cover: NDArray[np.uint64]  # (G, R, C, K, 2): one of k or more cover an uncovered one or zero
    first: NDArray[np.uint64]  # (G, K): the next bit is on, given that one of the last m is
    plain: NDArray[np.uint64]  # (G,): the density


class BirthDeathTables(NamedTuple):
    """Tables with which an engine tries the birth or death of one single-row component."""

    prior: NDArray[np.int64]  # (G,): log prior of a density
    factors: NDArray[np.int64]  # (G, R, C, 2): log factors of an uncovered one and zero
    odds: NDArray[np.int64]  # odds[j]: log of alpha / (N j)
    code: CodeTables


class BirthTables(NamedTuple):
    """Tables with which an engine draws all single-row components of a row at once."""

    prior: NDArray[np.int64]  # (K,): log prior of k
    factors: NDArray[np.int64]  # (R, C, K, 2): log factors of an uncovered one and zero
    ceiling: NDArray[np.int64]  # (R, C): log factor of an uncovered one, infinitely many of them
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
    weights = noise.weights()
    table = weights.table[:, :, 0]
    prior, first = _number_tables(
        rate, density, float(table[..., 0].max()), most_ones, n_components + 1
    )
    factors, cover = _factor_tables(density, table, len(prior))
    logs = fixed(factors)
    return BirthTables(
        fixed(prior),
        logs,
        fixed(table[..., 0]),
        weights._replace(table=fixed(weights.table) - logs),
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
    table = noise.weights().table[:, :, 0]
    q = np.array(densities)
    both = [_factor_tables(density, table, 2) for density in densities]  # k is 0 or 1
    factors = np.stack([factors[:, :, 1] for factors, _ in both])
    own = np.arange(n_components + 2)
    return BirthDeathTables(
        fixed(np.full(len(q), -np.log(len(q)))),
        fixed(factors),
        fixed(np.log(rate) - np.log(np.maximum(own, 1))),
        CodeTables(
            threshold(np.stack([cover for _, cover in both])),
            threshold(np.ones((len(q), 2))),
            threshold(q),
        ),
    )


@jit
def _number_tables(
    rate: float, density: float, largest: float, most_ones: int, least: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute log priors of numbers of components, and thresholds, up to a negligible tail.

    ``largest`` is the largest gain by covering a one.
    """
    room = max(64, 2 * least)
    table = np.empty((room, 2))
    best = -np.inf
    k = 0
    while True:
        log_prior = k * np.log(rate) - math.lgamma(k + 1.0)
        # A row of ones only has the heaviest tail: zeros make more components less likely.
        if k >= least and k > rate and log_prior + most_ones * largest < best - NEGLIGIBLE:
            break
        if k == room:
            room *= 2
            longer = np.empty((room, 2))
            longer[:k] = table
            table = longer
        some_on = -math.expm1(k * math.log1p(-density))
        table[k, 0] = log_prior
        table[k, 1] = density / max(some_on, density)
        factor = np.log((1.0 - density) ** k + some_on * np.exp(largest))
        best = max(best, log_prior + most_ones * factor)
        k += 1
    return table[:k, 0].copy(), table[:k, 1].copy()


@jit
def _factor_tables(
    density: float, weights: NDArray[np.float64], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the log factors of an uncovered one and zero, and the probability of cover.

    ``weights`` are ``(R, C, 2)``; results are ``(R, C, n, 2)``, for 0 to n - 1 components.
    """
    n_rows, n_columns, _ = weights.shape
    factors = np.empty((n_rows, n_columns, n, 2))
    cover = np.empty((n_rows, n_columns, n, 2))
    for k in range(n):
        # The paper prints q^L' for the probability that all new codes of a column are zero;
        # with p(u = 1) = q it is (1 - q)^L'.
        none_on = (1.0 - density) ** k
        some_on = -math.expm1(k * math.log1p(-density))
        for row in range(n_rows):
            for column in range(n_columns):
                for x in range(2):
                    gain = weights[row, column, x]
                    factors[row, column, k, x] = np.log(none_on + some_on * np.exp(gain))
                    cover[row, column, k, x] = some_on / (none_on * np.exp(-gain) + some_on)
    return factors, cover
