"""Bit flips: the error rates, their priors and the likelihood of counts.

An entry that no component covers reads one with probability ``spurious`` (e0). A covered entry
reads zero with probability ``dropped`` (e1). Everything here is a formula on counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, log1p
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betainc, betaincinv, betaln

from thali.checks import probability, shape_parameters
from thali.decide import SCALE
from thali.model.draws import SMALLEST_RATE, draw_truncated, slope
from thali.model.noise_kinds import AS_PUBLISHED, DROPPED, EQUAL, FIXED, SPURIOUS, UNEQUAL
from thali.model.special import ADDRESSES
from thali.model.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Counts
    from thali.model.noise_kinds import NoiseKind, NoiseQuantity

LARGEST_LAMBDA = 20.0
"""Largest log odds of the closed form of the paper, used if there are no errors at all."""


class Noise(NamedTuple):
    """The two error rates of a state.

    The sampler and the posterior need only four things of a noise model: the gain by covering an
    entry, the likelihood, the probability that an entry reads one, and the names of its
    quantities.
    """

    spurious: float
    dropped: float

    @classmethod
    def quantities(cls) -> tuple[NoiseQuantity, ...]:
        """Return the description of each quantity, in the order of the values."""
        return SPURIOUS, DROPPED

    def values(self) -> tuple[float, ...]:
        """Return the quantities in this order."""
        return self.spurious, self.dropped

    def compact(self) -> Noise:
        """Return the noise as draws keep it."""
        return self

    def weights(self) -> Weights:
        """Return the log-likelihood gained by covering an uncovered entry (eq. 4)."""
        return _weights(self)

    def fixed_weights(self) -> Weights:
        """Return the same as the integers that engines use."""
        return _fixed_weights(self)

    def rounded_weights(self) -> Weights:
        """Return the same, rounded as engines use them."""
        return _rounded_weights(self)

    @property
    def typical(self) -> tuple[float, float]:
        """Gains by covering a one and a zero, for proposals."""
        return _rounded_weights(self).pair()

    def log_likelihood(self, counts: Counts) -> float:
        """Return the log probability of the known entries."""
        tp, fp, tn, fn = counts.total
        terms = (
            (tp, 1.0 - self.dropped),
            (fp, self.dropped),
            (tn, 1.0 - self.spurious),
            (fn, self.spurious),
        )
        return sum(n * log(p) for n, p in terms if n)

    def reads_one(self, covered: Any) -> Any:
        """Return the probability that an entry reads one, given whether it is covered.

        ``covered`` may be a Boolean, a probability, or an array of either.
        """
        return self.spurious + covered * (1.0 - self.dropped - self.spurious)

    def entry_probabilities(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return P(datum | covered), indexed by the datum and then by whether it is covered.

        Small probabilities are exact, other than one minus the probability of the other datum.
        """
        return (1.0 - self.spurious, self.dropped), (self.spurious, 1.0 - self.dropped)


@lru_cache(maxsize=16)
def _weights(noise: Noise) -> Weights:
    one = log((1.0 - noise.dropped) / noise.spurious)
    zero = log(noise.dropped / (1.0 - noise.spurious))
    return Weights(np.array([[[[one, zero]]]]))


@lru_cache(maxsize=16)
def _fixed_weights(noise: Noise) -> Weights:
    return noise.weights().fixed()


@lru_cache(maxsize=16)
def _rounded_weights(noise: Noise) -> Weights:
    weights = noise.fixed_weights()
    return weights._replace(table=weights.table / SCALE)


@dataclass(frozen=True)
class UnequalRates:
    """Two unknown rates, each with a ``Beta(a, b)`` prior, whose sum is below one. The default.

    Covering a one then always raises the likelihood, and covering a zero always lowers it. This
    excludes the mirror image in which every bit is inverted. Either rate may exceed one half: in
    sparse data, a component may be right although most of its entries are zeros.
    """

    kind: ClassVar[NoiseKind] = UNEQUAL
    spurious: tuple[float, float] = (1.0, 1.0)
    dropped: tuple[float, float] = (1.0, 1.0)
    start: float = 0.35

    def __post_init__(self) -> None:
        shape_parameters("spurious", self.spurious)
        shape_parameters("dropped", self.dropped)
        probability("start", self.start, upper=0.5)

    def initial(self) -> Noise:
        """Return the rates a chain starts from."""
        return Noise(self.start, self.start)

    def draw(self, counts: Counts, uniforms: NDArray[np.float64], now: Noise) -> Noise:
        """Draw one rate given the counts and the other rate, then the other given the new one."""
        (a0, b0), (a1, b1) = self.spurious, self.dropped
        tp, fp, tn, fn = counts.total
        spurious = draw_rate(a0 + fn, b0 + tn, uniforms[0], 1.0 - now.dropped)
        return Noise(spurious, draw_rate(a1 + fp, b1 + tp, uniforms[1], 1.0 - spurious))

    def log_prior(self, noise: Noise) -> float:
        """Return the log prior density of the rates."""
        density = sum(
            (a - 1.0) * log(rate) + (b - 1.0) * log1p(-rate)
            for rate, (a, b) in zip(noise, (self.spurious, self.dropped), strict=True)
        )
        return density - _log_volume(self.spurious, self.dropped)


