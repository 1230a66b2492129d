"""Priors of the factors: the Indian buffet process and Bernoulli entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.special import betaincinv, betaln, gammaincinv, gammaln

from thali._jit import jit
from thali.bits.words import earlier_twins
from thali.checks import positive, probability, shape_parameters
from thali.model.draws import draw_density
from thali.model.per_component import PerComponent
from thali.model.special import ADDRESSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index

LARGEST_ALPHA = 1e4
"""Upper bound of a fixed concentration: more would mean more components than rows."""


@lru_cache(maxsize=64)
def harmonic(n: int) -> float:
    """Return 1 + 1/2 + … + 1/n."""
    return float((1.0 / np.arange(1, n + 1)).sum())


# --- the Indian buffet process -------------------------------------------------------------


@dataclass(frozen=True)
class Gamma:
    """A Gamma prior of the concentration, given by shape and rate.

    With shape 1, the prior of the number of components is geometric: each further component
    divides the probability by 1 + rate / H_N, where H_N is about the log of the number of rows. By
    default this divisor is about 18 for 200 rows and about 8 for a million rows, so the data have
    to support every component. The concentration is also the expected number of components of a
    single row, against which noisy data say little: with rate 1, 200 rows and 30% errors, one such
    component is more probable than none in one of three data sets.
    """

    shape: float = 1.0
    rate: float = 100.0

    def __post_init__(self) -> None:
        shape_parameters("Gamma prior", (self.shape, self.rate))


@dataclass(frozen=True)
class Buffet:
    """The Indian buffet process on the rows of the first mode.

    ``concentration`` is a number (fixed) or a Gamma prior (learned).
    """

    concentration: float | Gamma = Gamma()
    start: float = 0.03

    def __post_init__(self) -> None:
        if not isinstance(self.concentration, Gamma):
            probability("alpha", self.concentration, upper=LARGEST_ALPHA)
        positive("start", self.start)

    def initial(self) -> float:
        """Return the concentration a chain starts from."""
        return self.start if isinstance(self.concentration, Gamma) else float(self.concentration)

    def draw(self, n_components: int, n_rows: int, uniform: float) -> float:
        """Draw the concentration given the number of components."""
        prior = self.concentration
        if not isinstance(prior, Gamma):
            return float(prior)
        drawn = gammaincinv(prior.shape + n_components, uniform) / (prior.rate + harmonic(n_rows))
        return max(float(drawn), 1e-300)

    def expected(self, alpha: float, n_rows: int) -> float:
        """Return the number of components for which ``alpha`` is the expected concentration."""
        prior = self.concentration
        rate = prior.rate if isinstance(prior, Gamma) else 0.0
        return alpha * (rate + harmonic(n_rows))

    def log_sum(self, n_components: int, n_rows: int) -> float:
        """Return the log of the factor of the prior that depends on alpha, alpha summed out.

        That is the integral of alpha^L exp(-alpha H_N) over the prior (eq. 5).
        """
        prior, n, h = self.concentration, n_components, harmonic(n_rows)
        if not isinstance(prior, Gamma):
            return n * log(prior) - prior * h
        a, b = prior.shape, prior.rate
        return a * log(b) - lgamma(a) + lgamma(a + n) - (a + n) * log(b + h)

    def log_prior(self, alpha: float) -> float:
        """Return the log prior density of the concentration."""
        prior = self.concentration
        if not isinstance(prior, Gamma):
            return 0.0
        a, b = prior.shape, prior.rate
        return a * log(b) - lgamma(a) + (a - 1.0) * log(alpha) - b * alpha


def log_buffet(sizes: Index, n_rows: int, alpha: float) -> float:
    """Return the log prior density of used components of given sizes (eq. 5).

    The term for identical components is left out: see :func:`log_repeats`.
    """
    n = len(sizes)
    rates = float(log_rates(sizes, n_rows).sum())
    return rates + n * log(alpha) - alpha * harmonic(n_rows)


def log_rates(sizes: Index, n_rows: int) -> NDArray[np.float64]:
    """Return log rho(m) of components with m users (P1)."""
    rates: NDArray[np.float64] = gammaln(n_rows - sizes + 1.0) + gammaln(sizes)
    return rates - lgamma(n_rows + 1.0)


def log_repeats(factors: Sequence[Factor], densities: Sequence[NDArray[np.float64]]) -> float:
    """Return the log of the product of n! over distinct components that occur n times.

    Components have no labels, so identical ones can be permuted. Components with densities of
    their own are identical only if their densities are equal, too.
    """
    twins = earlier_twins(factors[0].words)
    if not twins.any():  # no two components with the same users
        return 0.0
    own = [d.view(np.uint64)[:, None] for d in densities if d.ndim == 1]
    twins = earlier_twins(np.concatenate([*(f.words for f in factors), *own], axis=1))
    return float(np.log1p(twins).sum())


def stick_odds(sizes: Index, n_rows: int, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw the Beta-process weights of the used components; return their log odds.

    ``mu_l ~ Beta(m_l, N - m_l + 1)`` (P5). The smaller of mu and 1 - mu is computed directly,
    so that neither loses digits.
    """
    tails = stick_tails(sizes, n_rows, uniforms)
    odds: NDArray[np.float64] = odds_of_sticks(sizes, n_rows, betaincinv(*tails))
    return odds


