"""Birth, death and replacement of components proposed from uncovered entries (eq. 22)."""

from __future__ import annotations

from functools import lru_cache
from math import inf, log, log1p
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from thali.bits.words import WORD, count_ones, pack
from thali.engines.base import GAIN_SCALE, Cover
from thali.sampler.gains import gains_by_set, gains_of
from thali.sampler.moves.move import Move, new_density
from thali.sampler.moves.proposal import CHUNK, NOTHING, STEP, Proposal, pick
from thali.sampler.moves.residual_kernels import (
    SURE,
    add_up,
    birth_ratio,
    component_score,
    draw_code,
    odds_of,
    replacement_ratio,
    residual_users,
)
from thali.sites import ReplacementIndex, ResidualIndex, Site
from thali.streams import read_uniforms_at

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look
    from thali.sampler.state import State

N_RESIDUAL, N_REPLACEMENT = len(ResidualIndex), len(ReplacementIndex)
_NO_CLASSES, _NOBODY = np.zeros((0, 0), np.uint64), np.zeros(0, np.int64)

_MOST_LIKELY = 256
"""Number of rows that may join a code, up to which a try can be looked at."""
_FAR = SURE + 1.0
"""Log odds below minus which no row joins, however they are rounded."""
_CLOSE = 1e-6
"""What is closer than this part of all that was added up is left to the move itself."""


class Residual(Move):
    """Add a component that resembles the uncovered entries of a row, or delete one (eq. 22)."""

    name: ClassVar = "residual"

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw a code like the uncovered entries of a row, and its users; or one to delete."""
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
        ratio = birth_ratio(state.alpha, n_users, n_rows, score, n + is_birth)
        decision = uniforms[ResidualIndex.DECISION], uniforms[ResidualIndex.DENSITY]
        if is_birth:
            return _proposal(_NOBODY, lines, ratio, decision)
        return _proposal(np.array([gone]), (), -ratio, decision)

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether even a bound of the ratio rejects the try."""
        stream, number, state, target = attempt
        uniforms = stream.uniforms(Site.RESIDUAL, N_RESIDUAL, row=int(number)).tolist()
        n, n_rows = state.n_components, target.shape[0]
        rate, log_u = min(0.5, 2.0 / n_rows), log(uniforms[ResidualIndex.DECISION])
        if uniforms[ResidualIndex.IS_BIRTH] < 0.5:
            density = new_density(attempt, uniforms[ResidualIndex.DENSITY])
            rest = _Rest(attempt, np.ones(n, np.bool_), density, rate)
            seed = pick(uniforms[ResidualIndex.SEED], n_rows)
            n_users, score = yield from rest.most(rows, seed)
            if n_users == 0 or score == inf:
                return n_users == 0
            return bool(log_u >= birth_ratio(state.alpha, n_users, n_rows, score, n + 1))
        if n == 0:
            return True
        gone = pick(uniforms[ResidualIndex.VICTIM], n)
        score = yield from _rest_without(attempt, gone, rate).least(rows, gone)
        return bool(log_u >= -birth_ratio(state.alpha, int(rows.sizes[gone]), n_rows, score, n))

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Accept or reject; append the new component, or drop the deleted one."""
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
    """Replace a component by one that resembles the uncovered entries of a row.

    It joins residual birth and death for a fixed number of components.
    """

    name: ClassVar = "residual"

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw the component to replace, and the one that replaces it."""
        if attempt.state.n_components == 0:
            return NOTHING
        uniforms, gone, rate, seed = self._choose(attempt)
        rest, old = _without(attempt, gone, rate)
        lines, score = rest.draw(seed)
        gained = int(count_ones(lines[0][None])[0]) - int(count_ones(old[0][None])[0])
        ratio = replacement_ratio(score, rest.weigh(*old), gained, rate)
        decision = uniforms[ReplacementIndex.DECISION], 0.0
        return _proposal(np.array([gone]), lines, ratio, decision)

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether even a bound of the ratio rejects the try."""
        if attempt.state.n_components == 0:
            return True
        uniforms, gone, rate, seed = self._choose(attempt)
        rest = _rest_without(attempt, gone, rate)
        n_users, score = yield from rest.most(rows, seed)
        if score == inf:
            return False
        back = yield from rest.least(rows, gone)
        bound = replacement_ratio(score, back, n_users - int(rows.sizes[gone]), rate)
        return bool(log(uniforms[ReplacementIndex.DECISION]) >= bound)

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Accept or reject; replace the old component by the new one."""
        if not log(proposal.uniforms[0]) < proposal.log_ratio:
            return None
        return attempt.state.put(proposal.concerned, proposal.lines)

    @staticmethod
    def _choose(attempt: Attempt) -> tuple[list[float], int, float, int]:
        """Return the random numbers of a try, the component that goes, its rate, and the row."""
        stream, number, state, target = attempt
        uniforms = stream.uniforms(Site.RESIDUAL, N_REPLACEMENT, row=int(number)).tolist()
        gone = pick(uniforms[ReplacementIndex.VICTIM], state.n_components)
        seed = pick(uniforms[ReplacementIndex.SEED], target.shape[0])
        return uniforms, gone, _one_of(state.densities[0], gone), seed


