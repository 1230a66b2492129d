"""What a component and a state are worth, with one side of the components summed out.

Either the codes are summed out given the users, or the users given the codes. What is summed out
should be the side that the data leave more uncertain: a membership rests on as many entries as
there are columns, a bit of a code on as many as there are rows.
"""

from __future__ import annotations

from math import log, pi
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.special import expit, logit, logsumexp

from thali.bits.words import pack
from thali.model import Levels, PerComponent
from thali.model.priors import log_bernoulli, log_rates, log_repeats
from thali.sampler.gains import uncovered_gains
from thali.sampler.grow.values import log_sums, sums_by_density
from thali.sampler.level_evidence import summed_out
from thali.sampler.moves.proposal import log_rate
from thali.sampler.paths import log_paths
from thali.sampler.step import update_memberships, update_mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.engines.base import FreeEntries
    from thali.sampler.grow.growth import Growth
    from thali.sampler.state import State

_NARROW = 100
"""Number of columns below which memberships are uncertain."""

_DRAWS = 3
"""Number of draws over which the probability of one further draw is averaged."""

_STEPS = 5
"""Number of steps of expectation-maximisation for the weight of a possible component."""

_AT_ONCE = 16
"""Number of densities for which a code is summed out at once."""

_NEGLIGIBLE = 60.0
"""Log likelihoods that are this much lower than the largest do not count. Unless densities are
tied very closely, the smallest weights that are expected are above exp(-20)."""


class Candidate(NamedTuple):
    """A possible component, and by how much it would raise the log joint density."""

    value: float
    users: NDArray[np.bool_]
    chances: tuple[NDArray[np.float64], NDArray[np.float64]]  # of every row and every column
    odds: float  # log odds of the code's density


class Side(Protocol):
    """Which side of the components is summed out."""

    can_merge: ClassVar[bool]  # whether pairs can be merged with this side summed out

    def candidate(
        self, growth: Growth, rest: FreeEntries, users: NDArray[np.bool_]
    ) -> tuple[Candidate, NDArray[np.bool_]]:
        """Weigh a component with these users; return it, and users that would be better."""

    def values(self, growth: Growth) -> NDArray[np.float64]:
        """Return by how much each component raises the log joint density."""

    def evidence(self, growth: Growth, n_draws: int) -> float:
        """Estimate the log joint density of data, one side, rates and density."""


class SumOutCodes:
    """The codes are summed out, given the users of every component."""

    can_merge: ClassVar[bool] = True

    def candidate(
        self, growth: Growth, rest: FreeEntries, users: NDArray[np.bool_]
    ) -> tuple[Candidate, NDArray[np.bool_]]:
        """Weigh the users of a component: log alpha + log rho(users) + sum over columns of
        log(1 - q + q exp(gain)).
        """  # noqa: D205
        n_rows, n_users = len(users), int(users.sum())
        gains = _gains(growth, rest, 1, users)
        value, odds = _value_of(growth, gains)
        value += log(growth.state.alpha) + log_rate(n_users, n_rows)
        by_row = _gains(growth, rest, 0, gains + odds > 0.0)
        after = by_row + log(n_users / (n_rows - n_users + 1.0)) > 0.0
        chances = users.astype(np.float64), expit(gains + odds)
        return Candidate(value, users, chances, odds), after

    def values(self, growth: Growth) -> NDArray[np.float64]:
        """Return by how much each component raises the log joint density, its code summed out."""
        state = growth.state
        users, codes = state.factors
        scores = growth.engine.score_bits(1, None, users, codes, codes, state.noise.weights())
        of_users = log(state.alpha) + log_rates(users.sizes(), users.n_rows)
        worth: NDArray[np.float64] = log_sums(scores, growth.odds) + of_users
        return worth

    def evidence(self, growth: Growth, n_draws: int) -> float:
        """Estimate log p(data, users, rates, density), with codes and concentration summed out."""
        state, priors = growth.state, growth.target.priors
        users = state.factors[0]
        (prior,), (density,) = priors.densities[1:], state.densities[1:]
        assert prior is not None
        total = float(log_rates(users.sizes(), users.n_rows).sum())
        total -= log_repeats(state.factors[:1], state.densities)
        log_posterior = _draw_and_weigh(growth, 1, growth.odds, n_draws)
        _, codes = growth.state.factors
        log_prior = log_bernoulli(codes.sizes(), codes.n_rows, density) + prior.log_prior(density)
        return total + log_prior - log_posterior


