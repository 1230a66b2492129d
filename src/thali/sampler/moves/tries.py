"""Try the moves of a sweep, and count how often each is tried and accepted."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from thali.model.effects import Effects
from thali.sampler.moves.ahead import Ahead
from thali.sampler.moves.anchored import ANCHORED
from thali.sampler.moves.at_once import AtOnce
from thali.sampler.moves.boxes import BOX, OWN_BOX
from thali.sampler.moves.by_rows import is_surely_rejected
from thali.sampler.moves.compound import COMPOUND
from thali.sampler.moves.exchange import EXCHANGE
from thali.sampler.moves.guided import GUIDED
from thali.sampler.moves.guided_boxes import GUIDED_BOXES
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.own_component import OWN_COMPONENT
from thali.sampler.moves.residual import REPLACEMENT, RESIDUAL
from thali.sampler.moves.seeded import SEEDED
from thali.sampler.moves.split_boxes import SPLIT_BOXES
from thali.sampler.moves.split_merge import SPLIT_MERGE
from thali.sampler.moves.toggle import TOGGLE
from thali.sampler.schedule import MOVES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from thali.sampler.moves.move import Move
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_WIDE = 16_384
"""Number of columns beyond which moves are tried half as often: each try costs more, and more
columns support it."""

_FEW = 10
"""Number of components that the schedule assumes; for more, tries grow in proportion."""

_SEEDED_OFTEN, _SEEDED_MOST = 20, 24
"""Births around a seed row examine all rows several times. Beyond two to the first power of known
entries they are tried in fewer sweeps, beyond the second not at all: with so many entries, the
start and the births of single rows find what there is."""

BUFFET: dict[str, Move] = {
    move.name: move
    for move in (SPLIT_MERGE, ANCHORED, GUIDED, COMPOUND, OWN_COMPONENT, RESIDUAL, TOGGLE, SEEDED)
}
"""Moves for an inferred number of components."""

FINITE: dict[str, Move] = {move.name: move for move in (EXCHANGE, REPLACEMENT, TOGGLE)}
"""Moves for a fixed number of components."""


TENSORS: dict[str, Move] = {move.name: move for move in (SPLIT_BOXES, GUIDED_BOXES, OWN_BOX, BOX)}
"""Moves for an inferred number of components of a tensor, by which they are born and die."""


def moves_of(state: State, target: Target) -> dict[str, Move]:
    """Return the moves that are possible for this model."""
    if len(state.factors) > 2:
        if target.priors.buffet is None:
            return {}
        if isinstance(target.priors.noise, Effects):  # they take time then, without any gain
            return {name: move for name, move in TENSORS.items() if name != GUIDED.name}
        return TENSORS
    if target.priors.buffet is None:
        return FINITE
    if any(
        density.ndim for density in state.densities
    ):  # the sum over own codes has no closed form then
        return {name: move for name, move in BUFFET.items() if name != OWN_COMPONENT.name}
    return BUFFET


def try_moves(
    stream: Stream, state: State, target: Target
) -> tuple[State, Mapping[str, tuple[int, int]]]:
    """Try every move several times; return the state, and tries and acceptances by name."""
    planned, tried = _listed(_plan(stream, state, target))
    at_once: AtOnce | Ahead | None = None
    if planned:
        at_once = AtOnce.on(stream, planned, state, target)
        at_once = at_once or Ahead.on(stream, planned, state, target)
    is_large = isinstance(at_once, AtOnce) and at_once.near.is_large
    accepted: dict[str, int] = {}
    done = 0
    while done < len(planned):
        if at_once is not None:
            done = at_once.skip(done, state, target)
        for move, number in planned[done : done + 1]:
            attempt = Attempt(stream, np.uint64(number), state, target)
            after = None if is_large and is_surely_rejected(move, attempt) else move(attempt)
            if after is not None:
                state = after
                accepted[move.name] = accepted.get(move.name, 0) + 1
        done += 1
    if not accepted:
        return state, dict(tried)
    both = {name: (n, accepted.get(name, 0)) for name, (n, _) in tried.items()}
    return target.recount(state), both


@lru_cache(maxsize=64)  # most sweeps have the same plan as others before
def _listed(
    plan: tuple[tuple[Move, int], ...],
) -> tuple[tuple[tuple[Move, int], ...], Mapping[str, tuple[int, int]]]:
    """Return the tries of a plan, and by name how often every move is tried, and accepted so far.

    A try is a move, and the number of the try among those of the move.
    """
    tried = dict.fromkeys(MOVES, (0, 0)) | {move.name: (n, 0) for move, n in plan}
    return tuple((move, i) for move, n in plan for i in range(n)), tried


def _plan(stream: Stream, state: State, target: Target) -> tuple[tuple[Move, int], ...]:
    """Return how often every move is tried in a sweep.

    Moves are tried more often if more components are expected. This uses the expected number given
    alpha, which no move changes: if the number of tries depended on what the moves change, the
    sampler would not be exact.
    """
    wanted = [(name, n) for name in MOVES if (n := getattr(target.schedule, name))]
    if not wanted:
        return ()
    moves, expected = moves_of(state, target), float(state.n_components)
    if target.priors.buffet is not None:
        expected = target.priors.buffet.expected(state.alpha, target.shape[0])
    is_wide, more = target.totals.n_columns(0) > _WIDE, max(1.0, expected / _FEW)
    return tuple(
        [
            (moves[name], round(((n + 1) // 2 if is_wide else n) * more))
            for name, n in wanted
            if name in moves and (name != SEEDED.name or _is_due(stream, target))
        ]
    )


def _is_due(stream: Stream, target: Target) -> bool:
    """Return whether births around seeds are tried in this sweep, which only the size decides."""
    n_known = target.totals.n_known
    if n_known >> _SEEDED_MOST:
        return False
    return int(stream.sweep) % max(1, n_known >> _SEEDED_OFTEN) == 0
