# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""Split the users of a component in two, or unite those of two components (eq. 17 to 19)."""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line, popcount
from thali.sampler.moves.move import SumOut
from thali.sampler.moves.proposal import (
    NOTHING,
    STEP,
    Proposal,
    draft,
    impossible,
    listed,
    log_rate,
    pick,
    size_of,
    size_of_both,
    three_uniforms,
)
from thali.sites import Site, SplitIndex
from thali.streams import read_uniform, uniform

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines import Engine
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look
    from thali.streams import Stream

# Classes of rows, as bits: only in the first part, only in the second, and in both.
_IN_FIRST, _IN_SECOND, _ALL = map(np.int64, (0b101, 0b110, 0b111))
_START = np.int64(0)  # a plain zero would be a type of its own
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SPLIT = np.uint64(Site.SPLIT)
_SPLIT_ROWS = np.uint64(Site.SPLIT_ROWS)
_IS_SPLIT = np.uint64(SplitIndex.IS_SPLIT)
_FIRST = np.uint64(SplitIndex.FIRST)
_IS_ANY_PARTNER = np.uint64(SplitIndex.IS_ANY_PARTNER)
_PARTNER = np.uint64(SplitIndex.PARTNER)
_SHARES = np.uint64(SplitIndex.SHARES)
_DECISION = np.uint64(SplitIndex.DECISION)
_ANY_PARTNER = 0.5
"""Probability that any component may be the partner in a merger, not only the most similar."""


