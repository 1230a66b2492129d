"""From some rows to all: memberships and levels of rows, or lines, that were not searched.

Components and codes are known from a subset of the rows. Every row then draws its memberships.
If rows have levels, one must be known to draw the other, and neither gives way later: a row whose
memberships are not known seems to have a high level, at which no component would explain
anything. So the memberships of every row are drawn at several levels, and those that explain it
best are kept (:mod:`thali.sampler.other_levels`).

A line of a large tensor has so many entries that its memberships are known at an average level.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor
from thali.model import Levels
from thali.sampler.levels import draw_levels
from thali.sampler.other_levels import at_first_level, at_other_levels, odds_of_rows
from thali.sampler.step import update_memberships, update_mode
from thali.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.sampler.state import State
    from thali.sampler.target import Target

_PASSES = 2
"""Number of passes over the memberships of all rows: in the first pass, the memberships of a
component are drawn before those of later components, which may explain the same entries better."""

_MORE = 2
"""Number of further passes if lines have levels, which are drawn in turn with memberships."""


def for_all_rows(key: np.uint64, state: State, target: Target) -> Iterator[State]:
    """Draw memberships and levels of all rows, given the components found on the subset."""
    state = state.take(state.factors[0].sizes() > 1)  # not those that a single row uses
    odds = odds_of_rows(state)
    users = Factor.from_dense(np.zeros((target.shape[0], state.n_components), np.bool_))
    state = state.with_factor(0, users)._replace(covered=(0, 0), sweep=0)
    streams = (Stream(key, np.uint64(number)) for number in count(1))
    if not isinstance(state.noise, Levels):
        for _ in range(_PASSES):
            state, odds = _used(update_memberships(next(streams), state, target, odds), odds)
            yield state
        return
    state = state._replace(noise=state.noise.for_rows(target.shape[0]))
    for found in at_first_level(streams, state, target, odds):
        yield (state := found)
    for number in range(_PASSES + _MORE):
        if number == _PASSES:
            for better in at_other_levels(streams, state, target, 0, odds):
                yield (state := better)
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
    odds = odds_of_rows(state, n_first)
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
