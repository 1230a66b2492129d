"""From some rows to all: memberships and levels of rows, or lines, that were not searched.

Components and codes are known from a subset of the rows. Every row then draws its memberships.
If rows have levels, one must be known to draw the other, and neither gives way later: a row whose
memberships are not known seems to have a high level, at which no component would explain
anything. So the memberships of every row are drawn at several levels, and those that explain it
best are kept. When levels are known, so are memberships at others, about as far away as
components raise a row: a few rows had still taken one for the other.

A line of a large tensor has so many entries that its memberships are known at an average level.
"""

from __future__ import annotations

from itertools import count
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
from thali.sampler.row_terms import subtract_terms
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

_TRIED = (-1.5, 0.0, 1.5)
"""Levels at which memberships are drawn first, as multiples of the spread of rows."""

_ASIDE = (-1.0, -2 / 3, -1 / 3, 1 / 3, 2 / 3, 1.0)
"""How far from a row's level memberships are drawn later, as multiples of the mean jump."""

_SWEEPS = 2
"""Number of sweeps at each of these levels: the first gives a row components that overlap those
which it should have, because these come later. The second takes them away."""

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
    streams = (Stream(key, np.uint64(number)) for number in count(1))
    if not isinstance(state.noise, Levels):
        for _ in range(_PASSES):
            state, odds = _used(update_memberships(next(streams), state, target, odds), odds)
            yield state
        return
    state = state._replace(noise=state.noise.for_rows(target.shape[0]))
    state = yield from _at_best_level(streams, state, target, odds)
    for number in range(_PASSES + _MORE):
        if number == _PASSES and state.noise.hyper.row_spread:
            state = yield from _at_best_level(streams, state, target, odds, is_known=True)
        stream = next(streams)
        noise = draw_levels(stream, state, target, is_column_held=True)
        state = update_memberships(stream, state._replace(noise=noise), target, odds)
        state, odds = _used(state, odds)
        yield state


def _used(state: State, odds: NDArray[np.float64]) -> tuple[State, NDArray[np.float64]]:
    """Drop components without users."""
    is_used = state.factors[0].sizes() > 0
    return state.take(is_used), odds[is_used]


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
    streams: Iterator[Stream], state: State, target: Target, odds: NDArray[np.float64], *,
    is_known: bool = False,
) -> Generator[State, None, State]:  # fmt: skip
    """Draw the memberships of all rows, each at one of some levels, which explains it best.

    If their levels and memberships are known, they are kept where no other level explains more.
    Yields after every level, so that the caller may report or stop.
    """
    noise: Levels = state.noise
    n_rows, grids = target.shape[0], noise.prior.grids
    levels, words = np.asarray(noise.rows, np.int64), state.factors[0].words
    if is_known:
        size = float(np.diff(grids.rows).mean())
        jump = _mean_jump(noise, state.factors[1], odds)
        steps = [round(jump * multiple / size) for multiple in _ASIDE]
        best = _explained(state, target, odds)
    else:
        spread = float(grids.spreads[noise.hyper.row_spread])
        steps = list({nearest(grids.rows, spread * multiple): None for multiple in _TRIED})
        best = np.full(n_rows, _LOWEST)
    for step in steps:
        others = np.clip(levels * is_known + step, 0, len(grids.rows) - 1)
        users = Factor(words, n_rows)
        tried = state._replace(noise=noise.with_rows(others, noise.hyper)).with_factor(0, users)
        tried = target.recount(tried)
        for _ in range(_SWEEPS):
            tried = update_memberships(next(streams), tried, target, odds)
        values = _explained(tried, target, odds)
        is_better = values > best
        (chosen,) = pack(is_better[None])
        words = (words & ~chosen) | (tried.factors[0].words & chosen)
        levels, best = np.where(is_better, others, levels), np.maximum(values, best)
        yield tried
    state = state._replace(noise=noise.with_rows(levels, noise.hyper))
    return target.recount(state.with_factor(0, Factor(words, n_rows)))


def _explained(state: State, target: Target, odds: NDArray[np.float64]) -> Index:
    """Return about the log joint density of every row, in units of a score.

    Sums of integers are the same on any machine. What is the same for all memberships and levels
    of a row is left out. Covered ones count as many times the mean jump as there are: how many
    are in which column is not counted.
    """
    noise: Levels = state.noise
    users, codes = state.factors
    grids, levels = noise.prior.grids, np.asarray(noise.rows, np.int64)
    values, jumps, classes = noise.across(0)
    uncovered, known, (plain, raised) = count_lines(state, target, 0, classes)
    uncovered_odds = values + noise.offset + grids.rows[:, None]
    of_row: Index = fixed(grids.rows)[levels] * (plain + raised)
    of_row += fixed(_mean_jump(noise, codes, odds)) * raised
    of_row += fixed(grids.of_rows[noise.hyper.row_spread])[levels]
    subtract_terms(
        of_row, levels, uncovered, known, fixed(np.logaddexp(0.0, uncovered_odds)),
        fixed(np.logaddexp(0.0, uncovered_odds + jumps)),
    )  # fmt: skip
    bits, of_bits = users.dense(), fixed(odds)
    for first in range(0, len(of_row), _CHUNK):
        part = slice(first, first + _CHUNK)
        of_row[part] += bits[part].astype(np.int64) @ of_bits
    return of_row


def _mean_jump(noise: Levels, codes: Factor, odds: NDArray[np.float64]) -> float:
    """Return the mean jump of covered ones, if rows have components as often as expected."""
    jumps = noise.prior.grids.jumps[noise.jumps]
    chance = expit(noise.column_odds[noise.columns] + jumps)
    chance *= -np.expm1(codes.dense() @ np.log1p(-expit(odds)))
    return float(chance @ jumps) / max(float(chance.sum()), 1e-9)
