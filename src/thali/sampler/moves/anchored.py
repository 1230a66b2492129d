# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, FBT001
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
from thali.bits.words import lowest, popcount
from thali.sampler.moves.proposal import (
    CHUNK,
    impossible,
    one_or_both,
    one_or_two,
    pick,
    size_of,
    three_uniforms,
)
from thali.streams import Site, uniform
from thali.threads import share

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.streams import Stream

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ANCHORED = np.uint64(Site.ANCHORED)
_ANCHORED_ROWS = np.uint64(Site.ANCHORED_ROWS)
_WORDS = 8
"""Words of columns that are looked at: of longer rows a random part says enough."""
_ROWS = 256
"""Users at most that sharpen what the anchors show."""
_ROUNDS = 2


def propose_anchored(
    stream: Stream, number: np.uint64, users: Words, n_rows: int, alpha: float, threads: int,
    codes: Words, ones: Words, known: Words, w1: float, w0: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Split the users of a component by what fits them, or unite those of two."""
    first, second = one_or_both(*stream, _ANCHORED, number, users)
    if first < 0:
        return impossible(users)
    view = (first, second, users, codes, ones, known, w1, w0)
    at, marks, pair, log_how = _marks(*stream, number, *view)
    if at < 0:
        return impossible(users)
    share(
        _settle_rows, 64 * users.shape[1], threads, *stream, number, *view, at, marks, pair,
        log_how, step=CHUNK,
    )  # fmt: skip
    return _settled(*stream, number, users, n_rows, alpha, first, second, pair, log_how)


@jit
def _settled(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    first: int, second: int, pair: Words, log_how: NDArray[np.float64],
) -> tuple:  # type: ignore[type-arg]  # fmt: skip
    """Propose the two or their union."""
    uniforms = three_uniforms(key, sweep, _ANCHORED, number, 7)
    total = 0.0
    for part in log_how:
        total += part
    return one_or_two(users, n_rows, alpha, first, second, pair, total, uniforms)


@jit
def _marks(
    key: np.uint64, sweep: np.uint64, number: np.uint64, first: int, second: int, users: Words,
    codes: Words, ones: Words, known: Words, w1: float, w0: float,
) -> tuple[int, Words, Words, NDArray[np.float64]]:  # fmt: skip
    """Choose words of columns and two anchors.

    Returns
    -------
    at, marks
        Where the words are (-1: too few users), and what tells the two apart there.
    pair, log_how
        Who uses the two (nobody yet if one is to be split), and zeros for the log probabilities.
    """
    width = users.shape[1]
    pair = np.zeros((2, width), np.uint64)
    log_how = np.zeros((64 * width + CHUNK - 1) // CHUNK)
    both = users[first] | users[second]
    if first != second:
        pair[0] = users[first]
        pair[1] = users[second]
    n_users = size_of(both)
    if n_users < 2:
        return -1, pair, pair, log_how
    n_words = min(_WORDS, ones.shape[1])
    at = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(4)), ones.shape[1] - n_words + 1)
    one = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(5)), n_users)
    other = pick(uniform(key, sweep, _ANCHORED, number, np.uint64(6)), n_users - 1)
    other += other >= one
    step = (n_users + _ROWS - 1) // _ROWS
    n_shown = (n_users + step - 1) // step
    rows = np.empty(n_shown + 2, np.int64)  # of some users, and of the anchors
    i = 0
    for w in range(both.shape[0]):
        left = both[w]
        while left != _ZERO:
            row = 64 * w + lowest(left)
            left &= left - _ONE
            if i % step == 0:
                rows[i // step] = row
            if i == one:
                rows[n_shown] = row
            if i == other:
                rows[n_shown + 1] = row
            i += 1
    free = np.empty((n_shown + 2, n_words), np.uint64)
    has = np.empty((n_shown + 2, n_words), np.uint64)
    for i in range(n_shown + 2):
        _look(rows[i], at, first, second, users, codes, ones, known, free[i], has[i])
    marks = np.empty((2, n_words), np.uint64)  # columns that tell the two apart
    for w in range(n_words):
        one_has, other_has = has[n_shown, w], has[n_shown + 1, w]
        marks[0, w] = one_has & free[n_shown + 1, w] & ~other_has
        marks[1, w] = other_has & free[n_shown, w] & ~one_has
    for _ in range(_ROUNDS):
        _sharpen(marks, free[:n_shown], has[:n_shown], w1, w0)
    return at, marks, pair, log_how


@jit
def _look(
    row: int, at: int, first: int, second: int, users: Words, codes: Words, ones: Words,
    known: Words, free: Words, has: Words,
) -> None:  # fmt: skip
    """See what is known of a row and covered by no other component, and the ones there."""
    n_words = free.shape[0]
    for w in range(n_words):
        free[w] = known[row, at + w] if known.shape[0] else ~_ZERO
    for component in range(users.shape[0]):
        if component in (first, second):
            continue
        if (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            for w in range(n_words):
                free[w] &= ~codes[component, at + w]
    for w in range(n_words):
        has[w] = ones[row, at + w] & free[w]


@jit
def _settle_rows(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, first: int,
    second: int, users: Words, codes: Words, ones: Words, known: Words, w1: float, w0: float,
    at: int, marks: Words, pair: Words, log_how: NDArray[np.float64],
) -> None:  # fmt: skip
    """Send the users in a range of rows where they fit, or see where they are."""
    free, has = np.empty_like(marks[0]), np.empty_like(marks[0])
    index = np.uint64(0)
    for w in range(lo >> 6):
        index += popcount(users[first, w] | users[second, w])
    for w in range(lo >> 6, hi >> 6):
        left = users[first, w] | users[second, w]
        while left != _ZERO:
            row = 64 * w + lowest(left)
            left &= left - _ONE
            _look(row, at, first, second, users, codes, ones, known, free, has)
            u = uniform(key, sweep, _ANCHORED_ROWS, number, index)
            index += _ONE
            gains = _fits(marks, free, has, w1, w0)
            log_how[row // CHUNK] += _settle(u, first == second, row, pair, gains)


@jit
def _fits(marks: Words, free: Words, has: Words, w1: float, w0: float) -> tuple[float, float]:
    """Return what a row gains by having the marks of the first and of the second."""
    gain_first, gain_second = 0.0, 0.0
    for side in range(2):
        n_free, n_ones = _ZERO, _ZERO
        for w in range(marks.shape[1]):
            n_free += popcount(free[w] & marks[side, w])
            n_ones += popcount(has[w] & marks[side, w])
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
    n_planes = 1
    while n_users >> n_planes:
        n_planes += 1
    n_free = np.zeros((2, n_planes, n_words), np.uint64)  # of every side and column, bit by bit
    n_ones = np.zeros((2, n_planes, n_words), np.uint64)
    for i in range(n_users):
        to_first, to_second = _fits(marks, free[i], has[i], w1, w0)
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
