# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001, PLR0911
"""Many tries of moves in one call, because calls cost more than most of what they do.

A try that is rejected changes nothing. So a compiled function finds the first of many tries that
is accepted, and threads examine several at a time. The move itself then does that try once more,
and changes the state. If the data are large, a try that is not rejected by a few columns is left
to the move, whose questions threads share. Processes that share the data decide about the tries
whose few columns they hold, and then tell each other.
"""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner
from thali.bits.words import gather_bits
from thali.engines.cpu.column_gains import look_at_columns
from thali.engines.cpu.near import gains_near, goes_by_rows
from thali.model.bounds import in_tiles, may_exceed
from thali.model.marginals import excess
from thali.patience import Patience
from thali.sampler.moves import move as one_move
from thali.sampler.moves.anchored import ANCHORED, draft_merger, is_split, propose_anchored
from thali.sampler.moves.compound import COMPOUND, propose_compound
from thali.sampler.moves.exchange import EXCHANGE, propose_exchange
from thali.sampler.moves.fresh import densities_of
from thali.sampler.moves.guided import GUIDED, propose_guided
from thali.sampler.moves.move import rates_of
from thali.sampler.moves.own_component import OWN_COMPONENT, propose_own
from thali.sampler.moves.proposal import pick
from thali.sampler.moves.residual import REPLACEMENT, RESIDUAL
from thali.sampler.moves.residual_kernels import propose_replacement, propose_residual
from thali.sampler.moves.seeded import SEEDED, propose_seeded
from thali.sampler.moves.split_merge import SPLIT_MERGE, propose_split_or_merge
from thali.sampler.moves.toggle import TOGGLE, propose_toggle
from thali.sites import (
    AnchoredIndex,
    CompoundIndex,
    ExchangeIndex,
    GuidedIndex,
    ResidualIndex,
    SeededIndex,
    Site,
    SplitIndex,
    ToggleIndex,
)
from thali.streams import read_uniform
from thali.team import in_parts, share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Nearby
    from thali.engines.cpu.arrays import Near
    from thali.sampler.moves.move import Move
    from thali.sampler.moves.proposal import Proposal
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

    Here: TypeAlias = tuple[int, int, int, int]

_SUM_OUT = (SPLIT_MERGE, ANCHORED, GUIDED, COMPOUND, TOGGLE, SEEDED, EXCHANGE)
KINDS: dict[Move, int] = {
    move: number for number, move in enumerate((OWN_COMPONENT, RESIDUAL, REPLACEMENT, *_SUM_OUT))
}
"""The moves that are compiled as a whole, by number. Those from ``_SPLIT_MERGE`` on sum codes
out."""

(
    _OWN, _RESIDUAL, _REPLACEMENT, _SPLIT_MERGE, _ANCHORED, _GUIDED, _COMPOUND, _TOGGLE, _SEEDED,
    _EXCHANGE,
) = KINDS.values()  # fmt: skip
_OTHER = -1
_HERE, _ELSEWHERE, _NOBODY = 0, 1, 2
_WINDOWS = np.array(
    [
        *[(0, 0)] * _SPLIT_MERGE, (Site.SPLIT, SplitIndex.DECISION),
        (Site.ANCHORED, AnchoredIndex.DECISION), (Site.GUIDED, GuidedIndex.DECISION),
        (Site.COMPOUND, CompoundIndex.DECISION), (Site.TOGGLE, ToggleIndex.DECISION),
        (Site.SEEDED, SeededIndex.DECISION), (Site.SPLIT, ExchangeIndex.DECISION),
    ],
    np.uint64,
)  # fmt: skip
"""Where every kind of move reads which columns decide first: site and index."""

_FRESH = np.array(
    [
        (0, 0), (Site.RESIDUAL, ResidualIndex.DENSITY), (0, 0),
        *[move.density or (0, 0) for move in _SUM_OUT], (0, 0),
    ],
    np.uint64,
)  # fmt: skip
"""Where it reads the density of a new component, if every component has its own."""

