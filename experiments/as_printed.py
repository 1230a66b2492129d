"""Algorithm 1 of Rukat & Yau (2018), followed to the letter: a baseline, not a sampler.

Followed are the conditional of one entry, eq. (3), with odds m : (N - m) for the users; the number
of new components of a row, eqs. (6) to (8), of which fewer than ten are tried; and the error rate
set to its most likely value after every sweep. What is printed differs from what samples the
posterior in the following (docs/model.md has the corrections):

* eq. (8) takes q^L' for the probability that all of L' new codes lack a column; with
  p(u = 1) = q, eq. (4), it is (1 - q)^L' (the same for q = 1/2 only);
* new codes are "sampled as previously", one after another, the first as if it were alone;
  given L' they must be drawn together;
* components that only this row uses are deleted inside the loop over components, so that those
  visited later are drawn as if the row owned none;
* components are visited in the order of their creation, which depends on their users;
* the error rate is estimated, not drawn.

Where an index or a sign cannot be meant as printed (the factor z in eq. (3), condition (ii) below
it, the range of the new components) the evident meaning is taken. The paper does not say how
alpha, q and the error rate start: 3 and 1/2, the values of its authors' program, and 0.2.
"""

from math import exp, lgamma, log
from typing import NamedTuple

import numba
import numpy as np

MOST_NEW = 10  # L' stays below it
CAPACITY = 512  # components
LARGEST_LAMBDA = 20.0  # without errors the estimate would be infinite, and the chain freeze


class Chain(NamedTuple):
    """What a chain passed through, one entry a sweep, and where it ended."""

    n_components: np.ndarray
    error: np.ndarray  # fraction of the data that the state predicts wrongly
    log_likelihood: np.ndarray
    log_joint: np.ndarray  # of data and factors, given the rate, alpha and q
    prediction: np.ndarray  # mean over the sweeps after warm-up
    factors: tuple[np.ndarray, np.ndarray]  # of the last sweep, (n_rows, n_components)


def run(data, n_sweeps, warmup, seed, alpha=3.0, density=0.5, rate=0.2):
    """Run Algorithm 1 from no component on a Boolean matrix."""
    data = np.ascontiguousarray(data, np.uint8)
    traces, prediction, users, codes = _run(data, n_sweeps, warmup, seed, alpha, density, rate)
    factors = users.T.astype(np.bool_), codes.T.astype(np.bool_)
    return Chain(traces[0].astype(np.int64), *traces[1:], prediction, factors)


@numba.njit(cache=False)
def _run(data, n_sweeps, warmup, seed, alpha, density, rate):
    np.random.seed(seed)  # noqa: NPY002 - the only generator that compiled code has
    n_rows, n_columns = data.shape
    by_column = data.T.copy()
    users = np.zeros((CAPACITY, n_rows), np.uint8)  # a component a line
    codes = np.zeros((CAPACITY, n_columns), np.uint8)
    n = 0
    lam = log((1.0 - rate) / rate)
    traces = np.empty((4, n_sweeps))
    total = np.zeros(data.shape)
    for sweep in range(n_sweeps):
        n = _sweep_users(data, users, codes, n, lam, alpha, density)
        _sweep_codes(by_column, users, codes, n, lam, density)
        covers = _covers(users, codes, n)
        n_errors = 0
        for row in range(n_rows):
            for column in range(n_columns):
                is_one = covers[row, column] > 0
                n_errors += is_one != data[row, column]
                if sweep >= warmup:
                    total[row, column] += is_one
        hits = data.size - n_errors
        lam = min(max(log(hits / max(n_errors, 1e-300)), 0.0), LARGEST_LAMBDA)
        log_likelihood = -hits * log(1.0 + exp(-lam)) - n_errors * log(1.0 + exp(lam))
        traces[0, sweep] = n
        traces[1, sweep] = n_errors / data.size
        traces[2, sweep] = log_likelihood
        traces[3, sweep] = log_likelihood + _log_prior(users, codes, n, alpha, density)
    return traces, total / max(1, n_sweeps - warmup), users[:n], codes[:n]


