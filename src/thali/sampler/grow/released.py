"""States of a tensor whose lines have levels, before a start is put on trial."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thali.sampler.grow.growth import FIRST_JUMP, FITS
from thali.sampler.levels import draw_levels
from thali.sampler.step import step
from thali.streams import Stream

if TYPE_CHECKING:
    from thali.sampler.state import State
    from thali.sampler.target import Target

_TRIES = 12
"""How often per sweep components are born or die by the moves of boxes while a start grows."""


def fitted_levels(key: np.uint64, target: Target) -> State:
    """Return a state without components whose levels are fitted to the data.

    The number of components is inferred.
    """
    state = target.initial(key)
    state = state._replace(noise=state.noise.with_jump(FIRST_JUMP))
    for number in range(FITS):
        stream = Stream(key, np.uint64(number))
        noise = draw_levels(stream, state, target, number=number, is_jump_held=True)
        state = state._replace(noise=noise)
    return state


def eager_births(target: Target) -> Target:
    """Return the same target with more tries of the moves by which components are born."""
    schedule = replace(target.schedule, seeded=_TRIES, residual=1)
    return target._replace(schedule=schedule)


def swept(key: np.uint64, target: Target, state: State, n_sweeps: int) -> State:
    """Return the state after some sweeps."""
    target = target._replace(schedule=replace(target.schedule, warmup=1 << 30))
    for number in range(n_sweeps):
        state, _ = step(key, state._replace(sweep=number), target)
    return state
