"""Residual tries on large data that are surely rejected, found without examining all entries.

The ratio of a residual try needs all rows, from any of which its code could have been proposed.
A bound needs less (:meth:`thali.sampler.moves.move.Move.look`): the rows that use a component if
it is to be deleted, and the gains of rows, without their sums, if one is to be born.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import list_bits
from thali.engines.base import GAIN_SCALE
from thali.sampler.gains import gains_by_set, gains_of
from thali.sampler.moves.ahead import look_together
from thali.sampler.moves.residual import REPLACEMENT, RESIDUAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover
    from thali.model import Weights
    from thali.sampler.moves.move import Attempt, Move


def is_surely_rejected(move: Move, attempt: Attempt) -> bool:
    """Return whether a bound rejects a try; "no" if the move is none of whole rows."""
    if move not in (RESIDUAL, REPLACEMENT):
        return False
    rows: Any = RowGains(attempt)
    # A bound is a real number, which processors of different kinds may round differently.
    return attempt.target.engine.agree(look_together([move.look(attempt, rows)], rows)[0])


class RowGains:
    """Answers the questions about rows that residual moves ask when they look."""

    def __init__(self, attempt: Attempt) -> None:
        self._users, self._target = attempt.state.factors[0], attempt.target
        self.sizes = self._users.sizes()

    def users(self, component: int) -> Index:
        """Return the users of a component."""
        rows: Index = list_bits(self._users.words[component])
        return rows

    def gains_of_rows(
        self, code: Words, cover: Cover, weights: Weights, rows: Index | None, least: float,
        most: int,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Return what rows gain, as :meth:`thali.engines.base.RowSets.gains_of_rows` says."""
        target, sets = self._target, code[None]
        if rows is None or weights.has_classes:
            everyone = 0, target.shape[0]
            gains = gains_by_set(target, weights, 0, everyone, cover, sets)[:, 0]
        else:
            counts = target.engine.count_in_window(rows, slice(0, len(code)), cover, sets)
            gains = gains_of(counts, weights)[:, 0]
        found = np.zeros(3 + 2 * most, np.int64)
        if rows is not None:
            some = gains[rows] if weights.has_classes else gains
            found[:2] = GAIN_SCALE * some.sum(), GAIN_SCALE * np.abs(some).sum()
        likely = np.flatnonzero(gains > least)
        found[2] = len(likely)
        likely = likely[:most]
        found[3 : 3 + len(likely)] = likely
        found[3 + most :][: len(likely)] = gains[likely].view(np.int64)
        return found

    def answer(self, questions: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return the answers, which are there already."""
        return list(questions)
