"""Is a chain a sample from an exact table? Tests with error probabilities chosen beforehand.

Every comparison reduces to z-scores, (average over the chain - exact expectation) / standard
error, and to one bound on the largest of them, see `bound`. Agreement (`assert_matches`) and
disagreement (`rejects`) use the same statistic and the same bound, so a negative control shows
that the very test which the correct sampler passes can fail.

Standard errors come from batch means: a chain cut into long batches has nearly independent,
nearly normal batch averages whatever its autocorrelation, and their scatter gives the error of
the overall average. Three things would spoil this, and are dealt with here:

* events so rare that the batch averages are not normal. The number of effective events of a
  summary is n / (tau * kurtosis), with tau the largest inflation of a variance by
  autocorrelation (for the indicator of a rare event this is about n p / tau). Fewer than `FEW`:
  left out. Fewer than `MANY`: the standard error is at least that of the exact variance times
  tau, so that seeing an event too seldom does not make its average look certain. Otherwise it
  is at least the standard error of independent draws. If every summary is rare, tau cannot be
  known, only impossible events count, and the assertions raise `ValueError`;
* batches too short for the autocorrelation: a `ValueError`, neither pass nor fail. With
  batches of five autocorrelation times the standard error is already right within a tenth;
* a table truncated too early: a `ValueError` too.

Events of exactly zero probability need no statistics: one occurrence gives an infinite z-score.
"""

from itertools import islice

import numpy as np
from scipy.special import stdtrit

N_BATCHES = 50
LEVEL = 1e-6
FEW = 5
MANY = 100


def bound(n_summaries, n_batches=N_BATCHES, level=LEVEL):
    """Largest |z| that a correct sampler exceeds with probability at most `level`.

    The z-score of one summary is the mean of `n_batches` nearly independent and normal batch
    averages over their estimated standard error, so it follows Student's t with n_batches - 1
    degrees of freedom. It exceeds t in absolute value with probability 2 P(T > t), and any of m
    summaries does with probability at most m times that, however they depend on each other
    (Bonferroni). Setting 2 m P(T > t) = level gives t. With 20 summaries, 50 batches and a level
    of one in a million, t = 6.4.
    """
    return -float(stdtrit(n_batches - 1, level / (2 * n_summaries)))


def z_scores(ks, Fs, P, n_batches=N_BATCHES):
    """z-score of each summary of a chain of (number of components, prediction).

    `P` is a table P[k, F], or P[F] for a model with a fixed number of components (`ks` is then
    ignored and may be None). Summaries: the indicator of every k, k itself, every cell of F,
    |F|^2 and k |F|, as far as they are frequent enough. A number of components beyond the table
    counts as the last one. Returns a dict from names to z-scores.
    """
    P = np.asarray(P, dtype=float)
    table = np.atleast_2d(P)
    top = len(table) - 1
    Fs = np.asarray(Fs, dtype=np.int64).ravel()
    if P.ndim == 1:
        ks = np.zeros(Fs.size, dtype=np.int64)
    else:
        ks = np.minimum(np.asarray(ks, dtype=np.int64).ravel(), top)
        _check_truncation(table, Fs.size)
    if ks.shape != Fs.shape:
        raise ValueError("ks and Fs must have the same length.")
    if Fs.min() < 0 or Fs.max() >= table.shape[1] or ks.min() < 0:
        raise ValueError("A draw lies outside the table.")
    k, F = (a.ravel() for a in np.indices(table.shape))
    cells = table.shape[1].bit_length() - 1
    bits = F[:, None] >> np.arange(cells) & 1
    size = bits.sum(axis=1)
    summaries = {f"cell {i}": bits[:, i] for i in range(cells)}
    summaries["|F|^2"] = size**2
    if P.ndim == 2:
        summaries["k"] = k
        summaries["k |F|"] = k * size
        summaries |= {f"k = {i}": k == i for i in range(top + 1)}
    return _z_scores(ks * table.shape[1] + Fs, table.ravel(), summaries, n_batches)


