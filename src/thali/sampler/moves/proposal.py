# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What a move proposes: who uses which component, and how likely that was proposed.

The components concerned are described by classes of rows: rows that use the same of them, before
and after, are alike.
"""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.streams import uniform

if TYPE_CHECKING:
    from thali.bits import Index, Words

_ZERO = np.uint64(0)

CHUNK = 1 << 14
"""Rows that a thread takes at a time, and whose logarithms are added up before all others': sums
do not depend on the number of threads. Fewer would take less time than to wake a thread."""


class Proposal(NamedTuple):
    """A step from some components to others."""

    is_possible: bool
    concerned: Index  # components that take part: those that stay first, then those that go
    lines: tuple[Words, ...]  # of those after, of every mode whose lines are not summed out
    log_ratio: float  # log of all factors of the acceptance ratio that are known so far
    uniforms: tuple[float, float, float]  # for the decision; not all moves need three
    classes: Words  # (n_classes, n_words): rows that are alike, where codes are summed out
    before: Index  # of every component concerned: the classes that use it, bit c for class c
    after: Index  # likewise of every component after


_NO_LINES, _NO_INDEX = np.zeros((0, 0), np.uint64), np.zeros(0, np.int64)
NOTHING = Proposal(
    False, _NO_INDEX, (_NO_LINES,), 0.0, (0.0, 0.0, 0.0), _NO_LINES, _NO_INDEX, _NO_INDEX
)
"""The proposal of nothing: no try is possible."""


@jit
def pick(u: float, n: int) -> int:
    """Return one of n by a uniform."""
    return min(int(u * n), n - 1)


@jit
def log_rate(size: int, n_rows: int) -> float:
    """Return log rho(m) of a component with m users (P1)."""
    return lgamma(n_rows - size + 1.0) + lgamma(float(size)) - lgamma(n_rows + 1.0)


@jit
def size_of(words: Words) -> int:
    """Count the members of a set."""
    total = _ZERO
    for w in range(words.shape[0]):
        total += popcount(words[w])
    return np.int64(total)


@jit
def impossible(users: Words) -> Proposal:
    """Return a proposal of nothing."""
    nothing = np.zeros(0, np.int64)
    lines = users[:0].copy()
    uniforms = 0.0, 0.0, 0.0
    return Proposal(False, nothing, (lines,), 0.0, uniforms, lines, nothing, nothing)


@jit
def three_uniforms(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, first: np.uint64
) -> tuple[float, float, float]:
    """Return the uniforms of the decision."""
    return (
        uniform(key, sweep, site, number, first),
        uniform(key, sweep, site, number, first + np.uint64(1)),
        uniform(key, sweep, site, number, first + np.uint64(2)),
    )


@jit
def atoms(sets: Words) -> tuple[Words, Index]:
    """Return the classes of rows in the same sets, by number; and for each set its classes."""
    n, width = sets.shape
    n_classes = (1 << n) - 1
    classes = np.zeros((n_classes, width), np.uint64)
    members = np.zeros(n, np.int64)
    for k in range(n_classes):
        for w in range(width):
            word = ~_ZERO
            for i in range(n):
                word &= sets[i, w] if ((k + 1) >> i) & 1 else ~sets[i, w]
            classes[k, w] = word
        for i in range(n):
            if ((k + 1) >> i) & 1:
                members[i] |= 1 << k
    return classes, members
