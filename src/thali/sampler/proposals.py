"""What the moves propose, compiled: who uses which component, and how likely that was proposed.

The concerned components are described by classes of rows: rows that use the same of them, before
and after, are alike. A proposal lists the components concerned, those that stay first; the classes
of rows; for every component before and after the classes that use it, as bits; who uses them
after; and the log of all factors of the acceptance ratio but the likelihood.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.bits.words import popcount
from thali.streams import Site, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SPLIT = np.uint64(Site.SPLIT)
_SPLIT_ROWS = np.uint64(Site.SPLIT_ROWS)
_GUIDED = np.uint64(Site.GUIDED)
_GUIDED_ROWS = np.uint64(Site.GUIDED_ROWS)
_RESIDUAL_ROWS = np.uint64(Site.RESIDUAL_ROWS)
_RESIDUAL_CODES = np.uint64(Site.RESIDUAL_CODES)


class Proposal(NamedTuple):
    """A step from some components to others with the same rows."""

    is_possible: bool
    concerned: Index
    classes: Words  # (n_classes, n_words)
    before: Index  # of every component concerned: the classes that use it, bit c for class c
    after: Index
    users: Words  # of the components after
    log_ratio: float
    uniforms: NDArray[np.float64]  # for the decision


@jit
def pick(u: float, n: int) -> int:
    """Return one of n by a uniform."""
    return min(int(u * n), n - 1)


@jit
def log_rate(size: int, n_rows: int) -> float:
    """Return log rho(m) of a component with m users (P1)."""
    return lgamma(n_rows - size + 1.0) + lgamma(float(size)) - lgamma(n_rows + 1.0)


@jit
def _size(words: Words) -> int:
    total = _ZERO
    for w in range(words.shape[0]):
        total += popcount(words[w])
    return np.int64(total)


@jit
def _impossible(users: Words) -> tuple:  # type: ignore[type-arg]
    nothing = np.zeros(0, np.int64)
    return False, nothing, users[:0].copy(), nothing, nothing, users[:0].copy(), 0.0, np.zeros(0)


@jit
def _three(
    key: np.uint64, sweep: np.uint64, site: np.uint64, number: np.uint64, first: int
) -> NDArray[np.float64]:
    """Return the uniforms of the decision."""
    out = np.empty(3)
    for i in range(3):
        out[i] = uniform(key, sweep, site, number, np.uint64(first + i))
    return out


# --- split and merge (eq. 17 to 19) ------------------------------------------------------------


@jit
def propose_split_merge(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> tuple:  # type: ignore[type-arg]
    """Split a component's users in two, or unite those of two components."""
    n, width = users.shape
    is_split = uniform(key, sweep, _SPLIT, number, np.uint64(0)) < 0.5
    if n < (1 if is_split else 2):
        return _impossible(users)
    first = pick(uniform(key, sweep, _SPLIT, number, np.uint64(1)), n)
    pair = np.zeros((2, width), np.uint64)
    if is_split:
        _divide(key, sweep, number, users[first], pair)
        concerned = np.array([first])
    else:
        second = pick(uniform(key, sweep, _SPLIT, number, np.uint64(2)), n - 1)
        second += second >= first
        pair[0] = users[first]
        pair[1] = users[second]
        concerned = np.array([first, second])
    classes = np.empty((3, width), np.uint64)
    classes[0] = pair[0] & ~pair[1]
    classes[1] = pair[1] & ~pair[0]
    classes[2] = pair[0] & pair[1]
    only_first, only_second, shared = _size(classes[0]), _size(classes[1]), _size(classes[2])
    if only_first + shared == 0 or only_second + shared == 0:
        return _impossible(users)
    ratio = (
        log(alpha)
        + log_rate(only_first + shared, n_rows)
        + log_rate(only_second + shared, n_rows)
        - log_rate(only_first + only_second + shared, n_rows)
        - _log_division(only_first, only_second, shared)
        - log(n + is_split)
    )
    one = np.array([0b111])
    two = np.array([0b101, 0b110])
    uniforms = _three(key, sweep, _SPLIT, number, 6)
    if is_split:
        return True, concerned, classes, one, two, pair, ratio, uniforms
    union = pair[:1] | pair[1:]
    return True, concerned, classes, two, one, union, -ratio, uniforms


@jit
def _divide(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, pair: Words
) -> None:
    """Send every user to the first, the second or both, at rates drawn from Dirichlet(1, 1, 1)."""
    a = -log(uniform(key, sweep, _SPLIT, number, np.uint64(2)))
    b = -log(uniform(key, sweep, _SPLIT, number, np.uint64(3)))
    c = -log(uniform(key, sweep, _SPLIT, number, np.uint64(4)))
    to_first, to_second = a / (a + b + c), (a + b) / (a + b + c)
    index = np.uint64(0)
    for w in range(users.shape[0]):
        left = users[w]
        while left != _ZERO:
            bit = left & (~left + _ONE)
            left ^= bit
            u = uniform(key, sweep, _SPLIT_ROWS, number, index)
            index += _ONE
            if u < to_first or u >= to_second:
                pair[0, w] |= bit
            if u >= to_first:
                pair[1, w] |= bit


@jit
def _log_division(only_first: int, only_second: int, shared: int) -> float:
    """Return the log probability of one division in classes of these sizes (eq. 18)."""
    return (
        lgamma(3.0)
        + lgamma(only_first + 1.0)
        + lgamma(only_second + 1.0)
        + lgamma(shared + 1.0)
        - lgamma(only_first + only_second + shared + 3.0)
    )


# --- guided birth and death (eq. 20 and 21) ----------------------------------------------------

