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

from thali._jit import inlined, jit, lean
from thali.sampler.level_weights import BLOCK
from thali.streams import uniform

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.level_likelihoods import Likelihoods

    # Windows, their largest log likelihoods, and likelihoods in relation to these.
    Kept: TypeAlias = tuple[Index, NDArray[np.float64], NDArray[np.float64]]

CHUNK = 1 << 11
"""Lines that one thread does at a time, and that are added up together."""

KEPT = 1 << 21
"""Most likelihoods, those of all levels of all lines, that are kept from one sum to the next."""

FAR = 80.0
"""Levels whose log likelihood is lower than the largest by this much are outside the window."""

LEAST = exp(-40.0)
"""If a prior gives the window less, levels outside may matter. All of these together have at most
exp(-FAR) in relation to the likeliest, which is less than half of the last bit of this."""

NEGLIGIBLE = 50.0
"""A mean or spread that is less probable by this much, in logarithms, is never drawn."""

# Unsigned, so that no test for negative numbers is compiled.
_ZERO, _ONE, _TWO, _THREE, _FOUR = map(np.uint64, range(5))

_FIRST = np.int64(0)  # a plain zero would be a type of its own

_LINES = 16
"""Lines that are summed out together, so that few logarithms are needed."""

_GROUP = 4
"""Levels that are added up together; windows are filled up with zeros to whole groups."""


# --- one line --------------------------------------------------------------------------------


