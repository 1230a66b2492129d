# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""Replace a component that only one row uses by other components, or the other way round.

A row that uses several components can also be described by a component of its own, which even fits
its errors. Such a state is less probable, but the row cannot leave it entry by entry: as long as
the row has its own component, the others explain little, and as long as it does not have the
others, its own component is needed. This move changes the number of a row's own components by
one, and redraws up to eight of its other entries together by weighing all their combinations. Let
S_k be the sum of the weights if the row has k components of its own (with codes summed out,
eq. 8). The death of one is accepted with probability min(1, S_(k-1) / S_k * L / alpha):
k / (alpha / N) is the ratio of the Poisson probabilities, and (1 / N) / (k / L) the ratio of the
proposal probabilities.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line, first_bit, popcount
from thali.engines.base import Cover
from thali.engines.cpu.births import draw_codes
from thali.engines.cpu.count_by_class import list_free_in_window
from thali.model.births import birth_tables
from thali.sampler.moves.move import Move
from thali.sampler.moves.proposal import Proposal, impossible, pick, size_of
from thali.sites import OwnComponentIndex, Site
from thali.streams import read_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index, Words
    from thali.engines.cpu.arrays import Near
    from thali.model import Weights
    from thali.sampler.moves.move import Attempt
    from thali.sampler.state import State

MOST_ENTRIES = 8
"""Largest number of entries that are drawn together; all their combinations are weighed."""

_WORDS = 16
"""Number of words of a first decision, which may reject a try before all are examined."""

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_START = np.int64(0)  # a plain zero would be a type of its own
_SITE = np.uint64(Site.OWN_COMPONENT)
_SITE_ORDER = np.uint64(Site.OWN_COMPONENT_ORDER)
_IS_BIRTH = np.uint64(OwnComponentIndex.IS_BIRTH)
_ROW = np.uint64(OwnComponentIndex.ROW)  # or the component to delete
_DECISION = np.uint64(OwnComponentIndex.DECISION)
_ENTRIES = np.uint64(OwnComponentIndex.ENTRIES)
_WINDOW = np.uint64(OwnComponentIndex.WINDOW)
_FIRST_DECISION = np.uint64(OwnComponentIndex.FIRST_DECISION)
_BEYOND = 1 << 31  # row address of the codes of try 0, beyond all rows; one per try


