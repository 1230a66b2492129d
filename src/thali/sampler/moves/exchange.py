# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Merge two components and split a third, compiled: the number of components stays."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.sampler.moves.proposal import (
    atoms,
    chance_of,
    divided,
    impossible,
    log_division,
    partner_of,
    pick,
    size_of,
    three_uniforms,
)
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.streams import Stream

_SPLIT = np.uint64(Site.SPLIT)


def propose_exchange(
    stream: Stream, number: np.uint64, users: Words,
    n_rows: int,  # noqa: ARG001 - as every proposal
    densities: NDArray[np.float64], threads: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Unite the users of two components; let the second have part of the users of a third.

    The same move undoes it: the parts of the third are united, and the union is divided into what
    it was made of. Components keep their densities.
    """
    if len(users) < 3:
        return impossible(users)
    first, second, third = _three(*stream, number, users)
    pair = divided(stream, number, users[third], threads)
    return _exchanged(*stream, number, users, densities, first, second, third, pair)


@jit
def _three(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words
) -> tuple[int, int, int]:
    """Draw two components to unite and one to divide."""
    n = users.shape[0]
    first = pick(uniform(key, sweep, _SPLIT, number, np.uint64(0)), n)
    second = partner_of(
        users,
        first,
        uniform(key, sweep, _SPLIT, number, np.uint64(1)),
        uniform(key, sweep, _SPLIT, number, np.uint64(5)),
    )
    third = pick(uniform(key, sweep, _SPLIT, number, np.uint64(9)), n - 2)
    third += third >= min(first, second)
    third += third >= max(first, second)
    return first, second, third


@jit
def _exchanged(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words,
    densities: NDArray[np.float64], first: int, second: int, third: int, pair: Words,
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Propose the union of two and the parts of the third."""
    n = users.shape[0]
    sets = np.empty((4, users.shape[1]), np.uint64)
    sets[0] = users[first]
    sets[1] = users[second]
    sets[2:] = pair
    classes, members = atoms(sets)
    concerned = np.array([first, second, third])
    before = np.array([members[0], members[1], members[2] | members[3]])
    after = np.array([members[0] | members[1], members[3], members[2]])
    new_users = users.copy()
    new_users[first] |= users[second]
    new_users[second] = pair[1]
    new_users[third] = pair[0]
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
        after_users[i] = new_users[component]
        gained = size_of(new_users[component]) - size_of(users[component])
        ratio += gained * (log(densities[component]) - log(1.0 - densities[component]))
    uniforms = three_uniforms(key, sweep, _SPLIT, number, 6)
    return True, concerned, classes, before, after, after_users, ratio, uniforms
