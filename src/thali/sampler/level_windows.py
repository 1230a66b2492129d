# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The likely levels of every line, sums over them, and draws from them (eq. 28 and 30).

The log likelihood of a line is concave in its level: the number of ones times the level, minus
convex terms. So it rises to the likeliest level and falls from there on, and a search that starts
at any level soon knows all levels that matter, a *window*: with thousands of entries in a line,
three or four levels of many. Nothing about other levels is computed, unless a prior leaves all of
the window next to impossible. Then that line is computed in full.

``given`` are :class:`thali.sampler.level_likelihoods.Likelihoods` as a plain tuple.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inlined, inner, jit
from thali.sampler.level_weights import BLOCK
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.level_likelihoods import Likelihoods

CHUNK = 1 << 11
"""Lines that one thread does at a time, and that are added up together."""

FAR = 80.0
"""Levels whose log likelihood is lower than the largest by this much are outside the window."""

LEAST = exp(-40.0)
"""If a prior gives the window less, levels outside may matter. All of these together have at most
exp(-FAR) in relation to the likeliest, which is less than half of the last bit of this."""

NEGLIGIBLE = 50.0
"""A mean or spread that is less probable by this much, in logarithms, is never drawn."""

# Unsigned, so that no test for negative numbers is compiled.
_ZERO, _ONE, _TWO, _THREE, _FOUR, _BLOCK = map(np.uint64, (0, 1, 2, 3, 4, BLOCK))

_GROUP = 4
"""Levels that are added up together; windows are filled up with zeros to whole groups."""


# --- one line --------------------------------------------------------------------------------


