# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Let the users of one component join or leave another (eq. 17 with users toggled).

If rows that have a component K always have T or N as well, the components T, "T or K", N and
"N or K" describe them as well as T, N and K. To go from one description to the other, all rows
with "T or K" must join T at once, and the code of "T or K" must lose the columns of T. This move
chooses an ordered pair of components and toggles the membership in the first of all users of the
second: users of both leave the first, users of the second alone join it. It is its own inverse, so
that the proposal cancels, and both codes are summed out.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import jit
from thali.sampler.moves.move import SumOut, rates_of
from thali.sampler.moves.proposal import (
    Proposal,
    atoms,
    draft,
    impossible,
    listed,
    log_rate,
    members_of,
    pick,
    size_of,
    three_uniforms,
)
from thali.sites import Site, ToggleIndex
from thali.streams import read_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look

_TOGGLE = np.uint64(Site.TOGGLE)
_FIRST = np.uint64(ToggleIndex.FIRST)
_SECOND = np.uint64(ToggleIndex.SECOND)
_DECISION = np.uint64(ToggleIndex.DECISION)
_FIRST_AFTER, _SECOND_AFTER = map(np.int64, (0b011, 0b110))
"""Classes that use each component after the move: users of the first alone, of the second alone,
and of both, as the bits of a number."""


class Toggle(SumOut):
    """Toggle the membership in one component of all users of another."""

    name: ClassVar = "toggle"
    codes: ClassVar = Site.TOGGLE_CODES
    density: ClassVar = None  # no component is new

    def propose(self, attempt: Attempt) -> Proposal:
        """Choose an ordered pair of components, and toggle."""
        stream, number, state, target = attempt
        users = state.factors[0].words
        return propose_toggle(*stream, number, users, target.shape[0], rates_of(state, target))

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether the first decision rejects the try."""
        stream, number, *_ = attempt
        if rows.n_components < 2:
            return True
        first, second = _ordered_pair(*stream, number, rows.n_components)
        members = np.array([_FIRST_AFTER, _SECOND_AFTER])
        uniforms = three_uniforms(*stream, _TOGGLE, number, _DECISION)
        proposal = draft(np.array([first, second]), members_of(2), members, uniforms)
        sets = rows.users(first), rows.users(second)
        return (yield from self.rejects(attempt, rows, proposal, sets))


TOGGLE = Toggle()


@jit
def _ordered_pair(key: np.uint64, sweep: np.uint64, number: np.uint64, n: int) -> tuple[int, int]:
    """Draw two of n components."""
    first = pick(read_uniform(key, sweep, _TOGGLE, number, _FIRST), n)
    second = pick(read_uniform(key, sweep, _TOGGLE, number, _SECOND), n - 1)
    return first, second + (second >= first)


@jit
def propose_toggle(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int,
    rates: NDArray[np.float64],
) -> Proposal:  # fmt: skip
    """Choose an ordered pair of components, and toggle.

    ``rates`` are the prior probabilities that rows use each component; none if the number of
    components is inferred.
    """
    n, width = users.shape
    if n < 2:
        return impossible(users)
    first, second = _ordered_pair(key, sweep, number, n)
    before = np.empty((2, width), np.uint64)
    after = np.empty((2, width), np.uint64)
    for w in range(width):
        before[0, w], before[1, w] = users[first, w], users[second, w]
        after[0, w], after[1, w] = users[first, w] ^ users[second, w], users[second, w]
    n_before, n_after = size_of(before[0]), size_of(after[0])
    if rates.shape[0]:
        rate = rates[first]
        ratio = (n_after - n_before) * (log(rate) - log1p(-rate))
    elif n_after == 0:
        return impossible(users)  # a component without users does not exist
    else:
        ratio = log_rate(n_after, n_rows) - log_rate(n_before, n_rows)
    classes, members = atoms(before)
    concerned = listed(first, second, second)[:2]
    uniforms = three_uniforms(key, sweep, _TOGGLE, number, _DECISION)
    members_after = listed(_FIRST_AFTER, _SECOND_AFTER, _SECOND_AFTER)[:2]
    return Proposal(True, concerned, (after,), ratio, uniforms, classes, members, members_after)
