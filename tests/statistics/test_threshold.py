"""An independent exact sampler of the same posterior agrees: sticks above a threshold.

It represents unused components too, with codes from the prior, which makes every row free to
join any of them; nothing of the buffet schedules is used. Poor at finding components in large
data, but simple: a cross-check.
"""

import numpy as np
import pytest

from support import compare, exact
from support.chains import X33, as_exact, hide, run
from thali.model import FixedRates, Model

MODEL = Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3)


def gibbs(rng, factor, other, x, known, prior, w1, w0, frozen):
    """One entry after another of a dense factor."""
    for row in range(len(factor)):
        for component in range(factor.shape[1]):
            if frozen[component]:
                continue
            rest = factor[row].copy()
            rest[component] = False
            free = other[:, component] & ~other[:, rest].any(axis=1) & known[row]
            score = prior[component] + w1 * (free & x[row]).sum() + w0 * (free & ~x[row]).sum()
            factor[row, component] = rng.random() < 1 / (1 + np.exp(-score))


def threshold_sampler(x, known, model, n_sweeps, seed=0, threshold=0.05):
    """Sample by sticks: those above the threshold are represented, used or not."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = x.shape
    q, alpha, rates = model.density, model.alpha, model.noise
    w1 = np.log((1 - rates.dropped) / rates.spurious)
    w0 = np.log(rates.dropped / (1 - rates.spurious))
    z, u = np.zeros((n_rows, 0), bool), np.zeros((n_columns, 0), bool)
    ks, fs = [], []
    for _ in range(n_sweeps):
        sizes = z.sum(axis=0)
        used = rng.beta(sizes, n_rows - sizes + 1)
        # Unused sticks are a Poisson process of intensity alpha (1 - mu)^N / mu.
        candidates = threshold ** rng.random(rng.poisson(-alpha * np.log(threshold)))
        spare = candidates[rng.random(len(candidates)) < (1 - candidates) ** n_rows]
        z = np.concatenate([z, np.zeros((n_rows, len(spare)), bool)], axis=1)
        u = np.concatenate([u, rng.random((n_columns, len(spare))) < q], axis=1)
        order = rng.permutation(z.shape[1])
        mu, z, u = np.concatenate([used, spare])[order], z[:, order], u[:, order]
        odds = np.log(mu) - np.log1p(-mu)
        gibbs(rng, z, u, x, known, odds, w1, w0, mu <= threshold)
        keep = z.any(axis=0)
        z, u = z[:, keep], u[:, keep]
        free = np.zeros(z.shape[1], bool)
        prior = np.full(z.shape[1], np.log(q) - np.log1p(-q))
        gibbs(rng, u, z, x.T, known.T, prior, w1, w0, free)
        ks.append(z.shape[1])
        fs.append(exact.canonical([z, u]).prediction)
    return np.array(ks), np.array(fs)


@pytest.mark.slow  # test_enumeration.py compares ours with enumeration quickly
def test_threshold_sampler_agrees_with_enumeration_and_with_ours():
    """Three answers to one question: enumeration, sticks, and the parallel schedule."""
    tensor, known = hide(X33, (0, 2))
    expected = exact.posterior_ibp(X33, known, as_exact(MODEL), max_components=24)
    sticks = threshold_sampler(X33.astype(bool) & known, known, MODEL, 8_000)
    compare.assert_matches(*sticks, expected)
    ours = run(tensor, MODEL, 8_000, blocks=3, seed=9)
    compare.assert_matches(*ours, expected)
