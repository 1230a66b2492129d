"""Birth, death and replacement of components proposed from uncovered entries (eq. 22)."""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from thali.bits.words import WORD, count_ones, pack
from thali.engines.base import Cover
from thali.sampler.gains import gains_by_set, gains_of
from thali.sampler.moves.move import Move, new_density
from thali.sampler.moves.proposal import CHUNK, NOTHING, STEP, Proposal, pick
from thali.sampler.moves.residual_kernels import (
    add_up,
    birth_ratio,
    component_score,
    draw_code,
    odds_of,
    replacement_ratio,
    residual_users,
)
from thali.sites import ReplacementIndex, ResidualIndex, Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.moves.move import Attempt
    from thali.sampler.state import State

N_RESIDUAL, N_REPLACEMENT = len(ResidualIndex), len(ReplacementIndex)
_NO_CLASSES, _NOBODY = np.zeros((0, 0), np.uint64), np.zeros(0, np.int64)


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
        ratio = replacement_ratio(score, rest.weigh(*old), gained, rate)
        decision = uniforms[ReplacementIndex.DECISION], 0.0
        return _proposal(np.array([gone]), lines, ratio, decision)

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Accept or reject; replace the old component by the new one."""
        if not log(proposal.uniforms[0]) < proposal.log_ratio:
            return None
        return attempt.state.put(proposal.concerned, proposal.lines)


RESIDUAL = Residual()
REPLACEMENT = Replacement()


def _without(attempt: Attempt, gone: int, rate: float) -> tuple[_Rest, tuple[Words, ...]]:
    """Return the entries that are uncovered without a component, and that component."""
    state = attempt.state
    is_rest = np.ones(state.n_components, np.bool_)
    is_rest[gone] = False
    (density,) = state.densities[1:]
    lines = tuple(factor.words[gone] for factor in state.factors)
    return _Rest(attempt, is_rest, _one_of(density, gone), rate), lines


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
        stream, number, state, target = self.attempt
        users, codes = state.factors
        cover = Cover(codes, users, self.is_rest)
        free, ones = target.engine.free_in_window(np.array([seed]), slice(None), cover)
        code = np.zeros_like(free[0])
        target.engine.over_rows(
            draw_code, codes.n_rows, *stream, number, free[0], ones[0], self._odds(), code,
            step=STEP, made=((code, WORD),),
        )  # fmt: skip
        joins = np.zeros(users.words.shape[1], np.uint64)
        return (joins, code), self._weigh(joins, code, is_drawn=True)

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
