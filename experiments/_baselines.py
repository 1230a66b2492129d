"""Simple predictions of hidden entries, to compare with: rows and columns, low rank, NMF."""

import warnings

import numpy as np
from scipy.special import expit, logit
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import randomized_svd

RANKS = (1, 2, 4, 8, 16)
STEPS = 60


def log_score(chance, values, hidden):
    """Return the mean log probability of the hidden entries."""
    chance = np.clip(chance[hidden], 1e-6, 1.0 - 1e-6)
    return float(np.log(np.where(values[hidden], chance, 1.0 - chance)).mean())


def rows_and_columns(values, known, steps=40):
    """Fit log odds that are a level of the row plus one of the column, by Newton's method.

    Both have normal priors whose variances are fitted along the way. Returns the log odds.
    """
    mean = float(logit(np.clip(values[known].mean(), 1e-4, 1.0 - 1e-4)))
    rows, columns = np.zeros(values.shape[0]), np.full(values.shape[1], mean)
    of_rows = of_columns = 1.0
    for _ in range(steps):
        chance = expit(rows[:, None] + columns)
        rest, weight = (values - chance) * known, chance * (1.0 - chance) * known
        up = (rest.sum(axis=1) - rows / of_rows) / (weight.sum(axis=1) + 1.0 / of_rows)
        rows += np.clip(up, -1.0, 1.0)
        of_rows = (np.sum(rows**2) + 1.0) / (len(rows) + 1.0)
        chance = expit(rows[:, None] + columns)
        rest, weight = (values - chance) * known, chance * (1.0 - chance) * known
        up = rest.sum(axis=0) - (columns - mean) / of_columns
        columns += np.clip(up / (weight.sum(axis=0) + 1.0 / of_columns), -1.0, 1.0)
        mean = columns.mean()
        of_columns = (np.sum((columns - mean) ** 2) + 1.0) / (len(columns) + 1.0)
    return rows[:, None] + columns


def low_rank(values, known, odds, rank):
    """Add the low-rank matrix that fits best, by majorisation; return the log odds.

    Every step is a truncated and slightly shrunken singular value decomposition of the log odds
    plus four times the residuals, whose likelihood never falls.
    """
    extra = np.zeros(values.shape)
    for _ in range(STEPS):
        step = extra + 4.0 * (values - expit(odds + extra)) * known
        left, sizes, right = randomized_svd(step, rank, n_iter=2, random_state=0)
        extra = (left * np.maximum(sizes - np.sqrt(sum(values.shape)), 0.0)) @ right
    return odds + extra


def best_low_rank(values, known, hidden, odds):
    """Return the best score of several ranks, which is kinder than what can be known."""
    return max(
        log_score(expit(low_rank(values, known, odds, rank)), values, hidden)
        for rank in RANKS
        if rank < min(values.shape)
    )


def nmf(values, known, hidden, rank):
    """Return the score of non-negative matrix factorization; hidden entries are column means."""
    rank = max(1, min(rank, *values.shape))
    rate = (values * known).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, values, rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = NMF(rank, init="nndsvda", max_iter=200, random_state=0)
        chance = model.fit_transform(filled) @ model.components_
    return log_score(np.clip(chance, 0.01, 0.99), values, hidden)
