"""A Markov chain as a generator of sweeps, which the caller may inspect, store or stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.checks import count, is_integer
from thali.sampler.info import Info
from thali.sampler.start import first_state
from thali.sampler.step import step
from thali.sampler.target import Target
from thali.sampler.warming import target_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thali.sampler.state import State


def chain(
    key: np.uint64, target: Target, n_sweeps: int, state: State | None = None
) -> Iterator[tuple[State, Info]]:
    """Yield the state and its :class:`Info` after every sweep.

    A chain is a function of data, settings and key alone: continuing from ``state`` gives the
    same sweeps as a chain that was never stopped.
    """
    if not isinstance(target, Target):
        msg = f"target={type(target).__name__} was given; Target.prepare(data) makes a target."
        raise TypeError(msg)
    if not is_integer(key) or not 0 <= key < 2**64:
        msg = f"key={key!r} was given; chain_key(seed) makes a key of a seed."
        raise ValueError(msg)
    count("n_sweeps", n_sweeps)
    return _sweeps(np.uint64(key), target, n_sweeps, state)


def _sweeps(
    key: np.uint64, target: Target, n_sweeps: int, state: State | None
) -> Iterator[tuple[State, Info]]:
    state = first_state(key, target) if state is None else state
    for _ in range(n_sweeps):
        state, info = step(key, state, target_of(state, target))
        # Whatever is sampled in the warm-up, densities are told of the model.
        yield state, Info(state, target, info.is_warmup, info.moves)