@inlined
def _fill_levels(
    i: int, first: np.uint64, width: np.uint64, given: Likelihoods, values: NDArray[np.float64]
) -> float:
    """Compute ones times level minus the sum of counts times terms, for some levels.

    Returns the largest. With four classes at a time, values are read and written less often. The
    value of a level does not depend on the others.
    """
    uncovered, known, n_ones, which, _, covered, change, common, grid = given[:9]
    table = np.uint64(which[i]) if which.shape[0] > 1 else _ZERO
    n_classes = np.uint64(uncovered.shape[1])
    n = np.float64(n_ones[i])
    for k in range(width):
        values[first + k] = n * grid[first + k] - common[table, first + k]
    for four in range(n_classes // _FOUR):
        c = _FOUR * four
        d, e, f = c + _ONE, c + _TWO, c + _THREE
        n, o = np.float64(uncovered[i, c]), np.float64(uncovered[i, d])
        p, q = np.float64(uncovered[i, e]), np.float64(uncovered[i, f])
        for k in range(width):
            at = first + k
            one_two = n * change[table, c, at] + o * change[table, d, at]
            three_four = p * change[table, e, at] + q * change[table, f, at]
            values[at] -= one_two + three_four
    for c in range(n_classes // _FOUR * _FOUR, n_classes):
        n = np.float64(uncovered[i, c])
        for k in range(width):
            values[first + k] -= n * change[table, c, first + k]
    if known.shape[0]:
        for c in range(n_classes):
            n = np.float64(known[i, c])
            for k in range(width):
                values[first + k] -= n * covered[table, c, first + k]
    largest = -np.inf
    for k in range(width):
        largest = max(largest, values[first + k])
    return largest


@inlined
def _fill_window(
    i: int, given: Likelihoods, values: NDArray[np.float64]
) -> tuple[int, int, float]:
    """Compute the log likelihood of all levels within FAR of the largest, and some others.

    Returns the first of them, the end, and the largest. Only levels within FAR of it may be used:
    which others are there depends on where the search starts.
    """
    n_levels = given[9]
    first = max(given[4][i] - BLOCK // 2, 0)  # in most long lines, this block contains the window
    largest = _fill_levels(i, np.uint64(first), _BLOCK, given, values)
    end = first + BLOCK
    while True:
        width = end - first  # as much again: in short lines, most levels matter
        if end < n_levels and values[end - 1] > largest - FAR:
            at, end = end, min(end + width, n_levels)
            width = end - at
        elif first > 0 and values[first] > largest - FAR:
            at = max(first - width, 0)
            width = first - at
            first = at
        else:
            break
        of_more = _fill_levels(i, np.uint64(at), np.uint64(width), given, values)
        largest = max(largest, of_more)
    return first, min(end, n_levels), largest


@inner
def _fill_all(i: int, given: Likelihoods, values: NDArray[np.float64]) -> None:
    """Compute the log likelihood of every level."""
    _fill_levels(i, _ZERO, np.uint64(given[9]), given, values)


@inlined
def _weigh_window(
    row: np.uint64, first: int, end: int, largest: float, values: NDArray[np.float64],
    likelihoods: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the likelihood of every level of a window, relative to the largest, in groups."""
    for level in range(np.uint64(first // _GROUP * _GROUP), np.uint64(first)):
        likelihoods[row, level] = 0.0
    for level in range(np.uint64(first), np.uint64(end)):
        is_in = values[level] > largest - FAR
        likelihoods[row, level] = exp(values[level] - largest) if is_in else 0.0
    for level in range(np.uint64(end), np.uint64(-(-end // _GROUP) * _GROUP)):
        likelihoods[row, level] = 0.0


@inlined
def _find_window(
    i: int, given: Likelihoods, values: NDArray[np.float64], likelihoods: NDArray[np.float64]
) -> tuple[int, int, float, np.uint64]:
    """Return the window of a line, its largest log likelihood, and the row of its likelihoods.

    These have a row each if all are kept.
    """
    windows, all_largest = given[10], given[11]
    is_kept = windows.shape[0] > 0
    row = np.uint64(i) if is_kept else _ZERO
    if is_kept and windows[i, 1]:
        first, end, largest = windows[i, 0], windows[i, 1], all_largest[i]
    else:
        first, end, largest = _fill_window(i, given, values)
        _weigh_window(row, first, end, largest, values, likelihoods)
        if is_kept:
            windows[i, 0], windows[i, 1], all_largest[i] = first, end, largest
    return first, end, largest, row


@inner
def _room(given: Likelihoods) -> NDArray[np.float64]:
    """Return the room for likelihoods: that of all lines if they are kept, or for one line."""
    kept = given[12]
    return kept if kept.shape[0] else np.empty((1, kept.shape[1]))


@inlined
def _weigh_prior(
    row: np.uint64, first: int, end: int, likelihoods: NDArray[np.float64],
    prior: NDArray[np.float64], weights: NDArray[np.float64],
) -> float:  # fmt: skip
    """Write the posterior weight of every level of a window, and return their sum."""
    total = 0.0
    for level in range(np.uint64(first), np.uint64(end)):
        weights[level] = likelihoods[row, level] * prior[level]
        total += weights[level]
    return total


@inner
def _weigh_all(
    i: int, given: Likelihoods, log_prior: NDArray[np.float64], values: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:  # fmt: skip
    """Write the posterior weight of every level of a line, and return their sum."""
    _fill_all(i, given, values)
    largest = -np.inf
    for level in range(log_prior.shape[0]):
        largest = max(largest, values[level] + log_prior[level])
    total = 0.0
    for level in range(log_prior.shape[0]):
        weights[level] = exp(values[level] + log_prior[level] - largest)
        total += weights[level]
    return total


@inner
def _draw_from(u: float, total: float, first: int, end: int, weights: NDArray[np.float64]) -> int:
    """Draw a level with probability proportional to its weight."""
    left = u * total
    chosen = first
    for level in range(np.uint64(first), np.uint64(end)):
        if weights[level] > 0.0:
            chosen = level
            left -= weights[level]
            if left < 0.0:
                break
    return np.int64(chosen)


@inner
def _draw_level(
    i: int, u: float, given: Likelihoods, window: tuple[int, int, np.uint64],
    likelihoods: NDArray[np.float64], log_prior: NDArray[np.float64], prior: NDArray[np.float64],
    values: NDArray[np.float64], weights: NDArray[np.float64],
) -> int:  # fmt: skip
    """Draw the level of a line from its window, or from all levels if the prior asks for them."""
    first, end, row = window
    total = _weigh_prior(row, first, end, likelihoods, prior, weights)
    if total < LEAST:
        total = _weigh_all(i, given, log_prior, values, weights)
        first, end = 0, prior.shape[0]
    return _draw_from(u, total, first, end, weights)


@inlined
def _add_levels(
    row: np.uint64, first: int, end: int, likelihoods: NDArray[np.float64],
    prior: NDArray[np.float64], totals: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out the level of a line under every prior, ``(n_levels + BLOCK, n_priors)``."""
    n = np.uint64(prior.shape[1])
    for k in range(n):
        totals[k] = 0.0
    for group in range(np.uint64(first // _GROUP), np.uint64(-(-end // _GROUP))):
        at = _FOUR * group
        b, c, d = at + _ONE, at + _TWO, at + _THREE
        w, x = likelihoods[row, at], likelihoods[row, b]
        y, z = likelihoods[row, c], likelihoods[row, d]
        for k in range(n):
            one_two = prior[at, k] * w + prior[b, k] * x
            three_four = prior[c, k] * y + prior[d, k] * z
            totals[k] += one_two + three_four


# --- all lines -------------------------------------------------------------------------------


@jit
def sum_windows(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64, given: Likelihoods,
    prior: NDArray[np.float64], parts: NDArray[np.float64], least: NDArray[np.float64],
    log_present: NDArray[np.float64], present: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    """Sum out some lines; every part is the sum of so many lines, ``(n_parts, n_priors)``.

    ``least`` is the smallest probability of a line. Where it is below ``LEAST``, the window does
    not suffice, and the sum is an upper bound. If there is room for levels, they are drawn under
    the present prior; without any ``prior``, nothing else is done.
    """
    n = prior.shape[1]
    values, weights = np.empty((2, given[8].shape[0]))
    likelihoods = _room(given)
    totals = np.empty(n)
    products = np.ones(n)  # of sixteen lines, so that few logarithms are needed
    common = 0.0
    for i in range(lo, hi):
        sums, lowest = parts[i // CHUNK], least[i // CHUNK]
        first, end, largest, row = _find_window(i, given, values, likelihoods)
        _add_levels(row, first, end, likelihoods, prior, totals)
        common += largest
        for k in range(n):
            lowest[k] = min(lowest[k], totals[k])
            products[k] *= max(totals[k], LEAST)
        if i & 15 == 15 or i == hi - 1:
            for k in range(n):
                sums[k] += common + log(products[k])
                products[k] = 1.0
            common = 0.0
        if levels.shape[0]:
            u = uniform(key, sweep, site, np.uint64(i), _ZERO)
            levels[i] = _draw_level(
                i, u, given, (first, end, row), likelihoods, log_present, present, values, weights
            )


@jit
def add_parts(
    parts: NDArray[np.float64], least: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the sums of all lines, and which of them are upper bounds that may matter."""
    n_parts, n = parts.shape
    sums, is_above = np.zeros(n), np.zeros(n, np.bool_)
    surely = -np.inf
    for k in range(n):
        for part in range(n_parts):
            sums[k] += parts[part, k]
            is_above[k] |= least[part, k] < LEAST
        if not is_above[k]:
            surely = max(surely, sums[k])
    for k in range(n):
        if is_above[k] and sums[k] < surely - NEGLIGIBLE:
            sums[k] = -np.inf
            is_above[k] = False
    return sums, is_above


@jit
def sum_all_levels(
    lo: int, hi: int, given: Likelihoods, log_prior: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out some lines over all of their levels, so that nothing is too small."""
    n_levels = given[9]
    values = np.empty(given[8].shape[0])
    for i in range(lo, hi):
        _fill_all(i, given, values)
        for k in range(log_prior.shape[0]):
            largest = -np.inf
            for level in range(n_levels):
                largest = max(largest, values[level] + log_prior[k, level])
            total = 0.0
            for level in range(n_levels):
                difference = values[level] + log_prior[k, level] - largest
                if difference > -FAR:
                    total += exp(difference)
            parts[i // CHUNK, k] += largest + log(total)


@jit
def sum_levels(
    lo: int, hi: int, given: Likelihoods, levels: Index, parts: NDArray[np.float64]
) -> None:
    """Add up the log likelihoods of one level of every line."""
    values = np.empty(given[8].shape[0])
    for i in range(lo, hi):
        _fill_levels(i, np.uint64(levels[i]), _ONE, given, values)
        parts[i // CHUNK] += values[levels[i]]
