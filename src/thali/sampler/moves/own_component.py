# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, PLR0912, PLR0915
"""A row leaves a component of its own and takes others instead, or the other way round.

A row that uses several components can be described by one of its own, which fits its errors, too.
That is less probable, but the row cannot leave it entry by entry: as long as its own component is
there, the others explain little, and as long as they are not there, it cannot go. Here the number
of a row's own components changes by one, and up to eight of its other entries are drawn together,
all their combinations weighed. With S_k the sum of their weights if the row has k of its own
(codes summed out, eq. 8), the death of one is accepted with min(1, S_(k-1) / S_k * L / alpha):
k / (alpha / N) is the ratio of the Poisson probabilities, (1 / N) / (k / L) that of the choices.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import first_bit
from thali.engines.cpu.births import draw_codes
from thali.model.births import birth_tables
from thali.sampler.moves.proposal import pick, size_of
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

MOST_SEATS = 8
"""Entries drawn together: all combinations are weighed."""

_WORDS = 16
"""Words of columns that may rule a try out before all are looked at."""

_NOTHING = np.zeros((0, 0), np.uint64)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SEAT = np.uint64(Site.SEAT)
_SEAT_ORDER = np.uint64(Site.SEAT_ORDER)
_BEYOND = 1 << 31  # of all rows: where the random numbers of codes drawn here begin, a try a row


def reseat(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Try to delete a component with one user, or to give a row one more."""
    first, second = state.factors
    n_rows, n_columns = target.tensor.shape
    ones, known = target.tensor.unfoldings[0]
    known = _NOTHING if known is None else known
    density, (w1, w0) = float(state.densities[1]), state.noise.rounded_weights()
    row, n_own, is_own, users = draw_seats(
        *stream, np.uint64(number), ones, known, n_columns, first.words, second.words, n_rows,
        state.alpha, density, w1, w0,
    )  # fmt: skip
    if row < 0:
        return None
    rest = state._replace(factors=(first._replace(words=users), second)).take(~is_own)
    tables = birth_tables(
        state.alpha / n_rows, density, state.noise, target.most_ones, state.n_components + 1
    )
    codes = own_codes(
        *stream, np.uint64(number), row, n_own, ones, known, n_columns,
        *(factor.words for factor in rest.factors), *(table[0] for table in tables.code),
    )  # fmt: skip
    own = np.zeros((n_own, users.shape[1]), np.uint64)
    own[:, row >> 6] = _ONE << np.uint64(row & 63)
    return rest.replaced(np.ones(rest.n_components, np.bool_), own, codes, np.full(n_own, density))


@jit
def draw_seats(
    key: np.uint64, sweep: np.uint64, number: np.uint64, ones: Words, known: Words,
    n_columns: int, users: Words, codes: Words, n_rows: int, alpha: float, density: float,
    w1: float, w0: float,
) -> tuple[int, int, NDArray[np.bool_], Words]:  # fmt: skip
    """Propose and decide.

    Returns
    -------
    row, n_own, is_own, users
        The row, or -1 if nothing changes; how many components of its own it has from now on;
        those it had; who uses the others now.
    """
    n = users.shape[0]
    is_own = np.zeros(n, np.bool_)
    is_birth = uniform(key, sweep, _SEAT, number, np.uint64(0)) < 0.5
    u = uniform(key, sweep, _SEAT, number, np.uint64(1))
    others = np.empty(n, np.int64)  # users of each component but the row
    row = pick(u, n_rows) if is_birth else -1
    for component in range(n):
        others[component] = size_of(users[component])
    if not is_birth:
        if n == 0:
            return -1, 0, is_own, users
        gone = pick(u, n)
        if others[gone] != 1:
            return -1, 0, is_own, users
        row = first_bit(users[gone])
    w = row >> 6
    bit = _ONE << np.uint64(row & 63)
    n_own = 0
    n_shared = 0
    shared = np.empty(n, np.int64)
    for component in range(n):
        others[component] -= users[component, w] & bit != _ZERO
        if others[component] == 0:
            is_own[component] = True
            n_own += 1
        else:
            shared[n_shared] = component
            n_shared += 1
    n_seats = min(n_shared, MOST_SEATS)
    for i in range(n_seats):  # a random choice that does not depend on the row's entries
        v = uniform(key, sweep, _SEAT_ORDER, number, np.uint64(i))
        j = i + pick(v, n_shared - i)
        shared[i], shared[j] = shared[j], shared[i]
    free = _free(row, known, n_columns, users, codes, shared[n_seats:n_shared])
    gains = np.zeros((1 << n_seats, 2))
    n_after = n_own + 1 if is_birth else n_own - 1
    seats, width = shared[:n_seats], codes.shape[1]
    part = 0.0
    if width > 2 * _WORDS:  # two decisions, as in moves.py: most tries are hopeless
        start = pick(uniform(key, sweep, _SEAT, number, np.uint64(4)), width - _WORDS + 1)
        _weigh(ones[row], free, start, start + _WORDS, codes, seats, others, n_rows, density, w1,
               w0, n_own, n_after, gains)  # fmt: skip
        part = _log_sum(gains[:, 1]) - _log_sum(gains[:, 0])
        if not log(uniform(key, sweep, _SEAT, number, np.uint64(5))) < part:
            return -1, 0, is_own, users
    _weigh(ones[row], free, 0, width, codes, seats, others, n_rows, density, w1, w0, n_own,
           n_after, gains)  # fmt: skip
    log_before, log_after = _log_sum(gains[:, 0]), _log_sum(gains[:, 1])
    log_ratio = log_after - log_before - part
    log_ratio += log(alpha) - log(n + 1) if is_birth else log(n) - log(alpha)
    if not log(uniform(key, sweep, _SEAT, number, np.uint64(2))) < log_ratio:
        return -1, 0, is_own, users
    left = uniform(key, sweep, _SEAT, number, np.uint64(3))
    chosen = 0
    while chosen < gains.shape[0] - 1:
        left -= exp(gains[chosen, 1] - log_after)
        if left < 0.0:
            break
        chosen += 1
    after = users.copy()
    for i in range(n_seats):
        if (chosen >> i) & 1:
            after[shared[i], w] |= bit
        else:
            after[shared[i], w] &= ~bit
    return row, n_after, is_own, after