@dataclass(frozen=True)
class EqualRates:
    """One unknown rate for both errors, with a ``Beta(a, b)`` prior truncated to (0, 1/2)."""

    kind: ClassVar[NoiseKind] = EQUAL
    prior: tuple[float, float] = (1.0, 1.0)
    start: float = 0.35

    def __post_init__(self) -> None:
        shape_parameters("prior", self.prior)
        probability("start", self.start, upper=0.5)

    def initial(self) -> Noise:
        """Return the rates a chain starts from."""
        return Noise(self.start, self.start)

    def draw(self, counts: Counts, uniforms: NDArray[np.float64], now: Noise) -> Noise:  # noqa: ARG002
        """Draw the rate given the counts (eq. 11)."""
        a, b = self.prior
        tp, fp, tn, fn = counts.total
        rate = draw_rate(a + fp + fn, b + tp + tn, uniforms[0])
        return Noise(rate, rate)

    def log_prior(self, noise: Noise) -> float:
        """Return the log prior density of the rate."""
        return _log_density(noise.spurious, *self.prior)


@dataclass(frozen=True)
class FixedRates:
    """Known error rates."""

    kind: ClassVar[NoiseKind] = FIXED
    spurious: float
    dropped: float

    def __post_init__(self) -> None:
        probability("spurious", self.spurious, lower=SMALLEST_RATE)
        probability("dropped", self.dropped, lower=SMALLEST_RATE)
        if self.spurious + self.dropped >= 1.0:
            msg = (
                f"spurious={self.spurious} and dropped={self.dropped} were given; their sum must "
                "be below 1, else a one would speak against its component; lower one of them."
            )
            raise ValueError(msg)

    def initial(self) -> Noise:
        """Return the rates."""
        return Noise(self.spurious, self.dropped)

    def draw(self, counts: Counts, uniforms: NDArray[np.float64], now: Noise) -> Noise:  # noqa: ARG002
        """Return the fixed rates; the counts do not matter."""
        return self.initial()

    def log_prior(self, noise: Noise) -> float:  # noqa: ARG002
        """Return zero: nothing is drawn."""
        return 0.0


@dataclass(frozen=True)
class AsPublished:
    """The closed-form update of Rukat & Yau (2018), which does not sample the posterior.

    Every sweep sets both rates to their maximum-likelihood value. This is a step of stochastic EM,
    kept for comparison with published results. The log odds would be infinite without errors and
    negative with more errors than correct entries, so they are limited to the range from 0 to
    ``LARGEST_LAMBDA``.
    """

    kind: ClassVar[NoiseKind] = AS_PUBLISHED
    start: float = 0.35

    def __post_init__(self) -> None:
        probability("start", self.start, upper=0.5)

    def initial(self) -> Noise:
        """Return the rates a chain starts from."""
        return Noise(self.start, self.start)

    def draw(self, counts: Counts, uniforms: NDArray[np.float64], now: Noise) -> Noise:  # noqa: ARG002
        """Return the maximum-likelihood rate."""
        confusion = counts.total
        errors, total = confusion.fp + confusion.fn, sum(confusion)
        smallest = 1.0 / (1.0 + exp(LARGEST_LAMBDA))
        rate = min(max(errors / total, smallest), 0.5) if total else self.start
        return Noise(rate, rate)

    def log_prior(self, noise: Noise) -> float:  # noqa: ARG002
        """Return zero: there is no prior."""
        return 0.0


NoisePrior: TypeAlias = UnequalRates | EqualRates | FixedRates | AsPublished


def draw_rate(a: float, b: float, uniform: float, upper: float = 0.5) -> float:
    """Draw from Beta(a, b) truncated to (0, upper), by inverting the distribution function."""
    return float(draw_truncated(ADDRESSES, float(a), float(b), float(uniform), float(upper)))


def _log_density(rate: float, a: float, b: float) -> float:
    """Return the log density of Beta(a, b) truncated to (0, 1/2)."""
    return (a - 1.0) * log(rate) + (b - 1.0) * log(1.0 - rate) - _log_normaliser(a, b)


@lru_cache(maxsize=64)
def _log_normaliser(a: float, b: float) -> float:
    below = float(betainc(a, b, 0.5))
    if below > 1e-290:
        return float(betaln(a, b)) + log(below)
    return (a + b - 2.0) * log(0.5) - log(slope(0.5, a, b))  # as in draw_rate


@lru_cache(maxsize=64)
def _log_volume(spurious: tuple[float, float], dropped: tuple[float, float]) -> float:
    """Return the log of the integral of both densities over rates whose sum is below one.

    The integral over the second rate is a distribution function, which is averaged over the
    quantiles of the first.
    """
    (a0, b0), (a1, b1) = spurious, dropped
    from scipy.integrate import quad  # noqa: PLC0415 - slow to import

    below, _ = quad(
        lambda p: betainc(a1, b1, 1.0 - betaincinv(a0, b0, p)), 0.0, 1.0, epsabs=0.0, epsrel=1e-11
    )
    return float(betaln(a0, b0) + betaln(a1, b1)) + log(max(float(below), 1e-300))