_IN_A, _IN_B, _IN_C = 0b1010101, 0b1100110, 0b1111000
"""Classes of rows that use a component, of a, b, ab, c, ac, bc, abc in this order."""


@jit
def propose_guided(
    key: np.uint64, sweep: np.uint64, number: np.uint64, users: Words, n_rows: int, alpha: float
) -> tuple:  # type: ignore[type-arg]
    """Add a component whose users follow those of two others, or delete one."""
    n, width = users.shape
    is_birth = uniform(key, sweep, _GUIDED, number, np.uint64(0)) < 0.5
    if n < (1 if is_birth else 2):
        return _impossible(users)
    gone = n
    n_small = n
    if not is_birth:
        gone = pick(uniform(key, sweep, _GUIDED, number, np.uint64(3)), n)
        n_small = n - 1
    first = pick(uniform(key, sweep, _GUIDED, number, np.uint64(1)), n_small)
    second = pick(uniform(key, sweep, _GUIDED, number, np.uint64(2)), n_small)
    first += first >= gone
    second += second >= gone
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
    c = np.zeros(width, np.uint64)
    if is_birth:
        rates = np.empty(4)
        for i in range(4):
            rates[i] = uniform(key, sweep, _GUIDED, number, np.uint64(4 + i))
        for row in range(n_rows):
            w = row >> 6
            shift = np.uint64(row & 63)
            quarter = ((a[w] >> shift) & _ONE) | (((b[w] >> shift) & _ONE) << _ONE)
            if uniform(key, sweep, _GUIDED_ROWS, number, np.uint64(row)) < rates[quarter]:
                c[w] |= _ONE << shift
    else:
        c[:] = users[gone]
    n_joined = _size(c)
    if n_joined == 0:
        return _impossible(users)
    classes = np.empty((7, width), np.uint64)
    log_guess = 0.0
    for i in range(4):
        inside = quarters[i] & c
        log_guess += _log_guess(_size(quarters[i]), _size(inside))
        classes[3 + i] = inside
        if i > 0:
            classes[i - 1] = quarters[i] & ~c
    ratio = log(alpha) + log_rate(n_joined, n_rows) - log(n_small + 1) - log_guess
    if first == second:
        old = np.array([first, gone])
        members = np.array([_IN_A, _IN_C])
    else:
        old = np.array([first, second, gone])
        members = np.array([_IN_A, _IN_B, _IN_C])
    n_old = old.shape[0] - 1
    after = np.empty((n_old + is_birth, width), np.uint64)
    for i in range(n_old):
        after[i] = users[old[i]]
    uniforms = _three(key, sweep, _GUIDED, number, 8)
    if is_birth:
        after[n_old] = c
        return True, old[:n_old], classes, members[:n_old], members, after, ratio, uniforms
    return True, old, classes, members, members[:n_old], after, -ratio, uniforms


@jit
def _log_guess(size: int, joined: int) -> float:
    """Return the log probability of a set of users with a uniform rate in a class (eq. 20)."""
    return lgamma(joined + 1.0) + lgamma(size - joined + 1.0) - lgamma(size + 2.0)


# --- residual birth and death (eq. 22) ---------------------------------------------------------


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
    key: np.uint64, sweep: np.uint64, number: np.uint64, is_birth: bool, users: Words,
    n_rows: int, counts: Index, sizes: Index, bit_odds: NDArray[np.float64], w1: float, w0: float,
) -> tuple[int, float, float]:  # fmt: skip
    """Draw who uses a component with a proposed code, or weigh those who do.

    Parameters
    ----------
    users
        One line of words; filled in a birth.
    counts
        ``(n_rows, 2, 2)``: free ones and zeros of every row inside and outside the code.
    sizes
        Columns inside and outside.
    bit_odds
        Log odds that a proposed code has a column: of a free one, a free zero, neither.

    Returns
    -------
    n_joined, gain, log_proposal
        How many use it; what it gains in likelihood; the log probability of having proposed code
        and users, whichever row was the seed.
    """
    log_on = np.empty(3)
    log_off = np.empty(3)
    for kind in range(3):
        log_on[kind] = -_softplus(-bit_odds[kind])
        log_off[kind] = -_softplus(bit_odds[kind])
    rate = min(0.5, 2.0 / n_rows)
    log_code = np.empty(n_rows)
    n_joined = 0
    gain = 0.0
    log_joins = 0.0
    for row in range(n_rows):
        inside, outside = counts[row, 0], counts[row, 1]
        log_code[row] = (
            inside[0] * log_on[0]
            + inside[1] * log_on[1]
            + (sizes[0] - inside[0] - inside[1]) * log_on[2]
            + outside[0] * log_off[0]
            + outside[1] * log_off[1]
            + (sizes[1] - outside[0] - outside[1]) * log_off[2]
        )
        row_gain = inside[0] * w1 + inside[1] * w0
        odds = log(rate) - log1p(-rate) + row_gain
        w = row >> 6
        bit = _ONE << np.uint64(row & 63)
        if is_birth:
            u = uniform(key, sweep, _RESIDUAL_ROWS, number, np.uint64(row))
            if u < exp(-_softplus(-odds)):
                users[w] |= bit
        joins = users[w] & bit != _ZERO
        n_joined += joins
        gain += row_gain if joins else 0.0
        log_joins -= _softplus(-odds if joins else odds)
    largest = log_code.max()
    total = 0.0
    for row in range(n_rows):
        total += exp(log_code[row] - largest)
    return n_joined, gain, largest + log(total) - log(n_rows) + log_joins


@jit
def _softplus(x: float) -> float:
    return max(x, 0.0) + log1p(exp(-abs(x)))
