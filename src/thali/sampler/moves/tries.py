"""The moves of a sweep: which there are, how often each is tried, and how often it succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.sampler.moves.anchored import ANCHORED
from thali.sampler.moves.compound import COMPOUND
from thali.sampler.moves.exchange import EXCHANGE
from thali.sampler.moves.guided import GUIDED
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.own_component import OWN_COMPONENT
from thali.sampler.moves.residual import REPLACEMENT, RESIDUAL
from thali.sampler.moves.split_merge import SPLIT_MERGE
from thali.sampler.schedule import MOVES

if TYPE_CHECKING:
    from thali.sampler.moves.move import Move
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_WIDE = 16_384
"""Columns beyond which half the tries are made: each costs more there, and more columns agree."""

_FEW = 10
"""Components for which the tries of a schedule are meant; for more, they grow in proportion."""

BUFFET: dict[str, Move] = {
    move.name: move for move in (SPLIT_MERGE, ANCHORED, GUIDED, COMPOUND, OWN_COMPONENT, RESIDUAL)
}
"""Moves where the number of components is inferred."""

FINITE: dict[str, Move] = {move.name: move for move in (EXCHANGE, REPLACEMENT)}
"""Moves that keep the number of components."""


def moves_of(state: State, target: Target) -> dict[str, Move]:
    """Return the moves that can be tried."""
    if len(state.factors) > 2:  # codes of tensors cannot be summed out column by column
        return {}
    if target.priors.buffet is None:
        return FINITE
    if any(density.ndim for density in state.densities):  # own codes have no closed sum then
        return {name: move for name, move in BUFFET.items() if name != OWN_COMPONENT.name}
    return BUFFET


def try_moves(
    stream: Stream, state: State, target: Target
) -> tuple[State, dict[str, tuple[int, int]]]:
    """Try every move as often as the schedule says; count tries and acceptances by name.

    More often where there are more components, but by their expected number given alpha, which no
    move changes: a number of tries that depended on what they change would not be exact.
    """
    moves, expected = moves_of(state, target), float(state.n_components)
    if target.priors.buffet is not None:
        expected = target.priors.buffet.expected(state.alpha, target.shape[0])
    counts: dict[str, tuple[int, int]] = {}
    is_wide = target.totals.n_columns(0) > _WIDE
    for name in MOVES:
        n_tries = getattr(target.schedule, name)
        if is_wide:
            n_tries = (n_tries + 1) // 2
        n_tries = round(n_tries * max(1.0, expected / _FEW)) if name in moves else 0
        n_accepted = 0
        for number in range(n_tries):
            after = moves[name](Attempt(stream, np.uint64(number), state, target))
            if after is not None:
                state, n_accepted = after, n_accepted + 1
        counts[name] = n_tries, n_accepted
    if any(n_accepted for _, n_accepted in counts.values()):
        state = target.recount(state)
    return state, counts