RESIDUAL = Residual()
REPLACEMENT = Replacement()


def _without(attempt: Attempt, gone: int, rate: float) -> tuple[_Rest, tuple[Words, ...]]:
    """Return the entries that are uncovered without a component, and that component."""
    lines = tuple(factor.words[gone] for factor in attempt.state.factors)
    return _rest_without(attempt, gone, rate), lines


def _rest_without(attempt: Attempt, gone: int, rate: float) -> _Rest:
    """Return the entries that are uncovered without a component."""
    state = attempt.state
    is_rest = np.ones(state.n_components, np.bool_)
    is_rest[gone] = False
    (density,) = state.densities[1:]
    return _Rest(attempt, is_rest, _one_of(density, gone), rate)


def _one_of(density: NDArray[np.float64], component: int) -> float:
    """Return the density of a component, which may be shared by all."""
    return float(density if density.ndim == 0 else density[component])


def _proposal(
    concerned: Index, lines: tuple[Words, ...], log_ratio: float, decision: tuple[float, float]
) -> Proposal:
    """Return the proposal that replaces no or one component by no or one new component."""
    after = tuple([line[None] for line in lines])
    uniforms = (*decision, 0.0)
    return Proposal(True, concerned, after, log_ratio, uniforms, _NO_CLASSES, _NOBODY, _NOBODY)


