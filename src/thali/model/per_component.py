"""Densities of single components: a prior on a grid, whose weights may be learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, gammaincinv, gammaln

from thali.checks import count, positive, shape_parameters
from thali.decide import MOST_WEIGHTS
from thali.model.draws import SMALLEST_DENSITY, draw_in_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@dataclass(frozen=True)
class PerComponent:
    """One unknown density per component, for components of different sizes.

    A density is one of ``n_values`` quantiles of a Beta distribution. On a finite grid, the birth
    of a component depends on counts only (eq. 13).

    Parameters
    ----------
    a, b
        Parameters of the Beta distribution.
    n_values
        Number of its quantiles, equally far apart in probability.
    tied
        Components may have the same density, and the smaller this number, the more of them do.
        The weights of the quantiles are unknown, with the prior Dirichlet(tied / n_values, …).
        None: densities are independent, and all quantiles equally likely.
    """

    a: float = 1.0
    b: float = 1.0
    n_values: int = 16
    tied: float | None = 1.0

    def __post_init__(self) -> None:
        shape_parameters("Beta prior", (self.a, self.b))
        if count("n_values", self.n_values, least=1) > MOST_WEIGHTS:
            msg = f"n_values={self.n_values} was given; at most {MOST_WEIGHTS} are allowed."
            raise ValueError(msg)
        if self.tied is not None:
            positive("tied", self.tied)

    @property
    def grid(self) -> NDArray[np.float64]:
        """The densities a component can have."""
        return _quantiles(self.a, self.b, self.n_values)

    @property
    def log_weights(self) -> NDArray[np.float64]:
        """Log probabilities of the densities of the grid: equal, unless they were drawn."""
        return np.full(self.n_values, -np.log(self.n_values))

    def given(self, density: NDArray[np.float64], uniforms: NDArray[np.float64]) -> PerComponent:
        """Draw weights of the grid given the densities of all components.

        Given the weights, new densities are independent. The weights hold for one sweep, and are
        drawn anew before the next.

        ``uniforms`` are two for every value: a Gamma variate of shape s is one of shape s + 1
        times u ** (1 / s), whose logarithm is a number even if it is not itself.
        """
        if self.tied is None:
            return self
        shapes = self.counts(density) + self.tied / self.n_values
        of_gamma, of_power = uniforms.reshape(2, -1)
        logs = np.log(gammaincinv(shapes + 1.0, of_gamma)) + np.log(of_power) / shapes
        return self._weighted(logs)

    def expected(self, density: NDArray[np.float64]) -> PerComponent:
        """Return the prior of one more density, given those of all components."""
        if self.tied is None:
            return self
        return self._weighted(np.log(self.counts(density) + self.tied / self.n_values))

    def _weighted(self, logs: NDArray[np.float64]) -> PerComponent:
        weights = tuple((logs - np.logaddexp.reduce(logs)).tolist())
        return Weighted(self.a, self.b, self.n_values, self.tied, weights)

    def counts(self, density: NDArray[np.float64]) -> Index:
        """Return how many components have each density of the grid."""
        return np.bincount(self._numbers(density), minlength=self.n_values)

    def _numbers(self, density: NDArray[np.float64]) -> Index:
        middles = 0.5 * (self.grid[1:] + self.grid[:-1])
        return np.searchsorted(middles, density)

    def initial(self, n_components: int) -> NDArray[np.float64]:
        """Return densities in the middle of the grid."""
        return np.full(n_components, self.grid[self.n_values // 2])

    def choose(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draw densities of new components."""
        return self._at((uniforms * self.n_values).astype(np.int64))

    def draw(
        self, sizes: Index, n_rows: int, uniforms: NDArray[np.float64],
        present: NDArray[np.float64],
    ) -> NDArray[np.float64]:  # fmt: skip
        """Draw the density of every component given its number of ones.

        If densities are tied, they are drawn one after another, given those of all others, with
        the weights summed out: given weights, values that nobody has would hardly be taken up.
        """
        n_zeros = n_rows - sizes[:, None]
        scores = sizes[:, None] * np.log(self.grid) + n_zeros * np.log1p(-self.grid)
        if self.tied is not None:
            share = self.tied / self.n_values
            return self._at(draw_in_turn(scores, self._numbers(present), share, uniforms))
        weights = np.exp(scores - scores.max(axis=1, initial=-np.inf, keepdims=True))
        cumulative = weights.cumsum(axis=1)
        chosen = (uniforms[: len(sizes), None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
        return self._at(chosen)

    def _at(self, numbers: Index) -> NDArray[np.float64]:
        """Return densities by number; rounding may lead beyond the last."""
        densities: NDArray[np.float64] = self.grid[np.minimum(numbers, self.n_values - 1)]
        return densities

    def log_prior(self, density: NDArray[np.float64]) -> float:
        """Return the log prior probability of the densities, with unknown weights summed out."""
        n = len(density)
        if self.tied is None:
            return -n * log(self.n_values)
        share = self.tied / self.n_values
        of_values = gammaln(self.counts(density) + share) - gammaln(share)
        return float(gammaln(self.tied) - gammaln(self.tied + n) + of_values.sum())


@lru_cache(maxsize=16)  # a prior with the weights of a sweep is new in every sweep
def _quantiles(a: float, b: float, n: int) -> NDArray[np.float64]:
    values = betaincinv(a, b, (np.arange(n) + 0.5) / n)
    return np.minimum(np.maximum(values, SMALLEST_DENSITY), 1.0 - SMALLEST_DENSITY)


@dataclass(frozen=True)
class Weighted(PerComponent):
    """The same with known weights, as they are within a sweep."""

    of_values: tuple[float, ...] = ()

    @cached_property
    def log_weights(self) -> NDArray[np.float64]:
        """Log probabilities of the densities of the grid."""
        return np.array(self.of_values)

    def choose(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draw densities of new components."""
        cumulative = np.exp(self.log_weights).cumsum()
        return self._at(cumulative.searchsorted(uniforms * cumulative[-1], side="right"))
