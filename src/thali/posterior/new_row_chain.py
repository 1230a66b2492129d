# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, PLR0912, PLR0915
"""The posterior of a row's memberships, estimated by a Markov chain through its states.

Parallel decomposition: a call handles the rows it is given one after another; threads get
different rows. Rows do not depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.decide import SCALE, is_unlikely
from thali.engines.cpu.horizontal import add_code, count_free, cover_row
from thali.model.rule import log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inner
def count_planes(planes: Words, column: int) -> int:
    """Read a number whose binary digits lie in different planes."""
    number = 0
    shift = np.uint64(column & 63)
    for digit in range(planes.shape[0]):
        number += np.int64((planes[digit, column >> 6] >> shift) & _ONE) << digit
    return number


@inner
def score(
    code: Words,
    covered: Words,
    data: Words,
    prior: np.int64,
    one_weight: np.int64,
    zero_weight: np.int64,
) -> np.int64:
    """Return the log odds of one more component, given the columns already covered (eq. 10)."""
    n_free, n_ones = count_free(code, covered, data)
    c1 = np.int64(n_ones)
    return log_odds(prior, one_weight, zero_weight, c1, np.int64(n_free) - c1)


@inner
def start_greedily(
    known: Words,
    row: int,
    data: Words,
    codes: Words,
    prior: NDArray[np.int64],
    one_weight: np.int64,
    zero_weight: np.int64,
    active: NDArray[np.bool_],
    once: Words,
    twice: Words,
) -> None:
    """Add the component that gains most, repeatedly, until no component gains."""
    active[:] = False
    cover_row(known, row, codes, active, once, twice)
    while True:
        best = -1
        best_score = np.int64(0)
        for component in range(codes.shape[0]):
            if not active[component]:
                odds = score(
                    codes[component], once, data, prior[component], one_weight, zero_weight
                )
                if odds > best_score:
                    best = component
                    best_score = odds
        if best < 0:
            return
        active[best] = True
        add_code(codes[best], once, twice)


@jit
def sample_rows(
    ones: Words,
    known: Words,
    codes: Words,
    prior: NDArray[np.int64],
    one_weight: np.int64,
    zero_weight: np.int64,
    uniforms: NDArray[np.uint64],
    partners: Index,
    swap_uniforms: NDArray[np.uint64],
    warmup: int,
    members: NDArray[np.float64],
    covered: NDArray[np.float64],
) -> None:
    """Average the conditional probabilities along a chain of every row (eq. 10).

    A sweep draws every membership given the others. Then, for every component and a random
    partner of which the row has exactly one, it draws which of the two the row has. If two
    components explain a row equally well, single bits would seldom move from one to the other.

    Parameters
    ----------
    ones, known
        Packed rows; ``known`` has no rows if all entries are known.
    codes
        ``(n_components, n_words)``.
    prior, one_weight, zero_weight
        Prior log odds, and the gain of covering a one and a zero, as integer scores.
    uniforms, partners, swap_uniforms
        ``(n_sweeps, n_components)``, the same for all rows: random numbers for the bits,
        partners of the components, and random numbers for the exchanges.
    warmup
        Number of sweeps before averaging begins.
    members
        Result, ``(n_rows, n_components)``.
    covered
        Result, ``(n_rows, n_columns)``; not computed if it has no columns.
    """
    n_components, width = codes.shape
    n_sweeps = uniforms.shape[0]
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    union = np.empty(width, np.uint64)
    n_counted = n_sweeps - warmup
    n_digits = 1
    while n_counted >> n_digits > 0:
        n_digits += 1
    planes = np.empty((n_digits, width), np.uint64)  # in how many sweeps a column was covered
    active = np.empty(n_components, np.bool_)
    scores = np.empty(n_components, np.int64)
    chances = np.empty(n_components, np.float64)
    gains = np.empty((n_components, n_components), np.int64)
    sums = np.empty(n_components, np.float64)
    # Most rows seldom change, so scores are kept until the state of the row changes.
    version = 0
    scored = np.full(n_components, -1)
    gained = np.full((n_components, n_components), -1)
    for row in range(ones.shape[0]):
        data = ones[row]
        start_greedily(
            known, row, data, codes, prior, one_weight, zero_weight, active, once, twice
        )
        version += 1
        united = -1
        planes[:] = _ZERO
        sums[:] = 0.0
        for sweep in range(n_sweeps):
            for component in range(n_components):
                was_on = active[component]
                code = codes[component]
                if scored[component] != version:
                    covers = twice if was_on else once
                    odds = score(code, covers, data, prior[component], one_weight, zero_weight)
                    scores[component] = odds
                    chances[component] = 1.0 / (1.0 + np.exp(-odds / SCALE))
                    scored[component] = version
                odds = scores[component]
                is_on = (odds >= 0) != is_unlikely(odds, uniforms[sweep, component])
                if sweep >= warmup:
                    sums[component] += chances[component]
                if is_on == was_on:
                    continue
                version += 1
                scored[component] = version  # its odds do not depend on its own value
                active[component] = is_on
                if is_on:
                    add_code(code, once, twice)
                else:
                    cover_row(known, row, codes, active, once, twice)
            for component in range(n_components):
                partner = partners[sweep, component]
                if active[component] == active[partner]:
                    continue
                on, off = (component, partner) if active[component] else (partner, component)
                if gained[on, off] != version:
                    kept = score(codes[on], twice, data, prior[on], one_weight, zero_weight)
                    active[on] = False
                    cover_row(known, row, codes, active, once, twice)
                    new = score(codes[off], once, data, prior[off], one_weight, zero_weight)
                    active[on] = True
                    add_code(codes[on], once, twice)
                    gains[on, off] = new - kept
                    gained[on, off] = version
                # A Gibbs step, not Metropolis: exchanges that are always accepted would undo
                # each other.
                gain = gains[on, off]
                if (gain >= 0) == is_unlikely(gain, swap_uniforms[sweep, component]):
                    continue
                version += 1
                active[on] = False
                active[off] = True
                cover_row(known, row, codes, active, once, twice)
            if covered.shape[1] == 0 or sweep < warmup:
                continue
            if united != version:
                united = version
                union[:] = _ZERO
                for component in range(n_components):
                    if active[component]:
                        for w in range(width):
                            union[w] |= codes[component, w]
            for w in range(width):
                carry = union[w]
                digit = 0
                while carry != _ZERO:
                    moved = planes[digit, w] & carry
                    planes[digit, w] ^= carry
                    carry = moved
                    digit += 1
        for component in range(n_components):
            members[row, component] = sums[component] / n_counted
        for column in range(covered.shape[1]):
            covered[row, column] = count_planes(planes, column) / n_counted