@jit
def stick_tails(sizes: Index, n_rows: int, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return both parameters of every Beta distribution, the smaller first, and its tail."""
    tails = np.empty((3, len(sizes)))
    for i in range(len(sizes)):
        rest = n_rows + 1.0 - sizes[i]
        tails[0, i] = min(sizes[i], rest)
        tails[1, i] = max(sizes[i], rest)
        tails[2, i] = uniforms[i] if sizes[i] <= rest else 1.0 - uniforms[i]
    return tails


@jit
def odds_of_sticks(sizes: Index, n_rows: int, parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log odds of mu, given the smaller of mu and 1 - mu."""
    odds = np.empty(len(sizes))
    for i in range(len(sizes)):
        part = min(max(parts[i], 1e-300), 1.0 - 1e-16)
        odds[i] = log(part / (1.0 - part))
        if sizes[i] > n_rows + 1.0 - sizes[i]:
            odds[i] = -odds[i]
    return odds


# --- Bernoulli entries ---------------------------------------------------------------------


@dataclass(frozen=True)
class Beta:
    """One unknown density for a whole factor, with a Beta prior."""

    a: float = 1.0
    b: float = 1.0
    start: float = 0.5

    def __post_init__(self) -> None:
        shape_parameters("Beta prior", (self.a, self.b))
        probability("start", self.start)

    def initial(self, n_components: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the density a chain starts from."""
        return np.array(self.start)

    def draw(
        self,
        sizes: Index,
        n_rows: int,
        uniforms: NDArray[np.float64],
        present: NDArray[np.float64],  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Draw the density given the number of ones of each component."""
        n_ones = float(sizes.sum())
        n_zeros = float(n_rows * len(sizes)) - n_ones
        return np.array(
            draw_density(ADDRESSES, self.a + n_ones, self.b + n_zeros, float(uniforms[0]))
        )

    def log_prior(self, density: NDArray[np.float64]) -> float:
        """Return the log prior density of the density."""
        q = float(density)
        return float(
            (self.a - 1.0) * log(q) + (self.b - 1.0) * log(1.0 - q) - betaln(self.a, self.b)
        )


@dataclass(frozen=True)
class Fixed:
    """A known density for a whole factor."""

    density: float = 0.5

    def __post_init__(self) -> None:
        probability("density", self.density)

    def initial(self, n_components: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the density."""
        return np.array(self.density)

    def draw(
        self,
        sizes: Index,  # noqa: ARG002
        n_rows: int,  # noqa: ARG002
        uniforms: NDArray[np.float64],  # noqa: ARG002
        present: NDArray[np.float64],  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return the fixed density; the counts do not matter."""
        return np.array(self.density)

    def log_prior(self, density: NDArray[np.float64]) -> float:  # noqa: ARG002
        """Return zero: nothing is drawn."""
        return 0.0


DensityPrior: TypeAlias = Beta | Fixed | PerComponent


def log_bernoulli(sizes: Index, n_rows: int, density: NDArray[np.float64]) -> float:
    """Return the log prior probability of a factor with given component sizes."""
    return float((sizes * np.log(density) + (n_rows - sizes) * np.log1p(-density)).sum())
