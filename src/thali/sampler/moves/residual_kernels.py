# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Kernels of the residual moves: they draw a code and its users, and weigh them (eq. 22)."""

from __future__ import annotations

from math import exp, log, log1p
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line, count_ones, gather_bits
from thali.engines.cpu.count_by_class import count_free_rows, list_free_in_window
from thali.engines.cpu.near import gains_near
from thali.model.gains import plain_gains
from thali.sampler.moves.proposal import CHUNK, log_rate, pick, size_of
from thali.sites import ReplacementIndex, ResidualIndex, Site
from thali.streams import read_uniform, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Near

    # What is left if some components count, the density of a code, the rate at which rows join,
    # and typical gains.
    Rest: TypeAlias = tuple[NDArray[np.bool_], float, float, tuple[float, float]]

SURE = 45.0
"""Log odds beyond which no uniform random number matters: the smallest is 2^-53."""
_NOTHING_LEFT = 746.0
"""The exponential of a number below minus this is zero in floating point."""
_START = np.int64(0)  # a plain zero would be a type of its own
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RESIDUAL = np.uint64(Site.RESIDUAL)
_IS_BIRTH = np.uint64(ResidualIndex.IS_BIRTH)
_SEED = np.uint64(ResidualIndex.SEED)
_VICTIM = np.uint64(ResidualIndex.VICTIM)
_DECISION = np.uint64(ResidualIndex.DECISION)
_REPLACED_SEED = np.uint64(ReplacementIndex.SEED)
_REPLACED_VICTIM = np.uint64(ReplacementIndex.VICTIM)
_REPLACED_DECISION = np.uint64(ReplacementIndex.DECISION)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


