"""Lines of a matrix at other levels: another one may explain them better, with other components.

A row that has a high level in place of its components keeps it, because neither gives way alone,
and so does a column. Before the draws count, lines are therefore given components at several
levels, each of them as sweeps at that level draw, and keep what explains them best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from thali.bits import Factor
from thali.bits.words import pack
from thali.decide import fixed
from thali.model.level_grids import nearest
from thali.sampler.level_counts import count_lines
from thali.sampler.line_terms import subtract_terms
from thali.sampler.step import update_memberships, update_mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_TRIED = (-1.5, 0.0, 1.5)
"""Levels of which one is right enough to begin with, as multiples of the spread of rows."""

_ASIDE = (-1.0, -2 / 3, -1 / 3, 1 / 3, 2 / 3, 1.0)
"""How far away other levels are, as multiples of the mean jump: components raise a line by it."""

_SWEEPS = 2
"""Number of sweeps at each level: the first gives a line components that overlap those which it
should have, because these come later. The second takes them away."""

_CHUNK = 1 << 16
"""Number of lines whose bits are turned into numbers of 64 bits at a time."""

_LOWEST = np.iinfo(np.int64).min


def odds_of_rows(state: State, n_rows: int | None = None) -> NDArray[np.float64]:
    """Return the log odds of the components, the weights of the Beta process at their means (P5).

    ``n_rows`` of the rows may have components, or all of them.
    """
    sizes = np.maximum(state.factors[0].sizes(), 0.5)
    n_rows = state.factors[0].n_rows if n_rows is None else n_rows
    odds: NDArray[np.float64] = np.log(sizes) - np.log(n_rows + 1.0 - sizes)
    return odds


def at_first_level(
    streams: Iterator[Stream], state: State, target: Target, odds: NDArray[np.float64]
) -> Iterator[State]:
    """Give every row, of which nothing is known, a level and components.

    Yields after every level, so that the caller may report or stop; the last state counts.
    """
    noise: Levels = state.noise
    grids = noise.prior.grids
    spread = float(grids.spreads[noise.hyper.row_spread])
    tried = {nearest(grids.rows, spread * multiple): None for multiple in _TRIED}
    yield from _best_of(streams, state, target, 0, odds, [*tried], is_known=False)


def at_other_levels(
    streams: Iterator[Stream], state: State, target: Target, mode: int,
    odds: NDArray[np.float64] | None = None,
) -> Iterator[State]:  # fmt: skip
    """Give rows, or columns, another level and other components where these explain more.

    Without ``odds``, those of rows follow from the components. Yields after every level; the last
    state counts. Nothing is yielded if there is nothing to gain.
    """
    noise: Levels = state.noise
    grid = noise.grid(mode)
    spread = noise.hyper.column_spread if mode else noise.hyper.row_spread
    if not spread or len(grid) < 2 or state.n_components == 0:
        return
    if odds is None:
        odds = logit(state.densities[mode]) if mode else odds_of_rows(state)
    odds = np.broadcast_to(odds, (state.n_components,))
    size, jump = float(np.diff(grid).mean()), float(noise.prior.grids.jumps[noise.jumps].mean())
    steps = [round(jump * multiple / size) for multiple in _ASIDE]
    yield from _best_of(streams, state, target, mode, odds, steps, is_known=True)


def _best_of(
    streams: Iterator[Stream], state: State, target: Target, mode: int,
    odds: NDArray[np.float64], numbers: Sequence[int], *, is_known: bool,
) -> Iterator[State]:  # fmt: skip
    """Draw the bits of all lines at other levels, one after the other, and keep the best.

    ``numbers`` are levels; if levels are known, they are steps from the best one so far.
    """
    noise: Levels = state.noise
    n_lines, highest = target.shape[mode], len(noise.grid(mode)) - 1
    levels, words = np.asarray(noise.lines[mode], np.int64), state.factors[mode].words
    best = _explained(state, target, mode, odds) if is_known else np.full(n_lines, _LOWEST)
    for number in numbers:
        others = np.clip(is_known * levels + number, 0, highest)
        tried = state._replace(noise=_with_levels(noise, mode, others))
        tried = target.recount(tried.with_factor(mode, Factor(words, n_lines)))
        for _ in range(_SWEEPS):
            if mode:
                tried = update_mode(next(streams), tried, target, mode)
            else:
                tried = update_memberships(next(streams), tried, target, odds)
        values = _explained(tried, target, mode, odds)
        is_better = values > best
        (chosen,) = pack(is_better[None])
        words = (words & ~chosen) | (tried.factors[mode].words & chosen)
        levels, best = np.where(is_better, others, levels), np.maximum(values, best)
        yield tried
    state = state._replace(noise=_with_levels(noise, mode, levels))
    yield target.recount(state.with_factor(mode, Factor(words, n_lines)))


def _with_levels(noise: Levels, mode: int, levels: Index) -> Levels:
    """Return other levels of rows or columns; columns keep their jumps."""
    if mode:
        return noise.with_columns(levels, noise.jumps, noise.hyper)
    return noise.with_rows(levels, noise.hyper)


def _explained(state: State, target: Target, mode: int, odds: NDArray[np.float64]) -> Index:
    """Return about the log joint density of every line, in units of a score.

    Sums of integers are the same on any machine. What is the same for all bits and levels of a
    line is left out. Covered ones of a row count as many times the mean jump as there are: how
    many are in which column is not counted.
    """
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    if mode:
        levels, own_jumps, of_lines = noise.column_classes
        raised_by = jumps_of_own = grids.jumps[own_jumps]
        of_levels = grids.of_columns[hyper.column_mean, hyper.column_spread]
    else:
        levels, of_lines = noise.row_classes
        _, codes = state.factors
        raised_by = np.full(len(levels), _jump_of_covered(noise, codes, odds))
        jumps_of_own, of_levels = np.zeros(len(levels)), grids.of_rows[hyper.row_spread]
    values, jumps, classes = noise.across(mode)
    uncovered, known, (plain, raised) = count_lines(state, target, mode, classes)
    own = noise.grid(mode)[levels][:, None]
    log_odds = own + values + noise.offset
    further = jumps_of_own[:, None] + (jumps if len(jumps) else 0.0)
    scores: Index = fixed(own[:, 0])[of_lines] * (plain + raised)
    scores += fixed(raised_by)[of_lines] * raised
    scores += fixed(of_levels[levels])[of_lines]
    subtract_terms(
        scores, of_lines, uncovered, known, fixed(np.logaddexp(0.0, log_odds)),
        fixed(np.logaddexp(0.0, log_odds + further)),
    )  # fmt: skip
    bits, of_bits = state.factors[mode].dense(), fixed(odds)
    for first in range(0, len(scores), _CHUNK):
        part = slice(first, first + _CHUNK)
        scores[part] += bits[part].astype(np.int64) @ of_bits
    return scores


def _jump_of_covered(noise: Levels, codes: Factor, odds: NDArray[np.float64]) -> float:
    """Return the mean jump of covered ones, if rows have components as often as expected."""
    jumps = noise.prior.grids.jumps[noise.jumps]
    chance = expit(noise.column_odds[noise.columns] + jumps)
    chance *= -np.expm1(codes.dense() @ np.log1p(-expit(odds)))
    return float(chance @ jumps) / max(float(chance.sum()), 1e-9)
