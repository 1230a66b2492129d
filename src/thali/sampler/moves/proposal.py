# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""What the moves propose, compiled: who uses which component, and how likely that was proposed.

The concerned components are described by classes of rows: rows that use the same of them, before
and after, are alike. A proposal lists the components concerned, those that stay first; the classes
of rows; for every component before and after the classes that use it, as bits; who uses them
after; and the log of all factors of the acceptance ratio but the likelihood.

What is drawn for every row is drawn on all threads, each for a range of rows.
"""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.streams import Site, uniform
from thali.threads import share

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.streams import Stream

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SPLIT = np.uint64(Site.SPLIT)
_SPLIT_ROWS = np.uint64(Site.SPLIT_ROWS)

CHUNK = 1 << 14
"""Rows that a thread takes at a time, and whose logarithms are added up before all others': sums
do not depend on the number of threads. Fewer would take less time than to wake a thread."""


class Proposal(NamedTuple):
    """A step from some components to others with the same rows."""

    is_possible: bool
    concerned: Index
    classes: Words  # (n_classes, n_words)
    before: Index  # of every component concerned: the classes that use it, bit c for class c
    after: Index
    users: Words  # of the components after
    log_ratio: float
    uniforms: NDArray[np.float64]  # for the decision


@jit
def pick(u: float, n: int) -> int:
    """Return one of n by a uniform."""
    return min(int(u * n), n - 1)


@jit
def log_rate(size: int, n_rows: int) -> float:
    """Return log rho(m) of a component with m users (P1)."""
    return lgamma(n_rows - size + 1.0) + lgamma(float(size)) - lgamma(n_rows + 1.0)


@jit
def size_of(words: Words) -> int:
    """Count the members of a set."""
    total = _ZERO
    for w in range(words.shape[0]):
        total += popcount(words[w])
    return np.int64(total)


@jit
def impossible(users: Words) -> tuple:  # type: ignore[type-arg]
    """Return a proposal of nothing."""
    nothing = np.zeros(0, np.int64)
    return False, nothing, users[:0].copy(), nothing, nothing, users[:0].copy(), 0.0, np.zeros(0)


@jit
def three_uniforms(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, first: int
) -> NDArray[np.float64]:
    """Return the uniforms of the decision."""
    out = np.empty(3)
    for i in range(3):
        out[i] = uniform(key, sweep, site, number, np.uint64(first + i))
    return out


@jit
def atoms(sets: Words) -> tuple[Words, Index]:
    """Return the classes of rows in the same sets, by number; and for each set its classes."""
    n, width = sets.shape
    n_classes = (1 << n) - 1
    classes = np.zeros((n_classes, width), np.uint64)
    members = np.zeros(n, np.int64)
    for k in range(n_classes):
        for w in range(width):
            word = ~_ZERO
            for i in range(n):
                word &= sets[i, w] if ((k + 1) >> i) & 1 else ~sets[i, w]
            classes[k, w] = word
        for i in range(n):
            if ((k + 1) >> i) & 1:
                members[i] |= 1 << k
    return classes, members


# --- split and merge (eq. 17 to 19) ------------------------------------------------------------


def propose_split_merge(
    stream: Stream, number: np.uint64, users: Words, n_rows: int, alpha: float, threads: int
) -> tuple[Any, ...]:
    """Split a component's users in two, or unite those of two components."""
    first, second = one_or_both(*stream, _SPLIT, number, users)
    if first < 0:
        return impossible(users)
    if first == second:
        pair = divided(stream, number, users[first], threads)
    else:
        pair = users[[first, second]]
    return _blindly(*stream, number, users, n_rows, alpha, first, second, pair)