class SumOutUsers:
    """The users are summed out, given the codes and the weights of the Beta process.

    The weight of a component is set to its estimate, and the integral over it approximated by
    that of a normal density (Laplace).
    """

    can_merge: ClassVar[bool] = False  # the users of a merged pair are known, but not its code

    def candidate(
        self, growth: Growth, rest: FreeEntries, users: NDArray[np.bool_]
    ) -> tuple[Candidate, NDArray[np.bool_]]:
        """Weigh the code that fits users best, with the users summed out."""
        gains = _gains(growth, rest, 1, users)
        _, odds = _value_of(growth, gains)
        code = gains + odds > 0.0
        by_row = _gains(growth, rest, 0, code)
        weight = users.mean()
        for _ in range(_STEPS):
            weight = _inside(float(expit(by_row + logit(weight)).mean()), len(users))
        of_code = -np.logaddexp(0.0, np.where(code, -odds, odds)).sum()
        value = log(growth.state.alpha) + of_code + _log_width(weight, len(users))
        value += float(log_sums(by_row[:, None], np.array([logit(weight)]))[0])
        chances = expit(by_row + logit(weight))
        found = Candidate(value, chances > 0.5, (chances, code.astype(np.float64)), odds)
        return found, chances > 0.5

    def values(self, growth: Growth) -> NDArray[np.float64]:
        """Return by how much each component raises the log joint density, users summed out."""
        state = growth.state
        users, codes = state.factors
        scores = growth.engine.score_bits(0, None, codes, users, users, state.noise.weights())
        weights, odds, sizes = _weights(state), growth.odds, codes.sizes()
        of_codes = sizes * -np.logaddexp(0.0, -odds)
        of_codes += (codes.n_rows - sizes) * -np.logaddexp(0.0, odds)
        worth: NDArray[np.float64] = log_sums(scores, logit(weights)) + of_codes
        return worth + log(state.alpha) + _log_width(weights, users.n_rows)

    def evidence(self, growth: Growth, n_draws: int) -> float:
        """Estimate log p(data, codes, rates, density), users and concentration summed out."""
        state, priors = growth.state, growth.target.priors
        _, codes = state.factors
        (prior,), (density,) = priors.densities[1:], state.densities[1:]
        assert prior is not None
        weights = _weights(state)
        total = float(np.sum(_log_width(weights, state.factors[0].n_rows)))
        total += log_bernoulli(codes.sizes(), codes.n_rows, density) + prior.log_prior(density)
        total -= log_repeats(state.factors[1:], [*state.densities, weights])
        log_posterior = _draw_and_weigh(growth, 0, logit(weights), n_draws)
        users = growth.state.factors[0]
        return total + log_bernoulli(users.sizes(), users.n_rows, weights) - log_posterior


def log_evidence(growth: Growth, n_draws: int = _DRAWS) -> float:
    """Estimate the log joint density of data, one side of the components, rates and density.

    The identity of Chib (1995) is p(data, users) = p(data, users, codes) / p(codes | data, users),
    for any codes, and likewise with users and codes exchanged. The denominator is the average,
    over draws of other codes, of the probability that a sweep leads from these to the given codes.
    Columns are independent given the users, so the average is taken column by column, and few
    draws suffice. With a single draw, the evidence for overlapping components would be too low.

    The side of the state that is summed out is replaced by another draw of it.
    """
    growth.settle()
    target, priors = growth.target, growth.target.priors
    assert priors.buffet is not None
    total = priors.buffet.log_sum(growth.state.n_components, target.shape[0])
    if growth.state.n_components:
        total += growth.side.evidence(growth, n_draws)
    # The rates are those at which one side was summed out, not those that fit its last draw.
    state = growth.state
    is_fitted = state.n_components > 0 or isinstance(state.noise, Levels)
    noise = state.noise if is_fitted else growth.result().noise
    log_likelihood: float = noise.log_likelihood(target.counts(state))
    total += log_likelihood + priors.noise.log_prior(noise)
    if isinstance(noise, Levels):
        total += summed_out(state, target) - noise.prior.log_levels(noise)
    return total


def choose_side(shape: tuple[int, ...]) -> Side:
    """Return the side to sum out: users if rows are short and many, codes otherwise."""
    n_rows, n_columns = shape
    return SumOutUsers() if n_columns < min(_NARROW, n_rows) else SumOutCodes()


