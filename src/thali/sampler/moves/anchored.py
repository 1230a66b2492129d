# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Split a component with the help of two of its rows, or merge two components.

If one component stands for two, a random division of its users is hopeless: it would have to guess
every user correctly. Here two of its users, the anchors, show what the two components could be,
and every user joins the one that fits its own free entries. The anchors are drawn from the same
users, and see the same free entries, whether one component is split or two are merged. Therefore
they cancel in the acceptance ratio, as does everything that follows from them without further
random numbers (like the launch state of Jain & Neal 2004).
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import WORD, copy_line, list_bits, place_of
from thali.engines.base import Cover
from thali.engines.cpu.count_by_class import count_free_in_window, list_free_in_window
from thali.model.rule import free_word, log_odds
from thali.sampler.moves.anchor_marks import sharpen
from thali.sampler.moves.move import SumOut
from thali.sampler.moves.proposal import (
    CHUNK,
    NOTHING,
    Proposal,
    impossible,
    pick,
    three_uniforms,
)
from thali.sampler.moves.split_merge import (
    choose_ahead,
    draft_of,
    draw_first,
    one_or_both,
    one_or_two,
)
from thali.sites import AnchoredIndex, Site
from thali.streams import read_uniform, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import RowSets
    from thali.engines.cpu.arrays import Data
    from thali.sampler.moves.move import Attempt, Look

_START = np.int64(0)  # a plain zero would be a type of its own
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ANCHORED = np.uint64(Site.ANCHORED)
_ANCHORED_ROWS = np.uint64(Site.ANCHORED_ROWS)
_WINDOW = np.uint64(AnchoredIndex.WINDOW)
_ANCHOR = np.uint64(AnchoredIndex.ANCHOR)
_OTHER_ANCHOR = np.uint64(AnchoredIndex.OTHER_ANCHOR)
_DECISION = np.uint64(AnchoredIndex.DECISION)
_WORDS = 8
"""Number of words of columns that are examined: a random window suffices for longer rows."""
_ROWS = 256
"""Largest number of users that refine what the anchors show."""
_ROUNDS = 2


