# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Birth and death of compounds: components whose users are a union or intersection of others'.

Columns that several components share tend to settle in a component of their own, used by every row
that uses any of them (a union). Likewise, columns of the rows that use all of several components
settle in another (an intersection). A state with such a compound is less probable than one without
it. But the sampler cannot leave it bit by bit: a column would first have to join all the other
components, where the likelihood does not support it as long as the compound covers it.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.sampler.moves.guided import join, joined, log_guess_of
from thali.sampler.moves.move import SumOut
from thali.sampler.moves.proposal import (
    NOTHING,
    Proposal,
    atoms,
    draft,
    impossible,
    log_rate,
    members_of,
    pick,
    size_of,
    size_of_both,
    three_uniforms,
)
from thali.sites import CompoundIndex, Site
from thali.streams import read_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look

_START = np.int64(0)  # a plain zero would be a type of its own
_COMPOUND = np.uint64(Site.COMPOUND)
_COMPOUND_ROWS = np.uint64(Site.COMPOUND_ROWS)
_IS_BIRTH = np.uint64(CompoundIndex.IS_BIRTH)
_IS_UNION = np.uint64(CompoundIndex.IS_UNION)
_VICTIM = np.uint64(CompoundIndex.VICTIM)
_INSIDE = np.uint64(CompoundIndex.RATE_INSIDE)
_OUTSIDE = np.uint64(CompoundIndex.RATE_OUTSIDE)
_PARTS = np.uint64(CompoundIndex.PARTS)
_DECISION = np.uint64(CompoundIndex.DECISION)

MOST_PARTS = 5
"""Largest number of parts of a compound: their codes are summed over 2^parts patterns."""

_MOSTLY = 0.9


