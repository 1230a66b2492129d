# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
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
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from thali._jit import jit
from thali.bits.words import first_bit
from thali.engines.base import Cover
from thali.engines.cpu.births import draw_codes
from thali.model.births import birth_tables
from thali.model.rule import log_odds
from thali.sampler.moves.move import Move
from thali.sampler.moves.proposal import NOTHING, Proposal, impossible, pick, size_of
from thali.sites import OwnComponentIndex, Site
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.moves.move import Attempt
    from thali.sampler.state import State

Choice: TypeAlias = Any  # of choose_row: is_birth, own, drawn, odds
Setting: TypeAlias = tuple[float, float, float, float]

MOST_ENTRIES = 8
"""Entries drawn together: all combinations are weighed."""

_WORDS = 16
"""Words of columns that may rule a try out before all are looked at."""

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SITE = np.uint64(Site.OWN_COMPONENT)
_SITE_ORDER = np.uint64(Site.OWN_COMPONENT_ORDER)
_IS_BIRTH = np.uint64(OwnComponentIndex.IS_BIRTH)
_ROW = np.uint64(OwnComponentIndex.ROW)  # or the component that goes
_DECISION = np.uint64(OwnComponentIndex.DECISION)
_ENTRIES = np.uint64(OwnComponentIndex.ENTRIES)
_WINDOW = np.uint64(OwnComponentIndex.WINDOW)
_FIRST_DECISION = np.uint64(OwnComponentIndex.FIRST_DECISION)
_BEYOND = 1 << 31  # of all rows: where the random numbers of codes drawn here begin, a try a row


class OwnComponent(Move):
    """Delete a component with one user, or give a row one more."""

    name: ClassVar = "reseat"

    def propose(self, attempt: Attempt) -> Proposal:
        """Choose a row, and draw its other entries given one more or one less of its own."""
        stream, number, state, target = attempt
        users, codes = state.factors
        row, is_rest, *choice = choose_row(*stream, number, users.words, users.n_rows)
        if row < 0:
            return NOTHING
        cover = Cover(codes, users, is_rest)
        free, ones = target.engine.free_in_window(np.array([row]), slice(None), cover)
        (density,) = state.densities[1:]
        setting = (state.alpha, float(density), *state.noise.rounded_weights())
        return draw_entries(
            *stream,
            number,
            row,
            tuple(choice),
            users.words,
            codes.words,
            free[0],
            ones[0],
            setting,
        )

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Decide by the ratio; then draw the codes of the row's own components together."""
        stream, number, state, target = attempt
        if not log(proposal.uniforms[0]) < proposal.log_ratio:
            return None
        n_drawn = len(proposal.after)
        drawn, own = proposal.concerned[:n_drawn], proposal.concerned[n_drawn:]
        lines = proposal.lines[0]
        rest = state.with_factor(0, state.factors[0].put(drawn, lines[:n_drawn]))
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[own] = False
        rest = rest.take(is_rest)
        new = lines[n_drawn:]
        users, codes = rest.factors
        new_codes = np.zeros((len(new), codes.words.shape[1]), np.uint64)
        if len(new):
            (density,) = state.densities[1:]
            row = first_bit(new[0])
            cover = Cover(codes, users, np.ones(rest.n_components, np.bool_))
            free, ones = target.engine.free_in_window(np.array([row]), slice(None), cover)
            tables = birth_tables(
                state.alpha / users.n_rows, float(density), state.noise,
                target.totals.most_ones, state.n_components + 1,
            )  # fmt: skip
            cover_, first, plain = (table[0] for table in tables.code)
            draw_codes(
                ones[0], ~free[0], codes.n_rows, len(new), cover_, first, plain, *stream,
                np.uint64(_BEYOND) + number, new_codes,
            )  # fmt: skip
        return rest.append((new, new_codes))


OWN_COMPONENT = OwnComponent()


@jit
def choose_row(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int
) -> tuple[int, NDArray[np.bool_], bool, Index, Index, NDArray[np.float64]]:
    """Draw a row, and which of its entries are drawn together.

    Returns
    -------
    row
        -1 if nothing can be tried.
    is_rest
        Components that other rows use, too, and whose entry stays.
    is_birth, own, drawn, odds
        Whether the row gets one more of its own; the components that only this row uses; those
        whose entry is drawn, and the prior log odds of these entries.
    """
    n = users.shape[0]
    is_rest = np.zeros(n, np.bool_)
    nobody = np.zeros(0, np.int64)
    is_birth = uniform(key, sweep, _SITE, number, _IS_BIRTH) < 0.5
    u = uniform(key, sweep, _SITE, number, _ROW)
    others = np.empty(n, np.int64)  # users of each component but the row
    row = pick(u, n_rows) if is_birth else -1
    for component in range(n):
        others[component] = size_of(users[component])
    if not is_birth:
        gone = pick(u, n)
        if n == 0 or others[gone] != 1:
            return -1, is_rest, is_birth, nobody, nobody, np.zeros(0)
        row = first_bit(users[gone])
    w = row >> 6
    bit = _ONE << np.uint64(row & 63)
    n_own = 0
    n_shared = 0
    own = np.empty(n, np.int64)
    shared = np.empty(n, np.int64)
    for component in range(n):
        others[component] -= users[component, w] & bit != _ZERO
        if others[component] == 0:
            own[n_own] = component
            n_own += 1
        else:
            is_rest[component] = True
            shared[n_shared] = component
            n_shared += 1
    n_drawn = min(n_shared, MOST_ENTRIES)
    odds = np.empty(n_drawn)
    for i in range(n_drawn):  # a random choice that does not depend on the row's entries
        v = uniform(key, sweep, _SITE_ORDER, number, np.uint64(i))
        j = i + pick(v, n_shared - i)
        shared[i], shared[j] = shared[j], shared[i]
        is_rest[shared[i]] = False
        odds[i] = log(others[shared[i]]) - log(n_rows - others[shared[i]])
    return row, is_rest, is_birth, own[:n_own], shared[:n_drawn], odds


