"""A chain: sweep after sweep, for whoever wants to look, store or stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.sampler.step import step

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from thali.sampler.state import Info, State
    from thali.sampler.target import Target


def chain(
    key: np.uint64, target: Target, n_sweeps: int, state: State | None = None
) -> Iterator[tuple[State, Info]]:
    """Yield the state after every sweep.

    A chain is a function of data, settings and key alone: going on from ``state`` gives the
    same sweeps as never having stopped.
    """
    state = target.initial(key) if state is None else state
    for _ in range(n_sweeps):
        state, info = step(key, state, target)
        yield state, info