@jit
def own_codes(
    key: np.uint64, sweep: np.uint64, number: np.uint64, row: int, n_own: int, ones: Words,
    known: Words, n_columns: int, users: Words, codes: Words, cover: NDArray[np.uint64],
    first: NDArray[np.uint64], plain: np.uint64,
) -> Words:  # fmt: skip
    """Draw the codes of a row's own components together."""
    out = np.zeros((n_own, codes.shape[1]), np.uint64)
    if n_own > 0:
        free = _free(row, known, n_columns, users, codes, np.arange(users.shape[0]))
        address = np.uint64(_BEYOND) + number
        draw_codes(ones[row], ~free, n_columns, n_own, cover, first, plain, key, sweep, address,
                   out)  # fmt: skip
    return out


@jit
def _free(
    row: int, known: Words, n_columns: int, users: Words, codes: Words, covering: Index
) -> Words:  # fmt: skip
    """Return the known columns of a row that none of some components covers."""
    width = codes.shape[1]
    free = np.empty(width, np.uint64)
    for w in range(width):
        free[w] = known[row, w] if known.shape[0] > 0 else ~_ZERO
    if n_columns & 63:
        free[width - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE
    for component in covering:
        if (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE != _ZERO:
            for w in range(width):
                free[w] &= ~codes[component, w]
    return free


@jit
def _weigh(
    ones: Words, free: Words, start: int, stop: int, codes: Words, seats: Index, others: Index,
    n_rows: int, density: float, w1: float, w0: float, n_before: int, n_after: int,
    out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Weigh every combination of entries by some words of columns, before and after."""
    n_seats = seats.shape[0]
    n = 1 << n_seats
    uncovered = np.zeros((n, 2), np.int64)  # columns by who could cover them: ones, zeros
    for w in range(start, stop):
        left = free[w]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            left ^= bit
            who = 0
            for i in range(n_seats):
                if codes[seats[i], w] & bit != _ZERO:
                    who |= 1 << i
            uncovered[who, 0 if ones[w] & bit != _ZERO else 1] += 1
    for i in range(n_seats):  # now: columns that nobody outside a set could cover
        for who in range(n):
            if (who >> i) & 1:
                uncovered[who, 0] += uncovered[who ^ (1 << i), 0]
                uncovered[who, 1] += uncovered[who ^ (1 << i), 1]
    log_one, log_zero = np.empty(2), np.empty(2)  # of an uncovered one and zero, eq. 8
    for j in range(2):
        some_on = -expm1((n_before if j == 0 else n_after) * log1p(-density))
        log_one[j] = log1p(some_on * expm1(w1))
        log_zero[j] = log1p(some_on * expm1(w0))
    all_ones, all_zeros = uncovered[n - 1]
    for entries in range(n):
        n_ones, n_zeros = uncovered[n - 1 - entries]
        score = w1 * (all_ones - n_ones) + w0 * (all_zeros - n_zeros)
        for i in range(n_seats):
            if (entries >> i) & 1:
                score += log(others[seats[i]]) - log(n_rows - others[seats[i]])
        for j in range(2):
            out[entries, j] = score + n_ones * log_one[j] + n_zeros * log_zero[j]


@jit
def _log_sum(scores: NDArray[np.float64]) -> float:
    largest = scores.max()
    total = 0.0
    for score in scores:
        total += exp(score - largest)
    return largest + log(total)
