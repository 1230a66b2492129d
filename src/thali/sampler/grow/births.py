"""Births of shared components, from rows whose uncovered entries are similar."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp

from thali.bits.words import pack
from thali.model import PerComponent
from thali.sampler.grow.values import gains_of, log_sums, similarities
from thali.sampler.moves.proposal import log_rate, pick
from thali.sites import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import FreeEntries
    from thali.sampler.grow.growth import Growth

_SIZES = (2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
"""Numbers of rows around which a component is proposed; at most a fifth of all rows."""

_ALTERNATIONS = 8
"""How often code and users are improved in turn, at most."""


class _Candidate(NamedTuple):
    """Users of a possible component, and what it is worth with its code summed out."""

    value: float
    users: NDArray[np.bool_]
    gains: NDArray[np.float64]  # by every column of the code
    odds: float  # log odds of the code's density


def add_components(growth: Growth, n_tries: int) -> int:
    """Try to add components that the data support; return how many were added.

    A seed row and the rows whose uncovered entries are most similar are the first users. Code and
    users are then improved in turn. A component is added if it raises the log joint density, its
    code summed out: log alpha + log rho(users) + sum over columns of log(1 - q + q exp(gain)).
    """
    target, state = growth.target, growth.state
    n_rows, n_columns = target.shape
    stream = growth.stream()
    rest = growth.engine.uncovered(state.factors)
    totals = rest.count(0, pack(np.ones((1, n_columns), np.bool_)))[:, 0]
    sizes = [size for size in _SIZES if size <= max(2, n_rows // 5) and size <= n_rows]
    to_seed, to_size = stream.uniforms(Site.GROWN_USERS, 2 * n_tries).reshape(2, -1).tolist()
    n_added = 0
    for number in range(n_tries if sizes else 0):
        seed, size = pick(to_seed[number], n_rows), sizes[pick(to_size[number], len(sizes))]
        first = _similar_rows(growth, rest, totals, seed, size)
        best = _improve(growth, rest, first)
        if best.value <= 0.0:
            continue
        uniforms = stream.uniforms(Site.GROWN_CODES, n_columns, row=number)
        code = uniforms < expit(best.gains + best.odds)
        lines = pack(best.users[None]), pack(code[None])
        growth.state = growth.state.append(lines, np.array([expit(best.odds)]))
        rest.cover([line[0] for line in lines])
        n_added += 1
    if n_added:
        growth.state = target.recount(growth.state)
    return n_added


def _similar_rows(
    growth: Growth, rest: FreeEntries, totals: Index, seed: int, size: int
) -> NDArray[np.bool_]:
    """Return the seed and the rows that are most similar to it, as a mask."""
    rate = growth.state.noise.reads_one(covered=False)
    similar = similarities(rest.count(0, rest.of_rows(slice(seed, seed + 1))[:, 0]), totals, rate)
    similar[seed] = np.inf
    users = np.zeros(len(totals), np.bool_)
    users[np.argsort(-similar, kind="stable")[:size]] = True
    return users


def _improve(growth: Growth, rest: FreeEntries, users: NDArray[np.bool_]) -> _Candidate:
    """Improve code and users in turn, as long as the component gains by it."""
    weights = growth.state.noise.weights().pair()
    n_rows = len(users)
    best = None
    for number in range(_ALTERNATIONS):
        n_users = int(users.sum())
        gains = gains_of(rest.count(1, pack(users[None]))[:, 0], *weights)
        value, odds = _value_of(growth, gains)
        value += log(growth.state.alpha) + log_rate(n_users, n_rows)
        if best is None or value > best.value:
            best = _Candidate(value, users, gains, odds)
        elif number > 1:
            break
        code = gains + odds > 0.0
        by_row = gains_of(rest.count(0, pack(code[None]))[:, 0], *weights)
        after = by_row + log(n_users / (n_rows - n_users + 1.0)) > 0.0
        if after.sum() < min(2, n_rows) or (after == users).all():
            break
        users = after
    assert best is not None
    return best


def _value_of(growth: Growth, gains: NDArray[np.float64]) -> tuple[float, float]:
    """Return the log marginal likelihood of a code, and the log odds of its density."""
    (prior,) = growth.target.priors.densities[1:]
    if isinstance(prior, PerComponent):
        odds = logit(prior.grid)
        values = log_sums(np.repeat(gains[:, None], len(odds), axis=1), odds)
        return float(logsumexp(values)) - log(len(odds)), float(odds[values.argmax()])
    (density,) = growth.state.densities[1:]
    odds = logit(density)
    return float(log_sums(gains[:, None], odds[None])[0]), float(odds)