@numba.njit(cache=False)
def _sweep_users(data, users, codes, n, lam, alpha, density):
    """Go through the rows: shared components, then new ones; return how many there are."""
    n_rows = data.shape[0]
    for row in range(n_rows):
        cover = np.zeros(data.shape[1], np.int64)  # how many components cover a column
        for component in range(n):
            if users[component, row]:
                _add(cover, codes[component], 1)
        component = 0
        while component < n:
            own = users[component, row]
            others = users[component].sum() - own
            if others == 0:  # the printed place of deletion
                _add(cover, codes[component], -1)
                _drop(users, component, n)
                _drop(codes, component, n)
                n -= 1
                continue
            odds = log(others / (n_rows - others))
            odds += lam * _surplus(codes[component], cover, own, data[row])
            users[component, row] = np.random.random() < 1.0 / (1.0 + exp(-odds))  # noqa: NPY002
            if users[component, row] and not own:
                _add(cover, codes[component], 1)
            elif own and not users[component, row]:
                _add(cover, codes[component], -1)
            component += 1
        ones, zeros = _uncovered(cover, data[row])
        n_new = _number_of_new(ones, zeros, alpha / n_rows, density, lam)
        if n + n_new > CAPACITY:
            raise ValueError("more components than there is room for; raise CAPACITY.")
        for component in range(n, n + n_new):
            users[component] = 0
            users[component, row] = 1
            _draw_new_code(codes[component], cover, data[row], lam, density)
            _add(cover, codes[component], 1)
        n += n_new
    return n


@numba.njit(cache=False)
def _uncovered(cover, data):
    """Count the ones and zeros of a row that nothing covers."""
    n_free = n_ones = 0
    for column in range(data.size):
        if cover[column] == 0:
            n_free += 1
            n_ones += data[column]
    return n_ones, n_free - n_ones


@numba.njit(cache=False)
def _number_of_new(ones, zeros, mean, density, lam):
    """Draw L' given the uncovered ones and zeros of a row, eq. (8) as printed."""
    hit = 1.0 / (1.0 + exp(-lam))
    weights = np.empty(MOST_NEW)
    for k in range(MOST_NEW):
        none_on = density**k  # printed; (1 - density) ** k is right
        weights[k] = k * log(mean) - lgamma(k + 1.0)
        weights[k] += ones * log(none_on * (1.0 - hit) + (1.0 - none_on) * hit)
        weights[k] += zeros * log(none_on * hit + (1.0 - none_on) * (1.0 - hit))
    below = np.cumsum(np.exp(weights - weights.max()))
    return np.searchsorted(below, np.random.random() * below[-1], side="right")  # noqa: NPY002


@numba.njit(cache=False)
def _draw_new_code(code, cover, data, lam, density):
    """Draw a new code as if no further one came."""
    for column in range(code.size):
        gain = lam * (2.0 * data[column] - 1.0) if cover[column] == 0 else 0.0
        odds = log(density / (1.0 - density)) + gain
        code[column] = np.random.random() < 1.0 / (1.0 + exp(-odds))  # noqa: NPY002


@numba.njit(cache=False)
def _sweep_codes(by_column, users, codes, n, lam, density):
    """Propose to flip every entry of the codes (metropolised Gibbs, as in the paper)."""
    covers = _covers(codes, users, n)  # (n_columns, n_rows)
    for column in range(by_column.shape[0]):
        for component in range(n):
            own = codes[component, column]
            odds = log(density / (1.0 - density))
            odds += lam * _surplus(users[component], covers[column], own, by_column[column])
            if np.random.random() < exp(min(0.0, -odds if own else odds)):  # noqa: NPY002
                codes[component, column] = 1 - own
                _add(covers[column], users[component], -1 if own else 1)


@numba.njit(cache=False)
def _surplus(code, cover, own, data):
    """Count ones minus zeros among the entries that this component alone decides."""
    surplus = 0
    for i in range(code.size):
        if code[i] and cover[i] == own:
            surplus += 2 * np.int64(data[i]) - 1
    return surplus


@numba.njit(cache=False)
def _covers(left, right, n):
    """Count the components that cover every entry."""
    covers = np.zeros((left.shape[1], right.shape[1]), np.int64)
    for component in range(n):
        for i in range(left.shape[1]):
            if left[component, i]:
                _add(covers[i], right[component], 1)
    return covers


@numba.njit(cache=False)
def _add(cover, line, sign):
    """Add or subtract a line in place; as a loop it is compiled in half the time."""
    for i in range(line.size):
        cover[i] += sign * np.int64(line[i])


@numba.njit(cache=False)
def _log_prior(users, codes, n, alpha, density):
    """Return the log density of the factors as a set of components, but for repeated ones."""
    n_rows, n_columns = users.shape[1], codes.shape[1]
    log_prior = -alpha * (1.0 / np.arange(1, n_rows + 1)).sum()
    for component in range(n):
        m, size = users[component].sum(), codes[component].sum()
        log_prior += log(alpha) + lgamma(n_rows - m + 1.0) + lgamma(m) - lgamma(n_rows + 1.0)
        log_prior += size * log(density) + (n_columns - size) * log(1.0 - density)
    return log_prior


@numba.njit(cache=False)
def _drop(lines, component, n):
    """Move the later ones of n lines up by one."""
    for later in range(component + 1, n):
        for i in range(lines.shape[1]):
            lines[later - 1, i] = lines[later, i]
