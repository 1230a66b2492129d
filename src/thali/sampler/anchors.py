"""Split a component between two of its rows, or merge two, compiled.

Where one component stands for two, a division drawn blindly is hopeless: every user would have to
be guessed. Here two of its users, the anchors, show what the two could be, and every user goes
where its own free entries fit. The anchors are drawn among the same users, and shown the same free
entries, whether one is split or two are merged: they cancel in the acceptance ratio, and so does
everything that follows from them without further random numbers (as the launch state of Jain &
Neal 2004).
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.sampler.proposals import (
    impossible,
    one_or_two,
    partner_of,
    pick,
    size_of,
    three_uniforms,
)
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ANCHORED = np.uint64(Site.ANCHORED)
_ANCHORED_ROWS = np.uint64(Site.ANCHORED_ROWS)
_WORDS = 8
"""Words of columns that are looked at: of longer rows a random part says enough."""
_ROWS = 256
"""Users at most that sharpen what the anchors show."""
_PLANES = 9  # bits of a count up to that
_ROUNDS = 2


@jit
def propose_anchored(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    codes: Words, ones: Words, known: Words, w1: float, w0: float,
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Split the users of a component by what fits them, or unite those of two."""
    n, width = users.shape
    is_split = uniform(key, sweep, _ANCHORED, number, np.uint64(0)) < 0.5
    if n < (1 if is_split else 2):
        return impossible(users)
    first = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(1)), n)
    second = first
    if not is_split:
        second = partner_of(
            users,
            first,
            uniform(key, sweep, _ANCHORED, number, np.uint64(2)),
            uniform(key, sweep, _ANCHORED, number, np.uint64(3)),
        )
    rows = _members(users[first] | users[second])
    n_users = rows.shape[0]
    if n_users < 2:
        return impossible(users)
    n_words = min(_WORDS, ones.shape[1])
    at = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(4)), ones.shape[1] - n_words + 1)
    free = _free_entries(rows, at, n_words, users, codes, known, first, second)
    has = np.empty((n_users, n_words), np.uint64)
    for i in range(n_users):
        for w in range(n_words):
            has[i, w] = ones[rows[i], at + w] & free[i, w]
    one = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(5)), n_users)
    other = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(6)), n_users - 1)
    other += other >= one
    marks = np.empty((2, n_words), np.uint64)  # columns that tell the two apart
    for w in range(n_words):
        marks[0, w] = has[one, w] & free[other, w] & ~has[other, w]
        marks[1, w] = has[other, w] & free[one, w] & ~has[one, w]
    for _ in range(_ROUNDS):
        _sharpen(marks, free, has, w1, w0)
    pair = np.zeros((2, width), np.uint64)
    if not is_split:
        pair[0] = users[first]
        pair[1] = users[second]
    log_how = 0.0
    for i in range(n_users):
        u = uniform(key, sweep, _ANCHORED_ROWS, number, np.uint64(i))
        log_how += _settle(u, is_split, rows[i], pair, _fits(i, marks, free, has, w1, w0))
    uniforms = three_uniforms(key, sweep, _ANCHORED, number, 7)
    return one_or_two(users, n_rows, alpha, first, second, pair, log_how, uniforms)


@jit
def _members(words: Words) -> Index:
    """List the members of a set."""
    members = np.empty(size_of(words), np.int64)
    n = 0
    for w in range(words.shape[0]):
        for b in range(64):
            if (words[w] >> np.uint64(b)) & _ONE:
                members[n] = 64 * w + b
                n += 1
    return members


