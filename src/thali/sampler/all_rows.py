"""From some rows to all: memberships and levels of rows, or lines, that were not searched.

Components and codes are known from a subset of the rows. Every row then draws its memberships.
If rows have levels, one must be known to draw the other, and neither gives way later: a row whose
memberships are not known seems to have a high level, at which no component would explain
anything. So the memberships of every row are drawn at several levels, and those that explain it
best are kept.

A line of a large tensor has so many entries that its memberships are known at an average level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from thali.bits import Factor
from thali.bits.words import pack
from thali.decide import fixed
from thali.model import Levels
from thali.model.level_grids import nearest
from thali.sampler.level_counts import count_lines
from thali.sampler.levels import draw_levels
from thali.sampler.step import update_memberships, update_mode
from thali.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.state import State
    from thali.sampler.target import Target

_PASSES = 2
"""Number of passes over the memberships of all rows: in the first pass, the memberships of a
component are drawn before those of later components, which may explain the same entries better."""

_MORE = 2
"""Number of further passes if lines have levels, which are drawn in turn with memberships."""

_TRIED = (-2.25, -1.5, -0.75, 0.0, 0.75, 1.5, 2.25)
"""Levels at which memberships are drawn first, as multiples of the spread of rows."""

_CHUNK = 1 << 16
"""Number of rows whose counts are turned into numbers of 64 bits at a time."""

_LOWEST = np.iinfo(np.int64).min


def for_all_rows(key: np.uint64, state: State, target: Target) -> Iterator[State]:
    """Draw memberships and levels of all rows, given the components found on the subset."""
    sizes = state.factors[0].sizes()
    state = state.take(sizes > 1)  # drop components that a single row uses
    # The weights of the Beta process are set to their means (P5).
    sizes = sizes[sizes > 1]
    odds = np.log(sizes) - np.log(state.factors[0].n_rows + 1.0 - sizes)
    users = Factor.from_dense(np.zeros((target.shape[0], len(sizes)), np.bool_))
    state = state.with_factor(0, users)._replace(covered=(0, 0), sweep=0)
    has_levels = isinstance(state.noise, Levels)
    if has_levels:
        state = state._replace(noise=state.noise.for_rows(target.shape[0]))
    for number in range(_PASSES + _MORE * has_levels):
        stream = Stream(key, np.uint64(1 + number))
        if has_levels:
            if number == 0:
                state = yield from _at_best_level(key, state, target, odds)
            noise = draw_levels(stream, state, target, is_column_held=True)
            state = state._replace(noise=noise)
        state = update_memberships(stream, state, target, odds)
        is_used = state.factors[0].sizes() > 0
        state, odds = state.take(is_used), odds[is_used]
        yield state


def for_all_lines(key: np.uint64, state: State, target: Target, n_first: int) -> Iterator[State]:
    """Draw memberships and levels of all lines of a tensor, given the components of some lines.

    Of ``n_first`` rows it is known already which components they have; lines that were not
    searched have none, and average levels. Their levels are drawn after their memberships.
    """
    sizes = np.maximum(state.factors[0].sizes(), 0.5)
    odds = np.log(sizes) - np.log(n_first + 1.0 - sizes)
    has_levels = isinstance(state.noise, Levels)
    for number in range(_PASSES + _MORE * has_levels):
        stream = Stream(key, np.uint64(1 + number))
        state = update_memberships(stream, state, target, odds)
        for mode in range(1, len(target.shape)):
            state = update_mode(stream, state, target, mode)
        if has_levels:
            state = state._replace(noise=draw_levels(stream, state, target))
        yield state
    if not target.model.is_finite:
        yield state.take(state.factors[0].sizes() > 0)


def _at_best_level(
    key: np.uint64, state: State, target: Target, odds: NDArray[np.float64]
) -> Generator[State, None, State]:
    """Draw the memberships of all rows, each at one of some levels, which explains it best.

    Yields after every level, so that the caller may report or stop.
    """
    noise: Levels = state.noise
    grids = noise.prior.grids
    spread = float(grids.spreads[noise.hyper.row_spread])
    best, words = np.full(target.shape[0], _LOWEST), state.factors[0].words
    levels = dict.fromkeys(nearest(grids.rows, spread * multiple) for multiple in _TRIED)
    for number, level in enumerate(levels):
        rows = np.full(target.shape[0], level)
        tried = state._replace(noise=noise.with_rows(rows, noise.hyper))
        stream = Stream(key, np.uint64(1 + _PASSES + _MORE + number))
        tried = update_memberships(stream, tried, target, odds)
        values = _explained(tried, target, odds, level)
        (is_better,) = pack((values > best)[None])
        words = (words & ~is_better) | (tried.factors[0].words & is_better)
        np.maximum(values, best, out=best)
        yield tried
    users = Factor(words, target.shape[0])
    return target.recount(state.with_factor(0, users))


def _explained(state: State, target: Target, odds: NDArray[np.float64], level: int) -> Index:
    """Return about the log joint density of every row, all rows being of one level.

    It is in units of a score: sums of integers are the same on any machine.

    What is the same for all memberships and levels of a row is left out. Covered ones count as
    many times the mean jump as there are: how many are in which column is not counted.
    """
    noise: Levels = state.noise
    users, codes = state.factors
    values, jumps, classes = noise.across(0)
    uncovered, known, (plain, raised) = count_lines(state, target, 0, classes)
    own = float(noise.prior.grids.rows[level])
    of_uncovered = fixed(np.logaddexp(0.0, values + noise.offset + own))
    of_covered = fixed(np.logaddexp(0.0, values + noise.offset + own + jumps))
    of_row: Index = fixed(own) * (plain + raised)
    of_row += fixed(_mean_jump(noise, codes, odds)) * raised
    of_row += fixed(noise.prior.grids.of_rows[noise.hyper.row_spread, level])
    bits, of_bits = users.dense(), fixed(odds)
    for first in range(0, len(of_row), _CHUNK):
        part = slice(first, first + _CHUNK)
        of_known = known[part] if len(known) > 1 else known
        of_row[part] -= uncovered[part].astype(np.int64) @ (of_uncovered - of_covered)
        of_row[part] -= of_known.astype(np.int64) @ of_covered
        of_row[part] += bits[part].astype(np.int64) @ of_bits
    return of_row


def _mean_jump(noise: Levels, codes: Factor, odds: NDArray[np.float64]) -> float:
    """Return the mean jump of covered ones, if rows have components as often as expected."""
    jumps = noise.prior.grids.jumps[noise.jumps]
    chance = expit(noise.column_odds[noise.columns] + jumps)
    chance *= -np.expm1(codes.dense() @ np.log1p(-expit(odds)))
    return float(chance @ jumps) / max(float(chance.sum()), 1e-9)
