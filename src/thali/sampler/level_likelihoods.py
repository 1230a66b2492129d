# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The likelihood of every level of every line, sums over levels, and draws of levels (eq. 28, 30).

Sums and draws are shared among threads in chunks of lines, whose number does not depend on the
threads: the results are the same on any number of them.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import jit
from thali.streams import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine
    from thali.sampler.level_counts import LineCounts
    from thali.streams import Stream

_LEAST = -690.0
"""Logarithm of likelihoods, relative to the largest, that are as good as zero: 1e-300."""

CHUNK = 1 << 11
"""Lines that one thread does at a time, and that are added up together."""

_NEGLIGIBLE = 50.0
"""What is less probable by this much, in logarithms, is never drawn."""

_SMALL = 1e-30
"""Smaller probabilities are not multiplied with those of seven other lines."""


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


def log_likelihoods(
    engine: Engine,
    counts: LineCounts,
    softplus: NDArray[np.float64],
    n_ones: Index,
    grid: NDArray[np.float64],
    which: Index | None = None,
) -> NDArray[np.float64]:
    """Return ones times level minus the sum of counts times softplus, for every line and level."""
    n_lines = len(counts.free)
    if which is None:
        which = np.zeros(n_lines, np.int64)
    table = np.empty((n_lines, len(grid)))
    engine.over_rows(
        _fill_table, n_lines, counts.free, counts.known, softplus, n_ones, grid, which, table,
        step=CHUNK,
    )  # fmt: skip
    return table


@jit
def _fill_table(
    lo: int, hi: int, free: Index, known: Index, softplus: NDArray[np.float64], n_ones: Index,
    grid: NDArray[np.float64], which: Index, table: NDArray[np.float64],
) -> None:  # fmt: skip
    n_classes = free.shape[1]
    n_levels = grid.shape[0]
    for i in range(lo, hi):
        out = table[i]
        out[:] = 0.0
        for c in range(n_classes):
            n_known = known[i, c, 0] + known[i, c, 1]
            if n_known == 0:
                continue
            n_free = free[i, c, 0] + free[i, c, 1]
            n_uncovered, n_covered = np.float64(n_free), np.float64(n_known - n_free)
            uncovered, covered = softplus[which[i], c, 0], softplus[which[i], c, 1]
            if n_covered == 0.0:
                for level in range(n_levels):
                    out[level] -= n_uncovered * uncovered[level]
            else:
                for level in range(n_levels):
                    out[level] -= n_uncovered * uncovered[level] + n_covered * covered[level]
        for level in range(n_levels):
            out[level] += n_ones[i] * grid[level]


class Likelihoods(NamedTuple):
    """Likelihood of every level of a line, relative to its likeliest."""

    largest: float  # sum over lines of the log likelihood of the likeliest level
    logs: NDArray[np.float64]  # (n_lines, n_levels)
    relative: NDArray[np.float64]  # with impossible levels, to a multiple of four