@inner
def propose_residual(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    densities: NDArray[np.float64], new: float, near: Near, codes: Words,
    typical: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return what decides :class:`thali.sampler.moves.residual.Residual`, in one call.

    These are the uniform random number and the log of the acceptance ratio.
    """
    n = users.shape[0]
    decision = read_uniform(key, sweep, _RESIDUAL, number, _DECISION)
    is_birth = read_uniform(key, sweep, _RESIDUAL, number, _IS_BIRTH) < 0.5
    if not is_birth and n == 0:
        return decision, -np.inf
    is_rest = np.ones(n, np.bool_)
    joins = np.zeros(users.shape[1], np.uint64)
    gone = 0 if is_birth else pick(read_uniform(key, sweep, _RESIDUAL, number, _VICTIM), n)
    rest = is_rest, new if is_birth else densities[gone], min(0.5, 2.0 / n_rows), typical
    if is_birth:
        seed = pick(read_uniform(key, sweep, _RESIDUAL, number, _SEED), n_rows)
        code = _drawn_code(key, sweep, number, seed, users, codes, near, rest)
    else:
        is_rest[gone] = False
        copy_line(users[gone], joins)
        code = codes[gone]
    score = _weigh(key, sweep, number, is_birth, joins, code, users, codes, n_rows, near, rest)
    n_users = size_of(joins)
    if n_users == 0:
        return decision, -np.inf
    ratio = birth_ratio(alpha, n_users, n_rows, score, n + is_birth)
    return decision, ratio if is_birth else -ratio


@inner
def propose_replacement(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int,
    rates: NDArray[np.float64], densities: NDArray[np.float64], near: Near, codes: Words,
    typical: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return what decides :class:`thali.sampler.moves.residual.Replacement`, in one call."""
    n = users.shape[0]
    decision = read_uniform(key, sweep, _RESIDUAL, number, _REPLACED_DECISION)
    if n == 0:
        return decision, -np.inf
    gone = pick(read_uniform(key, sweep, _RESIDUAL, number, _REPLACED_VICTIM), n)
    seed = pick(read_uniform(key, sweep, _RESIDUAL, number, _REPLACED_SEED), n_rows)
    is_rest = np.ones(n, np.bool_)
    is_rest[gone] = False
    rest = is_rest, densities[gone], rates[gone], typical
    joins = np.zeros(users.shape[1], np.uint64)
    code = _drawn_code(key, sweep, number, seed, users, codes, near, rest)
    score = _weigh(key, sweep, number, True, joins, code, users, codes, n_rows, near, rest)
    gained = size_of(joins) - size_of(users[gone])
    copy_line(users[gone], joins)
    back = _weigh(
        key, sweep, number, False, joins, codes[gone], users, codes, n_rows, near, rest
    )  # fmt: skip
    return decision, replacement_ratio(score, back, gained, rates[gone])


@jit
def birth_ratio(alpha: float, n_users: int, n_rows: int, score: float, n_after: int) -> float:
    """Return the log acceptance ratio of a birth, given the score of the new component."""
    return log(alpha) + log_rate(n_users, n_rows) + score - log(n_after)


@jit
def replacement_ratio(score: float, back: float, gained: int, rate: float) -> float:
    """Return the log acceptance ratio of a replacement, given the scores of both components.

    ``gained`` is the number of users that the new component has more.
    """
    return score - back + gained * (log(rate) - log1p(-rate))


@jit
def odds_of(density: float, typical: tuple[float, float]) -> NDArray[np.float64]:
    """Return the log odds with which a code contains a column.

    They are those of a column with an uncovered one, an uncovered zero, or neither, with an
    average gain for all entries: a proposal needs no more.
    """
    plain = log(density) - log1p(-density)
    odds = np.empty(3)
    odds[0], odds[1], odds[2] = plain + typical[0], plain + typical[1], plain
    return odds


@inner
def _drawn_code(
    key: np.uint64, sweep: np.uint64, number: np.uint64, seed: int, users: Words, codes: Words,
    near: Near, rest: Rest,
) -> Words:  # fmt: skip
    """Draw a code like the entries of a row that are uncovered by the rest."""
    is_rest, density, _, typical = rest
    ones, known, n_columns = near[0]
    row = np.full(1, seed)
    free = np.empty((1, codes.shape[1]), np.uint64)
    has = np.empty((1, codes.shape[1]), np.uint64)
    list_free_in_window(row, _START, n_columns, ones, known, codes, users, is_rest, free, has)
    odds = odds_of(density, typical)
    code = np.zeros(codes.shape[1], np.uint64)
    draw_code(_START, n_columns, key, sweep, number, free[0], has[0], odds, code)
    return code


@inner
def _weigh(
    key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool, joins: Words,
    code: Words, users: Words, codes: Words, n_rows: int, near: Near, rest: Rest,
) -> float:  # fmt: skip
    """Draw the users of a code or take given ones, and return the score of the component."""
    is_rest, density, rate, typical = rest
    (ones, known, n_columns), side, _ = near
    classes = np.empty((2, code.shape[0]), np.uint64)
    for w in range(code.shape[0]):
        classes[0, w], classes[1, w] = code[w], ~code[w]  # all other columns
    if n_columns & 63:
        classes[1, code.shape[0] - 1] &= (_ONE << np.uint64(n_columns & 63)) - _ONE
    counts = np.empty((n_rows, 2, 2), np.int64)
    count_free_rows(
        _START, n_rows, _START, ones, known, codes, users, is_rest, classes, counts
    )  # fmt: skip
    if side[2].shape[0]:
        in_order = gather_bits(codes, side[2])
        gains = gains_near(_START, n_rows, side, in_order, users, is_rest, classes[:1])
    else:
        gains = plain_gains(counts[:, :1], side[5][0, 0, 0], side[5][0, 0, 1])
    sizes = count_ones(classes)
    sums = np.empty(((n_rows + CHUNK - 1) // CHUNK, 4))
    residual_users(
        _START, n_rows, key, sweep, number, is_drawn, joins, rate, gains, counts, sizes,
        odds_of(density, typical), sums,
    )  # fmt: skip
    gain, log_proposal = add_up(sums, n_rows)
    return component_score(gain, sizes, density, log_proposal)


@jit
def component_score(gain: float, sizes: Index, density: float, log_proposal: float) -> float:
    """Return the log likelihood gained plus log prior of the code minus log proposal."""
    return gain + (sizes[0] * log(density) + sizes[1] * log1p(-density)) - log_proposal


@jit
def draw_code(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, free: Words,
    ones: Words, odds_of: NDArray[np.float64], code: Words,
) -> None:  # fmt: skip
    """Draw the columns of a range from the uncovered entries of a row."""
    rates = 1.0 / (1.0 + np.exp(-odds_of))
    for column in range(lo, hi):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        kind = 2
        if free[w] & bit != _ZERO:
            kind = 0 if ones[w] & bit != _ZERO else 1
        if uniform(key, sweep, _RESIDUAL_CODES, number, np.uint64(column)) < rates[kind]:
            code[w] |= bit


@jit
def residual_users(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool,
    users: Words, rate: float, gains: NDArray[np.float64], counts: Index, sizes: Index,
    odds_of: NDArray[np.float64], sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Draw the users of a proposed code in a range of rows, or weigh given users.

    Parameters
    ----------
    lo, hi
        Range of rows; it starts at the beginning of a chunk.
    is_drawn
        Whether the users are drawn, or given.
    users
        The users as one line of words; filled if they are drawn.
    rate
        Probability to join if there is nothing to gain.
    gains
        ``(n_rows, 1)``: log likelihood that every row would gain.
    counts
        ``(n_rows, 2, 2)``: uncovered ones and zeros of every row inside and outside the code.
    sizes
        Number of columns inside and outside the code.
    odds_of
        Log odds that a proposed code contains a column with an uncovered one, an uncovered zero,
        or neither.
    sums
        Filled for every chunk: the log likelihood gained by the component; the log probability of
        these users; then, over the rows from which the code could have been proposed, the largest
        log probability of the code and the sum of the probabilities relative to the largest.
    """
    log_on = np.empty(3)
    log_off = np.empty(3)
    for kind in range(3):
        log_on[kind] = -_softplus(-odds_of[kind])
        log_off[kind] = -_softplus(odds_of[kind])
    log_rate_odds = log(rate) - log1p(-rate)
    log_code = np.empty(min(CHUNK, hi - lo))
    for start in range(lo, hi, CHUNK):
        stop = min(start + CHUNK, hi)
        gain = 0.0
        log_joins = 0.0
        for row in range(start, stop):
            inside, outside = counts[row, 0], counts[row, 1]
            log_code[row - start] = (
                inside[0] * log_on[0]
                + inside[1] * log_on[1]
                + (sizes[0] - inside[0] - inside[1]) * log_on[2]
                + outside[0] * log_off[0]
                + outside[1] * log_off[1]
                + (sizes[1] - outside[0] - outside[1]) * log_off[2]
            )
            row_gain = gains[row, 0]
            odds = log_rate_odds + row_gain
            w = row >> 6
            bit = _ONE << np.uint64(row & 63)
            if is_drawn and odds > -SURE:
                if odds > SURE:
                    users[w] |= bit
                else:
                    u = uniform(key, sweep, _RESIDUAL_ROWS, number, np.uint64(row))
                    if u < exp(-_softplus(-odds)):
                        users[w] |= bit
            joins = users[w] & bit != _ZERO
            gain += row_gain if joins else 0.0
            log_joins -= _softplus(-odds if joins else odds)
        largest = -np.inf
        for i in range(stop - start):
            largest = max(largest, log_code[i])
        total = 0.0
        for i in range(stop - start):
            if log_code[i] - largest > -_NOTHING_LEFT:
                total += exp(log_code[i] - largest)
        part = sums[start // CHUNK]
        part[0], part[1], part[2], part[3] = gain, log_joins, largest, total


@jit
def add_up(sums: NDArray[np.float64], n_rows: int) -> tuple[float, float]:
    """Return the gain, and the log probability of code and users, summed over seed rows."""
    gain, log_joins, total = 0.0, 0.0, 0.0
    largest = -np.inf
    for part in sums:
        largest = max(largest, part[2])
    for part in sums:
        gain += part[0]
        log_joins += part[1]
        total += part[3] * exp(part[2] - largest)
    return gain, largest + log(total) - log(n_rows) + log_joins


@inner
def _softplus(x: float) -> float:
    if abs(x) > _NOTHING_LEFT:
        return max(x, 0.0)
    return max(x, 0.0) + log1p(exp(-abs(x)))