def state_z_scores(keys, table, n_batches=N_BATCHES, n_states=100):
    """z-scores of a chain of states against a dict from state to probability.

    A state is a tuple of integers, one for each component. Summaries: the indicators of the
    `n_states` most probable states and of all others together, the number of components, and the
    number of ones in the binary form of all components together. If the table is conditional on
    few components, pass only the draws that satisfy the condition.
    """
    order = sorted(table, key=lambda key: -table[key])
    position = {key: i for i, key in enumerate(order)}
    index = np.array([position.get(key, len(order)) for key in keys])
    p = np.array([*(table[key] for key in order), 0.0])  # last: a state not in the table
    n_states = min(n_states, len(order))
    each = np.arange(p.size)
    summaries = {str(order[i]): each == i for i in range(n_states)}
    summaries["other states"] = each >= n_states
    summaries["k"] = [*(len(key) for key in order), 0]
    summaries["ones"] = [*(sum(c.bit_count() for c in key) for key in order), 0]
    return _z_scores(index, p, summaries, n_batches)


def max_abs_z(ks, Fs, P, n_batches=N_BATCHES):
    """Largest absolute z-score of a chain against the exact table."""
    return _largest(z_scores(ks, Fs, P, n_batches))


def rejects(ks, Fs, P, n_batches=N_BATCHES, level=LEVEL):
    """Whether the chain is shown not to sample the table."""
    return _exceeds(z_scores(ks, Fs, P, n_batches), n_batches, level)


def assert_rejected(chain, P, n_sweeps):
    """A mistake is seen by the comparison; it looks whenever the sweeps have doubled.

    ``chain`` yields the number of components and the prediction after every sweep. Most mistakes
    are seen long before the end; a look that comes too early to judge says nothing.
    """
    seen = []
    for halvings in range(4, -1, -1):
        seen.extend(islice(chain, (n_sweeps >> halvings) - len(seen)))
        ks, Fs = np.array(seen).T
        try:
            if rejects(ks, Fs, P):
                return
        except ValueError:
            if not halvings:
                raise
    raise AssertionError(f"largest |z| is only {max_abs_z(ks, Fs, P):.1f}")


def assert_matches(ks, Fs, P, n_batches=N_BATCHES, level=LEVEL):
    """Fail, naming the worst summaries, if `rejects` holds."""
    _assert_within(z_scores(ks, Fs, P, n_batches), n_batches, level)


def rejects_states(keys, table, n_batches=N_BATCHES, level=LEVEL):
    """Whether the chain of states is shown not to sample the table."""
    return _exceeds(state_z_scores(keys, table, n_batches), n_batches, level)


def assert_states_match(keys, table, n_batches=N_BATCHES, level=LEVEL):
    """Fail, naming the worst states, if `rejects_states` holds."""
    _assert_within(state_z_scores(keys, table, n_batches), n_batches, level)


def geweke_z(prior_samples, chain_samples, n_batches=N_BATCHES):
    """z-score of every column: independent prior draws against a joint-distribution chain.

    Both arrays have shape (draws, summaries); the chain alternates between the sampler given
    data and fresh data given the state, so that its parameters follow the prior if the sampler
    is right. The variance of the difference is that of the prior average plus that of the chain
    average by batch means, the latter at least that of independent draws. A column constant in
    both gives 0, or infinity if the two constants differ; a NaN gives infinity. Choose
    summaries that are not concentrated on rare events. Compare with ``bound(number of columns,
    n_batches)``.
    """
    prior = np.asarray(prior_samples, dtype=float)
    chain = _whole_batches(np.asarray(chain_samples, dtype=float), n_batches)
    batch = chain.reshape(n_batches, -1, chain.shape[1]).mean(axis=1)
    spread = prior.var(axis=0, ddof=1)
    own = np.maximum(batch.var(axis=0, ddof=1) / n_batches, spread / len(chain))
    difference = batch.mean(axis=0) - prior.mean(axis=0)
    return _ratio(difference, np.sqrt(spread / len(prior) + own))


def geweke_rejects(prior_samples, chain_samples, n_batches=N_BATCHES, level=LEVEL):
    """Whether some column shows that the chain does not return to the prior."""
    z = dict(enumerate(geweke_z(prior_samples, chain_samples, n_batches)))
    return _exceeds(z, n_batches, level)