def to_likelihoods(engine: Engine, table: NDArray[np.float64]) -> Likelihoods:
    """Return likelihoods given log likelihoods, which are changed in place."""
    n_lines, n_levels = table.shape
    relative = np.empty((n_lines, (n_levels + 3) // 4 * 4))
    largest = float(table.max(axis=1).sum())
    engine.over_rows(_exponentials, n_lines, table, relative, step=CHUNK)
    return Likelihoods(largest, table, relative)


@jit
def _exponentials(
    lo: int, hi: int, table: NDArray[np.float64], relative: NDArray[np.float64]
) -> None:
    for i in range(lo, hi):
        largest = table[i].max()
        relative[i] = 0.0
        for level in range(table.shape[1]):
            table[i, level] -= largest
            if table[i, level] > _LEAST:
                relative[i, level] = exp(table[i, level])


def sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of every prior, with the levels of all lines summed out (eq. 30).

    ``log_prior`` is ``(n_priors, n_levels)``. What all priors have in common is left out.
    """
    prior = np.zeros((given.relative.shape[1], len(log_prior)))
    prior[: log_prior.shape[1]] = np.exp(log_prior).T
    n_lines = len(given.logs)
    parts = np.zeros((-(-n_lines // CHUNK), len(log_prior)))  # whatever the number of threads
    engine.over_rows(_sum_out, n_lines, given.relative, prior, parts, step=CHUNK)
    sums: NDArray[np.float64] = parts.sum(axis=0)
    if sums.max() > _LEAST + _NEGLIGIBLE:
        return sums  # what is too small for these numbers is at most exp(_LEAST)
    for k in np.flatnonzero(np.isinf(sums)):  # too small for these numbers, but not impossible
        level = log_prior[k].argmax()
        if np.isinf(log_prior[k]).sum() == log_prior.shape[1] - 1:
            sums[k] = given.logs[:, level].sum()
        else:
            own = np.zeros(len(parts))
            engine.over_rows(_log_sum_out, n_lines, given.logs, log_prior[k], own, step=CHUNK)
            sums[k] = own.sum()
    return sums


@jit
def _log_sum_out(
    lo: int, hi: int, logs: NDArray[np.float64], log_prior: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> None:  # fmt: skip
    """Compute the same for one prior, so that nothing is too small."""
    for i in range(lo, hi):
        largest = -np.inf
        for level in range(logs.shape[1]):
            largest = max(largest, logs[i, level] + log_prior[level])
        sum_ = 0.0
        for level in range(logs.shape[1]):
            sum_ += exp(logs[i, level] + log_prior[level] - largest)
        parts[i // CHUNK] += largest + log(sum_)


@jit
def _sum_out(
    lo: int, hi: int, relative: NDArray[np.float64], prior: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> None:  # fmt: skip
    """Sum out some lines; every part is the sum of so many lines, ``(n_parts, n_priors)``."""
    n_levels, n = prior.shape
    totals = np.empty(n)
    products = np.ones(n)  # of some lines, so that few logarithms are needed
    for i in range(lo, hi):
        sums = parts[i // CHUNK]
        totals[:] = 0.0
        for level in range(0, n_levels, 4):  # four at a time take half the time
            some, of_some = relative[i, level : level + 4], prior[level : level + 4]
            v0, v1, v2, v3 = some[0], some[1], some[2], some[3]
            if v0 + v1 + v2 + v3 == 0.0:
                continue
            p0, p1, p2, p3 = of_some[0], of_some[1], of_some[2], of_some[3]
            for k in range(n):
                totals[k] += p0[k] * v0 + p1[k] * v1 + p2[k] * v2 + p3[k] * v3
        for k in range(n):
            if totals[k] < _SMALL:
                sums[k] += log(totals[k]) if totals[k] > 0.0 else -np.inf
            else:
                products[k] *= totals[k]
        if i & 7 == 7 or i == hi - 1:
            for k in range(n):
                sums[k] += log(products[k])
                products[k] = 1.0


def draw_lines(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64]
) -> Index:
    """Draw the level of every line (eq. 28 and 29)."""
    n_lines = len(given.logs)
    if np.isinf(log_prior).sum() == len(log_prior) - 1:  # no spread: all lines have one level
        return np.full(n_lines, log_prior.argmax())
    levels = np.empty(n_lines, np.int64)
    engine.over_rows(
        _draw_each, n_lines, *stream, np.uint64(site), *given[1:], log_prior, np.exp(log_prior),
        levels, step=CHUNK,
    )  # fmt: skip
    return levels


@jit
def _draw_each(
    lo: int, hi: int, key: np.uint64, sweep: np.uint64, site: np.uint64,
    logs: NDArray[np.float64], relative: NDArray[np.float64], log_prior: NDArray[np.float64],
    prior: NDArray[np.float64], levels: Index,
) -> None:  # fmt: skip
    n_levels = logs.shape[1]
    weights = np.empty(n_levels)
    for i in range(lo, hi):
        total = 0.0
        for level in range(n_levels):
            weights[level] = relative[i, level] * prior[level]
            total += weights[level]
        if total < _SMALL:
            largest = (logs[i] + log_prior).max()
            total = 0.0
            for level in range(n_levels):
                weights[level] = exp(logs[i, level] + log_prior[level] - largest)
                total += weights[level]
        left = uniform(key, sweep, site, np.uint64(i), np.uint64(0)) * total
        chosen = n_levels - 1
        for level in range(n_levels):
            left -= weights[level]
            if left < 0.0:
                chosen = level
                break
        levels[i] = chosen