class _Rest(NamedTuple):
    """The entries that some components leave uncovered, and components proposed from them."""

    attempt: Attempt
    is_rest: NDArray[np.bool_]
    density: float  # density of the code
    rate: float  # prior probability that a row joins

    def draw(self, seed: int) -> tuple[tuple[Words, ...], float]:
        """Draw a code like the uncovered entries of a row, and its users; compute their score."""
        code, *_ = self._code_like(seed)
        joins = np.zeros(self.attempt.state.factors[0].words.shape[1], np.uint64)
        return (joins, code), self._weigh(joins, code, is_drawn=True)

    def _code_like(self, seed: int) -> tuple[Words, Words, Words]:
        """Draw a code like the uncovered entries of a row; return it, these, and the ones."""
        stream, number, state, target = self.attempt
        users, codes = state.factors
        cover = Cover(codes, users, self.is_rest)
        free, ones = target.engine.free_in_window(np.array([seed]), slice(None), cover)
        code = np.zeros_like(free[0])
        target.engine.over_rows(
            draw_code, codes.n_rows, *stream, number, free[0], ones[0], self._odds(), code,
            step=STEP, made=((code, WORD),),
        )  # fmt: skip
        return code, free[0], ones[0]

    def most(self, rows: RowSets, seed: int) -> Generator[Any, NDArray[Any], tuple[int, float]]:
        """Return how many users :meth:`draw` draws, and a number that its score does not exceed.

        Of all rows from which the code could have been proposed, only the one that it was proposed
        from is looked at. The number is infinite if this is not known.
        """
        stream, number, state, _ = self.attempt
        users, codes = state.factors
        code, free, ones = self._code_like(seed)
        cover, weights = Cover(codes, users, self.is_rest), state.noise.rounded_weights()
        plain = log(self.rate) - log1p(-self.rate)
        found = yield rows.gains_of_rows(code, cover, weights, None, -_FAR - plain, _MOST_LIKELY)
        n = int(found[2])
        if n > _MOST_LIKELY:
            return -1, inf
        gains = found[3 + _MOST_LIKELY :][:n].view(np.float64)
        uniforms = read_uniforms_at(
            *stream, np.uint64(Site.RESIDUAL_ROWS), number, np.ascontiguousarray(found[3 : 3 + n])
        )
        odds = plain + gains
        joins = uniforms < expit(odds)
        if np.any(np.abs(uniforms - expit(odds)) < _CLOSE):
            return -1, inf
        log_joins = float(log_expit(np.where(joins, odds, -odds)).sum())
        everything = _everything(codes.n_rows)
        kinds = np.stack([free & ones, free & ~ones, everything & ~free])
        inside, outside = count_ones(kinds & code), count_ones(kinds & ~code)
        of_code = self._odds()
        log_code = float(inside @ log_expit(of_code) + outside @ log_expit(-of_code))
        gain, sizes = float(gains[joins].sum()), np.array([inside.sum(), outside.sum()])
        log_proposal = log_code - log(users.n_rows) + log_joins
        score = float(component_score(gain, sizes, self.density, log_proposal))
        scale = np.abs(gains).sum() + abs(score) + abs(log_proposal) + abs(gain)
        return int(joins.sum()), score + _CLOSE * scale + 1.0

    def least(self, rows: RowSets, component: int) -> Generator[Any, NDArray[Any], float]:
        """Return a number that the score of a component exceeds.

        The log probability of its proposal, which is below zero, is taken as zero.
        """
        users, codes = self.attempt.state.factors
        code, weights = codes.words[component], self.attempt.state.noise.rounded_weights()
        cover = Cover(codes, users, self.is_rest)
        found = yield rows.gains_of_rows(code, cover, weights, rows.users(component), inf, 0)
        gain, scale = float(found[0]) / GAIN_SCALE, float(found[1]) / GAIN_SCALE
        size = int(count_ones(code[None])[0])
        sizes = np.array([size, codes.n_rows - size])
        score = float(component_score(gain, sizes, self.density, 0.0))
        rounded = users.n_rows / GAIN_SCALE  # by which sums of rounded gains may be wrong
        return score - _CLOSE * (scale + abs(score)) - rounded - 1.0

    def weigh(self, users: Words, code: Words) -> float:
        """Return the log likelihood gained plus log prior of the code minus log proposal."""
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
        weights = state.noise.rounded_weights()
        if weights.has_classes:
            gains = gains_by_set(target, weights, 0, (0, n_rows), cover, classes[:1])
        else:
            gains = gains_of(counts[:, :1], weights)
        sizes = count_ones(classes)
        sums = np.empty((-(-n_rows // CHUNK), 4))
        target.engine.over_rows(
            residual_users, n_rows, *stream, number, is_drawn, joins, self.rate, gains, counts,
            sizes, self._odds(), sums, step=CHUNK,
            made=((sums, CHUNK), (joins, WORD)) if is_drawn else ((sums, CHUNK),),
        )  # fmt: skip
        gain, log_proposal = add_up(sums, n_rows)
        return float(component_score(gain, sizes, self.density, log_proposal))

    def _odds(self) -> NDArray[np.float64]:
        """Return the log odds with which a code contains a column."""
        odds: NDArray[np.float64] = odds_of(self.density, self.attempt.state.noise.typical)
        return odds


@lru_cache(maxsize=16)
def _everything(n_columns: int) -> Words:
    """Return the code that contains every column."""
    return pack(np.ones(n_columns, np.bool_))
