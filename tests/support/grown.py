"""States of a start made by hand, and what they are worth by summing over all bits."""

from itertools import product
from math import lgamma, log

import numpy as np
from scipy.special import gammaln, logsumexp

from thali.model.priors import harmonic
from thali.sampler import Target
from thali.sampler.grow.growth import Growth
from thali.streams import chain_key


def grown(data, model=None, factors=None, *, side=None, seed=0, threads=1, schedule=None):
    """Return a start in a given state."""
    target = Target.prepare(data, model, schedule, threads=threads)
    growth = Growth(chain_key(seed), target)
    if factors is not None:
        noise, densities = growth.state.noise, growth.state.densities
        growth.state = target.initial(growth.key, factors)._replace(noise=noise)
        if densities[1].ndim == 0:
            growth.state = growth.state._replace(densities=densities)
    if side is not None:
        growth.side = side
    return growth


def log_entries(data, covered, rates):
    """Return the log probability of every entry, given whether it is covered; unknown: zero."""
    spurious, dropped = rates
    reads_one = np.where(covered, 1.0 - dropped, spurious)
    logs = np.log(np.where(data == 1, reads_one, 1.0 - reads_one))
    return np.where(np.isnan(data), 0.0, logs)


def log_sum_of_bits(data, lines, chances, rates, covered=False):
    """Return the log probability of the data with the other side of the components summed out.

    Parameters
    ----------
    data
        ``(n, n_other)``, with NaN where unknown.
    lines
        ``(n, n_components)``: the side that is given.
    chances
        ``(n_components,)``: probabilities of the bits of the other side.
    covered
        Entries that further components cover.
    """
    by_pattern = []
    for pattern in product((False, True), repeat=lines.shape[1]):
        has = np.array(pattern, bool)
        covers = (lines & has).any(axis=1)[:, None] | covered
        prior = np.where(has, np.log(chances), np.log1p(-np.asarray(chances))).sum()
        by_pattern.append(prior + log_entries(data, covers, rates).sum(axis=0))
    return float(logsumexp(by_pattern, axis=0).sum())


def log_users(users, alpha):
    """Return the log prior probability of the users of components without labels (eq. 5)."""
    n_rows, n = users.shape
    sizes = users.sum(axis=0)
    rates = gammaln(n_rows - sizes + 1.0) + gammaln(sizes) - lgamma(n_rows + 1.0)
    _, repeats = np.unique(users, axis=1, return_counts=True)
    return (
        float(rates.sum() - gammaln(repeats + 1.0).sum())
        + n * log(alpha)
        - alpha * harmonic(n_rows)
    )


def log_joint_of_users(data, users, alpha, density, rates):
    """Return log p(data, users), with all codes summed out."""
    chances = np.full(users.shape[1], density)
    return log_users(users, alpha) + log_sum_of_bits(data, users, chances, rates)


def planted(shape, n_components, *, seed, rate=0.1, density=0.25, unknown=0.0):
    """Return noisy data of a known Boolean product, and its factors."""
    rng = np.random.default_rng(seed)
    users, codes = (rng.random((n, n_components)) < density for n in shape)
    data = (covers(users, codes) ^ (rng.random(shape) < rate)).astype(float)
    data[rng.random(shape) < unknown] = np.nan
    return data, users, codes


def covers(users, codes):
    """Return the Boolean product of two dense factors."""
    return users.astype(int) @ codes.T.astype(int) > 0


def reconstruction(state):
    """Return which entries a state covers."""
    return covers(*(factor.dense() for factor in state.factors))


def parts(state):
    """Return all of a state, to be compared by equality."""
    words = [factor.words.tolist() for factor in state.factors]
    densities = [density.tolist() for density in state.densities]
    return words, densities, state.noise, state.alpha, state.covered, state.sweep
