# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Birth and death of components whose users depend on those of two others (eq. 20 and 21)."""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import WORD, copy_line
from thali.sampler.moves.move import SumOut
from thali.sampler.moves.proposal import (
    NOTHING,
    STEP,
    Proposal,
    draft,
    impossible,
    listed,
    log_rate,
    pick,
    size_of,
    size_of_both,
    three_uniforms,
)
from thali.sites import GuidedIndex, Site
from thali.streams import read_uniform, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines import Engine
    from thali.engines.base import RowSets
    from thali.sampler.moves.move import Attempt, Look
    from thali.streams import Stream

_START = np.int64(0)  # a plain zero would be a type of its own
_ONE = np.uint64(1)
_GUIDED = np.uint64(Site.GUIDED)
_GUIDED_ROWS = np.uint64(Site.GUIDED_ROWS)
_IS_BIRTH = np.uint64(GuidedIndex.IS_BIRTH)
_FIRST = np.uint64(GuidedIndex.FIRST)
_SECOND = np.uint64(GuidedIndex.SECOND)
_VICTIM = np.uint64(GuidedIndex.VICTIM)
_RATES = np.uint64(GuidedIndex.RATES)
_DECISION = np.uint64(GuidedIndex.DECISION)
_IN_A, _IN_B, _IN_C = map(np.int64, (0b1010101, 0b1100110, 0b1111000))
"""Classes of rows that use component a, b or c, as bits in the order a, b, ab, c, ac, bc, abc."""


