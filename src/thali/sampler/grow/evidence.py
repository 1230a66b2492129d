"""The evidence for the memberships: the joint density of data and users, codes summed out."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from thali.model.priors import log_bernoulli, log_rates, log_repeats
from thali.sampler.grow.values import log_paths
from thali.sampler.step import update_mode

if TYPE_CHECKING:
    from thali.sampler.grow.growth import Growth
    from thali.sampler.state import State

_DRAWS = 3
"""Number of draws of the codes over which the probability of one further draw is averaged."""


def log_evidence(growth: Growth, n_draws: int = _DRAWS) -> float:
    """Estimate log p(data, users, rates, density), with codes and concentration summed out.

    The identity of Chib (1995) is p(data, users) = p(data, users, codes) / p(codes | data, users),
    for any codes. The denominator is the average, over draws of other codes, of the probability
    that a sweep leads from these to the given codes. Columns are independent given the users, so
    the average is taken column by column, and few draws suffice. With a single draw, the evidence
    for overlapping components would be too low.

    The codes of the state are replaced by others, drawn given its users.
    """
    growth.settle()
    state, target = growth.state, growth.target
    priors = target.priors
    assert priors.buffet is not None
    total = priors.buffet.log_sum(state.n_components, target.shape[0])
    if state.n_components:
        users = state.factors[0]
        total += float(log_rates(users.sizes(), users.n_rows).sum())
        total -= log_repeats(state.factors, state.densities)
        state, log_codes = _log_codes(growth, n_draws)
        growth.state = state
        total += log_codes
    noise = growth.result().noise
    return total + noise.log_likelihood(target.counts(state)) + priors.noise.log_prior(noise)


def _log_codes(growth: Growth, n_draws: int) -> tuple[State, float]:
    """Draw codes; return the state and log p(codes) - log p(codes | data, users)."""
    state, target = growth.state, growth.target
    users, codes = state.factors
    (prior,), (density,) = target.priors.densities[1:], state.densities[1:]
    assert prior is not None
    earlier = []
    for _ in range(n_draws):
        earlier.append(codes)
        state = update_mode(growth.stream(), state, target, 1)
        _, codes = state.factors
    bits, weights = codes.dense(), state.noise.weights()
    paths = [
        log_paths(growth.engine.score_codes(users, start, codes, weights), growth.odds, bits)
        for start in earlier
    ]
    log_posterior = float((logsumexp(np.stack(paths), axis=0) - log(n_draws)).sum())
    log_prior = log_bernoulli(codes.sizes(), codes.n_rows, density) + prior.log_prior(density)
    return state, log_prior - log_posterior