class OwnComponent(Move):
    """Delete a component that only one row uses, or give a row one more of its own."""

    name: ClassVar = "reseat"

    def propose(self, attempt: Attempt) -> Proposal:
        """Choose a row, and which of its other entries are summed out and redrawn."""
        stream, number, state, _ = attempt
        users = state.factors[0]
        return choose_row(*stream, number, users.words, users.n_rows, state.alpha)

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Weigh the entries before and after; then draw them and the codes of own components."""
        stream, number, state, _ = attempt
        users, codes = state.factors
        (density,) = state.densities[1:]
        row = first_bit(proposal.classes[0])
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[proposal.concerned] = False
        free, ones = _free(attempt, codes, users, is_rest, row)
        drawn, own = proposal.after, proposal.before
        n_own = len(own) + (
            1 if proposal.uniforms[1] < 0.5 else -1
        )  # one more (birth) or one fewer (death)
        weights, of_columns = _weights_of_row(state.noise.rounded_weights(), row)
        gain, chosen = weigh_entries(
            *stream, number, row, drawn, len(own), n_own, users.words, codes.words, free, ones,
            users.n_rows, float(density), weights[:, 0], of_columns,
        )  # fmt: skip
        if not log(proposal.uniforms[0]) < gain + proposal.log_ratio:
            return None
        lines = users.words[drawn]
        w, bit = row >> 6, _ONE << np.uint64(row & 63)
        is_on = (chosen >> np.arange(len(drawn))) & 1 == 1
        lines[is_on, w] |= bit
        lines[~is_on, w] &= ~bit
        is_rest[drawn] = True
        rest = state.with_factor(0, users.put(drawn, lines)).take(is_rest)
        return rest.append(self._own(attempt, rest, row, n_own))

    def _own(self, attempt: Attempt, rest: State, row: int, n_own: int) -> tuple[Words, Words]:
        """Draw the codes of all own components of a row together; return users and codes."""
        stream, number, state, target = attempt
        users, codes = rest.factors
        new = np.zeros((n_own, users.words.shape[1]), np.uint64)
        new_codes = np.zeros((n_own, codes.words.shape[1]), np.uint64)
        if n_own:
            new[:, row >> 6] = _ONE << np.uint64(row & 63)
            is_counted = np.ones(rest.n_components, np.bool_)
            free, ones = _free(attempt, codes, users, is_counted, row)
            (density,) = state.densities[1:]
            tables = birth_tables(
                state.alpha / users.n_rows, float(density), state.noise,
                target.totals.most_ones, state.n_components + 1,
            )  # fmt: skip
            cover, first, plain = (table[0] for table in tables.code)
            weights = tables.weights
            of_row = 0 if weights.rows is None else weights.rows[row]
            draw_codes(
                ones, ~free, codes.n_rows, n_own, _weights_of_row(weights, row)[1],
                cover[of_row], first, plain, *stream, np.uint64(_BEYOND) + number, new_codes,
            )  # fmt: skip
        return new, new_codes


OWN_COMPONENT = OwnComponent()


def _free(
    attempt: Attempt, codes: Factor, users: Factor, is_counted: NDArray[np.bool_], row: int
) -> tuple[Words, Words]:
    """Return the entries of a row that the counted components do not cover, and its ones."""
    cover = Cover(codes, users, is_counted)
    free, ones = attempt.target.engine.free_in_window(np.array([row]), slice(None), cover)
    return free[0], ones[0]


_NO_CLASSES = np.zeros(0, np.int64)


def _weights_of_row(weights: Weights, row: int) -> tuple[NDArray[np.float64], Index]:
    """Return the weights of a row by class of column, and the classes (empty if there is one)."""
    if weights.rows is None or weights.columns is None:
        return weights.table[0], _NO_CLASSES
    return weights.table[weights.rows[row]], weights.columns


@jit
def choose_row(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> Proposal:
    """Draw a row, and which of its entries are summed out and redrawn.

    In the proposal, ``classes`` holds the row alone, ``before`` the components that only this row
    uses, ``after`` the other components whose entry is redrawn, and ``concerned`` both of them.
    """
    n, width = users.shape
    is_birth = read_uniform(key, sweep, _SITE, number, _IS_BIRTH) < 0.5
    u = read_uniform(key, sweep, _SITE, number, _ROW)
    row = pick(u, n_rows) if is_birth else -1
    if not is_birth:
        gone = pick(u, n)
        if n == 0 or size_of(users[gone]) != 1:
            return impossible(users)
        row = first_bit(users[gone])
    w = row >> 6
    bit = _ONE << np.uint64(row & 63)
    n_own = 0
    n_shared = 0
    own = np.empty(n, np.int64)
    shared = np.empty(n, np.int64)
    for component in range(n):
        if users[component, w] & bit != _ZERO and size_of(users[component]) == 1:
            own[n_own] = component
            n_own += 1
        else:
            shared[n_shared] = component
            n_shared += 1
    n_drawn = min(n_shared, MOST_ENTRIES)
    for i in range(n_drawn):  # a random choice that does not depend on the row's entries
        v = read_uniform(key, sweep, _SITE_ORDER, number, np.uint64(i))
        j = i + pick(v, n_shared - i)
        shared[i], shared[j] = shared[j], shared[i]
    own, drawn = own[:n_own], shared[:n_drawn]
    rows = np.zeros((1, width), np.uint64)
    rows[0, w] = bit
    log_ratio = log(alpha) - log(n + 1) if is_birth else log(n) - log(alpha)
    uniforms = (
        read_uniform(key, sweep, _SITE, number, _DECISION), 0.0 if is_birth else 1.0, 0.0
    )  # fmt: skip
    concerned = np.empty(n_drawn + n_own, np.int64)
    copy_line(drawn, concerned)
    copy_line(own, concerned[n_drawn:])
    return Proposal(True, concerned, (rows,), log_ratio, uniforms, rows, own, drawn)


@inner
def propose_own(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    density: float, near: Near, here: tuple[int, int, int, int], codes: Words,
) -> tuple[float, float]:  # fmt: skip
    """Return what decides the move, in one call: the uniform random number and the log ratio.

    If the row is not here, another process decides, and here the move is rejected.
    """
    proposal = choose_row(key, sweep, number, users, n_rows, alpha)
    decision, to_birth, _ = proposal.uniforms
    row = first_bit(proposal.classes[0]) if proposal.is_possible else -1
    if row < here[0] or here[1] <= row:
        return decision, -np.inf
    (all_ones, known, n_columns), rows, columns = near
    is_rest = np.ones(users.shape[0], np.bool_)
    for component in proposal.concerned:
        is_rest[component] = False
    free = np.empty((1, codes.shape[1]), np.uint64)
    ones = np.empty((1, codes.shape[1]), np.uint64)
    chosen = np.full(1, row)
    list_free_in_window(
        chosen, _START, n_columns, all_ones, known, codes, users, is_rest, free, ones
    )
    n_before = proposal.before.shape[0]
    n_after = n_before + (1 if to_birth < 0.5 else -1)
    of_row = rows[4][row] if rows[4].shape[0] else 0
    gain, _ = weigh_entries(
        key, sweep, number, row, proposal.after, n_before, n_after, users, codes, free[0],
        ones[0], n_rows, density, rows[5][of_row], columns[4],
    )  # fmt: skip
    return decision, gain + proposal.log_ratio


@jit
def weigh_entries(
    key: np.uint64, sweep: np.uint64, number: np.uint64, row: int, drawn: Index, n_before: int,
    n_after: int, users: Words, codes: Words, free: Words, ones: Words, n_rows: int,
    density: float, weights: NDArray[np.float64], of_columns: Index,
) -> tuple[float, int]:  # fmt: skip
    """Weigh all combinations of a row's entries, before and after the move, and draw one.

    Parameters
    ----------
    drawn
        Components whose entries are redrawn.
    n_before, n_after
        Number of the row's own components before and after, whose codes are also summed out.
    free, ones
        The row's entries that no other component covers, and its ones.
    n_rows, density
        Number of rows, and density of codes.
    weights, of_columns
        ``(n_classes, 2)``: log likelihood gained by covering a one and a zero, by class of column;
        the class of every column (empty if there is one).

    Returns
    -------
    gain
        Log of the ratio of the sums of weights after and before, minus the gain in the window of
        the first decision; minus infinity if the first decision rejected the try.
    chosen
        The drawn entries: bit i belongs to component ``drawn[i]``.
    """
    width, n_drawn = codes.shape[1], drawn.shape[0]
    log_own = np.empty((weights.shape[0], 2, 2))  # log factors of an uncovered entry, eq. 8
    for j in range(2):
        some_on = -expm1((n_after if j else n_before) * log1p(-density))
        for c in range(weights.shape[0]):
            for x in range(2):
                log_own[c, x, j] = log1p(some_on * expm1(weights[c, x]))
    odds = np.empty(n_drawn)
    for i in range(n_drawn):
        component = drawn[i]
        is_on = (users[component, row >> 6] >> np.uint64(row & 63)) & _ONE != _ZERO
        others = size_of(users[component]) - is_on
        odds[i] = log(others) - log(n_rows - others)
    gains = np.zeros((1 << n_drawn, 2))
    part = 0.0
    if width > 2 * _WORDS:  # two decisions, as in move.py, because most tries are rejected
        start = pick(read_uniform(key, sweep, _SITE, number, _WINDOW), width - _WORDS + 1)
        window = start, start + _WORDS
        _weigh(ones, free, window, codes, drawn, odds, weights, log_own, of_columns, gains)
        part = _log_sum(gains, 1) - _log_sum(gains, 0)
        if not log(read_uniform(key, sweep, _SITE, number, _FIRST_DECISION)) < part:
            return -np.inf, 0
    _weigh(ones, free, (_START, width), codes, drawn, odds, weights, log_own, of_columns, gains)
    log_before, log_after = _log_sum(gains, 0), _log_sum(gains, 1)
    left = read_uniform(key, sweep, _SITE, number, _ENTRIES)
    chosen = 0
    while chosen < gains.shape[0] - 1:
        left -= exp(gains[chosen, 1] - log_after)
        if left < 0.0:
            break
        chosen += 1
    return log_after - log_before - part, chosen


@inner
def _weigh(
    ones: Words, free: Words, window: tuple[int, int], codes: Words, drawn: Index,
    odds: NDArray[np.float64], weights: NDArray[np.float64], log_own: NDArray[np.float64],
    of_columns: Index, out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Weigh every combination of entries in a window of words, before and after."""
    n_drawn = drawn.shape[0]
    n = 1 << n_drawn
    # By the components that could cover an entry: gain if one does, and log factors if none does.
    sums = np.zeros((n, 3))
    for w in range(window[0], window[1]):
        left = free[w]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            left ^= bit
            who = 0
            for i in range(n_drawn):
                if codes[drawn[i], w] & bit != _ZERO:
                    who |= 1 << i
            x = 0 if ones[w] & bit != _ZERO else 1
            column = 64 * w + np.int64(popcount(bit - _ONE))
            c = of_columns[column] if of_columns.shape[0] else 0
            sums[who, 0] += weights[c, x]
            sums[who, 1] += log_own[c, x, 0]
            sums[who, 2] += log_own[c, x, 1]
    for i in range(n_drawn):  # now sums over columns that no component outside a set could cover
        for who in range(n):
            if (who >> i) & 1:
                for k in range(3):
                    sums[who, k] += sums[who ^ (1 << i), k]
    for entries in range(n):
        rest = n - 1 - entries
        score = sums[n - 1, 0] - sums[rest, 0]
        for i in range(n_drawn):
            if (entries >> i) & 1:
                score += odds[i]
        for j in range(2):
            out[entries, j] = score + sums[rest, 1 + j]


@inner
def _log_sum(scores: NDArray[np.float64], column: int) -> float:
    """Return the log of the sum of the exponentials in a column."""
    largest = -np.inf
    for i in range(scores.shape[0]):
        largest = max(largest, scores[i, column])
    total = 0.0
    for i in range(scores.shape[0]):
        total += exp(scores[i, column] - largest)
    return largest + log(total)
