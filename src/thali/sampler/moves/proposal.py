# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The proposal of a move: the users of the affected components, and the acceptance ratio.

Rows are grouped in classes: rows that use the same affected components, before and after the move,
belong to the same class.
"""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import popcount
from thali.streams import read_uniform

if TYPE_CHECKING:
    from thali.bits import Index, Words

_ZERO = np.uint64(0)

CHUNK = 1 << 14
"""Number of rows that a thread takes at a time. Logarithms are summed within every chunk first, so
that sums do not depend on the number of threads. Smaller chunks would take less time than waking a
thread."""


STEP = 1 << 10
"""The same where nothing is summed up."""


class Proposal(NamedTuple):
    """A proposed step that replaces some components by others."""

    is_possible: bool
    concerned: Index  # affected components: first those that stay, then those that go
    lines: tuple[Words, ...]  # lines of the components after, per mode that is not summed out
    log_ratio: float  # log of the factors of the acceptance ratio known so far
    uniforms: tuple[float, float, float]  # uniforms of the decision; not all moves need three
    classes: Words  # (n_classes, n_words): classes of rows, if codes are summed out
    before: Index  # per affected component: the classes that use it, bit c for class c
    after: Index  # the same for every component after the move


_NO_LINES, _NO_INDEX = np.zeros((0, 0), np.uint64), np.zeros(0, np.int64)
NOTHING = Proposal(
    False, _NO_INDEX, (_NO_LINES,), 0.0, (0.0, 0.0, 0.0), _NO_LINES, _NO_INDEX, _NO_INDEX
)
"""The proposal that says that no move is possible."""


@jit
def pick(u: float, n: int) -> int:
    """Return an integer from 0 to n - 1, chosen by a uniform random number."""
    return min(int(u * n), n - 1)


@jit
def log_rate(size: int, n_rows: int) -> float:
    """Return log rho(m) of a component with m users (P1)."""
    return lgamma(n_rows - size + 1.0) + lgamma(float(size)) - lgamma(n_rows + 1.0)


@jit
def size_of(words: Words) -> int:
    """Return the number of members of a set, given as bits."""
    total = _ZERO
    for w in range(words.shape[0]):
        total += popcount(words[w])
    return np.int64(total)


@inner
def size_of_both(a: Words, b: Words) -> int:
    """Return the number of members that two sets share."""
    total = _ZERO
    for w in range(a.shape[0]):
        total += popcount(a[w] & b[w])
    return np.int64(total)


@inner
def listed(a: int, b: int, c: int) -> Index:
    """Return three numbers as an array."""
    numbers = np.empty(3, np.int64)
    numbers[0], numbers[1], numbers[2] = a, b, c
    return numbers


@inner
def impossible(users: Words) -> Proposal:
    """Return what stands for :data:`NOTHING` in compiled code; elsewhere it would cost time."""
    nothing = np.zeros(0, np.int64)
    lines = users[:0].copy()
    uniforms = 0.0, 0.0, 0.0
    return Proposal(False, nothing, (lines,), 0.0, uniforms, lines, nothing, nothing)


@jit
def three_uniforms(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, first: np.uint64
) -> tuple[float, float, float]:
    """Return the three uniform random numbers of the decision."""
    return (
        read_uniform(key, sweep, site, number, first),
        read_uniform(key, sweep, site, number, first + np.uint64(1)),
        read_uniform(key, sweep, site, number, first + np.uint64(2)),
    )


@jit
def members_of(n: int) -> Index:
    """Return the classes of each of n sets, if rows in the same sets are a class (``atoms``)."""
    members = np.zeros(n, np.int64)
    for k in range((1 << n) - 1):
        for i in range(n):
            if ((k + 1) >> i) & 1:
                members[i] |= 1 << k
    return members


def draft(
    concerned: Index, before: Index, after: Index, uniforms: tuple[float, float, float]
) -> Proposal:
    """Return as much of a proposal as the first decision needs."""
    return Proposal(True, concerned, (), 0.0, uniforms, _NO_LINES, before, after)


@jit
def atoms(sets: Words) -> tuple[Words, Index]:
    """Return the classes of rows that are in the same sets, and the classes of every set."""
    n, width = sets.shape
    n_classes = (1 << n) - 1
    classes = np.zeros((n_classes, width), np.uint64)
    for k in range(n_classes):
        for w in range(width):
            word = ~_ZERO
            for i in range(n):
                word &= sets[i, w] if ((k + 1) >> i) & 1 else ~sets[i, w]
            classes[k, w] = word
    return classes, members_of(n)
