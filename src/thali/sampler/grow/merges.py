"""Mergers of pairs of components that one component explains as well (eq. 17 to 19)."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import overlaps
from thali.engines.base import Cover
from thali.model.marginals import Marginal
from thali.sampler.gains import gains_by_set
from thali.sampler.moves.proposal import atoms, log_rate, pick, size_of
from thali.sites import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Words
    from thali.sampler.grow.growth import Growth
    from thali.sampler.state import State

_BLOCK = 256
"""Number of columns of a first decision, which spares most pairs the others."""

_PARTNERS = 3
"""Most similar components with which each component is compared, unless the search is thorough."""

_MOST_PAIRS = 1000
"""Number of pairs that a thorough search considers at most: all pairs of 45 components."""


class _Pair(NamedTuple):
    """Two components whose merger is considered, with their codes summed out."""

    growth: Growth
    both: NDArray[np.int64]
    is_rest: NDArray[np.bool_]  # components that stay as they are

    def users(self) -> tuple[Words, Words]:
        """Return the users of both, and their union."""
        words = self.growth.state.factors[0].words[self.both]
        return words, words[0] | words[1]

    def log_prior_ratio(self) -> float:
        """Return the log ratio of the priors of the users, merged over separate."""
        (one, other), union = self.users()
        n_rows = self.growth.target.shape[0]
        m, m1, m2 = (log_rate(size_of(line), n_rows) for line in (union, one, other))
        return float(m - m1 - m2) - log(self.growth.state.alpha)

    def marginals(self, start: int, stop: int) -> tuple[Marginal, Marginal]:
        """Return the marginal likelihoods of separate and of merged users in some columns."""
        state, target = self.growth.state, self.growth.target
        users, codes = state.factors
        classes, members = atoms(self.users()[0])
        cover = Cover(users, codes, self.is_rest)  # with rows and columns exchanged
        gains = gains_by_set(target, state.noise.weights(), 1, (start, stop), cover, classes)
        densities = _densities(state)[self.both]
        union = np.array([members[0] | members[1]])
        separate = Marginal(gains, members, densities)
        return separate, Marginal(gains, union, densities[:1])


def merge_pairs(growth: Growth, *, is_thorough: bool = False) -> int:
    """Merge pairs that are worth more as one component; return how many.

    The most similar pairs come first. A thorough search considers all pairs of some dozens of
    components.
    """
    if not growth.side.can_merge:
        return 0
    n = growth.state.n_components
    n_columns = growth.target.shape[1]
    stream = growth.stream()
    pairs = _pairs(growth.state.factors, is_thorough=is_thorough)
    windows = stream.uniforms(Site.MERGE_WINDOW, max(1, len(pairs))).tolist()
    is_gone = np.zeros(n, np.bool_)
    for number, (one, other) in enumerate(pairs):
        if is_gone[one] or is_gone[other]:
            continue
        is_rest = ~is_gone
        is_rest[[one, other]] = False
        pair = _Pair(growth, np.array([one, other]), is_rest)
        ratio = pair.log_prior_ratio()
        if n_columns > 2 * _BLOCK:
            start = pick(windows[number], n_columns - _BLOCK + 1)
            before, after = pair.marginals(start, start + _BLOCK)
            if ratio + after.gain(before) * n_columns / _BLOCK < 0.0:
                continue
        before, after = pair.marginals(0, n_columns)
        if ratio + after.gain(before) <= 0.0:
            continue
        uniforms = stream.uniforms(Site.MERGED_CODES, n_columns, row=number)
        lines = pair.users()[1][None], after.draw(uniforms)
        growth.state = growth.state.put(np.array([one]), lines)
        is_gone[other] = True
    if is_gone.any():
        growth.state = growth.target.recount(growth.state.take(~is_gone))
    return int(is_gone.sum())


def _pairs(factors: tuple[Factor, ...], *, is_thorough: bool) -> list[tuple[int, int]]:
    """Return pairs of components, the most similar first."""
    n = factors[0].n_components
    shared = [_overlap(factor) for factor in factors]
    similar = np.maximum(*shared) + 0.2 * np.minimum(*shared)
    one, other = np.triu_indices(n, 1)
    order = np.argsort(-similar[one, other], kind="stable")
    pairs = list(zip(one[order].tolist(), other[order].tolist(), strict=True))
    if is_thorough:
        return pairs[:_MOST_PAIRS]
    n_left, chosen = np.full(n, _PARTNERS), []
    for pair in pairs:
        if n_left[list(pair)].any():
            chosen.append(pair)
            n_left[list(pair)] -= 1
            np.maximum(n_left, 0, out=n_left)
    return chosen


def _overlap(factor: Factor) -> NDArray[np.float64]:
    """Return the share of the smaller of two components that is in the other, for all pairs."""
    size = np.maximum(factor.sizes(), 1)
    share: NDArray[np.float64] = overlaps(factor.words, factor.words) / np.minimum.outer(
        size, size
    )
    return share


def _densities(state: State) -> NDArray[np.float64]:
    (density,) = state.densities[1:]
    return np.array(np.broadcast_to(density, state.n_components))
