"""Single-row components of a row: how many, and what is in them (eq. 6 to 8).

A row owns k components of its own with unknown codes. Of a column, all k are off with
probability (1 - q)^k; a covered or unknown entry does not care; an uncovered one contributes
a factor that depends on the datum alone. So the number of uncovered ones and zeros of the row
decides everything. The tables made here hold the logarithms, in the integers of
:mod:`thali.engines.decide`; engines only add and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from thali.decide import fixed, threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model.noise import Noise

NEGLIGIBLE = 38.0
"""Numbers of components less likely than exp(-NEGLIGIBLE), about 3e-17, are not tabulated."""


class BirthTables(NamedTuple):
    """Everything an engine needs to draw the single-row components of any row."""

    count: NDArray[np.int64]  # (K, 3): log prior of k; log factor of an uncovered one, zero
    ceiling: np.int64  # log factor of an uncovered one for infinitely many components
    weights: NDArray[np.int64]  # (K, 2): what covering a one, a zero gains if k are integrated
    cover: NDArray[np.uint64]  # (K, 2): at least one of k covers an uncovered one, zero
    first: NDArray[np.uint64]  # (K,): the next is on, given that one of the m left is
    plain: np.uint64  # the density


def birth_tables(
    rate: float, density: float, noise: Noise, most_ones: int, n_components: int
) -> BirthTables:
    """Tabulate the single-row components.

    Parameters
    ----------
    rate
        Expected number a priori, alpha / N.
    density
        Density q of the codes.
    noise
        Error rates.
    most_ones
        Largest number of ones of any row: the table is long enough for it.
    n_components
        Number of components now: no row can own more.
    """
    w1, w0 = noise.weights()
    length = max(16, n_components + 1, int(2 * rate))
    while True:
        k = np.arange(length + 1)
        # The paper prints q^L' for the probability that all new codes of a column are zero;
        # with p(u = 1) = q it is (1 - q)^L'.
        none_on = (1.0 - density) ** k
        some_on = -np.expm1(k * np.log1p(-density))
        ones = np.log(none_on + some_on * np.exp(w1))
        zeros = np.log(none_on + some_on * np.exp(w0))
        log_prior = k * np.log(rate) - gammaln(k + 1.0)
        # A row of ones only has the heaviest tail: zeros speak against more components.
        best = (log_prior + most_ones * ones).max()
        if length > rate and log_prior[length] + most_ones * w1 < best - NEGLIGIBLE:
            break
        length *= 2
    k, none_on, some_on = k[:-1], none_on[:-1], some_on[:-1]
    count = fixed(np.stack([log_prior, ones, zeros], axis=1)[:-1])
    covered = [some_on / (none_on * np.exp(-w) + some_on) for w in (w1, w0)]
    first = density / np.maximum(some_on, density)
    return BirthTables(
        count,
        np.int64(fixed(w1)),
        fixed(np.array([w1, w0])) - count[:, 1:],
        threshold(np.stack(covered, axis=1)),
        threshold(first),
        np.uint64(threshold(density)),
    )
