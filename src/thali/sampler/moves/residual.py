# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""Components proposed from what is left of the rows: birth and death, and replacement (eq. 22)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, log1p
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.bits.words import count_ones, pack
from thali.model import PerComponent
from thali.sampler.moves.proposal import CHUNK, log_rate, pick
from thali.streams import Site, uniform
from thali.threads import share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

NOTHING = np.zeros((0, 0), np.uint64)
"""Where all entries are known."""
_SURE = 45.0
"""Log odds beyond which no uniform decides: the smallest is 2^-53."""
_NOTHING_LEFT = 746.0
"""The exponential of less than minus this is zero in floating point."""
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


def residual(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component that looks like what is left of a row, or delete any component (eq. 22)."""
    uniforms = stream.uniforms(Site.RESIDUAL, 4, row=number).tolist()
    n, n_rows = state.n_components, target.tensor.shape[0]
    is_birth, is_rest = uniforms[0] < 0.5, np.ones(n, np.bool_)
    rate = min(0.5, 2.0 / n_rows)
    if is_birth:
        density, seed = new_density(state, target, uniforms[3]), pick(uniforms[1], n_rows)
        rest = _Rest(stream, state, target, number, is_rest, density, rate)
        users, code, score = rest.draw(seed)
    else:
        if n == 0:
            return None
        gone = pick(uniforms[1], n)
        is_rest[gone] = False
        density = float(np.broadcast_to(state.densities[1], n)[gone])
        rest = _Rest(stream, state, target, number, is_rest, density, rate)
        users, code = (factor.words[gone] for factor in state.factors)
        score = rest.weigh(users, code)
    n_users = int(count_ones(users[None])[0])
    if n_users == 0:
        return None
    ratio = log(state.alpha) + log_rate(n_users, n_rows) + score - log(n + is_birth)
    if not log(uniforms[2]) < (ratio if is_birth else -ratio):
        return None
    if is_birth:
        return state.replaced(is_rest, users[None], code[None], np.array([density]))
    return state.take(is_rest)


def replacement(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Put a component that looks like what is left of a row in the place of another.

    The finite model's residual birth and death in one: the number of components stays.
    """
    uniforms = stream.uniforms(Site.RESIDUAL, 3, row=number).tolist()
    n, n_rows = state.n_components, target.tensor.shape[0]
    if n == 0:
        return None
    gone = pick(uniforms[0], n)
    is_rest = np.ones(n, np.bool_)
    is_rest[gone] = False
    rate, density = (float(np.broadcast_to(d, n)[gone]) for d in state.densities)
    rest = _Rest(stream, state, target, number, is_rest, density, rate)
    old_users, old_code = (factor.words[gone] for factor in state.factors)
    users, code, score = rest.draw(pick(uniforms[1], n_rows))
    gained = int(count_ones(users[None])[0]) - int(count_ones(old_users[None])[0])
    ratio = score - rest.weigh(old_users, old_code) + gained * (log(rate) - log1p(-rate))
    if not log(uniforms[2]) < ratio:
        return None
    return state.put(np.array([gone]), users[None], code[None])


@dataclass(frozen=True)
class _Rest:
    """What is left to explain where some components cover, and a component proposed from it."""

    stream: Stream
    state: State
    target: Target
    number: int
    is_rest: NDArray[np.bool_]
    density: float  # of the code
    rate: float  # at which rows join

    def draw(self, seed: int) -> tuple[Words, Words, float]:
        """Draw a code like what is left of a row, and its users; return them and their score."""
        users, codes = (factor.take(self.is_rest).words for factor in self.state.factors)
        ones, known = self.target.tensor.unfoldings[0]
        code = code_like(
            *self.stream, np.uint64(self.number), seed, ones,
            NOTHING if known is None else known, users, codes, self._bit_odds(),
            self.target.tensor.shape[1],
        )  # fmt: skip
        joins = np.zeros(users.shape[1], np.uint64)
        return joins, code, self._weigh(joins, code, is_drawn=True)

    def weigh(self, users: Words, code: Words) -> float:
        """Return log likelihood gained and log prior of the code, less log proposal of both."""
        return self._weigh(users, code, is_drawn=False)

    def _weigh(self, users: Words, code: Words, *, is_drawn: bool) -> float:
        n_rows, n_columns = self.target.tensor.shape
        first, second = self.state.factors
        classes = np.stack([code, _everything(n_columns) & ~code])
        counts = self.target.engine.tally(
            0, (0, n_rows), second.words, first, self.is_rest, classes
        )
        sizes = count_ones(classes)
        sums = np.empty((-(-n_rows // CHUNK), 4))
        share(
            residual_users, n_rows, self.target.engine.threads, *self.stream,
            np.uint64(self.number), is_drawn, users, self.rate, counts, sizes, self._bit_odds(),
            *self.state.noise.rounded_weights(), sums, step=CHUNK,
        )  # fmt: skip
        gain, log_proposal = add_up(sums, n_rows)
        log_code = sizes[0] * log(self.density) + sizes[1] * log1p(-self.density)
        return float(gain + log_code - log_proposal)

    def _bit_odds(self) -> NDArray[np.float64]:
        """Return the log odds that a code has a column: of a free one, a free zero, neither."""
        w1, w0 = self.state.noise.rounded_weights()
        return log(self.density) - log1p(-self.density) + np.array([w1, w0, 0.0])


def new_density(state: State, target: Target, uniform: float) -> float:
    """Return the common density, or draw one for a new component."""
    prior = target.priors.densities[1]
    if isinstance(prior, PerComponent):
        return float(prior.grid[pick(uniform, len(prior.grid))])
    return float(state.densities[1])


@lru_cache(maxsize=16)
def _everything(n_columns: int) -> Words:
    """Return the code that has every column."""
    return pack(np.ones(n_columns, np.bool_))


# --- compiled ----------------------------------------------------------------------------------


@jit
def code_like(
    key: np.uint64, sweep: np.uint64, number: np.uint64, row: int, ones: Words, known: Words,
    users: Words, codes: Words, bit_odds: NDArray[np.float64], n_columns: int,
) -> Words:  # fmt: skip
    """Draw a code from what no component covers in a row."""
    width = codes.shape[1]
    covered = np.zeros(width, np.uint64)
    for component in range(codes.shape[0]):
        if (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE:
            covered |= codes[component]
    rates = 1.0 / (1.0 + np.exp(-bit_odds))
    code = np.zeros(width, np.uint64)
    for column in range(n_columns):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        is_free = covered[w] & bit == _ZERO
        if known.shape[0] > 0:
            is_free = is_free and known[row, w] & bit != _ZERO
        kind = 2
        if is_free:
            kind = 0 if ones[row, w] & bit != _ZERO else 1
        if uniform(key, sweep, _RESIDUAL_CODES, number, np.uint64(column)) < rates[kind]:
            code[w] |= bit
    return code


@jit
def residual_users(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, number: np.uint64, is_drawn: bool,
    users: Words, rate: float, counts: Index, sizes: Index, bit_odds: NDArray[np.float64],
    w1: float, w0: float, sums: NDArray[np.float64],
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
    bit_odds
        Log odds that a proposed code has a column: of a free one, a free zero, neither.
    sums
        Filled for every chunk: what the component gains in likelihood; the log probability of
        these users; and of having proposed the code from each of the rows, the largest log
        probability and the sum of all relative to it.
    """
    log_on = np.empty(3)
    log_off = np.empty(3)
    for kind in range(3):
        log_on[kind] = -_softplus(-bit_odds[kind])
        log_off[kind] = -_softplus(bit_odds[kind])
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
            row_gain = inside[0] * w1 + inside[1] * w0
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