class Anchored(SumOut):
    """Split a component by comparing its users with two of them, or merge two components."""

    name: ClassVar = "anchored"
    codes: ClassVar = Site.ANCHORED_CODES
    density: ClassVar = (Site.ANCHORED, AnchoredIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Assign every user of a component to the part that fits it, or unite the users of two."""
        stream, number, state, target = attempt
        users, codes = state.factors
        words, weights = users.words, state.noise.typical
        n_words = min(_WORDS, codes.words.shape[1])
        first, second, at, rows, shown, pair = _choose(
            *stream, number, words, codes.words.shape[1] - n_words + 1
        )
        if len(shown) == 0:
            return NOTHING
        is_other = np.ones(len(words), np.bool_)
        is_other[first] = is_other[second] = False
        cover = Cover(codes, users, is_other)
        window = slice(at, at + n_words)
        free, ones = target.engine.free_in_window(shown, window, cover)
        # An average gain for all entries: a proposal needs no more.
        marks = _mark(free, ones, *weights)
        counts = target.engine.count_in_window(rows, window, cover, marks)
        n_rows = 64 * words.shape[1]
        log_how = np.zeros(-(-n_rows // CHUNK))
        target.engine.over_rows(
            _settle_rows, n_rows, *stream, number, rows, counts, first == second, *weights, pair,
            log_how, step=CHUNK,
            made=((log_how, CHUNK), *((line, WORD) for line in pair if first == second)),
        )  # fmt: skip
        return _settled(
            *stream, number, words, target.shape[0], state.alpha, first, second, pair, log_how
        )

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether the first decision rejects the try."""
        stream, number, state, target = attempt
        first, second = yield from choose_ahead(stream, _ANCHORED, number, rows)
        if first < 0:
            return True
        pair = rows.users(first), rows.users(second)
        if first == second:  # otherwise the anchors do not change what is proposed
            users, codes = state.factors
            n_words = min(_WORDS, codes.words.shape[1])
            _, _, at, _, shown, _ = _choose(
                *stream, number, users.words, codes.words.shape[1] - n_words + 1
            )
            if len(shown) == 0:
                return True
            is_other = np.ones(rows.n_components, np.bool_)
            is_other[first] = False
            window, weights = slice(at, at + n_words), state.noise.typical
            seen = target.engine.free_in_window(shown, window, Cover(codes, users, is_other))
            pair, unsure = rows.settled(
                stream, Site.ANCHORED_ROWS, int(number), pair[0], window, _mark(*seen, *weights),
                is_other, weights,
            )  # fmt: skip
            if np.any((yield unsure)):
                return False
        uniforms = three_uniforms(*stream, _ANCHORED, number, _DECISION)
        return (yield from self.rejects(attempt, rows, draft_of(first, second, uniforms), pair))


ANCHORED = Anchored()


@inner
def propose_anchored(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    codes: Words, data: Data, typical: tuple[float, float],
) -> Proposal:  # fmt: skip
    """Return what :meth:`Anchored.propose` does, without a call from Python for every step."""
    ones, known, n_columns = data
    n_words = min(_WORDS, codes.shape[1])
    first, second, at, rows, shown, pair = _choose(
        key, sweep, number, users, codes.shape[1] - n_words + 1
    )
    if shown.shape[0] == 0:
        return impossible(users)
    is_other = np.ones(users.shape[0], np.bool_)
    is_other[first] = False
    is_other[second] = False
    free = np.empty((shown.shape[0], n_words), np.uint64)
    has = np.empty((shown.shape[0], n_words), np.uint64)
    list_free_in_window(shown, at, n_columns, ones, known, codes, users, is_other, free, has)
    w1, w0 = typical
    marks = _mark(free, has, w1, w0)
    n = rows.shape[0]
    counts = np.empty((n, 2, 2), np.int64)
    count_free_in_window(
        _START, n, rows, at, ones, known, codes, users, is_other, marks, counts
    )  # fmt: skip
    n_bits = 64 * users.shape[1]
    log_how = np.zeros((n_bits + CHUNK - 1) // CHUNK)
    _settle_rows(
        _START, n_bits, key, sweep, number, rows, counts, first == second, w1, w0, pair, log_how
    )
    return _settled(key, sweep, number, users, n_rows, alpha, first, second, pair, log_how)


@inner
def is_split(key: np.uint64, sweep: np.uint64, number: np.uint64) -> bool:
    """Return whether a try wants to split a component, for which rows are examined."""
    wants, _, _, _ = draw_first(key, sweep, _ANCHORED, number, 0)
    return wants


@inner
def draft_merger(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> Proposal:
    """Return as much of a merger as its first decision needs, for which no row is examined."""
    first, second = one_or_both(key, sweep, _ANCHORED, number, users)
    if first < 0:
        return impossible(users)
    pair = np.empty((2, users.shape[1]), np.uint64)
    copy_line(users[first], pair[0])
    copy_line(users[second], pair[1])
    return _settled(
        key, sweep, number, users, n_rows, alpha, first, second, pair, np.empty(0, np.float64)
    )


@jit
def _settled(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    first: int, second: int, pair: Words, log_how: NDArray[np.float64],
) -> Proposal:  # fmt: skip
    """Propose the two parts of a split, or the union of two components."""
    uniforms = three_uniforms(key, sweep, _ANCHORED, number, _DECISION)
    total = 0.0
    for part in log_how:
        total += part
    return one_or_two(users, n_rows, alpha, first, second, pair, total, uniforms)


@jit
def _choose(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_windows: int
) -> tuple[int, int, int, Index, Index, Words]:
    """Choose the components to split or merge, a window of columns, and the rows to examine.

    Returns
    -------
    first, second
        The two components to merge, or the component to split, twice.
    window
        First word of the window of columns.
    rows, shown
        All users; a selection of them, followed by the two anchors. ``shown`` is empty if no move
        is possible.
    pair
        Users of the two components; still empty if one is to be split.
    """
    nobody = np.zeros(0, np.int64)
    pair = np.zeros((2, users.shape[1]), np.uint64)
    first, second = one_or_both(key, sweep, _ANCHORED, number, users)
    if first < 0:
        return first, second, 0, nobody, nobody, pair
    union = np.empty(users.shape[1], np.uint64)
    for w in range(users.shape[1]):
        union[w] = users[first, w] | users[second, w]
    rows = list_bits(union)
    n_users = rows.shape[0]
    if n_users < 2:
        return first, second, 0, rows, nobody, pair
    window = pick(read_uniform(key, sweep, _ANCHORED, number, _WINDOW), n_windows)
    one = pick(read_uniform(key, sweep, _ANCHORED, number, _ANCHOR), n_users)
    other = pick(read_uniform(key, sweep, _ANCHORED, number, _OTHER_ANCHOR), n_users - 1)
    other += other >= one
    step = (n_users + _ROWS - 1) // _ROWS
    n_shown = (n_users + step - 1) // step
    shown = np.empty(n_shown + 2, np.int64)
    for i in range(n_shown):
        shown[i] = rows[i * step]
    shown[n_shown] = rows[one]
    shown[n_shown + 1] = rows[other]
    if first != second:
        copy_line(users[first], pair[0])
        copy_line(users[second], pair[1])
    return first, second, window, rows, shown, pair


@jit
def _mark(free: Words, ones: Words, w1: float, w0: float) -> Words:
    """Return the columns that distinguish the two parts, by the anchors, then by the users shown.

    The anchors are the last two rows.
    """
    n_shown, n_words = free.shape[0] - 2, free.shape[1]
    has = np.empty(free.shape, np.uint64)
    for i in range(free.shape[0]):
        for w in range(n_words):
            has[i, w] = free[i, w] & ones[i, w]
    marks = np.empty((2, n_words), np.uint64)
    for w in range(n_words):
        one_has, other_has = has[n_shown, w], has[n_shown + 1, w]
        marks[0, w] = free_word(one_has & free[n_shown + 1, w], other_has)
        marks[1, w] = free_word(other_has & free[n_shown, w], one_has)
    for _ in range(_ROUNDS):
        sharpen(marks, free[:n_shown], has[:n_shown], w1, w0)
    return marks


@jit
def _settle_rows(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, rows: Index,
    counts: Index, is_split: bool, w1: float, w0: float, pair: Words,
    log_how: NDArray[np.float64],
) -> None:  # fmt: skip
    """Assign the users in a range of rows to the parts, or look up their present assignment.

    ``counts`` holds the free ones and zeros of every user at the marks of either part.
    """
    i = place_of(rows, lo)
    while i < rows.shape[0] and rows[i] < hi:
        row = rows[i]
        u = uniform(key, sweep, _ANCHORED_ROWS, number, np.uint64(i))
        to_first = log_odds(0.0, w1, w0, counts[i, 0, 0], counts[i, 0, 1])
        to_second = log_odds(0.0, w1, w0, counts[i, 1, 0], counts[i, 1, 1])
        log_how[row // CHUNK] += _settle(u, is_split, row, pair, to_first, to_second)
        i += 1


@inner
def _settle(
    u: float, is_drawn: bool, row: int, pair: Words, to_first: float, to_second: float
) -> float:
    """Assign a row to one part or both, or look it up; return the log probability."""
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