_LONGEST = (_SEEDED, _RESIDUAL, _REPLACEMENT, _ANCHORED, _GUIDED, _COMPOUND, _SPLIT_MERGE,
            _EXCHANGE, _TOGGLE, _OWN, _OTHER)  # fmt: skip
_PLACES = np.array([_LONGEST.index(kind) for kind in (*KINDS.values(), _OTHER)])
"""Place of every kind if those whose tries take longest come first."""

_START = np.int64(0)  # a plain zero would be a type of its own


PATIENCE = Patience()
"""How many tries are done one by one before the kernel of this file is compiled."""


class AtOnce:
    """The tries of a sweep, and which of them are surely rejected in the present state."""

    def __init__(self, stream: Stream, tries: Index, near: Nearby) -> None:
        """Take tries: ``(n_tries, 2)``, the kind of the move, and the number of the try of it."""
        self.stream, self.tries, self.near = stream, tries, near
        self._state: State | None = None
        self._is_kept = np.zeros(0, np.bool_)
        self._end = -1  # nothing is known about tries beyond this one

    @classmethod
    def on(
        cls, stream: Stream, planned: Sequence[tuple[Move, int]], state: State, target: Target
    ) -> AtOnce | None:
        """Return the tries on data that are near; None if these are not."""
        near = target.engine.near(state.noise.rounded_weights(), state.n_components)
        if near is None:
            return None
        is_worth_it = PATIENCE.ends(len(planned), in_parts(_examine))
        if not target.engine.agree(is_worth_it):
            return None
        return cls(stream, _numbered(tuple(planned), id(KINDS)), near)

    def skip(self, done: int, state: State, target: Target) -> int:
        """Return the number of the first try from ``done`` on that is accepted.

        It is also that of a try of which this is not known, and the number of all tries if none
        is accepted.
        """
        if state is not self._state or done > self._end:
            self._look(done, state, target)
        return done + int(self._is_kept[done:].argmax())

    def _look(self, done: int, state: State, target: Target) -> None:
        """Examine the tries from ``done`` on, at least until one of them is accepted."""
        users, codes = state.factors
        density, fresh = densities_of(self.stream, self.tries, _FRESH, state, target)
        near, is_large, threads, here = self.near
        places, order = near[2][2], np.arange(done, len(self.tries))
        if threads > 1:  # whoever begins with the longest is not waited for
            order = order[np.argsort(_PLACES[self.tries[done:, 0]], kind="stable")]
        by_row = gather_bits(users.words, places) if len(places) else users.words
        first = np.array([len(self.tries)])
        is_kept = np.zeros(len(self.tries) + 1, np.bool_)
        is_kept[-1] = True
        share(
            _examine, len(order), threads, order, self.tries,
            one_move._BLOCK,  # noqa: SLF001 - tests make it smaller
            *self.stream, users.words, by_row, codes.words, users.n_rows, state.alpha,
            rates_of(state, target), density, fresh, state.noise.typical, near, here, is_large,
            first, is_kept, parts=len(order),
        )  # fmt: skip
        self._state, self._is_kept = state, target.engine.found_by_any(is_kept)
        self._end = len(self.tries) if is_large else done + int(is_kept[done:].argmax())


@lru_cache(maxsize=64)
def _numbered(planned: tuple[tuple[Move, int], ...], _which: int) -> Index:
    """Return the tries as compiled code takes them; ``_which`` is the table of numbers used."""
    return np.array([(KINDS.get(move, _OTHER), number) for move, number in planned])


