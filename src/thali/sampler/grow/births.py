"""Births of shared components, from rows whose uncovered entries are similar."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from thali.bits.words import pack
from thali.sampler.gains import uncovered_gains
from thali.sampler.moves.proposal import pick
from thali.sites import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import FreeEntries
    from thali.model import Levels, Noise, Weights
    from thali.sampler.grow.growth import Growth
    from thali.sampler.grow.sides import Candidate

_SIZES = (2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
"""Numbers of rows around which a component is proposed; at most a fifth of all rows."""

_ALTERNATIONS = 8
"""How often code and users are improved in turn, at most."""


def add_components(growth: Growth, n_tries: int, seeds: Index | None = None) -> int:
    """Try to add components that the data support; return how many were added.

    A seed row and the rows whose uncovered entries are most similar, by the correlation of their
    residuals, are the first users. Code and users are then improved in turn. A component is added
    if it raises the log joint density, with one side summed out
    (:mod:`thali.sampler.grow.sides`). ``seeds`` are the rows to choose from; by default all.
    """
    target, state = growth.target, growth.state
    n_rows, n_columns = target.shape
    stream = growth.stream()
    rest = growth.engine.uncovered(state.factors)
    residuals = _Residuals.of(state.noise)
    norms = residuals.norms(rest, n_columns)
    sizes = [size for size in _SIZES if size <= max(2, n_rows // 5) and size <= n_rows]
    to_seed, to_size = stream.uniforms(Site.GROWN_USERS, 2 * n_tries).reshape(2, -1).tolist()
    n_added = 0
    for number in range(n_tries if sizes else 0):
        seed = pick(to_seed[number], n_rows if seeds is None else len(seeds))
        seed = seed if seeds is None else int(seeds[seed])
        size = sizes[pick(to_size[number], len(sizes))]
        first = _nearest(residuals.similarities(rest, seed) / norms, seed, size)
        best = _improve(growth, rest, first)
        if best.value <= 0.0:
            continue
        bits = [
            stream.uniforms(site, len(chances), row=number) < chances
            for site, chances in zip(
                (Site.GROWN_ROWS, Site.GROWN_CODES), best.chances, strict=True
            )
        ]
        if not bits[0].any():
            continue
        lines = tuple(pack(line[None]) for line in bits)
        growth.state = growth.state.append(lines, np.array([expit(best.odds)]))
        rest.cover([line[0] for line in lines])
        n_added += 1
    if n_added:
        growth.state = target.recount(growth.state)
    return n_added


class _Residuals(NamedTuple):
    """Data minus rates of ones, by class of row and column, where no component covers them."""

    rates: NDArray[np.float64]  # of ones among uncovered entries
    weights: Weights  # which has the classes

    @classmethod
    def of(cls, noise: Noise | Levels) -> _Residuals:
        return cls(np.atleast_2d(noise.reads_one(covered=False)), noise.weights())

    def norms(self, rest: FreeEntries, n_columns: int) -> NDArray[np.float64]:
        """Return the norm of the residuals of every row."""
        every = pack(np.ones((1, n_columns), np.bool_))
        squares = self._sums(rest, (1.0 - self.rates) ** 2, self.rates**2, every)
        return np.sqrt(np.maximum(squares, 1e-9))

    def similarities(self, rest: FreeEntries, seed: int) -> NDArray[np.float64]:
        """Return the inner product of the residuals of every row and those of the seed."""
        of_seed = self.rates[0 if self.weights.rows is None else self.weights.rows[seed]]
        ones, zeros = rest.of_row(seed)
        total = np.zeros(1)
        for line, residual in ((ones, 1.0 - of_seed), (zeros, -of_seed)):
            one, zero = residual * (1.0 - self.rates), -residual * self.rates
            total = total + self._sums(rest, one, zero, line[None])
        return total

    def _sums(
        self, rest: FreeEntries, one: NDArray[np.float64], zero: NDArray[np.float64], line: Words
    ) -> NDArray[np.float64]:
        """Add up, for every row, what uncovered ones and zeros in a set of columns count."""
        weights = self.weights._replace(table=np.stack([one, zero], axis=-1)[:, :, None])
        return uncovered_gains(rest, weights, 0, line)[:, 0]


def _nearest(similar: NDArray[np.float64], seed: int, size: int) -> NDArray[np.bool_]:
    """Return the seed and the rows that are most similar to it, as a mask."""
    similar[seed] = np.inf
    users = np.zeros(len(similar), np.bool_)
    users[np.argsort(-similar, kind="stable")[:size]] = True
    return users


def _improve(growth: Growth, rest: FreeEntries, users: NDArray[np.bool_]) -> Candidate:
    """Improve code and users in turn, as long as the component gains by it."""
    best, users_after = growth.side.candidate(growth, rest, users)
    for number in range(1, _ALTERNATIONS):
        if users_after.sum() < min(2, len(users)) or (users_after == users).all():
            break
        users = users_after
        now, users_after = growth.side.candidate(growth, rest, users)
        if now.value > best.value:
            best = now
        elif number > 1:
            break
    return best