@lean
def _subtract(n: float, terms: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Subtract a count times terms."""
    for k in range(values.shape[0]):
        values[k] -= n * terms[k]


@lean
def _subtract_four(
    n: float, o: float, p: float, q: float, a: NDArray[np.float64], b: NDArray[np.float64],
    c: NDArray[np.float64], d: NDArray[np.float64], values: NDArray[np.float64],
) -> None:  # fmt: skip
    """Subtract counts times terms of four classes: values are read and written less often."""
    for k in range(values.shape[0]):
        one_two = n * a[k] + o * b[k]
        three_four = p * c[k] + q * d[k]
        values[k] -= one_two + three_four


@lean
def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest of some values, of four at a time, as a processor can."""
    a = b = c = d = -np.inf
    n = values.shape[0] // _GROUP * _GROUP
    for k in range(0, n, _GROUP):
        a, b = max(a, values[k]), max(b, values[k + 1])
        c, d = max(c, values[k + 2]), max(d, values[k + 3])
    for k in range(n, values.shape[0]):
        a = max(a, values[k])
    return max(a, b, c, d)


@inlined
def _fill_levels(
    i: int, first: int, end: int, given: Likelihoods, all_values: NDArray[np.float64]
) -> float:
    """Compute ones times level minus the sum of counts times terms, for some levels.

    Returns the largest. The value of a level does not depend on the others.
    """
    uncovered, known, n_ones, which, _, covered, change, common, grid = given[:9]
    table = which[i] if which.shape[0] > 1 else _FIRST
    n_classes = uncovered.shape[1]
    values, levels, rest = all_values[first:end], grid[first:end], common[table, first:end]
    n = np.float64(n_ones[i])
    for k in range(values.shape[0]):
        values[k] = n * levels[k] - rest[k]
    for four in range(n_classes // 4):
        c = 4 * four
        _subtract_four(
            np.float64(uncovered[i, c]), np.float64(uncovered[i, c + 1]),
            np.float64(uncovered[i, c + 2]), np.float64(uncovered[i, c + 3]),
            change[table, c, first:end], change[table, c + 1, first:end],
            change[table, c + 2, first:end], change[table, c + 3, first:end], values,
        )  # fmt: skip
    for c in range(n_classes // 4 * 4, n_classes):
        _subtract(np.float64(uncovered[i, c]), change[table, c, first:end], values)
    if known.shape[0]:
        for c in range(n_classes):
            _subtract(np.float64(known[i, c]), covered[table, c, first:end], values)
    return _largest(values)


@inlined
def _fill_window(
    i: int, width: int, given: Likelihoods, values: NDArray[np.float64]
) -> tuple[int, int, float]:
    """Compute the log likelihood of all levels within FAR of the largest, and some others.

    The search starts with so many levels. Returns the first of those computed, the end, and the
    largest. Only levels within FAR of it may be used: which others are there depends on where the
    search starts.
    """
    n_levels = given[9]
    at = max(given[4][i] - width // 2, 0)
    stop = min(at + width, n_levels)
    first, end, largest = at, at, -np.inf
    while True:
        largest = max(largest, _fill_levels(i, at, stop, given, values))
        first, end = min(first, at), max(end, stop)
        if end < n_levels and values[end - 1] > largest - FAR:
            at, stop = end, min(end + BLOCK, n_levels)
        elif first > 0 and values[first] > largest - FAR:
            at, stop = max(first - BLOCK, 0), first
        else:
            break
    return first, end, largest


@lean
def _fill_all(i: int, given: Likelihoods, values: NDArray[np.float64]) -> None:
    """Compute the log likelihood of every level."""
    _fill_levels(i, 0, given[9], given, values)


@inlined
def _weigh_window(
    first: int, end: int, largest: float, values: NDArray[np.float64],
    likelihoods: NDArray[np.float64],
) -> tuple[int, int]:  # fmt: skip
    """Write the likelihood of every level within FAR of the largest, relative to it, in groups.

    Returns the first of these levels, and their end.
    """
    while values[first] <= largest - FAR:
        first += 1
    while values[end - 1] <= largest - FAR:
        end -= 1
    for level in range(first // _GROUP * _GROUP, first):
        likelihoods[level] = 0.0
    for level in range(first, end):
        likelihoods[level] = exp(values[level] - largest)
    for level in range(end, -(-end // _GROUP) * _GROUP):
        likelihoods[level] = 0.0
    return first, end


@inlined
def _weigh_prior(
    first: int, end: int, likelihoods: NDArray[np.float64], prior: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:  # fmt: skip
    """Write the posterior weight of every level of a window, and return their sum."""
    total = 0.0
    for level in range(first, end):
        weights[level] = likelihoods[level] * prior[level]
        total += weights[level]
    return total


@lean
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


@inlined
def _draw_from(u: float, total: float, first: int, end: int, weights: NDArray[np.float64]) -> int:
    """Draw a level with probability proportional to its weight."""
    left = u * total
    chosen = first
    for level in range(first, end):
        if weights[level] > 0.0:
            chosen = level
            left -= weights[level]
            if left < 0.0:
                break
    return chosen


@inlined
def _add_levels(
    first: int, end: int, likelihoods: NDArray[np.float64], prior: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out the level of a line under every prior, ``(n_levels + BLOCK, n_priors)``."""
    n = np.uint64(prior.shape[1])
    for k in range(n):
        totals[k] = 0.0
    for group in range(np.uint64(first // _GROUP), np.uint64(-(-end // _GROUP))):
        at = _FOUR * group
        b, c, d = at + _ONE, at + _TWO, at + _THREE
        w, x, y, z = likelihoods[at], likelihoods[b], likelihoods[c], likelihoods[d]
        for k in range(n):
            one_two = prior[at, k] * w + prior[b, k] * x
            three_four = prior[c, k] * y + prior[d, k] * z
            totals[k] += one_two + three_four


# --- sixteen lines ---------------------------------------------------------------------------


@lean
def _find_windows(
    lo: int, hi: int, base: int, given: Likelihoods, kept: Kept, values: NDArray[np.float64]
) -> None:
    """Find the windows of some lines that are not known yet, and the likelihoods in them."""
    windows, all_largest, likelihoods = kept
    width = BLOCK  # in most long lines, so many levels contain the window
    for i in range(lo, hi):
        row = i - base
        if windows[row, 1] == 0:
            first, end, largest = _fill_window(i, width, given, values)
            first, end = _weigh_window(first, end, largest, values, likelihoods[row])
            windows[row, 0], windows[row, 1], all_largest[row] = first, end, largest
            width = end - first + BLOCK  # the next line may have as many, not quite in the middle


@lean
def _add_windows(
    lo: int, hi: int, base: int, kept: Kept, prior: NDArray[np.float64],
    sums: NDArray[np.float64], lowest: NDArray[np.float64], totals: NDArray[np.float64],
    products: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out so few lines that the product of their sums is a number, with one logarithm."""
    windows, all_largest, likelihoods = kept
    n = prior.shape[1]
    common = 0.0
    for k in range(n):
        products[k] = 1.0
    for row in range(lo - base, hi - base):
        _add_levels(windows[row, 0], windows[row, 1], likelihoods[row], prior, totals)
        common += all_largest[row]
        for k in range(n):
            lowest[k] = min(lowest[k], totals[k])
            products[k] *= max(totals[k], LEAST)
    for k in range(n):
        sums[k] += common + log(products[k])


@lean
def _draw_levels(
    lo: int, hi: int, base: int, key: np.uint64, sweep: np.uint64, site: np.uint64,
    given: Likelihoods, kept: Kept, log_prior: NDArray[np.float64], prior: NDArray[np.float64],
    values: NDArray[np.float64], weights: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    """Draw levels from windows, or from all levels if the prior asks for them."""
    windows, _, likelihoods = kept
    for i in range(lo, hi):
        first, end = windows[i - base, 0], windows[i - base, 1]
        total = _weigh_prior(first, end, likelihoods[i - base], prior, weights)
        if total < LEAST:
            total = _weigh_all(i, given, log_prior, values, weights)
            first, end = _FIRST, given[9]
        u = uniform(key, sweep, site, np.uint64(i), _ZERO)
        levels[i] = _draw_from(u, total, first, end, weights)


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
    n, n_levels = prior.shape[1], given[8].shape[0]
    values, weights = np.empty((2, n_levels))
    totals, products = np.empty((2, n))
    kept = given[10:13]
    is_kept = kept[0].shape[0] > 0
    if not is_kept:
        kept = np.empty((_LINES, 2), np.int64), np.empty(_LINES), np.empty((_LINES, n_levels))
    for at in range(lo, hi, _LINES):
        end, base = min(at + _LINES, hi), 0 if is_kept else at
        if not is_kept:
            kept[0][:] = 0
        _find_windows(at, end, base, given, kept, values)
        if n:
            sums, lowest = parts[at // CHUNK], least[at // CHUNK]
            _add_windows(at, end, base, kept, prior, sums, lowest, totals, products)
        if levels.shape[0]:
            _draw_levels(
                at, end, base, key, sweep, site, given, kept, log_present, present, values,
                weights, levels,
            )  # fmt: skip


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
        _fill_levels(i, levels[i], levels[i] + 1, given, values)
        parts[i // CHUNK] += values[levels[i]]
