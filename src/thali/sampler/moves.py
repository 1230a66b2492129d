"""Moves that change many rows of a component at once, and the number of components.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. Here who uses a component is
proposed for all rows at once, and what is in the components concerned is summed out of the
acceptance ratio and drawn anew (eq. 17 to 22). Every move is a Metropolis-Hastings kernel that
leaves the posterior as it is.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, log1p
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from thali.bits.words import count_ones, pack
from thali.decide import SCALE, fixed
from thali.model import PerComponent
from thali.model.marginals import Marginal
from thali.sampler.proposals import (
    Proposal,
    code_like,
    log_rate,
    pick,
    propose_guided,
    propose_split_merge,
    residual_users,
)
from thali.streams import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.model import Noise
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_BLOCK = 128
"""Columns that may rule a move out before all are looked at."""

_NOTHING = np.zeros((0, 0), np.uint64)


def move(
    stream: Stream, state: State, target: Target
) -> tuple[State, tuple[tuple[int, int], ...]]:
    """Try every kind of move as often as the schedule says; count what was tried and accepted."""
    told = []
    for name, kind in _KINDS.items():
        n_tries, accepted = getattr(target.schedule, name), 0
        for number in range(n_tries):
            after = kind(stream, state, target, number)
            if after is not None:
                state, accepted = after, accepted + 1
        told.append((n_tries, accepted))
    if any(accepted for _, accepted in told):
        state = target.recount(state)
    return state, tuple(told)


class _SumOut(NamedTuple):
    """A move that proposes users, with the codes of the components concerned summed out."""

    propose: Callable[..., Any]
    codes: Site  # random numbers of the codes
    density: tuple[Site, int]  # of the density of a component that is new

    def __call__(self, stream: Stream, state: State, target: Target, number: int) -> State | None:
        """Return the state after the move, or None if it was not accepted.

        A first decision by a block of columns, then one by all (delayed acceptance). A step that
        a block rules out, as most are on large data, costs no more than the block. Both are
        taken with their own ratio, whose product is the whole: exact (Christen & Fox 2005). The
        block does not depend on the state.
        """
        users, codes = state.factors
        n_rows, n_columns = target.tensor.shape
        proposal = Proposal(
            *self.propose(*stream, np.uint64(number), users.words, n_rows, state.alpha)
        )
        if not proposal.is_possible:
            return None
        is_rest = np.ones(len(users.words), np.bool_)
        is_rest[proposal.concerned] = False
        old, new = self._densities(stream, state, target, number, proposal)
        weights = _weights(state.noise)

        def marginals(start: int, stop: int) -> tuple[Marginal, Marginal]:
            counts = target.engine.tally(
                1, (start, stop), users.words, codes, is_rest, proposal.classes
            )
            return (
                Marginal(counts, proposal.before, old, weights),
                Marginal(counts, proposal.after, new, weights),
            )

        to_block, by_block, by_all = proposal.uniforms.tolist()
        part = 0.0
        if n_columns > 2 * _BLOCK:
            start = pick(to_block, n_columns - _BLOCK + 1)
            before, after = marginals(start, start + _BLOCK)
            part = after.gain(before)
            if not log(by_block) < part:
                return None
        before, after = marginals(0, n_columns)
        if not log(by_all) < proposal.log_ratio + after.gain(before) - part:
            return None
        draws = stream.uniforms(self.codes, n_columns, row=number)
        return _replace(state, is_rest, proposal.users, after.draw(draws), new)

    def _densities(
        self, stream: Stream, state: State, target: Target, number: int, proposal: Proposal
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return those of the components concerned and of those after.

        Components that stay come first and keep theirs; that of a new one is drawn from the
        prior, which therefore cancels.
        """
        n_before, n_after = len(proposal.before), len(proposal.after)
        if state.densities[1].ndim == 0:
            density = np.full(max(n_before, n_after), state.densities[1])
            return density[:n_before], density[:n_after]
        old = state.densities[1][proposal.concerned]
        if n_after <= n_before:
            return old, old[:n_after]
        site, index = self.density
        fresh = _new_density(state, target, stream.uniforms(site, index + 1, row=number)[index])
        return old, np.append(old, fresh)


