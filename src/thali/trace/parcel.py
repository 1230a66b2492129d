"""What a chain in another process has drawn, as arrays, to be put into its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.model import Effects
from thali.trace.draws import Chunk, Draw
from thali.trace.starts import start_arrays, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from thali.sampler import Attempted, State
    from thali.trace.settings import Settings

    Arrays = Mapping[str, NDArray[Any]]


class Parcel(NamedTuple):
    """New draws of a chain and its present state, in the form in which they are stored."""

    draws: Arrays | None  # None if there are none
    now: Arrays | None  # the present state, and moves since the last draw; None before the first
    start: Arrays

    @classmethod
    def pack(
        cls,
        draws: Sequence[Draw],
        state: State | None,
        moves: Mapping[str, tuple[int, int]],
        start: tuple[Attempted, ...],
        settings: Settings,
    ) -> Parcel:
        """Pack what is new."""
        now = None
        if state is not None:
            now = Chunk.of([Draw(state, np.nan, np.nan, moves)], settings.sampled_shape).arrays
        new = Chunk.of(draws, settings.sampled_shape).arrays if draws else None
        return cls(new, now, start_arrays(start))

    def unpack(self, settings: Settings) -> tuple[list[Draw], Draw | None, tuple[Attempted, ...]]:
        """Return the draws, the present state with its moves, and what the start reached."""
        prior = settings.model.priors(len(settings.shape)).noise
        effects = prior if isinstance(prior, Effects) else None

        def draws(arrays: Arrays | None) -> list[Draw]:
            return [] if arrays is None else Chunk(settings.sampled_shape, arrays, effects).draws()

        now = draws(self.now)
        return draws(self.draws), now[0] if now else None, start_of(self.start)
