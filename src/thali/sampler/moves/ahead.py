"""Tries that are surely rejected, found where the data are and many at a time.

On large data most of a try's time goes into its proposal, which is made on the host: rows join
components, and classes of rows are copied to the device. But nearly all tries are rejected, most
of them by the block of columns of their first decision. So an engine with sets of rows
(:class:`thali.engines.base.RowSets`) draws the same rows where the data are, and only that first
decision is computed, for all tries of a sweep at once. A try that is rejected changes nothing.
The first one that may be accepted is then done by the move itself; if it changes the state, the
rest are looked at once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.sampler.moves.move import Attempt, can_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Look, Move
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


class Ahead:
    """The tries of a sweep, and which of them are surely rejected in the present state."""

    def __init__(self, stream: Stream, planned: Sequence[tuple[Move, int]]) -> None:
        self._stream, self._planned = stream, planned
        self._state: State | None = None
        self._is_rejected: list[bool] = []

    @classmethod
    def on(
        cls, stream: Stream, planned: Sequence[tuple[Move, int]], state: State, target: Target
    ) -> Ahead | None:
        """Look at the tries; None without sets of rows, or if no block decides first."""
        rows = target.engine.row_sets(state.factors) if can_look(target) else None
        if rows is None:
            return None
        ahead = cls(stream, planned)
        ahead._look(0, state, target, rows)
        return ahead

    def skip(self, done: int, state: State, target: Target) -> int:
        """Return the number of the first try from ``done`` on that may be accepted."""
        if state is not self._state:
            rows = target.engine.row_sets(state.factors)
            assert rows is not None
            self._look(done, state, target, rows)
        while done < len(self._planned) and self._is_rejected[done]:
            done += 1
        return done

    def _look(self, done: int, state: State, target: Target, rows: RowSets) -> None:
        """Look at all tries from ``done`` on."""
        looks = [
            move.look(Attempt(self._stream, np.uint64(number), state, target), rows)
            for move, number in self._planned[done:]
        ]
        self._state = state
        self._is_rejected = [False] * done + look_together(looks, rows)


def look_together(looks: Sequence[Look], rows: RowSets) -> list[bool]:
    """Return what the looks say; their questions are answered in rounds, one of each at a time."""
    found = [False] * len(looks)
    waiting: list[tuple[int, Any]] = [(number, None) for number in range(len(looks))]
    while waiting:
        asked = []
        for number, answer in waiting:
            try:
                asked.append((number, looks[number].send(answer)))
            except StopIteration as end:
                found[number] = end.value
        answers = rows.answer([question for _, question in asked]) if asked else []
        waiting = [(number, a) for (number, _), a in zip(asked, answers, strict=True)]
    return found