class SplitMerge(SumOut):
    """Split a component at random, or merge two components."""

    name: ClassVar = "split_merge"
    codes: ClassVar = Site.SPLIT_CODES
    density: ClassVar = (Site.SPLIT, SplitIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Divide the users of one component at random, or unite those of two."""
        stream, number, state, target = attempt
        users, n_rows = state.factors[0].words, target.shape[0]
        first, second = one_or_both(*stream, _SPLIT, number, users)
        if first < 0:
            return NOTHING
        if first == second:
            pair = divided(stream, number, users[first], target.engine)
        else:
            pair = users[[first, second]]
        return _divided_or_united(*stream, number, users, n_rows, state.alpha, first, second, pair)

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether the first decision rejects the try."""
        stream, number, *_ = attempt
        first, second = yield from choose_ahead(stream, _SPLIT, number, rows)
        if first < 0:
            return True
        pair = rows.users(first), rows.users(second)
        if first == second:
            shares = shares_of(*stream, number)
            pair = rows.divided(stream, Site.SPLIT_ROWS, int(number), pair[0], shares)
        uniforms = three_uniforms(*stream, _SPLIT, number, _DECISION)
        return (yield from self.rejects(attempt, rows, draft_of(first, second, uniforms), pair))


SPLIT_MERGE = SplitMerge()


@inner
def propose_split_or_merge(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> Proposal:
    """Return what :meth:`SplitMerge.propose` does, without a call from Python for every step."""
    first, second = one_or_both(key, sweep, _SPLIT, number, users)
    if first < 0:
        return impossible(users)
    pair = np.zeros((2, users.shape[1]), np.uint64)
    if first == second:
        divide(_START, 64 * users.shape[1], key, sweep, number, users[first], pair)
    else:
        copy_line(users[first], pair[0])
        copy_line(users[second], pair[1])
    return _divided_or_united(
        key, sweep, number, users, n_rows, alpha, first, second, pair
    )  # fmt: skip


@jit
def _divided_or_united(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    first: int, second: int, pair: Words,
) -> Proposal:  # fmt: skip
    """Propose the parts that :func:`divide` has drawn, or the union."""
    uniforms = three_uniforms(key, sweep, _SPLIT, number, _DECISION)
    log_how = log_division(pair[0], pair[1])
    return one_or_two(users, n_rows, alpha, first, second, pair, log_how, uniforms)


@jit
def one_or_both(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, users: Words
) -> tuple[int, int]:
    """Draw two components to merge, or one to split (returned twice); -1 if there are too few."""
    is_split, first, u, v = draw_first(key, sweep, site, number, users.shape[0])
    return first, first if is_split or first < 0 else partner_of(users, first, u, v)


@jit
def draw_first(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, n: int
) -> tuple[bool, int, float, float]:
    """Draw whether one of n components is split, which one, and what decides about a partner."""
    is_split = read_uniform(key, sweep, site, number, _IS_SPLIT) < 0.5
    first = -1
    if n >= (1 if is_split else 2):
        first = pick(read_uniform(key, sweep, site, number, _FIRST), n)
    u = read_uniform(key, sweep, site, number, _IS_ANY_PARTNER)
    v = read_uniform(key, sweep, site, number, _PARTNER)
    return is_split, first, u, v


def choose_ahead(
    stream: Stream, site: np.uint64, number: np.uint64, rows: RowSets
) -> Generator[Any, NDArray[Any], tuple[int, int]]:
    """Return what :func:`one_or_both` does, by questions to sets of rows."""
    is_split, first, u, v = draw_first(*stream, site, number, rows.n_components)
    if is_split or first < 0:
        return first, first
    return first, (yield from partner_ahead(rows, first, u, v))


def partner_ahead(
    rows: RowSets, first: int, u: float, v: float
) -> Generator[Any, NDArray[Any], int]:
    """Return what :func:`partner_of` does, by questions to sets of rows."""
    n = rows.n_components
    shared = np.zeros(n + 1, np.int64)
    if not u < _ANY_PARTNER:  # otherwise nobody asks who is similar
        shared = yield rows.overlaps(rows.users(first))
    union = rows.sizes + rows.sizes[first] - shared[:n]
    return int(choose_partner(shared[:n], union, first, u, v))


def draft_of(first: int, second: int, uniforms: tuple[float, float, float]) -> Proposal:
    """Return as much of :func:`one_or_two` as the first decision needs."""
    one, two = np.array([_ALL]), np.array([_IN_FIRST, _IN_SECOND])
    if first == second:
        return draft(np.array([first]), one, two, uniforms)
    return draft(np.array([first, second]), two, one, uniforms)


@jit
def one_or_two(
    users: Words, n_rows: int, alpha: float, first: int, second: int, pair: Words, log_how: float,
    uniforms: tuple[float, float, float],
) -> Proposal:  # fmt: skip
    """Propose to replace one component by two, or two by one (eq. 19).

    Parameters
    ----------
    first, second
        The two components to merge, or the component to split, twice.
    pair
        Users of the two components.
    log_how
        Log probability of dividing the union in this way.
    """
    n, width = users.shape
    is_split = first == second
    concerned = listed(first, second, second)[: 1 if is_split else 2]
    classes = np.empty((3, width), np.uint64)
    union = np.empty((1, width), np.uint64)
    for w in range(width):
        classes[0, w] = pair[0, w] & ~pair[1, w]
        classes[1, w] = pair[1, w] & ~pair[0, w]
        classes[2, w] = pair[0, w] & pair[1, w]
        union[0, w] = pair[0, w] | pair[1, w]
    only_first, only_second, shared = size_of(classes[0]), size_of(classes[1]), size_of(classes[2])
    if only_first + shared == 0 or only_second + shared == 0:
        return impossible(users)
    # A split picks one of n_one; the reverse merge picks one of n_one + 1, then its partner.
    n_one = n if is_split else n - 1
    others = np.ones(n, np.bool_)
    for component in concerned:
        others[component] = False
    chance = chance_of(users, others, pair[0], pair[1])
    log_partner = log(n_one) - log(n_one + 1) + log(chance)
    ratio = (
        log(alpha)
        + log_rate(only_first + shared, n_rows)
        + log_rate(only_second + shared, n_rows)
        - log_rate(only_first + only_second + shared, n_rows)
        - log_how
        + log_partner
    )
    one = listed(_ALL, _ALL, _ALL)[:1]
    two = listed(_IN_FIRST, _IN_SECOND, _ALL)[:2]
    if is_split:
        return Proposal(True, concerned, (pair,), ratio, uniforms, classes, one, two)
    return Proposal(True, concerned, (union,), -ratio, uniforms, classes, two, one)


@inner
def _compare(a: Words, b: Words) -> tuple[int, int]:
    """Return the sizes of the intersection and of the union of two sets."""
    both, union = _ZERO, _ZERO
    for w in range(a.shape[0]):
        both += popcount(a[w] & b[w])
        union += popcount(a[w] | b[w])
    return np.int64(both), np.int64(union)


@inner
def _is_closer(b_both: int, b_any: int, c_both: int, c_any: int) -> int:
    """Return 1 if b has the larger Jaccard index, -1 if c has, and 0 if they are equal.

    These are indices with the same set, each given by the sizes of intersection and union.
    """
    left = b_both * c_any  # in integers, so that ties are exact
    right = c_both * b_any
    return 1 if left > right else (0 if left == right else -1)


@inner
def partner_of(users: Words, first: int, u: float, v: float) -> int:
    """Draw a partner to merge with: any component with probability 1/2, else the most similar."""
    n = users.shape[0]
    both, union = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if not u < _ANY_PARTNER:
        for component in range(n):
            both[component], union[component] = _compare(users[first], users[component])
    return choose_partner(both, union, first, u, v)


@jit
def choose_partner(both: Index, union: Index, first: int, u: float, v: float) -> int:
    """Draw a partner, given the sizes of all intersections and unions with the first."""
    n = both.shape[0]
    if u < _ANY_PARTNER:
        second = pick(v, n - 1)
        return second + (second >= first)
    best = -1
    n_best = 0
    for component in range(n):
        if component == first:
            continue
        closer = 1
        if best >= 0:
            closer = _is_closer(both[component], union[component], both[best], union[best])
        if closer > 0:
            best, n_best = component, 1
        elif closer == 0:
            n_best += 1
    skip = pick(v, n_best)
    for component in range(n):
        if component == first:
            continue
        if _is_closer(both[component], union[component], both[best], union[best]) == 0:
            if skip == 0:
                return component
            skip -= 1
    return best


@inner
def chance_of(users: Words, is_other: NDArray[np.bool_], a: Words, b: Words) -> float:
    """Return the probability that :func:`partner_of` draws b for a, among the others."""
    n_others = 0
    n_ties = 1
    both, union = _compare(a, b)
    for component in range(users.shape[0]):
        if not is_other[component]:
            continue
        n_others += 1
        c_both, c_union = _compare(a, users[component])
        closer = _is_closer(both, union, c_both, c_union)
        if closer < 0:
            n_ties = 0
        elif closer == 0 and n_ties > 0:
            n_ties += 1
    nearest = 1.0 / n_ties if n_ties > 0 else 0.0
    return 0.5 / (n_others + 1) + 0.5 * nearest


def divided(stream: Stream, number: np.uint64, users: Words, engine: Engine) -> Words:
    """Assign every user to the first part, the second or both; rates are Dirichlet(1, 1, 1)."""
    pair = np.zeros((2, len(users)), np.uint64)
    engine.over_rows(divide, 64 * len(users), *stream, number, users, pair, step=STEP)
    return pair


@jit
def divide(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words,
    pair: Words,
) -> None:  # fmt: skip
    """Divide the users in a range of rows."""
    to_first, to_second = shares_of(key, sweep, number)
    index = np.uint64(size_of(users[: lo >> 6]))
    for w in range(lo >> 6, hi >> 6):
        left = users[w]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            left ^= bit
            u = uniform(key, sweep, _SPLIT_ROWS, number, index)
            index += _ONE
            if u < to_first or u >= to_second:
                pair[0, w] |= bit
            if u >= to_first:
                pair[1, w] |= bit


@jit
def shares_of(key: np.uint64, sweep: np.uint64, number: np.uint64) -> tuple[float, float]:
    """Draw the rates at which users get the first part only, or one part only."""
    a = -log(read_uniform(key, sweep, _SPLIT, number, _SHARES))
    b = -log(read_uniform(key, sweep, _SPLIT, number, _SHARES + _ONE))
    c = -log(read_uniform(key, sweep, _SPLIT, number, _SHARES + _ONE + _ONE))
    return a / (a + b + c), (a + b) / (a + b + c)


@jit
def log_division(a: Words, b: Words) -> float:
    """Return the log probability that a set is divided into these two sets (eq. 18)."""
    shared = size_of_both(a, b)
    only_first, only_second = size_of(a) - shared, size_of(b) - shared
    return (
        lgamma(3.0)
        + lgamma(only_first + 1.0)
        + lgamma(only_second + 1.0)
        + lgamma(shared + 1.0)
        - lgamma(only_first + only_second + shared + 3.0)
    )
