"""Birth and death of compounds, compiled: components used by what others have in common.

What several components all contain tends to settle in one of its own, used by everybody who uses
any of them; what the rows with all of several components contain in another. Such a component is
less probable than none. But to leave it bit by bit, a column must first be in all the others,
where nothing holds it as long as the compound covers it.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.sampler.proposals import (
    atoms,
    impossible,
    log_guess_of,
    log_rate,
    pick,
    size_of,
    three_uniforms,
)
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_COMPOUND = np.uint64(Site.COMPOUND)
_COMPOUND_ROWS = np.uint64(Site.COMPOUND_ROWS)

MOST_PARTS = 5
"""A compound of more parts is not tried: their codes are summed over 2^parts patterns."""

_MOSTLY = 0.9


@jit
def propose_compound(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> tuple:  # type: ignore[type-arg]
    """Add a component used by the union or by the intersection of others, or delete such a one.

    The parts of a compound are those that lie in it (union), or in which it lies (intersection),
    up to a tenth of the smaller set. So a death knows the parts, and a birth draws them at random
    and is possible only if a death would find the same. The rows inside the union or intersection
    of the parts join at one rate, those outside at another, both uniform: eq. 20 with two classes.
    """
    n, width = users.shape
    is_birth = uniform(key, sweep, _COMPOUND, number, np.uint64(0)) < 0.5
    is_union = uniform(key, sweep, _COMPOUND, number, np.uint64(1)) < 0.5
    if n < (1 if is_birth else 2):
        return impossible(users)
    u = uniform(key, sweep, _COMPOUND, number, np.uint64(2))
    compound = np.zeros(width, np.uint64)
    parts = np.empty(MOST_PARTS, np.int64)
    if is_birth:
        n_small, gone = n, n
        n_parts = 1 + pick(u, MOST_PARTS)
        if n_parts > n:
            return impossible(users)
        for i in range(n_parts):  # distinct, in increasing order
            v = uniform(key, sweep, _COMPOUND, number, np.uint64(5 + i))
            part = pick(v, n - i)
            j = i
            for k in range(i):
                part += part >= parts[k]
            while j > 0 and parts[j - 1] > part:
                parts[j] = parts[j - 1]
                j -= 1
            parts[j] = part
    else:
        n_small, gone = n - 1, pick(u, n)
        compound[:] = users[gone]
        n_parts = _parts(users, gone, compound, is_union, parts)
        if n_parts == 0 or n_parts > MOST_PARTS:
            return impossible(users)
    inside = users[parts[0]].copy()
    for i in range(1, n_parts):
        inside = inside | users[parts[i]] if is_union else inside & users[parts[i]]
    if is_birth:
        within = uniform(key, sweep, _COMPOUND, number, np.uint64(3))
        outside = uniform(key, sweep, _COMPOUND, number, np.uint64(4))
        for row in range(n_rows):
            bit = _ONE << np.uint64(row & 63)
            rate = within if inside[row >> 6] & bit != _ZERO else outside
            if uniform(key, sweep, _COMPOUND_ROWS, number, np.uint64(row)) < rate:
                compound[row >> 6] |= bit
        found = np.empty(MOST_PARTS, np.int64)
        if _parts(users, gone, compound, is_union, found) != n_parts:
            return impossible(users)
        for i in range(n_parts):
            if found[i] != parts[i]:
                return impossible(users)
    n_users, n_inside = size_of(compound), size_of(inside)
    if n_users == 0:
        return impossible(users)
    joined = size_of(inside & compound)
    log_guess = log_guess_of(n_inside, joined) + log_guess_of(n_rows - n_inside, n_users - joined)
    log_parts = -log(MOST_PARTS)  # of n_parts, then of which they are
    for i in range(n_parts):
        log_parts -= log(n_small - i) - log(i + 1)
    ratio = log(alpha) + log_rate(n_users, n_rows) - log(n_small + 1) - log_guess - log_parts
    concerned = np.empty(n_parts + 1, np.int64)
    concerned[:n_parts] = parts[:n_parts]
    concerned[n_parts] = gone
    sets = np.empty((n_parts + 1, width), np.uint64)
    for i in range(n_parts):
        sets[i] = users[parts[i]]
    sets[n_parts] = compound
    classes, members = atoms(sets)
    uniforms = three_uniforms(key, sweep, _COMPOUND, number, 5 + MOST_PARTS)
    if is_birth:
        few = concerned[:n_parts]
        return True, few, classes, members[:n_parts], members, sets, ratio, uniforms
    after = sets[:n_parts]
    return True, concerned, classes, members, members[:n_parts], after, -ratio, uniforms


@jit
def _parts(users: Words, but: int, compound: Words, is_union: bool, parts: Index) -> int:
    """List the parts of a compound, as far as there is room; return their number."""
    n_parts = 0
    size = size_of(compound)
    for component in range(users.shape[0]):
        if component == but:
            continue
        least = size_of(users[component]) if is_union else size
        if size_of(users[component] & compound) > _MOSTLY * least:
            if n_parts < parts.shape[0]:
                parts[n_parts] = component
            n_parts += 1
    return n_parts