def geweke_rejects_by(n, prior_of, chain_of):
    """Whether the chain is rejected after ``n`` sweeps, or after a quarter of them already.

    Samples are functions of their number. Most mistakes are seen early. No look comes before
    batches have 15 sweeps: with 5, one of four right samplers of levels was rejected (|z| 7.4);
    with 10, 15 and 20, the largest |z| of sixteen right ones was 3.5.
    """
    first = max(n // 4, 15 * N_BATCHES)
    return any(geweke_rejects(prior_of(4 * k), chain_of(k)) for k in sorted({min(first, n), n}))


def assert_geweke(prior_samples, chain_samples, names=None, n_batches=N_BATCHES, level=LEVEL):
    """Fail, naming the worst summaries, if `geweke_rejects` holds."""
    z = geweke_z(prior_samples, chain_samples, n_batches)
    names = range(len(z)) if names is None else names
    _assert_within(dict(zip(names, z, strict=True)), n_batches, level)


def total_variation(p, q):
    """Total variation distance of two arrays, or of two dicts from outcome to probability."""
    if isinstance(p, dict):
        return 0.5 * sum(abs(p.get(key, 0.0) - q.get(key, 0.0)) for key in p.keys() | q.keys())
    return 0.5 * float(np.abs(np.asarray(p) - np.asarray(q)).sum())


def _z_scores(index, p, summaries, n_batches):
    """z-scores of functions of a chain on a finite space.

    `index` is the chain, `p` the exact law, and each summary the values of a function at all
    points of the space. Batch averages are taken through histograms of the batches.
    """
    index = _whole_batches(index, n_batches)
    n, length = index.size, index.size // n_batches
    batch_no = np.arange(n) // length
    counts = np.bincount(batch_no * p.size + index, minlength=n_batches * p.size)
    counts = counts.reshape(n_batches, p.size)
    if counts[:, p == 0].any():
        return {"impossible event": np.inf}
    names = np.array(list(summaries))
    f = np.stack([np.asarray(s, dtype=float) for s in summaries.values()], axis=1)
    exact = p @ f
    f = f - exact
    variance = p @ f**2
    varies = variance > 1e-12 * np.maximum(1.0, exact**2)
    names, f, variance = names[varies], f[:, varies], variance[varies]
    if names.size == 0:
        return {}
    events = n * variance**2 / (p @ f**4)
    batch = counts @ f / length
    scatter = batch.var(axis=0, ddof=1)
    seen = counts.sum(axis=0) @ f**2 / n - batch.mean(axis=0) ** 2
    times = np.divide(length * scatter, seen, out=np.ones_like(seen), where=seen > 0)
    common = events >= MANY
    slowest = times[common].max(initial=1.0)
    if slowest > length / 5:
        raise ValueError(
            f"The chain is too short to judge: {n} draws, autocorrelation time at least "
            f"{slowest:.0f}; at least {5 * n_batches * slowest:.0f} draws are needed."
        )
    tau = times[events >= FEW].max(initial=1.0)
    events = events / tau if common.any() else np.zeros_like(events)
    floor = variance / n * np.where(events < MANY, tau, 1.0)
    z = batch.mean(axis=0) / np.sqrt(np.maximum(scatter / n_batches, floor))
    tested = events >= FEW
    return dict(zip(names[tested].tolist(), z[tested].tolist(), strict=True))


def _check_truncation(table, n):
    """Refuse a table whose neglected tail could move the average of k noticeably."""
    law = table.sum(axis=1)
    k = np.arange(law.size)
    spread = np.sqrt(law @ (k - law @ k) ** 2)
    if law.size > 1 and law[-1] * k[-1] * np.sqrt(n) > 0.1 * spread:
        raise ValueError(
            f"{k[-1]} components have probability {law[-1]:.2g}: enumerate more of them before "
            f"comparing with {n} draws."
        )


def _whole_batches(chain, n_batches):
    """Drop the first draws so that all batches have the same length."""
    if len(chain) < 2 * n_batches:
        raise ValueError(f"{len(chain)} draws are too few for {n_batches} batches.")
    return chain[len(chain) % n_batches :]


def _ratio(difference, error):
    z = np.full(difference.shape, np.inf)
    np.divide(difference, error, out=z, where=error > 0)
    z[(error == 0) & (difference == 0)] = 0.0
    return np.where(np.isnan(z), np.inf, z)


def _largest(z):
    return max((abs(v) for v in z.values()), default=0.0)


def _exceeds(z, n_batches, level):
    return bool(_largest(z) > bound(max(len(z), 1), n_batches, level))


def _assert_within(z, n_batches, level):
    if not z:
        raise ValueError("No summary is frequent enough to be tested.")
    limit = bound(len(z), n_batches, level)
    worst = sorted(z.items(), key=lambda item: -abs(item[1]))[:5]
    text = ", ".join(f"{name}: {value:.1f}" for name, value in worst)
    assert not _exceeds(z, n_batches, level), f"|z| beyond {limit:.2f}; worst: {text}"
