# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The likelihood of the levels of every line, sums over levels, and draws of levels (eq. 28, 30).

The log likelihood of a line is concave in its level: the number of ones times the level, minus
convex terms. So it rises to the likeliest level and falls from there on, and a search that starts
at any level soon knows all levels that matter, a *window*: with thousands of entries in a line,
three or four levels of many. Nothing about other levels is computed or stored, unless a prior
leaves all of the window next to impossible. Then that line is computed in full.

Sums and draws are shared among threads in chunks of lines, whose number does not depend on the
threads: the results are the same on any number of them.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inlined, jit
from thali.streams import Stream, uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine, LineCounts

CHUNK = 1 << 11
"""Lines that one thread does at a time, and that are added up together."""

BLOCK = 8
"""Levels that are computed at once, in the lanes of a processor's vectors."""

_ZERO, _ONE, _TWO, _BLOCK = map(np.uint64, (0, 1, 2, BLOCK))

FAR = 80.0
"""Levels whose log likelihood is lower than the largest by this much are outside the window."""

_LEAST = exp(-40.0)
"""If a prior gives the window less, levels outside may matter. All of these together have at most
exp(-FAR) in relation to the likeliest, which is less than half of the last bit of this."""

_NEGLIGIBLE = 50.0
"""A mean or spread that is less probable by this much, in logarithms, is never drawn."""


class Likelihoods(NamedTuple):
    """All that the likelihoods of the levels of lines depend on (eq. 28)."""

    uncovered: NDArray[np.uint32]  # (n_lines, n_classes): entries without cover
    known: NDArray[np.uint32]  # all known entries; no row if these are the same in all lines
    n_ones: Index  # (n_lines,): the ones whose log odds depend on the level
    which: Index  # (n_lines,): which of the tables is the line's; or (1,)
    near: Index  # (n_lines,): the level from which the search for the likeliest starts
    # Tables of levels have room for a block that begins at the last level.
    covered: NDArray[np.float64]  # (n_tables, n_classes, n_levels): softplus of the log odds
    change: NDArray[np.float64]  # by how much it differs without cover
    common: NDArray[np.float64]  # (n_tables, n_levels): sum over known entries, if common to all
    grid: NDArray[np.float64]
    n_levels: int

    @classmethod
    def of(
        cls, counts: LineCounts, n_ones: Index, softplus: NDArray[np.float64],
        grid: NDArray[np.float64], near: NDArray[np.integer], which: Index | None = None,
    ) -> Likelihoods:  # fmt: skip
        """Put together what :func:`softplus_table` and the counts of an engine say."""
        which = np.zeros(1, np.int64) if which is None else which
        n_tables, n_classes, _, n_levels = softplus.shape
        change, covered = np.zeros((2, n_tables, n_classes, n_levels + BLOCK))
        covered[:, :, :n_levels] = softplus[:, :, 1]
        np.subtract(softplus[:, :, 0], softplus[:, :, 1], out=change[:, :, :n_levels])
        known, common = counts.known, np.zeros((n_tables, n_levels + BLOCK))
        if len(known) == 1:
            common, known = np.einsum("c,tcl->tl", known[0].astype(np.float64), covered), known[:0]
        common[:, n_levels:] = np.inf  # there are no such levels
        return cls(
            counts.uncovered, known, n_ones, which, np.asarray(near, np.int64),
            covered, change, common, np.append(grid, np.zeros(BLOCK)), n_levels,
        )  # fmt: skip

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return len(self.n_ones)


