# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Add a component that several rows show together, or delete one (eq. 17, codes summed out).

A birth begins with a row, the seed, and the rows that share most of its uncovered ones. Code and
users are then improved in turn, as in a start (:mod:`thali.sampler.grow.births`), and users are
drawn by what each of them gains. All of this follows from the seed and from what the other
components leave uncovered. So the death of a component, with one of its users as the seed, goes
the same way and finds the probability with which its users would have been drawn (like the launch
state of Jain & Neal 2004).
"""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line, gather_bits, list_bits
from thali.engines.base import Cover
from thali.engines.cpu.count_by_class import list_free_in_window
from thali.engines.cpu.near import gains_across, gains_near, uncovered
from thali.sampler.gains import gains_by_set
from thali.sampler.moves.move import SumOut, new_density
from thali.sampler.moves.proposal import (
    NOTHING,
    Proposal,
    impossible,
    listed,
    log_rate,
    pick,
    size_of,
    three_uniforms,
)
from thali.sites import SeededIndex, Site
from thali.streams import read_uniform, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.engines.cpu.arrays import Near
    from thali.sampler.moves.move import Attempt

_LARGEST = 7
"""A component begins with a number of rows that is a power of two, up to two to this power, and
at most a fifth of all rows."""

_ROUNDS = 2
"""How often code and users are improved in turn."""

_START, _NOBODY, _ALL = map(np.int64, (0, -1, 1))  # the last: the only class of rows
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_SEEDED = np.uint64(Site.SEEDED)
_SEEDED_ROWS = np.uint64(Site.SEEDED_ROWS)
_IS_BIRTH = np.uint64(SeededIndex.IS_BIRTH)
_SEED = np.uint64(SeededIndex.SEED)
_SIZE = np.uint64(SeededIndex.SIZE)
_VICTIM = np.uint64(SeededIndex.VICTIM)
_DECISION = np.uint64(SeededIndex.DECISION)


class Seeded(SumOut):
    """Add a component around a seed row, or delete one."""

    name: ClassVar = "seeded"
    codes: ClassVar = Site.SEEDED_CODES
    density: ClassVar = (Site.SEEDED, SeededIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw the users of a new component, or choose a component to delete."""
        stream, number, state, target = attempt
        users, codes = state.factors
        n_rows = users.n_rows
        seed, size, gone = _choose(*stream, number, users.words, n_rows)
        if seed < 0:
            return NOTHING
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[gone : gone + 1] = False  # nothing for a birth
        cover = Cover(codes, users, is_rest)
        free, ones = target.engine.free_in_window(np.array([seed]), slice(None), cover)
        weights, prior = state.noise.rounded_weights(), self._prior(attempt, gone)

        def gains(mode: int, of_set: Words) -> NDArray[np.float64]:
            """Return what every line gains by covering its uncovered entries in a set."""
            cover = Cover(state.factors[1 - mode], state.factors[mode], is_rest)
            lines = (0, state.factors[mode].n_rows)
            return gains_by_set(target, weights, mode, lines, cover, of_set)

        line = _nearest(gains(0, free & ones), seed, size)
        for _ in range(_ROUNDS):
            code = _in_favour(gains(1, line), prior, _NOBODY)
            odds = gains(0, code)
            line = _weigh_users(odds, line, seed)
        return _seeded(*stream, number, users.words, n_rows, state.alpha, seed, gone, odds)

    def _prior(self, attempt: Attempt, gone: int) -> float:
        """Return the log odds that the code has a column."""
        stream, number, state, _ = attempt
        (density,) = state.densities[1:]
        if gone == state.n_components:
            uniforms = stream.uniforms(Site.SEEDED, SeededIndex.DENSITY + 1, row=int(number))
            return log_odds_of(new_density(attempt, uniforms[SeededIndex.DENSITY]))
        return log_odds_of(float(density if density.ndim == 0 else density[gone]))


SEEDED = Seeded()


@inner
def propose_seeded(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    densities: NDArray[np.float64], new: float, near: Near, codes: Words,
) -> Proposal:  # fmt: skip
    """Return what :meth:`Seeded.propose` does, without a call from Python for every step."""
    (ones, known, n_columns), rows, columns = near
    seed, size, gone = _choose(key, sweep, number, users, n_rows)
    if seed < 0:
        return impossible(users)
    is_rest = np.ones(users.shape[0], np.bool_)
    density = new
    if gone < users.shape[0]:
        is_rest[gone] = False
        density = densities[gone]
    by_column = gather_bits(codes, rows[2]) if rows[2].shape[0] else codes
    by_row = gather_bits(users, columns[2]) if columns[2].shape[0] else users
    left = uncovered(near, by_column, by_row, users, codes, is_rest)
    no_users, no_codes, nobody = users[:0], codes[:0], is_rest[:0]
    free = np.empty((1, codes.shape[1]), np.uint64)
    has = np.empty((1, codes.shape[1]), np.uint64)
    chosen = np.full(1, seed)
    list_free_in_window(chosen, _START, n_columns, ones, known, codes, users, is_rest, free, has)
    for w in range(codes.shape[1]):
        has[0, w] &= free[0, w]
    odds = gains_near(_START, n_rows, left[1], no_codes, no_users, nobody, has)
    line = _nearest(odds, seed, size)
    for _ in range(_ROUNDS):
        gains = gains_across(left, line)
        code = _in_favour(gains, log_odds_of(density), _NOBODY)
        odds = gains_near(_START, n_rows, left[1], no_codes, no_users, nobody, code)
        line = _weigh_users(odds, line, seed)
    return _seeded(key, sweep, number, users, n_rows, alpha, seed, gone, odds)


