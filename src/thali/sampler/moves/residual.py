# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Components proposed from what is left of the rows: birth and death, and replacement (eq. 22)."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, log1p
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import count_ones, pack
from thali.engines.base import Cover
from thali.model.rule import log_odds
from thali.sampler.moves.move import Move, new_density
from thali.sampler.moves.proposal import CHUNK, NOTHING, Proposal, log_rate, pick
from thali.sites import ReplacementIndex, ResidualIndex, Site
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.moves.move import Attempt
    from thali.sampler.state import State

N_RESIDUAL, N_REPLACEMENT = len(ResidualIndex), len(ReplacementIndex)
_NO_CLASSES, _NOBODY = np.zeros((0, 0), np.uint64), np.zeros(0, np.int64)
_SURE = 45.0
"""Log odds beyond which no uniform decides: the smallest is 2^-53."""
_NOTHING_LEFT = 746.0
"""The exponential of less than minus this is zero in floating point."""
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


class Residual(Move):
    """Add a component that looks like what is left of a row, or delete any component (eq. 22)."""

    name: ClassVar = "residual"

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw a code like the free entries of a row and who uses it; or one to delete."""
        stream, number, state, target = attempt
        uniforms = stream.uniforms(Site.RESIDUAL, N_RESIDUAL, row=int(number)).tolist()
        n, n_rows = state.n_components, target.shape[0]
        is_birth, rate = uniforms[ResidualIndex.IS_BIRTH] < 0.5, min(0.5, 2.0 / n_rows)
        if is_birth:
            density = new_density(attempt, uniforms[ResidualIndex.DENSITY])
            rest = _Rest(attempt, np.ones(n, np.bool_), density, rate)
            lines, score = rest.draw(pick(uniforms[ResidualIndex.SEED], n_rows))
        else:
            if n == 0:
                return NOTHING
            gone = pick(uniforms[ResidualIndex.VICTIM], n)
            rest, lines = _without(attempt, gone, rate)
            score = rest.weigh(*lines)
        n_users = int(count_ones(lines[0][None])[0])
        if n_users == 0:
            return NOTHING
        ratio = log(state.alpha) + log_rate(n_users, n_rows) + score - log(n + is_birth)
        decision = uniforms[ResidualIndex.DECISION], uniforms[ResidualIndex.DENSITY]
        if is_birth:
            return _proposal(_NOBODY, lines, ratio, decision)
        return _proposal(np.array([gone]), (), -ratio, decision)

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Decide by the ratio; append the new component, or drop the old one."""
        state = attempt.state
        decision, to_density, _ = proposal.uniforms
        if not log(decision) < proposal.log_ratio:
            return None
        if len(proposal.concerned) == 0:
            density = new_density(attempt, to_density)
            return state.append(proposal.lines, np.array([density]))
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[proposal.concerned] = False
        return state.take(is_rest)


class Replacement(Move):
    """Put a component that looks like what is left of a row in the place of another.

    The finite model's residual birth and death in one: the number of components stays.
    """

    name: ClassVar = "residual"

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw what takes the place of which component."""
        stream, number, state, target = attempt
        uniforms = stream.uniforms(Site.RESIDUAL, N_REPLACEMENT, row=int(number)).tolist()
        n, n_rows = state.n_components, target.shape[0]
        if n == 0:
            return NOTHING
        gone = pick(uniforms[ReplacementIndex.VICTIM], n)
        rate = _one_of(state.densities[0], gone)
        rest, old = _without(attempt, gone, rate)
        lines, score = rest.draw(pick(uniforms[ReplacementIndex.SEED], n_rows))
        gained = int(count_ones(lines[0][None])[0]) - int(count_ones(old[0][None])[0])
        ratio = score - rest.weigh(*old) + gained * (log(rate) - log1p(-rate))
        decision = uniforms[ReplacementIndex.DECISION], 0.0
        return _proposal(np.array([gone]), lines, ratio, decision)

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Decide by the ratio; put the new component in the place of the old one."""
        if not log(proposal.uniforms[0]) < proposal.log_ratio:
            return None
        return attempt.state.put(proposal.concerned, proposal.lines)


RESIDUAL = Residual()
REPLACEMENT = Replacement()


def _without(attempt: Attempt, gone: int, rate: float) -> tuple[_Rest, tuple[Words, ...]]:
    """Return what is left to explain without a component, and that component."""
    state = attempt.state
    is_rest = np.ones(state.n_components, np.bool_)
    is_rest[gone] = False
    (density,) = state.densities[1:]
    lines = tuple(factor.words[gone] for factor in state.factors)
    return _Rest(attempt, is_rest, _one_of(density, gone), rate), lines


def _one_of(density: NDArray[np.float64], component: int) -> float:
    """Return the density of a component, which may be that of all."""
    return float(density if density.ndim == 0 else density[component])


def _proposal(
    concerned: Index, lines: tuple[Words, ...], log_ratio: float, decision: tuple[float, float]
) -> Proposal:
    """Return the proposal of one new component, or of none, in the place of one, or of none."""
    after = tuple([line[None] for line in lines])
    uniforms = (*decision, 0.0)
    return Proposal(True, concerned, after, log_ratio, uniforms, _NO_CLASSES, _NOBODY, _NOBODY)