class Guided(SumOut):
    """Add a component whose users depend on those of two others, or delete a component."""

    name: ClassVar = "guided"
    codes: ClassVar = Site.GUIDED_CODES
    density: ClassVar = (Site.GUIDED, GuidedIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Let rows join at rates that depend on whether they use two other components."""
        stream, number, state, target = attempt
        users, n_rows = state.factors[0].words, target.shape[0]
        first, second, gone, rates = _two_to_follow(*stream, number, len(users))
        if first < 0:
            return NOTHING
        if gone < len(users):
            c = users[gone]
        else:
            sets = users[first], users[second]
            c = joined(stream, _GUIDED_ROWS, number, sets, rates, n_rows, target.engine)
        return _guided(*stream, number, users, n_rows, state.alpha, first, second, gone, c)

    def look(self, attempt: Attempt, rows: RowSets) -> Look:
        """Say whether the first decision rejects the try."""
        stream, number, *_ = attempt
        n = rows.n_components
        first, second, gone, rates = _two_to_follow(*stream, number, n)
        if first < 0:
            return True
        sets = rows.users(first), rows.users(second)
        if gone < n:
            c = rows.users(gone)
        else:
            c = rows.joined(stream, Site.GUIDED_ROWS, int(number), sets, rates)
        old, members = _affected(first, second, gone)
        uniforms = three_uniforms(*stream, _GUIDED, number, _DECISION)
        proposal = draft(old, members, members[:-1], uniforms)
        if gone == n:
            proposal = draft(old[:-1], members[:-1], members, uniforms)
        return (yield from self.rejects(attempt, rows, proposal, (*sets, c)))


GUIDED = Guided()


def joined(
    stream: Stream, site: np.uint64, number: np.uint64, sets: tuple[Words, Words],
    rates: NDArray[np.float64], n_rows: int, engine: Engine,
) -> Words:  # fmt: skip
    """Draw the users of a component.

    A row joins at one of four rates: that of rows in neither of two sets, in the first only, in
    the second only, or in both.
    """
    out = np.zeros_like(sets[0])
    arguments = (*stream, site, number, *sets, rates, out)
    engine.over_rows(join, n_rows, *arguments, step=STEP, made=((out, WORD),))
    return out


@jit
def join(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64,
    a: Words, b: Words, rates: NDArray[np.float64], out: Words,
) -> None:  # fmt: skip
    """Draw which rows of a range join."""
    for row in range(lo, hi):
        w = row >> 6
        shift = np.uint64(row & 63)
        quarter = ((a[w] >> shift) & _ONE) | (((b[w] >> shift) & _ONE) << _ONE)
        if uniform(key, sweep, site, number, np.uint64(row)) < rates[quarter]:
            out[w] |= _ONE << shift


@inner
def propose_guided(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> Proposal:
    """Return what :meth:`Guided.propose` does, without a call from Python for every step."""
    n, width = users.shape
    first, second, gone, rates = _two_to_follow(key, sweep, number, n)
    if first < 0:
        return impossible(users)
    c = np.zeros(width, np.uint64)
    if gone < n:
        copy_line(users[gone], c)
    else:
        sets = users[first], users[second]
        join(_START, n_rows, key, sweep, _GUIDED_ROWS, number, sets[0], sets[1], rates, c)
    return _guided(key, sweep, number, users, n_rows, alpha, first, second, gone, c)


@inner
def log_guess_of(size: int, joined: int) -> float:
    """Return the log probability of the users in a class of rows, with a uniform rate (eq. 20)."""
    return lgamma(joined + 1.0) + lgamma(size - joined + 1.0) - lgamma(size + 2.0)


@jit
def _two_to_follow(
    key: np.uint64, sweep: np.uint64, number: np.uint64, n: int
) -> tuple[int, int, int, NDArray[np.float64]]:
    """Draw two components to follow, the one to delete (n for a birth), and the rates to join."""
    rates = np.empty(4)
    for i in range(4):
        rates[i] = read_uniform(key, sweep, _GUIDED, number, _RATES + np.uint64(i))
    is_birth = read_uniform(key, sweep, _GUIDED, number, _IS_BIRTH) < 0.5
    if n < (1 if is_birth else 2):
        return -1, -1, n, rates
    gone = n
    n_small = n
    if not is_birth:
        gone = pick(read_uniform(key, sweep, _GUIDED, number, _VICTIM), n)
        n_small = n - 1
    first = pick(read_uniform(key, sweep, _GUIDED, number, _FIRST), n_small)
    second = pick(read_uniform(key, sweep, _GUIDED, number, _SECOND), n_small)
    return first + (first >= gone), second + (second >= gone), gone, rates


@jit
def _affected(first: int, second: int, gone: int) -> tuple[Index, Index]:
    """Return the components that a move concerns, and the classes that use each of them."""
    if first == second:
        return listed(first, gone, gone)[:2], listed(_IN_A, _IN_C, _IN_C)[:2]
    return listed(first, second, gone), listed(_IN_A, _IN_B, _IN_C)


@jit
def _guided(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float,
    first: int, second: int, gone: int, c: Words,
) -> Proposal:  # fmt: skip
    """Propose a new component with these users, or the deletion of an existing one."""
    n, width = users.shape
    is_birth = gone == n
    n_small = n if is_birth else n - 1
    a = users[first]
    b = users[second]
    quarters = np.empty((4, width), np.uint64)
    for w in range(width):
        quarters[0, w] = ~(a[w] | b[w])
        quarters[1, w] = a[w] & ~b[w]
        quarters[2, w] = b[w] & ~a[w]
        quarters[3, w] = a[w] & b[w]
    if n_rows & 63:
        quarters[0, width - 1] &= (_ONE << np.uint64(n_rows & 63)) - _ONE
    n_joined = size_of(c)
    if n_joined == 0:
        return impossible(users)
    classes = np.empty((7, width), np.uint64)
    log_guess = 0.0
    for i in range(4):
        log_guess += log_guess_of(size_of(quarters[i]), size_of_both(quarters[i], c))
        for w in range(width):
            classes[3 + i, w] = quarters[i, w] & c[w]
            if i > 0:
                classes[i - 1, w] = quarters[i, w] & ~c[w]
    ratio = log(alpha) + log_rate(n_joined, n_rows) - log(n_small + 1) - log_guess
    old, members = _affected(first, second, gone)
    n_old = old.shape[0] - 1
    after = np.empty((n_old + is_birth, width), np.uint64)
    for i in range(n_old):
        copy_line(users[old[i]], after[i])
    uniforms = three_uniforms(key, sweep, _GUIDED, number, _DECISION)
    if is_birth:
        copy_line(c, after[n_old])
        few = members[:n_old]
        return Proposal(True, old[:n_old], (after,), ratio, uniforms, classes, few, members)
    return Proposal(True, old, (after,), -ratio, uniforms, classes, members, members[:n_old])
