"""Moves that change many rows of a component at once, and the number of components.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. Here who uses a component is
proposed for all rows at once, and what is in the components concerned is summed out of the
acceptance ratio and drawn anew (eq. 17 to 22). Every move is a Metropolis-Hastings kernel that
leaves the posterior as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from thali.model.marginals import Marginal
from thali.sampler.moves.anchored import propose_anchored
from thali.sampler.moves.compound import propose_compound
from thali.sampler.moves.exchange import propose_exchange
from thali.sampler.moves.guided import propose_guided
from thali.sampler.moves.own_component import reseat
from thali.sampler.moves.proposal import Proposal, pick, propose_split_merge
from thali.sampler.moves.residual import NOTHING, new_density, replacement, residual
from thali.sampler.target import MOVES
from thali.streams import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_BLOCK = 128
"""Columns that may rule a move out before all are looked at."""

_WIDE = 16_384
"""Columns beyond which half the tries are made: each costs more there, and more columns agree."""

_FEW = 10
"""Components for which the tries of a schedule are meant; for more, they grow in proportion."""


def move(
    stream: Stream, state: State, target: Target
) -> tuple[State, tuple[tuple[int, int], ...]]:
    """Try every kind of move as often as the schedule says; count what was tried and accepted.

    More often where there are more components, but by their expected number given alpha, which no
    move changes: a number of tries that depended on what they change would not be exact.
    """
    kinds, expected = _FINITE, float(state.n_components)
    buffet = target.priors.buffet
    if buffet is not None:
        kinds, expected = _BUFFET, buffet.expected(state.alpha, target.tensor.shape[0])
        if state.densities[1].ndim:  # codes of several own components: no closed sum
            kinds = {name: kind for name, kind in kinds.items() if name != "reseat"}
    told = []
    for name in MOVES:
        n_tries = getattr(target.schedule, name)
        if target.tensor.shape[1] > _WIDE:
            n_tries = (n_tries + 1) // 2
        n_tries = round(n_tries * max(1.0, expected / _FEW))
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
    density: tuple[Site, int] | None  # of the density of a component that is new
    sees_data: bool = False

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
        weights = state.noise.rounded_weights()
        data: tuple[Any, ...] = ()
        if self.sees_data:
            ones, known = target.tensor.unfoldings[0]
            data = (codes.words, ones, NOTHING if known is None else known, *weights)
        proposal = Proposal(
            *self.propose(
                stream, np.uint64(number), users.words, n_rows, prior, target.engine.threads,
                *data,
            )
        )  # fmt: skip
        if not proposal.is_possible:
            return None
        is_rest = np.ones(len(users.words), np.bool_)
        is_rest[proposal.concerned] = False
        old, new = self._densities(stream, state, target, number, proposal)

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
            return state.put(proposal.concerned, proposal.users, bits)
        return state.replaced(is_rest, proposal.users, bits, new)

    def _densities(
        self, stream: Stream, state: State, target: Target, number: int, proposal: Proposal
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return those of the components concerned and of those after.

        Components that stay come first and keep theirs; that of a new one is drawn from the
        prior (a grid of equal weights), which therefore cancels.
        """
        n_before, n_after = len(proposal.before), len(proposal.after)
        if state.densities[1].ndim == 0:
            density = np.full(max(n_before, n_after), state.densities[1])
            return density[:n_before], density[:n_after]
        old = state.densities[1][proposal.concerned]
        if n_after <= n_before:
            return old, old[:n_after]
        assert self.density is not None
        site, index = self.density
        fresh = new_density(state, target, stream.uniforms(site, index + 1, row=number)[index])
        return old, np.append(old, fresh)


_Move: TypeAlias = "Callable[[Stream, State, Target, int], State | None]"

_BUFFET: dict[str, _Move] = {
    "split_merge": _SumOut(propose_split_merge, Site.SPLIT_CODES, (Site.SPLIT, 5)),
    "anchored": _SumOut(
        propose_anchored, Site.ANCHORED_CODES, (Site.ANCHORED, 10), sees_data=True
    ),
    "guided": _SumOut(propose_guided, Site.GUIDED_CODES, (Site.GUIDED, 11)),
    "compound": _SumOut(propose_compound, Site.COMPOUND_CODES, (Site.COMPOUND, 13)),
    "reseat": reseat,
    "residual": residual,
}
_FINITE: dict[str, _Move] = {
    "split_merge": _SumOut(propose_exchange, Site.SPLIT_CODES, None),
    "residual": replacement,
}