class _Rest(NamedTuple):
    """What is left to explain where some components cover, and a component proposed from it."""

    attempt: Attempt
    is_rest: NDArray[np.bool_]
    density: float  # of the code
    rate: float  # at which rows join

    def draw(self, seed: int) -> tuple[tuple[Words, Words], float]:
        """Draw a code like what is left of a row, and its users; return them and their score."""
        stream, number, state, target = self.attempt
        users, codes = state.factors
        cover = Cover(codes, users, self.is_rest)
        free, ones = target.engine.free_in_window(np.array([seed]), slice(None), cover)
        code = code_like(*stream, number, free[0], ones[0], self._odds(), codes.n_rows)
        joins = np.zeros(users.words.shape[1], np.uint64)
        return (joins, code), self._weigh(joins, code, is_drawn=True)

    def weigh(self, users: Words, code: Words) -> float:
        """Return log likelihood gained and log prior of the code, less log proposal of both."""
        return self._weigh(users, code, is_drawn=False)

    def _weigh(self, joins: Words, code: Words, *, is_drawn: bool) -> float:
        stream, number, state, target = self.attempt
        users, codes = state.factors
        n_rows = users.n_rows
        classes = np.empty((2, len(code)), np.uint64)
        classes[0] = code
        np.bitwise_xor(_everything(codes.n_rows), code, out=classes[1])  # all other columns
        cover = Cover(codes, users, self.is_rest)
        counts = target.engine.count_by_class(0, (0, n_rows), cover, classes)
        sizes = count_ones(classes)
        sums = np.empty((-(-n_rows // CHUNK), 4))
        target.engine.over_rows(
            residual_users, n_rows, *stream, number, is_drawn, joins, self.rate, counts, sizes,
            self._odds(), sums, step=CHUNK,
        )  # fmt: skip
        gain, log_proposal = add_up(sums, n_rows)
        log_code = sizes[0] * log(self.density) + sizes[1] * log1p(-self.density)
        return float(gain + log_code - log_proposal)

    def _odds(self) -> NDArray[np.float64]:
        """Return the log odds that a code has a column, and what covering an entry gains.

        Of a column that is a free one, a free zero, neither; then of a one, of a zero.
        """
        w1, w0 = self.attempt.state.noise.rounded_weights()
        plain = log(self.density) - log1p(-self.density)
        return np.array([plain + w1, plain + w0, plain, w1, w0])


@lru_cache(maxsize=16)
def _everything(n_columns: int) -> Words:
    """Return the code that has every column."""
    return pack(np.ones(n_columns, np.bool_))


# --- compiled ----------------------------------------------------------------------------------


@jit
def code_like(
    key: np.uint64, sweep: np.uint64, number: np.uint64, free: Words, ones: Words,
    odds_of: NDArray[np.float64], n_columns: int,
) -> Words:  # fmt: skip
    """Draw a code from what no component covers in a row."""
    rates = 1.0 / (1.0 + np.exp(-odds_of[:3]))
    code = np.zeros(free.shape[0], np.uint64)
    for column in range(n_columns):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        kind = 2
        if free[w] & bit != _ZERO:
            kind = 0 if ones[w] & bit != _ZERO else 1
        if uniform(key, sweep, _RESIDUAL_CODES, number, np.uint64(column)) < rates[kind]:
            code[w] |= bit
    return code


@jit
def residual_users(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool,
    users: Words, rate: float, counts: Index, sizes: Index, odds_of: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Draw who uses a component with a proposed code in a range of rows, or weigh those who do.

    Parameters
    ----------
    lo, hi
        The range; it starts with a chunk.
    users
        One line of words; filled if they are to be drawn.
    rate
        Probability to join where there is nothing to gain.
    counts
        ``(n_rows, 2, 2)``: free ones and zeros of every row inside and outside the code.
    sizes
        Columns inside and outside.
    odds_of
        Log odds that a proposed code has a column: of a free one, a free zero, neither; then what
        covering a one and a zero gains.
    sums
        Filled for every chunk: what the component gains in likelihood; the log probability of
        these users; and of having proposed the code from each of the rows, the largest log
        probability and the sum of all relative to it.
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
            row_gain = log_odds(0.0, odds_of[3], odds_of[4], inside[0], inside[1])
            odds = log_rate_odds + row_gain
            w = row >> 6
            bit = _ONE << np.uint64(row & 63)
            if is_drawn and odds > -_SURE:
                if odds > _SURE:
                    users[w] |= bit
                else:
                    u = uniform(key, sweep, _RESIDUAL_ROWS, number, np.uint64(row))
                    if u < exp(-_softplus(-odds)):
                        users[w] |= bit
            joins = users[w] & bit != _ZERO
            gain += row_gain if joins else 0.0
            log_joins -= _softplus(-odds if joins else odds)
        largest = log_code[: stop - start].max()
        total = 0.0
        for i in range(stop - start):
            if log_code[i] - largest > -_NOTHING_LEFT:
                total += exp(log_code[i] - largest)
        sums[start // CHUNK] = gain, log_joins, largest, total


@jit
def add_up(sums: NDArray[np.float64], n_rows: int) -> tuple[float, float]:
    """Return the gain, and the log probability of code and users, whichever row was the seed."""
    gain, log_joins, total = 0.0, 0.0, 0.0
    largest = sums[:, 2].max()
    for part in sums:
        gain += part[0]
        log_joins += part[1]
        total += part[3] * exp(part[2] - largest)
    return gain, largest + log(total) - log(n_rows) + log_joins


@jit
def _softplus(x: float) -> float:
    if abs(x) > _NOTHING_LEFT:
        return max(x, 0.0)
    return max(x, 0.0) + log1p(exp(-abs(x)))
