"""Moves that change many rows of a component at once, and the number of components.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. Here who uses a component is
proposed for all rows at once, and what is in the components concerned is summed out of the
acceptance ratio and drawn anew (eq. 17 to 22). Every move is a Metropolis-Hastings kernel that
leaves the posterior as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log, log1p
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from thali.bits.words import count_ones, pack
from thali.decide import SCALE, fixed
from thali.model import PerComponent
from thali.model.marginals import Marginal
from thali.model.priors import harmonic
from thali.sampler.compounds import propose_compound
from thali.sampler.exchanges import propose_exchange
from thali.sampler.proposals import (
    Proposal,
    log_rate,
    pick,
    propose_guided,
    propose_split_merge,
)
from thali.sampler.residuals import code_like, residual_users
from thali.streams import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.model import Noise
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_BLOCK = 128
"""Columns that may rule a move out before all are looked at."""

_FEW = 10
"""Components for which the tries of a schedule are meant; for more, they grow in proportion."""

_NOTHING = np.zeros((0, 0), np.uint64)


def move(
    stream: Stream, state: State, target: Target
) -> tuple[State, tuple[tuple[int, int], ...]]:
    """Try every kind of move as often as the schedule says; count what was tried and accepted.

    More often where there are more components, but by their expected number given alpha, which no
    move changes: a number of tries that depended on what they change would not be exact.
    """
    kinds, expected = _FINITE, float(state.n_components)
    if target.priors.buffet is not None:
        kinds, expected = _BUFFET, state.alpha * harmonic(target.tensor.shape[0])
    told = []
    for name in MOVES:
        n_tries = round(getattr(target.schedule, name) * max(1.0, expected / _FEW))
        n_tries, accepted = n_tries if name in kinds else 0, 0
        for number in range(n_tries):
            after = kinds[name](stream, state, target, number)
            if after is not None:
                state, accepted = after, accepted + 1
        told.append((n_tries, accepted))
    if any(accepted for _, accepted in told):
        state = target.recount(state)
    return state, tuple(told)


@dataclass(frozen=True)
class _SumOut:
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
        prior = (
            state.alpha
            if target.priors.buffet
            else np.resize(state.densities[0], len(users.words))
        )
        proposal = Proposal(*self.propose(*stream, np.uint64(number), users.words, n_rows, prior))
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
        bits = after.draw(stream.uniforms(self.codes, n_columns, row=number))
        if len(old) == len(new):
            return _put(state, proposal.concerned, proposal.users, bits)
        return _replace(state, is_rest, proposal.users, bits, new)

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
    n, n_rows = state.n_components, target.tensor.shape[0]
    is_birth, is_rest = uniforms[0] < 0.5, np.ones(n, np.bool_)
    rate = min(0.5, 2.0 / n_rows)
    if is_birth:
        density, seed = _new_density(state, target, uniforms[3]), pick(uniforms[1], n_rows)
        rest = _Rest(stream, state, target, number, is_rest, density, rate)
        users, code, score = rest.draw(seed)
    else:
        if n == 0:
            return None
        gone = pick(uniforms[1], n)
        is_rest[gone] = False
        density = float(np.broadcast_to(state.densities[1], n)[gone])
        rest = _Rest(stream, state, target, number, is_rest, density, rate)
        users, code = (factor.words[gone] for factor in state.factors)
        score = rest.weigh(users, code)
    n_users = int(count_ones(users[None])[0])
    if n_users == 0:
        return None
    ratio = log(state.alpha) + log_rate(n_users, n_rows) + score - log(n + is_birth)
    if not log(uniforms[2]) < (ratio if is_birth else -ratio):
        return None
    if is_birth:
        return _replace(state, is_rest, users[None], code[None], np.array([density]))
    return state.take(is_rest)


def replacement(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Put a component that looks like what is left of a row in the place of another.

    The finite model's residual birth and death in one: the number of components stays.
    """
    uniforms = stream.uniforms(Site.RESIDUAL, 3, row=number).tolist()
    n, n_rows = state.n_components, target.tensor.shape[0]
    if n == 0:
        return None
    gone = pick(uniforms[0], n)
    is_rest = np.ones(n, np.bool_)
    is_rest[gone] = False
    rate, density = (float(np.broadcast_to(d, n)[gone]) for d in state.densities)
    rest = _Rest(stream, state, target, number, is_rest, density, rate)
    old_users, old_code = (factor.words[gone] for factor in state.factors)
    users, code, score = rest.draw(pick(uniforms[1], n_rows))
    gained = int(count_ones(users[None])[0]) - int(count_ones(old_users[None])[0])
    ratio = score - rest.weigh(old_users, old_code) + gained * (log(rate) - log1p(-rate))
    if not log(uniforms[2]) < ratio:
        return None
    return _put(state, np.array([gone]), users[None], code[None])


