"""Draws whose modes are in the order of the data, although the sampler puts one mode first."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.layout import from_front, to_front
from thali.model import Levels
from thali.model.classes import ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model.levels import Across
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
        noise = state.noise
        if isinstance(noise, Levels):
            noise = _Reordered(noise, self._mode)
        return draw._replace(
            state=state._replace(factors=factors, densities=densities, noise=noise)
        )


class _Reordered(Levels):
    """The levels of a sampler that has put one mode first, seen in the order of the data.

    Lines, classes and log odds are those of the data. Rows, columns and jumps, of which summaries
    are made, stay those of the sampler.
    """

    def __init__(self, own: Levels, mode: int) -> None:
        super().__init__(own.prior, own.rows, own.columns, own.jumps, own.hyper, own.more)
        self._own = own
        self._order = to_front(range(len(own.lines)), mode)  # modes of the data

    @property
    def lines(self) -> tuple[NDArray[Any], ...]:
        return from_front(self._own.lines, self._order[0])

    def grid(self, mode: int) -> NDArray[np.float64]:
        return self._own.grid(self._order.index(mode))

    @cached_property
    def row_classes(self) -> tuple[Index, Index]:
        levels, _, classes = self._own.column_classes  # in a matrix, these lines have jumps
        return ranks(self.lines[0]) if self.more else (levels, classes)

    def across(self, mode: int) -> Across:
        if self.more:
            return super().across(mode)
        assert mode == 0  # data are read by rows
        return self._own.across(1)

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        return self._log_odds(0) if self.more else self._own.log_odds.swapaxes(0, 1)

    def entry_odds(self, positions: Index, covered: NDArray[Any]) -> NDArray[np.float64]:
        return self._own.entry_odds(positions[:, self._order], covered)

    def odds_of_rows(self, rows: Index, covered: NDArray[np.bool_]) -> NDArray[np.float64]:
        parts = [self.grid(mode)[levels] for mode, levels in enumerate(self.lines)]
        parts[0] = parts[0][rows] + self.offset
        jumps = self.prior.grids.jumps[self.jumps][rows if not self.more else [0]]
        odds = reduce(np.add.outer, parts)
        found: NDArray[np.float64] = odds + jumps.reshape(-1, *(1,) * (odds.ndim - 1)) * covered
        return found