@jit
def draw_entries(
    key: np.uint64, sweep: np.uint64, number: np.uint64, row: int, choice: Choice, users: Words,
    codes: Words, free: Words, ones: Words, setting: Setting,
) -> Proposal:  # fmt: skip
    """Weigh all combinations of the entries before and after, and draw one of those after.

    ``choice`` comes from :func:`choose_row`; ``setting`` are alpha, the density of codes, and what
    covering a one and a zero gains.
    """
    is_birth, own, drawn, _ = choice
    n, width = codes.shape
    n_own, n_drawn = own.shape[0], drawn.shape[0]
    n_after = n_own + 1 if is_birth else n_own - 1
    gains = np.zeros((1 << n_drawn, 2))
    part = 0.0
    if width > 2 * _WORDS:  # two decisions, as in move.py: most tries are hopeless
        start = pick(uniform(key, sweep, _SITE, number, _WINDOW), width - _WORDS + 1)
        _weigh(ones, free, start, start + _WORDS, codes, choice, setting, n_after, gains)
        part = _log_sum(gains[:, 1]) - _log_sum(gains[:, 0])
        if not log(uniform(key, sweep, _SITE, number, _FIRST_DECISION)) < part:
            return impossible(users)
    _weigh(ones, free, 0, width, codes, choice, setting, n_after, gains)
    log_before, log_after = _log_sum(gains[:, 0]), _log_sum(gains[:, 1])
    log_ratio = log_after - log_before - part
    alpha = setting[0]
    log_ratio += log(alpha) - log(n + 1) if is_birth else log(n) - log(alpha)
    left = uniform(key, sweep, _SITE, number, _ENTRIES)
    chosen = 0
    while chosen < gains.shape[0] - 1:
        left -= exp(gains[chosen, 1] - log_after)
        if left < 0.0:
            break
        chosen += 1
    w = row >> 6
    bit = _ONE << np.uint64(row & 63)
    lines = np.zeros((n_drawn + n_after, users.shape[1]), np.uint64)
    for i in range(n_drawn):
        lines[i] = users[drawn[i]]
        if (chosen >> i) & 1:
            lines[i, w] |= bit
        else:
            lines[i, w] &= ~bit
    for i in range(n_drawn, n_drawn + n_after):
        lines[i, w] = bit
    concerned = np.concatenate((drawn, own))
    uniforms = np.array([uniform(key, sweep, _SITE, number, _DECISION)])
    return Proposal(True, concerned, (lines,), log_ratio, uniforms, users[:0].copy(), own, drawn)


@jit
def _weigh(
    ones: Words, free: Words, start: int, stop: int, codes: Words, choice: Choice,
    setting: Setting, n_after: int, out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Weigh every combination of entries by some words of columns, before and after."""
    _, own, drawn, odds = choice
    _, density, w1, w0 = setting
    n_before, n_drawn = own.shape[0], drawn.shape[0]
    n = 1 << n_drawn
    uncovered = np.zeros((n, 2), np.int64)  # columns by who could cover them: ones, zeros
    for w in range(start, stop):
        left = free[w]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            left ^= bit
            who = 0
            for i in range(n_drawn):
                if codes[drawn[i], w] & bit != _ZERO:
                    who |= 1 << i
            uncovered[who, 0 if ones[w] & bit != _ZERO else 1] += 1
    for i in range(n_drawn):  # now: columns that nobody outside a set could cover
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
        score = log_odds(0.0, w1, w0, all_ones - n_ones, all_zeros - n_zeros)
        for i in range(n_drawn):
            if (entries >> i) & 1:
                score += odds[i]
        for j in range(2):
            out[entries, j] = log_odds(score, log_one[j], log_zero[j], n_ones, n_zeros)


@jit
def _log_sum(scores: NDArray[np.float64]) -> float:
    largest = scores.max()
    total = 0.0
    for score in scores:
        total += exp(score - largest)
    return largest + log(total)
