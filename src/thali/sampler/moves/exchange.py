# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Merge two components and split a third, which keeps the number of components."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.sampler.moves.move import SumOut, rates_of
from thali.sampler.moves.proposal import (
    NOTHING,
    Proposal,
    atoms,
    draft,
    impossible,
    members_of,
    pick,
    size_of,
    three_uniforms,
)
from thali.sampler.moves.split_merge import (
    chance_of,
    divide,
    divided,
    log_division,
    partner_ahead,
    partner_of,
    shares_of,
)
from thali.sites import ExchangeIndex, Site
from thali.streams import read_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look

_START = np.int64(0)  # a plain zero would be a type of its own
_SPLIT = np.uint64(Site.SPLIT)
_FIRST = np.uint64(ExchangeIndex.FIRST)
_IS_ANY_PARTNER = np.uint64(ExchangeIndex.IS_ANY_PARTNER)
_PARTNER = np.uint64(ExchangeIndex.PARTNER)
_THIRD = np.uint64(ExchangeIndex.THIRD)
_DECISION = np.uint64(ExchangeIndex.DECISION)


class Exchange(SumOut):
    """Merge two components into the first, and split a third between itself and the second.

    The same move reverses it: it unites the two parts of the third component, and divides the
    union into the users that it was made of. Components keep their densities.
    """

    name: ClassVar = "split_merge"
    codes: ClassVar = Site.SPLIT_CODES
    density: ClassVar = None

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw two components to merge and one to split."""
        stream, number, state, target = attempt
        users = state.factors[0].words
        if len(users) < 3:
            return NOTHING
        rates = rates_of(state, target)
        first, second, third = _three(*stream, number, users)
        pair = divided(stream, number, users[third], target.engine)
        return _exchanged(*stream, number, users, rates, first, second, third, pair)

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether the first decision rejects the try."""
        stream, number, *_ = attempt
        n = rows.n_components
        if n < 3:
            return True
        first, u, v = _draw_first(*stream, number, n)
        second = yield from partner_ahead(rows, first, u, v)
        third = _draw_third(*stream, number, n, first, second)
        shares = shares_of(*stream, number)
        pair = rows.divided(stream, Site.SPLIT_ROWS, int(number), rows.users(third), shares)
        before, after = _members(members_of(4))
        uniforms = three_uniforms(*stream, _SPLIT, number, _DECISION)
        proposal = draft(np.array([first, second, third]), before, after, uniforms)
        sets = rows.users(first), rows.users(second), *pair
        return (yield from self.rejects(attempt, rows, proposal, sets))


EXCHANGE = Exchange()


@inner
def propose_exchange(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words,
    densities: NDArray[np.float64],
) -> Proposal:  # fmt: skip
    """Return what :meth:`Exchange.propose` does, without a call from Python for every step."""
    if users.shape[0] < 3:
        return impossible(users)
    first, second, third = _three(key, sweep, number, users)
    pair = np.zeros((2, users.shape[1]), np.uint64)
    divide(_START, 64 * users.shape[1], key, sweep, number, users[third], pair)
    return _exchanged(key, sweep, number, users, densities, first, second, third, pair)


@jit
def _three(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words
) -> tuple[int, int, int]:
    """Draw two components to merge and one to split."""
    first, u, v = _draw_first(key, sweep, number, users.shape[0])
    second = partner_of(users, first, u, v)
    return first, second, _draw_third(key, sweep, number, users.shape[0], first, second)


@jit
def _draw_first(
    key: np.uint64, sweep: np.uint64, number: np.uint64, n: int
) -> tuple[int, float, float]:
    """Draw the first of n components, and what decides about its partner."""
    return (
        pick(read_uniform(key, sweep, _SPLIT, number, _FIRST), n),
        read_uniform(key, sweep, _SPLIT, number, _IS_ANY_PARTNER),
        read_uniform(key, sweep, _SPLIT, number, _PARTNER),
    )


@jit
def _draw_third(
    key: np.uint64, sweep: np.uint64, number: np.uint64, n: int, first: int, second: int
) -> int:
    """Draw a third of n components."""
    third = pick(read_uniform(key, sweep, _SPLIT, number, _THIRD), n - 2)
    third += third >= min(first, second)
    return third + (third >= max(first, second))


@jit
def _members(members: Index) -> tuple[Index, Index]:
    """Return the classes that use each component before and after, given those of four sets."""
    before = np.array([members[0], members[1], members[2] | members[3]])
    after = np.array([members[0] | members[1], members[3], members[2]])
    return before, after


@jit
def _exchanged(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words,
    densities: NDArray[np.float64], first: int, second: int, third: int, pair: Words,
) -> Proposal:  # fmt: skip
    """Propose the union of two components and the two parts of the third."""
    n = users.shape[0]
    sets = np.empty((4, users.shape[1]), np.uint64)
    copy_line(users[first], sets[0])
    copy_line(users[second], sets[1])
    copy_line(pair[0], sets[2])
    copy_line(pair[1], sets[3])
    classes, members = atoms(sets)
    concerned = np.array([first, second, third])
    before, after = _members(members)
    new_users = users.copy()
    for w in range(users.shape[1]):
        new_users[first, w] |= users[second, w]
    copy_line(pair[1], new_users[second])
    copy_line(pair[0], new_users[third])
    others = np.ones(n, np.bool_)
    others[first] = False
    others[second] = False
    log_partner = log(chance_of(users, others, users[first], users[second]))
    others[first] = True
    others[third] = False
    log_partner_back = log(chance_of(new_users, others, pair[0], pair[1]))
    ratio = (
        log_partner_back
        - log_partner
        + log_division(users[first], users[second])
        - log_division(pair[0], pair[1])
    )
    after_users = np.empty((3, users.shape[1]), np.uint64)
    for i in range(3):
        component = concerned[i]
        copy_line(new_users[component], after_users[i])
        gained = size_of(new_users[component]) - size_of(users[component])
        ratio += gained * (log(densities[component]) - log(1.0 - densities[component]))
    uniforms = three_uniforms(key, sweep, _SPLIT, number, _DECISION)
    return Proposal(True, concerned, (after_users,), ratio, uniforms, classes, before, after)
