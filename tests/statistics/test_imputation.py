"""Unknown entries: predicted as well as the truth allows, with honest probabilities."""

import numpy as np
import pytest

import thali
from thali.errors import NotConverged
from thali.model import FixedRates

# Some chains are shorter than averages of the rates would need. Here predictions are judged.
pytestmark = pytest.mark.filterwarnings(f"ignore::{NotConverged.__module__}.NotConverged")

RATE = 0.1
HIDDEN = 0.3
WIDE = ((200, 300), 4)  # shape, components: every row and column is well determined
NARROW = ((300, 16), 3)  # eleven known entries a row: its memberships remain open
SEEDS = range(5)

MOST_LOST = 0.005
"""Accuracy lost against the true factors.

The same entries are predicted, so no sampling error enters: the difference counts entries whose
noise-free value was got wrong, 0.8 of which cost a hit (1 - 2 * RATE)."""

MOST_LOG_LOST = MOST_LOST * np.log((1 - RATE) / RATE)
"""Log score an entry lost against the true factors and rates.

A noise-free value that is surely wrong costs (1 - 2 * RATE) hits, and as many times the log odds
log(0.9 / 0.1): the bound on hits is a bound on the score. Estimating two rates from 42,000 known
entries costs 1 / 42,000 on average, which is nothing."""

EDGES = np.arange(0.05, 1.0, 0.1)
"""Bins of predicted probability: [0, 0.05), [0.05, 0.15), …, [0.95, 1]."""

LEAST_VARIANCE = 25.0
LARGEST_Z = 5.5
"""Beyond this the number of ones in a bin contradicts the probabilities.

A count of variance 25 or more is so many standard deviations off with probability 1.6e-6 at most:
that of the most skewed one, a Poisson distribution of mean 25. Six comparisons of eleven bins make
that one in 10,000 (Bonferroni). Bins of smaller variance are left out."""


def simulated(problem, seed):
    """Return data with unknown entries, the whole data and the noise-free values."""
    shape, n_components = problem
    whole = thali.simulate(shape, n_components, spurious=RATE, seed=seed)
    part = thali.simulate(shape, n_components, spurious=RATE, unknown=HIDDEN, seed=seed)
    is_known = ~np.isnan(part.tensor)
    assert np.array_equal(part.tensor[is_known], whole.tensor[is_known])
    assert np.array_equal(part.noise_free, whole.noise_free)
    return part.tensor, whole.tensor, whole.noise_free


def fit(tensor, seed, noise="unequal", **settings):
    return thali.sample(
        tensor, noise=noise, chains=2, warmup=100, draws=50, seed=seed, progress=False, **settings
    )


def share_of_hits(posterior, whole):
    """Predict the unknown entries, each by the more probable value."""
    positions, probabilities = posterior.impute()
    return np.mean((probabilities > 0.5) == whole[tuple(positions.T)])


def score(posterior, tensor, whole):
    """Return the mean log probability of what the unknown entries really are."""
    return posterior.log_score(np.where(np.isnan(tensor), whole, np.nan)).mean


def best(tensor, whole, noise_free):
    """Return hits and log score of who knows factors and rates."""
    is_hit = (whole == noise_free)[np.isnan(tensor)]
    return is_hit.mean(), np.log(np.where(is_hit, 1 - RATE, RATE)).mean()


def by_draws(draws, positions):
    """Return the probability of a one in each draw, ``(n_draws, n_entries)``."""
    at = tuple(positions.T)
    rows = []
    for draw in draws:
        users, codes = (factor.dense().astype(np.float32) for factor in draw.state.factors)
        cover = (users @ codes.T > 0.5)[at]
        rows.append(np.where(cover, 1 - draw.state.noise.dropped, draw.state.noise.spurious))
    return np.array(rows)


def bin_scores(cases):
    """Return by how many standard deviations the ones of every bin are off.

    Given the data, the ones of a bin number the sum of the predicted probabilities on average.
    Entries are independent within a draw, and share its rates and memberships; so the variance is
    the mean over draws of the sum of p (1 - p), plus the variance over draws of the sum of p. No
    more is assumed. A case is ``(probabilities by draw, values)``; cases are independent.
    """
    excess, variance = np.zeros(EDGES.size + 1), np.zeros(EDGES.size + 1)
    for by_draw, values in cases:
        probabilities = by_draw.mean(axis=0)
        bins = np.digitize(probabilities, EDGES)
        for b in range(EDGES.size + 1):
            p = by_draw[:, bins == b]
            excess[b] += (values - probabilities)[bins == b].sum()
            variance[b] += (p * (1 - p)).sum(axis=1).mean() + p.sum(axis=1).var()
    is_large = variance >= LEAST_VARIANCE
    return {f"about {b / 10}": excess[b] / variance[b] ** 0.5 for b in np.flatnonzero(is_large)}


def largest(scores):
    return max(map(abs, scores.values()))


def case(posterior, whole):
    positions, probabilities = posterior.impute()
    by_draw = by_draws(posterior, positions)
    np.testing.assert_allclose(by_draw.mean(axis=0), probabilities, rtol=1e-12)
    return by_draw, whole[tuple(positions.T)]


@pytest.mark.parametrize("seed", SEEDS)
def test_imputation(seed):
    """With 30% unknown and 10% flips, no more than half a point below the best; calibrated."""
    tensor, whole, noise_free = simulated(WIDE, seed)
    posterior = fit(tensor, seed)
    best_hits, best_score = best(tensor, whole, noise_free)
    assert best_hits == pytest.approx(1 - RATE, abs=0.01)  # 4.5 binomial standard deviations
    assert share_of_hits(posterior, whole) >= best_hits - MOST_LOST
    assert score(posterior, tensor, whole) >= best_score - MOST_LOG_LOST
    scores = bin_scores([case(posterior, whole)])
    assert len(scores) >= 2
    assert largest(scores) < LARGEST_Z, scores


def test_too_few_components_are_rejected():
    """One component for four misses the same line, in hits and in score."""
    tensor, whole, noise_free = simulated(WIDE, 0)
    posterior = fit(tensor, 0, n_components=1)
    best_hits, best_score = best(tensor, whole, noise_free)
    assert share_of_hits(posterior, whole) < best_hits - MOST_LOST
    assert score(posterior, tensor, whole) < best_score - MOST_LOG_LOST


def test_wrong_rates_are_rejected():
    """Half the true error rate hits as often, but neither bins nor score are right."""
    tensor, whole, noise_free = simulated(WIDE, 0)
    posterior = fit(tensor, 0, noise=FixedRates(RATE / 2, RATE / 2))
    assert score(posterior, tensor, whole) < best(tensor, whole, noise_free)[1] - MOST_LOG_LOST
    assert largest(bin_scores([case(posterior, whole)])) > LARGEST_Z


@pytest.mark.slow  # imputation of other entries is tested quickly
def test_open_entries():
    """Where memberships stay open, probabilities between 0.2 and 0.8 are right as well.

    One draw in place of all knows no such doubt, and is rejected.
    """
    cases, single = [], []
    for seed in SEEDS:
        tensor, whole, _ = simulated(NARROW, seed)
        posterior = fit(tensor, seed)
        by_draw, values = case(posterior, whole)
        cases.append((by_draw, values))
        single.append((by_draw[-1:], values))
    scores = bin_scores(cases)
    assert len(scores) >= 7
    assert largest(scores) < LARGEST_Z, scores
    assert largest(bin_scores(single)) > LARGEST_Z