@inner
def _examine(
    lo: int, hi: int, order: Index, tries: Index, block: int, key: np.uint64, sweep: np.uint64,
    users: Words, by_row: Words, codes: Words, n_rows: int, alpha: float,
    rates: NDArray[np.float64], densities: NDArray[np.float64], fresh: NDArray[np.float64],
    typical: tuple[float, float], near: Near, here: Here, is_large: bool, first: Index,
    is_kept: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Find the tries of a range of an order that are accepted, or of which that is not known.

    If the data are not large, all is known, and the first that is accepted ends the search.

    Parameters
    ----------
    block
        Number of columns of a first decision.
    by_row
        The users, with rows in the order in which columns have them.
    rates, densities, fresh
        Prior probabilities that rows use each component (none if their number is inferred), that
        its code has a column, and that the code of a new component has one, by try.
    here
        The rows and columns that are near, of which other processes have the others.
    first, is_kept
        A try that some thread has found, beyond which nobody need look, and all that were found.
    """
    for i in order[lo:hi]:
        if first[0] < i:
            continue
        if _is_kept(
            tries[i, 0], np.uint64(tries[i, 1]), block, key, sweep, users, by_row, codes, n_rows,
            alpha, rates, densities, fresh[i], typical, near, here, is_large,
        ):  # fmt: skip
            is_kept[i] = True
            if not is_large:
                first[0] = min(first[0], i)  # others may overwrite it by a later one: no harm


@inner
def _is_kept(
    kind: int, number: np.uint64, block: int, key: np.uint64, sweep: np.uint64, users: Words,
    by_row: Words, codes: Words, n_rows: int, alpha: float, rates: NDArray[np.float64],
    densities: NDArray[np.float64], new: float, typical: tuple[float, float], near: Near,
    here: Here, is_large: bool,
) -> bool:  # fmt: skip
    """Return whether a try is accepted, or that is not known.

    A try about which another process decides counts as rejected.
    """
    _, _, columns = near
    if kind == _OTHER or (is_large and (kind in (_RESIDUAL, _REPLACEMENT, _SEEDED))):
        return True
    n_columns = columns[0].shape[0]
    is_whole = here[0] == 0 and here[1] == n_rows and here[2] == 0 and here[3] == n_columns
    if kind >= _SPLIT_MERGE and not is_whole:
        whose = _decides(kind, number, block, key, sweep, n_columns, here)
        if whose != _HERE:
            return whose == _NOBODY
    if kind < _SPLIT_MERGE:
        if kind == _OWN:
            u, ratio = propose_own(
                key, sweep, number, users, n_rows, alpha, new, near, here, codes
            )
        elif kind == _RESIDUAL:
            u, ratio = propose_residual(
                key, sweep, number, users, n_rows, alpha, densities, new, near, codes, typical
            )
        else:
            u, ratio = propose_replacement(
                key, sweep, number, users, n_rows, rates, densities, near, codes, typical
            )
        return u > 0.0 and log(u) < ratio
    proposal = _propose(
        kind, number, key, sweep, users, codes, n_rows, alpha, rates, densities, new, typical,
        near, is_large,
    )  # fmt: skip
    return proposal.is_possible and _is_accepted(
        proposal, block, by_row, users, codes, densities, new, near, is_whole, is_large
    )


@inner
def _propose(
    kind: int, number: np.uint64, key: np.uint64, sweep: np.uint64, users: Words, codes: Words,
    n_rows: int, alpha: float, rates: NDArray[np.float64], densities: NDArray[np.float64],
    new: float, typical: tuple[float, float], near: Near, is_large: bool,
) -> Proposal:  # fmt: skip
    """Return what a move proposes that sums codes out.

    If the data are large, it is as much as the first decision needs.
    """
    if kind == _SPLIT_MERGE:
        return propose_split_or_merge(key, sweep, number, users, n_rows, alpha)
    if kind == _ANCHORED:
        if is_large and not is_split(key, sweep, number):
            return draft_merger(key, sweep, number, users, n_rows, alpha)
        return propose_anchored(key, sweep, number, users, n_rows, alpha, codes, near[0], typical)
    if kind == _GUIDED:
        return propose_guided(key, sweep, number, users, n_rows, alpha)
    if kind == _COMPOUND:
        return propose_compound(key, sweep, number, users, n_rows, alpha)
    if kind == _TOGGLE:
        return propose_toggle(key, sweep, number, users, n_rows, rates)
    if kind == _SEEDED:
        return propose_seeded(
            key, sweep, number, users, n_rows, alpha, densities, new, near, codes
        )
    return propose_exchange(key, sweep, number, users, rates)


@inner
def _decides(
    kind: int, number: np.uint64, block: int, key: np.uint64, sweep: np.uint64, n_columns: int,
    here: Here,
) -> int:  # fmt: skip
    """Return who has the data for the first decision of a try: this process, another, or none."""
    if n_columns <= 2 * block or (kind == _ANCHORED and is_split(key, sweep, number)):
        return _NOBODY
    u = read_uniform(key, sweep, _WINDOWS[kind, 0], number, _WINDOWS[kind, 1])
    start = pick(u, n_columns - block + 1)
    if start + block <= here[2] or here[3] <= start:
        return _ELSEWHERE
    return _HERE if here[2] <= start and start + block <= here[3] else _NOBODY


@inner
def _is_accepted(
    proposal: Proposal, block: int, by_row: Words, users: Words, codes: Words,
    densities: NDArray[np.float64], fresh: float, near: Near, is_whole: bool, is_large: bool,
) -> bool:  # fmt: skip
    """Decide as :meth:`thali.sampler.moves.move.SumOut.decide`.

    If the data are large, a try that a block of columns does not reject counts as accepted.
    """
    concerned, before, after = proposal.concerned, proposal.before, proposal.after
    n_before, n_after = before.shape[0], after.shape[0]
    is_rest = np.ones(codes.shape[0], np.bool_)
    for component in concerned:
        is_rest[component] = False
    both = np.empty(max(n_before, n_after))
    for i in range(both.shape[0]):
        both[i] = densities[concerned[i]] if i < n_before else fresh
    old, new = both[:n_before], both[:n_after]
    to_block, by_block, by_all = proposal.uniforms
    _, _, columns = near
    n_columns = columns[0].shape[0]
    part = 0.0
    if n_columns > 2 * block:
        start = pick(to_block, n_columns - block + 1)
        part = _excess(
            start, block, near, is_whole, by_row, users, codes, is_rest, proposal.classes, after,
            new, before, old, log(by_block),
        )  # fmt: skip
        if not log(by_block) < part:
            return False
    if is_large:
        return True
    least = log(by_all) - proposal.log_ratio + part
    found = _excess(
        _START, n_columns, near, is_whole, by_row, users, codes, is_rest, proposal.classes, after,
        new, before, old, least,
    )  # fmt: skip
    return log(by_all) < proposal.log_ratio + found - part


@inner
def _excess(
    start: int, n: int, near: Near, is_whole: bool, by_row: Words, users: Words, codes: Words,
    is_rest: NDArray[np.bool_], classes: Words, after: Index, new: NDArray[np.float64],
    before: Index, old: NDArray[np.float64], least: float,
) -> float:  # fmt: skip
    """Return the excess in some columns, or minus infinity if it is surely below a number."""
    data, _, columns = near
    is_by_rows = is_whole and goes_by_rows(n, near)
    if is_by_rows:
        one, zero = columns[5][0, 0, 0], columns[5][0, 0, 1]
        most = max(abs(one), abs(zero)) * data[0].shape[0]
        gains, counts, has_rows = look_at_columns(
            start, n, data, codes, users, is_rest, classes, one, zero
        )
        if not may_exceed(gains, counts, n, has_rows, most, after, new, before, old, least):
            return -np.inf
    exact = gains_near(start, n, columns, by_row, codes, is_rest, classes)
    if not is_by_rows:
        gains, counts, has_rows, most = in_tiles(exact)
        if not may_exceed(gains, counts, n, has_rows, most, after, new, before, old, least):
            return -np.inf
    return excess(exact, after, new, before, old)