class Compound(SumOut):
    """Add a component used by the union or intersection of others, or delete such a component.

    The parts of a compound are the components whose users it contains (union), or whose users
    contain its users (intersection), except for up to a tenth of the smaller set. The users of a
    compound therefore determine its parts for a death; a birth draws the parts at random, and is
    possible only if a death would find the same parts. The rows inside the union or intersection
    of the parts join at one rate, those outside at another; both rates are uniform (eq. 20 with
    two classes).
    """

    name: ClassVar = "compound"
    codes: ClassVar = Site.COMPOUND_CODES
    density: ClassVar = (Site.COMPOUND, CompoundIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw the parts and users of a new compound, or a compound to delete."""
        stream, number, state, target = attempt
        users, n_rows = state.factors[0].words, target.shape[0]
        is_union, gone, parts, rates, inside = _some_parts(*stream, number, users)
        if len(parts) == 0:
            return NOTHING
        compound = users[gone] if gone < len(users) else None
        if compound is None:
            sets = inside, inside
            compound = joined(stream, _COMPOUND_ROWS, number, sets, rates, n_rows, target.engine)
        return _compound(
            *stream, number, users, n_rows, state.alpha, is_union, parts, gone, inside, compound
        )

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether there is no such compound, or the first decision rejects the try."""
        stream, number, *_ = attempt
        n = rows.n_components
        is_union, gone, parts, rates = _draw_parts(*stream, number, n)
        is_birth = gone == n
        if is_birth and len(parts) == 0:
            return True
        if is_birth:
            inside = rows.combined([rows.users(part) for part in parts], is_union=is_union)
            sets = inside, inside
            compound = rows.joined(stream, Site.COMPOUND_ROWS, int(number), sets, rates)
        else:
            compound = rows.users(gone)
        shared = yield rows.overlaps(compound)
        found = np.empty(MOST_PARTS, np.int64)
        n_parts = _list_parts(shared[:n], rows.sizes, shared[n], gone, is_union, found)
        if not 0 < n_parts <= MOST_PARTS:
            return True
        if is_birth and not np.array_equal(found[:n_parts], parts):
            return True
        parts = found[:n_parts]
        members, sets = members_of(n_parts + 1), (*(rows.users(i) for i in parts), compound)
        uniforms = three_uniforms(*stream, _COMPOUND, number, _DECISION)
        proposal = draft(np.append(parts, gone), members, members[:-1], uniforms)
        if is_birth:
            proposal = draft(parts, members[:-1], members, uniforms)
        return (yield from self.rejects(attempt, rows, proposal, sets))


COMPOUND = Compound()


@inner
def propose_compound(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> Proposal:
    """Return what :meth:`Compound.propose` does, without a call from Python for every step."""
    is_union, gone, parts, rates, inside = _some_parts(key, sweep, number, users)
    if parts.shape[0] == 0:
        return impossible(users)
    compound = np.zeros(users.shape[1], np.uint64)
    if gone < users.shape[0]:
        copy_line(users[gone], compound)
    else:
        join(_START, n_rows, key, sweep, _COMPOUND_ROWS, number, inside, inside, rates, compound)
    return _compound(
        key, sweep, number, users, n_rows, alpha, is_union, parts, gone, inside, compound
    )


@jit
def _some_parts(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words
) -> tuple[bool, int, Index, NDArray[np.float64], Words]:
    """Draw the parts of a new compound, or draw a compound to delete and find its parts.

    Returns
    -------
    is_union
        Whether the users are the union of those of the parts, or the intersection.
    gone
        The component to delete; the number of components for a birth.
    parts
        The parts in increasing order; empty if no move is possible.
    rates
        Probabilities that rows outside and inside join, in the order in which
        :func:`thali.sampler.moves.guided.join` looks them up.
    inside
        The rows inside the union or intersection.
    """
    n = users.shape[0]
    is_union, gone, parts, rates = _draw_parts(key, sweep, number, n)
    if gone < n:
        parts = np.empty(MOST_PARTS, np.int64)
        n_parts = _parts(users, gone, users[gone], is_union, parts)
        parts = parts[: n_parts if n_parts <= MOST_PARTS else 0]
    if parts.shape[0] == 0:
        return is_union, n, parts, rates, np.zeros(users.shape[1], np.uint64)
    return is_union, gone, parts, rates, _inside(users, parts, is_union)


@jit
def _draw_parts(
    key: np.uint64, sweep: np.uint64, number: np.uint64, n: int
) -> tuple[bool, int, Index, NDArray[np.float64]]:
    """Draw the parts of a new compound, or a compound to delete; then there are no parts yet.

    The results are those of :func:`_some_parts`.
    """
    is_birth = read_uniform(key, sweep, _COMPOUND, number, _IS_BIRTH) < 0.5
    is_union = read_uniform(key, sweep, _COMPOUND, number, _IS_UNION) < 0.5
    inside = read_uniform(key, sweep, _COMPOUND, number, _INSIDE)
    outside = read_uniform(key, sweep, _COMPOUND, number, _OUTSIDE)
    rates = np.zeros(4)
    rates[0], rates[3] = outside, inside
    parts = np.empty(MOST_PARTS, np.int64)
    u = read_uniform(key, sweep, _COMPOUND, number, _VICTIM)  # or the number of parts of a birth
    if not is_birth:
        return is_union, n if n < 2 else pick(u, n), parts[:0], rates
    n_parts = 1 + pick(u, MOST_PARTS)
    if n_parts > n:
        return is_union, n, parts[:0], rates
    for i in range(n_parts):  # distinct, in increasing order
        v = read_uniform(key, sweep, _COMPOUND, number, _PARTS + np.uint64(i))
        part = pick(v, n - i)
        j = i
        for k in range(i):
            part += part >= parts[k]
        while j > 0 and parts[j - 1] > part:
            parts[j] = parts[j - 1]
            j -= 1
        parts[j] = part
    return is_union, n, parts[:n_parts], rates


@inner
def _inside(users: Words, parts: Index, is_union: bool) -> Words:
    """Return the rows that use at least one of the parts (union), or all of them."""
    rows = np.empty(users.shape[1], np.uint64)
    for w in range(users.shape[1]):
        rows[w] = users[parts[0], w]
        for i in range(1, parts.shape[0]):
            word = users[parts[i], w]
            rows[w] = rows[w] | word if is_union else rows[w] & word
    return rows


@jit
def _compound(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    is_union: bool, parts: Index, gone: int, inside: Words, compound: Words,
) -> Proposal:  # fmt: skip
    """Propose a new compound with these users, or the deletion of an existing one."""
    n, width = users.shape
    n_parts = parts.shape[0]
    is_birth = gone == n
    n_small = n if is_birth else n - 1
    if is_birth:
        found = np.empty(MOST_PARTS, np.int64)
        if _parts(users, gone, compound, is_union, found) != n_parts:
            return impossible(users)
        for i in range(n_parts):
            if found[i] != parts[i]:
                return impossible(users)
    n_users, n_inside = size_of(compound), size_of(inside)
    if n_users == 0:
        return impossible(users)
    n_both = size_of_both(inside, compound)
    log_guess = log_guess_of(n_inside, n_both) + log_guess_of(n_rows - n_inside, n_users - n_both)
    log_parts = -log(MOST_PARTS)  # probability of n_parts, then of the choice of parts
    for i in range(n_parts):
        log_parts -= log(n_small - i) - log(i + 1)
    ratio = log(alpha) + log_rate(n_users, n_rows) - log(n_small + 1) - log_guess - log_parts
    concerned = np.empty(n_parts + 1, np.int64)
    copy_line(parts, concerned)
    concerned[n_parts] = gone
    sets = np.empty((n_parts + 1, width), np.uint64)
    for i in range(n_parts):
        copy_line(users[parts[i]], sets[i])
    copy_line(compound, sets[n_parts])
    classes, members = atoms(sets)
    uniforms = three_uniforms(key, sweep, _COMPOUND, number, _DECISION)
    if is_birth:
        few, before = concerned[:n_parts], members[:n_parts]
        return Proposal(True, few, (sets,), ratio, uniforms, classes, before, members)
    lines, after = sets[:n_parts], members[:n_parts]
    return Proposal(True, concerned, (lines,), -ratio, uniforms, classes, members, after)


@inner
def _parts(users: Words, but: int, compound: Words, is_union: bool, parts: Index) -> int:
    """Write the parts of a compound to ``parts``, as far as they fit; return their number."""
    n = users.shape[0]
    shared, sizes = np.empty(n, np.int64), np.zeros(n, np.int64)
    for component in range(n):
        shared[component] = size_of_both(users[component], compound)
        if is_union:
            sizes[component] = size_of(users[component])
    return _list_parts(shared, sizes, size_of(compound), but, is_union, parts)


@jit
def _list_parts(
    shared: Index, sizes: Index, size: int, but: int, is_union: bool, parts: Index
) -> int:
    """Do the same, given how many users a compound shares with every component, and all sizes."""
    n_parts = 0
    for component in range(shared.shape[0]):
        if component == but:
            continue
        least = sizes[component] if is_union else size
        if shared[component] > _MOSTLY * least:
            if n_parts < parts.shape[0]:
                parts[n_parts] = component
            n_parts += 1
    return n_parts