@jit
def _free_entries(
    rows: Index, at: int, n_words: int, users: Words, codes: Words, known: Words, first: int,
    second: int,
) -> Words:  # fmt: skip
    """Return what is known of some rows and covered by no component but the two given."""
    free = np.full((rows.shape[0], n_words), ~_ZERO)
    for i in range(rows.shape[0]):
        row = rows[i]
        if known.shape[0]:
            free[i] = known[row, at : at + n_words]
        for component in range(users.shape[0]):
            if component in (first, second):
                continue
            if (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
                for w in range(n_words):
                    free[i, w] &= ~codes[component, at + w]
    return free


@jit
def _fits(
    i: int, marks: Words, free: Words, has: Words, w1: float, w0: float
) -> tuple[float, float]:
    """Return what a row gains by having the marks of the first and of the second."""
    gain_first, gain_second = 0.0, 0.0
    for side in range(2):
        n_free, n_ones = _ZERO, _ZERO
        for w in range(marks.shape[1]):
            n_free += popcount(free[i, w] & marks[side, w])
            n_ones += popcount(has[i, w] & marks[side, w])
        gain = w1 * np.int64(n_ones) + w0 * (np.int64(n_free) - np.int64(n_ones))
        if side == 0:
            gain_first = gain
        else:
            gain_second = gain
    return gain_first, gain_second


@jit
def _sharpen(marks: Words, free: Words, has: Words, w1: float, w0: float) -> None:
    """Let the rows that clearly have one of the two say what tells it from the other."""
    n_users, n_words = free.shape
    step = (n_users + _ROWS - 1) // _ROWS
    n_planes = 1
    while n_users >> n_planes and n_planes < _PLANES:
        n_planes += 1
    n_free = np.zeros((2, n_planes, n_words), np.uint64)  # of every side and column, bit by bit
    n_ones = np.zeros((2, n_planes, n_words), np.uint64)
    for i in range(0, n_users, step):
        to_first, to_second = _fits(i, marks, free, has, w1, w0)
        if to_first > 0.0 and to_second > 0.0:
            continue
        side = 0 if to_first >= to_second else 1
        _count(n_free[side], free[i])
        _count(n_ones[side], has[i])
    for w in range(n_words):
        in_first, in_second = _ZERO, _ZERO
        for b in range(64):
            bit = _ONE << np.uint64(b)
            in_first |= bit if _gain(n_ones[0], n_free[0], w, b, w1, w0) > 0.0 else _ZERO
            in_second |= bit if _gain(n_ones[1], n_free[1], w, b, w1, w0) > 0.0 else _ZERO
        marks[0, w] = in_first & ~in_second
        marks[1, w] = in_second & ~in_first


@jit
def _count(planes: Words, words: Words) -> None:
    """Add one-bit numbers to counters whose bits lie in planes."""
    for w in range(words.shape[0]):
        carry = words[w]
        plane = 0
        while carry != _ZERO:
            old = planes[plane, w]
            planes[plane, w] = old ^ carry
            carry &= old
            plane += 1


@jit
def _gain(n_ones: Words, n_free: Words, w: int, b: int, w1: float, w0: float) -> float:
    """Return what having a column gains the rows that were counted."""
    ones, all_free = _ZERO, _ZERO
    for plane in range(n_free.shape[0]):
        ones |= ((n_ones[plane, w] >> np.uint64(b)) & _ONE) << np.uint64(plane)
        all_free |= ((n_free[plane, w] >> np.uint64(b)) & _ONE) << np.uint64(plane)
    return w1 * np.int64(ones) + w0 * (np.int64(all_free) - np.int64(ones))


@jit
def _settle(u: float, is_drawn: bool, row: int, pair: Words, gains: tuple[float, float]) -> float:
    """Send a row to one, the other or both, or see where it is; return the log probability."""
    to_first, to_second = gains
    largest = max(to_first, to_second, to_first + to_second)
    first = exp(to_first - largest)
    second = exp(to_second - largest)
    both = exp(to_first + to_second - largest)
    total = first + second + both
    w = row >> 6
    bit = _ONE << np.uint64(row & 63)
    if is_drawn:
        if u * total < first + both:
            pair[0, w] |= bit
        if u * total >= first:
            pair[1, w] |= bit
    in_first, in_second = pair[0, w] & bit != _ZERO, pair[1, w] & bit != _ZERO
    chosen = to_first + to_second
    if not in_second:
        chosen = to_first
    elif not in_first:
        chosen = to_second
    return chosen - largest - log(total)