def softplus_table(
    grid: NDArray[np.float64],
    uncovered: NDArray[np.float64] | None,
    covered: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return log(1 + exp(log odds)) by class, cover and level, ``(1, n_classes, 2, n_levels)``.

    Where the level does not matter, that is for entries without cover, it is zero.
    """
    table = np.zeros((1, len(covered), 2, len(grid)))
    if uncovered is not None:
        table[0, :, 0] = np.logaddexp(0.0, uncovered[:, None] + grid)
    table[0, :, 1] = np.logaddexp(0.0, covered[:, None] + grid)
    return table


# --- one line --------------------------------------------------------------------------------


@inlined
def _fill_block(
    i: int, first: np.uint64, given: Likelihoods, values: NDArray[np.float64]
) -> float:
    """Compute ones times level minus the sum of counts times softplus, for a block of levels.

    Returns the largest. With two classes at a time, a processor waits half as often for the result
    of a subtraction. Numbers are unsigned, so that no test for negative ones is compiled.
    """
    uncovered, known, n_ones, which, _, covered, change, common, grid, _ = given
    table = np.uint64(which[i]) if which.shape[0] > 1 else _ZERO
    n_classes = np.uint64(uncovered.shape[1])
    n = np.float64(n_ones[i])
    for k in range(_BLOCK):
        values[first + k] = n * grid[first + k] - common[table, first + k]
    for pair in range(n_classes // _TWO):
        c = _TWO * pair
        d = c + _ONE
        m, n = np.float64(uncovered[i, c]), np.float64(uncovered[i, d])
        for k in range(_BLOCK):
            at = first + k
            values[at] -= m * change[table, c, at] + n * change[table, d, at]
    for c in range(n_classes // _TWO * _TWO, n_classes):
        n = np.float64(uncovered[i, c])
        for k in range(_BLOCK):
            values[first + k] -= n * change[table, c, first + k]
    if known.shape[0]:
        for c in range(n_classes):
            n = np.float64(known[i, c])
            for k in range(_BLOCK):
                values[first + k] -= n * covered[table, c, first + k]
    largest = -np.inf
    for k in range(_BLOCK):
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
    at = max(given[4][i] - BLOCK // 2, 0)  # in most lines, this block contains the window
    first = at
    end = at
    largest = -np.inf
    while True:
        largest = max(largest, _fill_block(i, np.uint64(at), given, values))
        end = max(end, at + BLOCK)
        if end < n_levels and values[end - 1] > largest - FAR:
            at = end
        elif first > 0 and values[first] > largest - FAR:
            at = max(first - BLOCK, 0)
            first = at
        else:
            break
    return first, min(end, n_levels), largest


@jit
def _fill_all(i: int, given: Likelihoods, values: NDArray[np.float64]) -> None:
    """Compute the log likelihood of every level."""
    for first in range(0, given[9], BLOCK):
        _fill_block(i, np.uint64(first), given, values)


@jit
def _draw_from(u: float, first: int, end: int, weights: NDArray[np.float64]) -> int:
    """Draw a level with probability proportional to its weight."""
    total = 0.0
    for level in range(first, end):
        total += weights[level]
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
def _weigh_window(
    first: int, end: int, largest: float, prior: NDArray[np.float64],
    values: NDArray[np.float64], weights: NDArray[np.float64],
) -> float:  # fmt: skip
    """Write the posterior weight of every level of a window, and return their sum."""
    total = 0.0
    for level in range(first, end):
        is_in = values[level] > largest - FAR
        weights[level] = exp(values[level] - largest) * prior[level] if is_in else 0.0
        total += weights[level]
    return total


@jit
def _weigh_all(
    i: int, given: Likelihoods, log_prior: NDArray[np.float64], values: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the posterior weight of every level of a line."""
    _fill_all(i, given, values)
    largest = -np.inf
    for level in range(log_prior.shape[0]):
        largest = max(largest, values[level] + log_prior[level])
    for level in range(log_prior.shape[0]):
        weights[level] = exp(values[level] + log_prior[level] - largest)


# --- sums over the levels of all lines -------------------------------------------------------


def sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of every prior, with the levels of all lines summed out (eq. 30).

    ``log_prior`` is ``(n_priors, n_levels)``. What is negligible is minus infinity.
    """
    nothing = Stream(np.uint64(0), np.uint64(0)), 0, log_prior[0], np.zeros(0, np.int64)
    return _sum_out(engine, given, log_prior, *nothing)


def draw_with_prior(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64],
    present: int, pick: Callable[[NDArray[np.float64]], int],
) -> tuple[int, Index]:  # fmt: skip
    """Draw one of some priors with the levels of all lines summed out, and the levels given it.

    ``pick`` draws a prior given their log probabilities. Levels are drawn under the present prior
    while lines are summed out, since many lines hardly ever leave it; if another one is drawn,
    these levels are forgotten, and others are drawn under that.
    """
    is_sure = np.isneginf(log_prior[present]).sum() == log_prior.shape[1] - 1  # as if not drawn
    levels = np.empty(0 if is_sure else given.n_lines, np.int64)
    chosen = pick(_sum_out(engine, given, log_prior, stream, site, log_prior[present], levels))
    if chosen != present or is_sure:
        levels = draw_lines(engine, stream, site, given, log_prior[chosen])
    return chosen, levels


def _sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64], stream: Stream, site: int,
    present: NDArray[np.float64], levels: Index,
) -> NDArray[np.float64]:  # fmt: skip
    """Sum out, and write levels drawn under the present prior if there is room for them."""
    prior = np.exp(log_prior).T.copy()
    n_lines, n = given.n_lines, len(log_prior)
    n_parts = -(-n_lines // CHUNK)  # whatever the number of threads
    parts, least = np.zeros((n_parts, n)), np.ones((n_parts, n))
    engine.over_rows(
        _sum_windows, n_lines, *stream, np.uint64(site), tuple(given), prior, parts, least,
        present, np.exp(present), levels, step=CHUNK,
    )  # fmt: skip
    sums: NDArray[np.float64] = parts.sum(axis=0)
    is_above = least.min(axis=0) < _LEAST  # these sums are upper bounds
    surely = sums.max(where=~is_above, initial=-np.inf)
    sums[is_above & (sums < surely - _NEGLIGIBLE)] = -np.inf
    unsure = np.flatnonzero(is_above & (sums > -np.inf))
    if len(unsure):
        parts = np.zeros((n_parts, len(unsure)))
        engine.over_rows(
            _sum_all_levels, n_lines, tuple(given), log_prior[unsure], parts, step=CHUNK
        )
        sums[unsure] = parts.sum(axis=0)
    return sums


@jit
def _sum_windows(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64, given: Likelihoods,
    prior: NDArray[np.float64], parts: NDArray[np.float64], least: NDArray[np.float64],
    log_present: NDArray[np.float64], present: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    """Sum out some lines; every part is the sum of so many lines, ``(n_parts, n_priors)``.

    ``least`` is the smallest probability of a line. Where it is below ``_LEAST``, the window does
    not suffice, and the sum is an upper bound.
    """
    n = prior.shape[1]
    values, weights = np.empty((2, given[8].shape[0]))
    totals = np.empty(n)
    products = np.ones(n)  # of sixteen lines, so that few logarithms are needed
    common = 0.0
    for i in range(lo, hi):
        sums, lowest = parts[i // CHUNK], least[i // CHUNK]
        first, end, largest = _fill_window(i, given, values)
        totals[:] = 0.0
        for level in range(first, end):
            if values[level] > largest - FAR:
                relative = exp(values[level] - largest)
                for k in range(n):
                    totals[k] += prior[level, k] * relative
        common += largest
        for k in range(n):
            lowest[k] = min(lowest[k], totals[k])
            products[k] *= max(totals[k], _LEAST)
        if i & 15 == 15 or i == hi - 1:
            for k in range(n):
                sums[k] += common + log(products[k])
                products[k] = 1.0
            common = 0.0
        if levels.shape[0]:
            if _weigh_window(first, end, largest, present, values, weights) < _LEAST:
                _weigh_all(i, given, log_present, values, weights)
                first, end = 0, present.shape[0]
            u = uniform(key, sweep, site, np.uint64(i), _ZERO)
            levels[i] = _draw_from(u, first, end, weights)


@jit
def _sum_all_levels(
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


def log_likelihood(engine: Engine, given: Likelihoods, levels: NDArray[np.integer]) -> float:
    """Return the sum of the log likelihoods of these levels, one for every line."""
    parts = np.zeros(-(-given.n_lines // CHUNK))
    engine.over_rows(
        _sum_levels, given.n_lines, tuple(given), np.asarray(levels, np.int64), parts, step=CHUNK
    )
    return float(parts.sum())


@jit
def _sum_levels(
    lo: int, hi: int, given: Likelihoods, levels: Index, parts: NDArray[np.float64]
) -> None:
    values = np.empty(given[8].shape[0])
    for i in range(lo, hi):
        _fill_block(i, np.uint64(levels[i]), given, values)
        parts[i // CHUNK] += values[levels[i]]


# --- draws -----------------------------------------------------------------------------------


def draw_lines(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64]
) -> Index:
    """Draw the level of every line (eq. 28 and 29)."""
    if np.isneginf(log_prior).sum() == len(log_prior) - 1:  # no spread: all lines have one level
        return np.full(given.n_lines, log_prior.argmax())
    levels = np.empty(given.n_lines, np.int64)
    engine.over_rows(
        _draw_each, given.n_lines, *stream, np.uint64(site), tuple(given), log_prior,
        np.exp(log_prior), levels, step=CHUNK,
    )  # fmt: skip
    return levels


@jit
def _draw_each(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64, given: Likelihoods,
    log_prior: NDArray[np.float64], prior: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    values, weights = np.empty((2, given[8].shape[0]))
    for i in range(lo, hi):
        first, end, largest = _fill_window(i, given, values)
        if _weigh_window(first, end, largest, prior, values, weights) < _LEAST:
            _weigh_all(i, given, log_prior, values, weights)
            first, end = 0, prior.shape[0]
        u = uniform(key, sweep, site, np.uint64(i), _ZERO)
        levels[i] = _draw_from(u, first, end, weights)
