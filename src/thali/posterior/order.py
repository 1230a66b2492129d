"""Draws whose modes are in the order of the data, although the sampler puts one mode first."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from thali.data.layout import from_front
from thali.model import Levels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler import Attempted
    from thali.trace import Draw, Store
    from thali.trace.draws import Scalars


class Ordered:
    """The draws of a chain, with their modes in the order of the data."""

    def __init__(self, chain: Store, mode: int) -> None:
        self._chain = chain
        self._mode = mode

    @property
    def start(self) -> tuple[Attempted, ...]:
        """What the start of the chain reached."""
        return self._chain.start

    @property
    def wall_seconds(self) -> float:
        """Duration of sampling in seconds."""
        return self._chain.wall_seconds

    def __len__(self) -> int:
        return len(self._chain)

    def __getitem__(self, index: int) -> Draw:
        return self._in_order(self._chain[index])

    def __iter__(self) -> Iterator[Draw]:
        return map(self._in_order, self._chain)

    def scalars(self) -> Scalars:
        """Return all quantities of the draws except the factors."""
        scalars = self._chain.scalars()
        modes = from_front(range(scalars.densities.shape[1]), self._mode)
        return scalars._replace(densities=scalars.densities[:, modes])

    def _in_order(self, draw: Draw) -> Draw:
        state = draw.state
        factors = from_front(state.factors, self._mode)
        densities = from_front(state.densities, self._mode)
        noise = _Transposed(state.noise) if isinstance(state.noise, Levels) else state.noise
        return draw._replace(
            state=state._replace(factors=factors, densities=densities, noise=noise)
        )


class _Transposed(Levels):
    """The levels of a matrix whose rows and columns the sampler has exchanged.

    Classes and log odds are those of the data; levels and jumps are those of the sampler, whose
    rows are the columns of the data.
    """

    def __init__(self, own: Levels) -> None:
        super().__init__(own.prior, own.rows, own.columns, own.jumps, own.hyper)
        self._own = own

    @cached_property
    def row_classes(self) -> tuple[Index, Index]:
        levels, _, classes = self._own.column_classes
        return levels, classes

    @cached_property
    def column_classes(self) -> tuple[Index, Index, Index]:
        levels, classes = self._own.row_classes
        return levels, np.zeros_like(levels), classes

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        return self._own.log_odds.swapaxes(0, 1)