@jit
def log_odds_of(density: float) -> float:
    """Return the log odds of a probability."""
    return log(density) - log1p(-density)


@jit
def _choose(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int
) -> tuple[int, int, int]:
    """Choose the seed, the number of rows to begin with, and the component to delete.

    For a birth, the last is the number of components. The seed is -1 if no move is possible. It
    is any row of a birth, and any user of a death.
    """
    n_sizes = 1
    while n_sizes < _LARGEST and 2 << n_sizes <= n_rows // 5:
        n_sizes += 1
    size = 2 << pick(read_uniform(key, sweep, _SEEDED, number, _SIZE), n_sizes)
    n = users.shape[0]
    u = read_uniform(key, sweep, _SEEDED, number, _SEED)
    if read_uniform(key, sweep, _SEEDED, number, _IS_BIRTH) < 0.5:
        return pick(u, n_rows), size, n
    if n == 0:
        return -1, size, n
    gone = pick(read_uniform(key, sweep, _SEEDED, number, _VICTIM), n)
    rows = list_bits(users[gone])
    return rows[pick(u, rows.shape[0])], size, gone


@jit
def _nearest(gains: NDArray[np.float64], seed: int, size: int) -> Words:
    """Return the seed and the rows that gain most beside it, as one line; ``gains`` is used up."""
    n_rows = gains.shape[0]
    line = np.zeros((1, (n_rows + 63) >> 6), np.uint64)
    nearest = seed
    for _ in range(min(size, n_rows)):
        line[0, nearest >> 6] |= _ONE << np.uint64(nearest & 63)
        gains[nearest, 0] = -np.inf
        nearest = 0
        for row in range(n_rows):
            if gains[row, 0] > gains[nearest, 0]:
                nearest = row
    return line


@jit
def _in_favour(gains: NDArray[np.float64], prior: float, always: int) -> Words:
    """Return the lines that gain more than the prior asks for, and one that always does."""
    line = np.zeros((1, (gains.shape[0] + 63) >> 6), np.uint64)
    for i in range(gains.shape[0]):
        if gains[i, 0] + prior > 0.0 or i == always:
            line[0, i >> 6] |= _ONE << np.uint64(i & 63)
    return line


@jit
def _weigh_users(odds: NDArray[np.float64], line: Words, seed: int) -> Words:
    """Turn the gains of rows into log odds to use a component; return the rows in favour.

    ``line`` has the users so far.
    """
    n_users, n_rows = size_of(line[0]), odds.shape[0]
    prior = log(n_users / (n_rows - n_users + 1.0))
    for row in range(n_rows):
        odds[row, 0] += prior
    return _in_favour(odds, 0.0, seed)


@jit
def _seeded(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    seed: int, gone: int, odds: NDArray[np.float64],
) -> Proposal:  # fmt: skip
    """Draw the users of a new component, or look those of an old one up."""
    n, width = users.shape
    is_birth = gone == n
    most = log(2.0 * n_rows)  # so that any users are possible
    line = np.zeros((1, width), np.uint64)
    if not is_birth:
        copy_line(users[gone], line[0])
    log_how = 0.0
    for row in range(n_rows):
        w, bit = row >> 6, _ONE << np.uint64(row & 63)
        if row == seed:
            line[0, w] |= bit
            continue
        x = min(max(odds[row, 0], -most), most)
        if is_birth:
            u = uniform(key, sweep, _SEEDED_ROWS, number, np.uint64(row))
            if u < 1.0 / (1.0 + exp(-x)):
                line[0, w] |= bit
        if line[0, w] & bit == _ZERO:
            x = -x
        log_how += x - log1p(exp(x)) if x < 0.0 else -log1p(exp(-x))
    n_users = size_of(line[0])
    ratio = log(alpha) + log_rate(n_users, n_rows) - log_how
    ratio += log(n_rows) - log(n_users) - log(n + is_birth)  # probabilities of the seed
    uniforms = three_uniforms(key, sweep, _SEEDED, number, _DECISION)
    one = listed(_ALL, _ALL, _ALL)[:1]
    none = one[:0]
    if is_birth:
        return Proposal(True, none, (line,), ratio, uniforms, line, none, one)
    concerned = listed(gone, gone, gone)[:1]
    return Proposal(True, concerned, (line[:0],), -ratio, uniforms, line, one, none)