def _gains(
    growth: Growth, rest: FreeEntries, mode: int, columns: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the gain of every row of a mode by covering its uncovered entries in some columns."""
    return uncovered_gains(rest, growth.state.noise.weights(), mode, pack(columns[None]))[:, 0]


def _value_of(growth: Growth, gains: NDArray[np.float64]) -> tuple[float, float]:
    """Return the log marginal likelihood of a code, and the log odds of its density."""
    (prior,) = growth.target.priors.densities[1:]
    (density,) = growth.state.densities[1:]
    if isinstance(prior, PerComponent):
        odds, log_weights = logit(prior.grid), prior.expected(density).log_weights
        values = _by_density(gains, odds) + log_weights
        return float(np.logaddexp.reduce(values)), float(odds[values.argmax()])
    odds = logit(density)
    return float(log_sums(gains[:, None], odds[None])[0]), float(odds)


def densities_without_codes(growth: Growth, prior: PerComponent) -> NDArray[np.float64]:
    """Return the density of every component that is most probable with its code summed out.

    A code of thousands of bits would determine its density to less than the distance of two values
    of the grid, so that it would keep the one that it was born with.
    """
    state = growth.state
    users, codes = state.factors
    scores = growth.engine.score_bits(1, None, users, codes, codes, state.noise.weights())
    odds, (_, densities) = logit(prior.grid), state.densities
    densities = densities.copy()
    for k in range(state.n_components):
        log_weights = prior.expected(np.delete(densities, k)).log_weights
        densities[k] = prior.grid[(_by_density(scores[:, k], odds) + log_weights).argmax()]
    return densities


def _by_density(gains: NDArray[np.float64], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log marginal likelihood of a code for every density of a grid.

    It is concave in the density, a sum of logarithms of linear functions. So it falls on both
    sides of the best one, and where it has become negligible it is not computed. The search for
    the best begins with the share of columns that gain. Some densities are done at once, because
    that takes little longer than one.
    """
    values = np.full(len(odds), -np.inf)

    def at(k: int) -> float:
        if values[k] == -np.inf:
            some = slice(k - k % _AT_ONCE, k - k % _AT_ONCE + _AT_ONCE)
            values[some] = sums_by_density(gains, odds[some])
        return float(values[k])

    share = _inside(float((gains > 0.0).mean()), len(gains))
    best = min(int(odds.searchsorted(logit(share))), len(odds) - 1)
    for step in (-1, 1):
        while 0 <= best + step < len(odds) and at(best + step) > at(best):
            best += step
    for step in (-1, 1):
        k = best
        while 0 <= k < len(odds) and at(k) > at(best) - _NEGLIGIBLE:
            k += step
    return values


def _inside(weight: float, n_rows: int) -> float:
    """Keep a weight away from 0 and 1, as the mean of a Beta distribution would be."""
    return min(max(weight, 0.5 / n_rows), 1.0 - 0.5 / n_rows)


def _weights(state: State) -> NDArray[np.float64]:
    """Return the means of the weights of the Beta process (P5)."""
    users = state.factors[0]
    return users.sizes() / (users.n_rows + 1.0)


def _log_width(weight: NDArray[np.float64] | float, n_rows: int) -> NDArray[np.float64] | float:
    """Return the log of what the integral over a weight adds to the density at its estimate.

    The intensity of weights is alpha / weight; the width is that of a normal density.
    """
    width: NDArray[np.float64] | float = 0.5 * np.log(
        2.0 * pi * (1.0 - weight) / (n_rows * np.asarray(weight))
    )
    return width


def _draw_and_weigh(growth: Growth, mode: int, odds: NDArray[np.float64], n_draws: int) -> float:
    """Draw one side of the state anew; return an estimate of the log probability of this draw."""
    target = growth.target
    earlier = []
    for _ in range(n_draws):
        earlier.append(growth.state.factors[mode])
        if mode == 0:
            growth.state = update_memberships(growth.stream(), growth.state, target, odds)
        else:
            growth.state = update_mode(growth.stream(), growth.state, target, mode)
    state = growth.state
    drawn, other = state.factors[mode], state.factors[::-1][mode]
    bits, weights = drawn.dense(), state.noise.weights()
    paths = [
        log_paths(growth.engine.score_bits(mode, None, other, start, drawn, weights), odds, bits)
        for start in earlier
    ]
    return float((logsumexp(np.stack(paths), axis=0) - log(n_draws)).sum())