def residual(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component that looks like what is left of a row, or delete any component (eq. 22)."""
    uniforms = stream.uniforms(Site.RESIDUAL, 4, row=number).tolist()
    n, (users, codes) = state.n_components, state.factors
    n_rows, n_columns = target.tensor.shape
    is_birth, is_rest = uniforms[0] < 0.5, np.ones(n, np.bool_)
    w1, w0 = _weights(state.noise)
    address = (*stream, np.uint64(number))
    if is_birth:
        density, seed = _new_density(state, target, uniforms[3]), pick(uniforms[1], n_rows)
        joins = np.zeros(users.words.shape[1], np.uint64)
    else:
        if n == 0:
            return None
        gone = pick(uniforms[1], n)
        is_rest[gone] = False
        density = float(np.broadcast_to(state.densities[1], n)[gone])
        code, joins = codes.words[gone], users.words[gone]
    bit_odds = log(density) - log1p(-density) + np.array([w1, w0, 0.0])
    if is_birth:
        ones, known = target.tensor.unfoldings[0]
        known = _NOTHING if known is None else known
        code = code_like(
            *address, seed, ones, known, users.words, codes.words, bit_odds, n_columns
        )
    classes = np.stack([code, _everything(n_columns) & ~code])
    counts = target.engine.tally(0, (0, n_rows), codes.words, users, is_rest, classes)
    sizes = count_ones(classes)
    n_users, gain, log_proposal = residual_users(
        *address, is_birth, joins, n_rows, counts, sizes, bit_odds, w1, w0
    )
    if n_users == 0:
        return None
    ratio = (
        log(state.alpha)
        + log_rate(n_users, n_rows)
        + sizes[0] * log(density)
        + sizes[1] * log1p(-density)
        + gain
        - log(n + is_birth)
        - log_proposal
    )
    if not log(uniforms[2]) < (ratio if is_birth else -ratio):
        return None
    if is_birth:
        return _replace(state, is_rest, joins[None], code[None], np.array([density]))
    return state.take(is_rest)


def _new_density(state: State, target: Target, uniform: float) -> float:
    """Return the common density, or draw one for a new component."""
    prior = target.priors.densities[1]
    if isinstance(prior, PerComponent):
        return float(prior.grid[pick(uniform, len(prior.grid))])
    return float(state.densities[1])


@lru_cache(maxsize=16)
def _weights(noise: Noise) -> tuple[float, float]:
    """Return the weights of a one and a zero, rounded as in every other update."""
    w1, w0 = (fixed(np.array(noise.weights())) / SCALE).tolist()
    return w1, w0


@lru_cache(maxsize=16)
def _everything(n_columns: int) -> Words:
    """Return the code that has every column."""
    return pack(np.ones(n_columns, np.bool_))


def _replace(
    state: State,
    is_rest: NDArray[np.bool_],
    users: Words,
    codes: Words,
    densities: NDArray[np.float64],
) -> State:
    """Return the state with the rest and new components; covered is not updated."""
    kept = state.take(is_rest)
    factors = (kept.factors[0].append(users), kept.factors[1].append(codes))
    if kept.densities[1].ndim:
        own = np.concatenate([kept.densities[1], densities])
        kept = kept._replace(densities=(kept.densities[0], own))
    return kept._replace(factors=factors)


_Move: TypeAlias = "Callable[[Stream, State, Target, int], State | None]"

_KINDS: dict[str, _Move] = {
    "split_merge": _SumOut(propose_split_merge, Site.SPLIT_CODES, (Site.SPLIT, 5)),
    "guided": _SumOut(propose_guided, Site.GUIDED_CODES, (Site.GUIDED, 11)),
    "residual": residual,
}