@jit
def _blindly(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    first: int, second: int, pair: Words,
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Propose what :func:`divide` divided, or the union."""
    uniforms = three_uniforms(key, sweep, _SPLIT, number, 6)
    log_how = log_division(pair[0], pair[1])
    return one_or_two(users, n_rows, alpha, first, second, pair, log_how, uniforms)


@jit
def one_or_both(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, users: Words
) -> tuple[int, int]:
    """Draw a component to split, twice the same, or two to merge; -1 where there are too few."""
    n = users.shape[0]
    is_split = uniform(key, sweep, site, number, np.uint64(0)) < 0.5
    if n < (1 if is_split else 2):
        return -1, -1
    first = pick(uniform(key, sweep, site, number, np.uint64(1)), n)
    if is_split:
        return first, first
    u = uniform(key, sweep, site, number, np.uint64(2))
    v = uniform(key, sweep, site, number, np.uint64(3))
    return first, partner_of(users, first, u, v)


@jit
def one_or_two(
    users: Words, n_rows: int, alpha: float, first: int, second: int, pair: Words, log_how: float,
    uniforms: NDArray[np.float64],
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Propose two components in the place of one, or one in the place of two (eq. 19).

    Parameters
    ----------
    first, second
        The components to unite, or twice the one to split.
    pair
        Users of the two.
    log_how
        Log probability of this division of the one.
    """
    n, width = users.shape
    is_split = first == second
    concerned = np.array([first]) if is_split else np.array([first, second])
    classes = np.empty((3, width), np.uint64)
    classes[0] = pair[0] & ~pair[1]
    classes[1] = pair[1] & ~pair[0]
    classes[2] = pair[0] & pair[1]
    only_first, only_second, shared = size_of(classes[0]), size_of(classes[1]), size_of(classes[2])
    if only_first + shared == 0 or only_second + shared == 0:
        return impossible(users)
    # A split picks one of n_one; the merge that undoes it one of n_one + 1, then its partner.
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
    one = np.array([0b111])
    two = np.array([0b101, 0b110])
    if is_split:
        return True, concerned, classes, one, two, pair, ratio, uniforms
    union = pair[:1] | pair[1:]
    return True, concerned, classes, two, one, union, -ratio, uniforms


@jit
def _is_closer(a: Words, b: Words, c: Words) -> int:
    """Return whether a is more (1), as (0) or less (-1) like b than like c (Jaccard index)."""
    b_both, b_any, c_both, c_any = _ZERO, _ZERO, _ZERO, _ZERO
    for w in range(a.shape[0]):
        b_both += popcount(a[w] & b[w])
        b_any += popcount(a[w] | b[w])
        c_both += popcount(a[w] & c[w])
        c_any += popcount(a[w] | c[w])
    left = b_both * c_any  # in integers: ties must be ties
    right = c_both * b_any
    return 1 if left > right else (0 if left == right else -1)


@jit
def partner_of(users: Words, first: int, u: float, v: float) -> int:
    """Draw with whom a component may merge: half the time any, else who is most like it."""
    n = users.shape[0]
    if u < 0.5:
        second = pick(v, n - 1)
        return second + (second >= first)
    best = -1
    n_best = 0
    for component in range(n):
        if component == first:
            continue
        closer = 1
        if best >= 0:
            closer = _is_closer(users[first], users[component], users[best])
        if closer > 0:
            best, n_best = component, 1
        elif closer == 0:
            n_best += 1
    skip = pick(v, n_best)
    for component in range(n):
        if component == first:
            continue
        if _is_closer(users[first], users[component], users[best]) == 0:
            if skip == 0:
                return component
            skip -= 1
    return best


@jit
def chance_of(users: Words, is_other: NDArray[np.bool_], a: Words, b: Words) -> float:
    """Return the probability that :func:`partner_of` draws b for a, among some others."""
    n_others = 0
    n_ties = 1
    for component in range(users.shape[0]):
        if not is_other[component]:
            continue
        n_others += 1
        closer = _is_closer(a, b, users[component])
        if closer < 0:
            n_ties = 0
        elif closer == 0 and n_ties > 0:
            n_ties += 1
    nearest = 1.0 / n_ties if n_ties > 0 else 0.0
    return 0.5 / (n_others + 1) + 0.5 * nearest


def divided(stream: Stream, number: np.uint64, users: Words, threads: int) -> Words:
    """Send every user to the first, the second or both, at rates drawn from Dirichlet(1, 1, 1)."""
    pair = np.zeros((2, len(users)), np.uint64)
    share(divide, 64 * len(users), threads, *stream, number, users, pair, step=CHUNK)
    return pair


@jit
def divide(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words,
    pair: Words,
) -> None:  # fmt: skip
    """Divide the users in a range of rows."""
    a = -log(uniform(key, sweep, _SPLIT, number, np.uint64(2)))
    b = -log(uniform(key, sweep, _SPLIT, number, np.uint64(3)))
    c = -log(uniform(key, sweep, _SPLIT, number, np.uint64(4)))
    to_first, to_second = a / (a + b + c), (a + b) / (a + b + c)
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
def log_division(a: Words, b: Words) -> float:
    """Return the log probability that a set is divided into these two (eq. 18)."""
    only_first, only_second, shared = size_of(a & ~b), size_of(b & ~a), size_of(a & b)
    return (
        lgamma(3.0)
        + lgamma(only_first + 1.0)
        + lgamma(only_second + 1.0)
        + lgamma(shared + 1.0)
        - lgamma(only_first + only_second + shared + 3.0)
    )


# --- rows that join a new component (eq. 20) ---------------------------------------------------


def joined(
    stream: Stream, site: np.uint64, number: np.uint64, a: Words, b: Words,
    rates: NDArray[np.float64], n_rows: int, threads: int,
) -> Words:  # fmt: skip
    """Let rows join at one of four rates: those in neither of two sets, in a, in b, in both."""
    out = np.zeros_like(a)
    share(join, n_rows, threads, *stream, site, number, a, b, rates, out, step=CHUNK)
    return out


@jit
def join(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64,
    a: Words, b: Words, rates: NDArray[np.float64], out: Words,
) -> None:  # fmt: skip
    """Draw who joins in a range of rows."""
    for row in range(lo, hi):
        w = row >> 6
        shift = np.uint64(row & 63)
        quarter = ((a[w] >> shift) & _ONE) | (((b[w] >> shift) & _ONE) << _ONE)
        if uniform(key, sweep, site, number, np.uint64(row)) < rates[quarter]:
            out[w] |= _ONE << shift


@jit
def log_guess_of(size: int, joined: int) -> float:
    """Return the log probability of a set of users with a uniform rate in a class (eq. 20)."""
    return lgamma(joined + 1.0) + lgamma(size - joined + 1.0) - lgamma(size + 2.0)
