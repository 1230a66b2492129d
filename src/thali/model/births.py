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
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.decide import fixed, threshold, to_threshold, to_units
from thali.model.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model.noise import Noise

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


@dataclass(frozen=True, eq=False)
class BirthTables:
    """Tables with which an engine draws all single-row components of a row at once."""

    prior: NDArray[np.int64]  # (K,): log prior of k
    factors: NDArray[np.int64]  # (R, C, K, 2): log factors of an uncovered one and zero
    ceiling: NDArray[np.int64]  # (R, C): log factor of an uncovered one, infinitely many of them
    weights: Weights  # gain by covering an entry, by number of integrated components
    first: NDArray[np.float64]  # (K,): the next bit is on, given that one of the last m is
    density: float
    gains: NDArray[np.float64]  # (R, C, 2): gain by covering an entry, nothing integrated

    @cached_property
    def code(self) -> CodeTables:
        """Tables for the codes of new components, which most blocks of rows do not have."""
        cover = _cover_table(self.density, self.gains, len(self.first))
        return CodeTables(
            cover[None],
            threshold(self.first)[None],
            threshold(np.array([self.density])),
        )


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
    table = np.ascontiguousarray(weights.table[:, :, 0])
    prior, first = _number_tables(
        rate, density, float(table[..., 0].max()), most_ones, n_components + 1
    )
    factors, ceiling, left = _score_tables(density, table, len(prior))
    of_rows = Weights(left, weights.rows, weights.columns)
    return BirthTables(fixed(prior), factors, ceiling, of_rows, first, density, table)


def birth_death_tables(
    rate: float,
    densities: NDArray[np.float64],
    noise: Noise,
    n_components: int,
    log_weights: NDArray[np.float64] | None = None,
) -> BirthDeathTables:
    """Make the tables of births and deaths for densities with these weights a priori, or equal."""
    if log_weights is None:
        log_weights = np.full(len(densities), -np.log(len(densities)))
    factors, code = _tables_of_codes(tuple(densities.tolist()), noise)
    own = np.arange(n_components + 2)
    odds = np.log(rate) - np.log(np.maximum(own, 1))
    return BirthDeathTables(fixed(log_weights), factors, fixed(odds), code)


@lru_cache(maxsize=64)  # all blocks of a sweep ask for the same
def _tables_of_codes(
    densities: tuple[float, ...], noise: Noise
) -> tuple[NDArray[np.int64], CodeTables]:
    table = np.ascontiguousarray(noise.weights().table[:, :, 0])
    q = np.array(densities)
    factors, covers = _tables_by_density(q, table)
    return factors, CodeTables(covers, threshold(np.ones((len(q), 2))), threshold(q))


@jit
def _tables_by_density(
    densities: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Compute log factors and thresholds of cover for every density, and 0 or 1 components."""
    n_rows, n_columns, _ = weights.shape
    factors = np.empty((densities.shape[0], n_rows, n_columns, 2), np.int64)
    covers = np.empty((densities.shape[0], n_rows, n_columns, 2, 2), np.uint64)
    for k in range(densities.shape[0]):
        factors[k] = _score_tables(densities[k], weights, 2)[0][:, :, 1]
        covers[k] = _cover_table(densities[k], weights, 2)
    return factors, covers


@jit
def _number_tables(
    rate: float, density: float, largest: float, most_ones: int, least: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute log priors of numbers of components, and thresholds, up to a negligible tail.

    ``largest`` is the largest gain by covering a one.
    """
    room = max(64, 2 * least)
    log_priors, rates = np.empty(room), np.empty(room)
    best = -np.inf
    k = 0
    while True:
        log_prior = k * np.log(rate) - math.lgamma(k + 1.0)
        # A row of ones only has the heaviest tail: zeros make more components less likely.
        if k >= least and k > rate and log_prior + most_ones * largest < best - NEGLIGIBLE:
            break
        if k == room:
            room *= 2
            log_priors, rates = _longer(log_priors, room), _longer(rates, room)
        some_on = -math.expm1(k * math.log1p(-density))
        log_priors[k] = log_prior
        rates[k] = density / max(some_on, density)
        factor = np.log((1.0 - density) ** k + some_on * np.exp(largest))
        best = max(best, log_prior + most_ones * factor)
        k += 1
    return log_priors[:k], rates[:k]


@inner
def _longer(values: NDArray[np.float64], room: int) -> NDArray[np.float64]:
    longer = np.empty(room)
    copy_line(values, longer)
    return longer


@inner
def _none_and_some(density: float, k: int) -> tuple[float, float]:
    """Return the probabilities that none and that some of k codes have a column."""
    # The paper prints q^L' for the probability that all new codes of a column are zero;
    # with p(u = 1) = q it is (1 - q)^L'.
    none_on = (1.0 - density) ** k
    some_on = -math.expm1(k * math.log1p(-density))
    return none_on, some_on


@jit
def _score_tables(
    density: float, weights: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Compute log factors of an uncovered one and zero, their limits, and what a cover gains.

    ``weights`` are ``(R, C, 2)``. The factors and the gains are ``(R, C, n, 2)``, for 0 to n - 1
    components; with infinitely many of them, the factor is the weight itself.
    """
    n_rows, n_columns, _ = weights.shape
    factors = np.empty((n_rows, n_columns, n, 2), np.int64)
    left = np.empty((n_rows, n_columns, n, 2), np.int64)
    ceiling = np.empty((n_rows, n_columns), np.int64)
    odds = np.exp(weights)
    for k in range(n):
        none_on, some_on = _none_and_some(density, k)
        for row in range(n_rows):
            for column in range(n_columns):
                for x in range(2):
                    factor = to_units(np.log(none_on + some_on * odds[row, column, x]))
                    factors[row, column, k, x] = factor
                    left[row, column, k, x] = to_units(weights[row, column, x]) - factor
    for row in range(n_rows):
        for column in range(n_columns):
            ceiling[row, column] = to_units(weights[row, column, 0])
    return factors, ceiling, left


@jit
def _cover_table(density: float, weights: NDArray[np.float64], n: int) -> NDArray[np.uint64]:
    """Compute the thresholds of the events that new components cover an uncovered one or zero.

    ``weights`` are ``(R, C, 2)``; the result is ``(R, C, n, 2)``, for 0 to n - 1 components.
    """
    n_rows, n_columns, _ = weights.shape
    cover = np.empty((n_rows, n_columns, n, 2), np.uint64)
    odds = np.exp(-weights)
    for k in range(n):
        none_on, some_on = _none_and_some(density, k)
        for row in range(n_rows):
            for column in range(n_columns):
                for x in range(2):
                    share = some_on / (none_on * odds[row, column, x] + some_on)
                    cover[row, column, k, x] = to_threshold(share)
    return cover