@dataclass(frozen=True)
class _Rest:
    """What is left to explain where some components cover, and a component proposed from it."""

    stream: Stream
    state: State
    target: Target
    number: int
    is_rest: NDArray[np.bool_]
    density: float  # of the code
    rate: float  # at which rows join

    def draw(self, seed: int) -> tuple[Words, Words, float]:
        """Draw a code like what is left of a row, and its users; return them and their score."""
        users, codes = (factor.take(self.is_rest).words for factor in self.state.factors)
        ones, known = self.target.tensor.unfoldings[0]
        code = code_like(
            *self.stream, np.uint64(self.number), seed, ones,
            _NOTHING if known is None else known, users, codes, self._bit_odds(),
            self.target.tensor.shape[1],
        )  # fmt: skip
        joins = np.zeros(users.shape[1], np.uint64)
        return joins, code, self._weigh(joins, code, is_drawn=True)

    def weigh(self, users: Words, code: Words) -> float:
        """Return log likelihood gained and log prior of the code, less log proposal of both."""
        return self._weigh(users, code, is_drawn=False)

    def _weigh(self, users: Words, code: Words, *, is_drawn: bool) -> float:
        n_rows, n_columns = self.target.tensor.shape
        first, second = self.state.factors
        classes = np.stack([code, _everything(n_columns) & ~code])
        counts = self.target.engine.tally(
            0, (0, n_rows), second.words, first, self.is_rest, classes
        )
        sizes = count_ones(classes)
        gain, log_proposal = residual_users(
            *self.stream, np.uint64(self.number), is_drawn, users, self.rate, n_rows, counts,
            sizes, self._bit_odds(), *_weights(self.state.noise),
        )  # fmt: skip
        log_code = sizes[0] * log(self.density) + sizes[1] * log1p(-self.density)
        return float(gain + log_code - log_proposal)

    def _bit_odds(self) -> NDArray[np.float64]:
        """Return the log odds that a code has a column: of a free one, a free zero, neither."""
        w1, w0 = _weights(self.state.noise)
        return log(self.density) - log1p(-self.density) + np.array([w1, w0, 0.0])


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


def _put(state: State, components: Index, users: Words, codes: Words) -> State:
    """Return the state with some components replaced; covered is not updated."""
    factors = []
    for factor, new in zip(state.factors, (users, codes), strict=True):
        words = factor.words.copy()
        words[components] = new
        factors.append(factor._replace(words=words))
    return state._replace(factors=tuple(factors))


_Move: TypeAlias = "Callable[[Stream, State, Target, int], State | None]"

_BUFFET: dict[str, _Move] = {
    "split_merge": _SumOut(propose_split_merge, Site.SPLIT_CODES, (Site.SPLIT, 5)),
    "guided": _SumOut(propose_guided, Site.GUIDED_CODES, (Site.GUIDED, 11)),
    "compound": _SumOut(propose_compound, Site.COMPOUND_CODES, (Site.COMPOUND, 13)),
    "residual": residual,
}
_FINITE: dict[str, _Move] = {
    "split_merge": _SumOut(propose_exchange, Site.SPLIT_CODES, (Site.SPLIT, 10)),
    "residual": replacement,
}
MOVES = tuple(_BUFFET)
