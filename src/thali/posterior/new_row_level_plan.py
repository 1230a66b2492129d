"""Components under row and column effects, prepared for computing the memberships of new rows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.decide import fixed
from thali.model import Levels
from thali.posterior.new_row_level_chain import sample_levels
from thali.posterior.new_row_level_enumeration import enumerate_levels
from thali.posterior.new_row_levels import LevelTables, NewRowLevels
from thali.posterior.new_row_plan import (
    GIBBS_SWEEPS,
    GIBBS_WARMUP,
    NOTHING,
    choose_method,
    numbers_of_chain,
    states_of,
)
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Unfolding
    from thali.posterior.new_rows import Components


class LevelPlan(NamedTuple):
    """Components and levels, prepared for one of the two methods.

    With 14 components, 65 levels and 1,000 columns, the sum takes about 25 ms per row, and a chain
    about 50 ms if half of the memberships are uncertain.
    """

    n_columns: int
    n_components: int
    is_enumerated: bool
    arrays: tuple[NDArray[Any], ...]  # what the method needs beside the rows

    @classmethod
    def prepare(cls, components: Components, method: str) -> LevelPlan:
        """Check the components, choose the method and lay out what it needs."""
        codes, odds, noise = components
        is_enumerated = choose_method(codes, odds, method)
        levels = NewRowLevels.of(noise) if isinstance(noise, Levels) else noise
        assert isinstance(levels, NewRowLevels)
        if len(levels.columns) != len(codes):
            msg = (
                f"codes of {len(codes)} columns and levels of {len(levels.columns)} columns were "
                "given; both must be of the same columns."
            )
            raise ValueError(msg)
        uncovered, gains, reads_one = LevelTables.of(levels)
        arrays: tuple[NDArray[Any], ...]
        if is_enumerated:
            number, prior = states_of(codes, odds)
            sets, at = np.unique(np.append(0, number), return_inverse=True)
            arrays = at[1:], sets, prior, levels.log_prior, uncovered, gains, reads_one
        else:
            scores = fixed(levels.log_prior), fixed(uncovered), fixed(gains)
            numbers = *numbers_of_chain(codes), _level_numbers()
            arrays = *_list_columns(codes), fixed(odds), *scores, reads_one, *numbers
        n_columns, n_components = codes.shape
        return cls(n_columns, n_components, is_enumerated, arrays)

    def infer(
        self, block: Unfolding, members: NDArray[np.float64], reads: NDArray[np.float64]
    ) -> None:
        """Fill in the probabilities of memberships; of reading one, too, if it has columns."""
        known = NOTHING if block.known is None else block.known
        if self.is_enumerated:
            enumerate_levels(block.ones, known, *self.arrays, members, reads)
        else:
            sample_levels(block.ones, known, *self.arrays, GIBBS_WARMUP, members, reads)


def _list_columns(codes: NDArray[np.bool_]) -> tuple[Index, Index]:
    """Return the columns of all components, and where those of each begin and end."""
    starts = np.append(0, codes.sum(axis=0).cumsum())
    # Contiguous, as elsewhere: a kernel is compiled again for another layout.
    return starts, np.ascontiguousarray(np.nonzero(codes.T)[1])


@lru_cache(maxsize=8)
def _level_numbers(key: int = 0) -> NDArray[np.uint64]:
    """Return the random numbers for a row's levels, which are the same for all rows and calls."""
    sweeps = range(GIBBS_WARMUP + GIBBS_SWEEPS)
    streams = (Stream(np.uint64(key), np.uint64(sweep)) for sweep in sweeps)
    return np.concatenate([stream.bits(Site.MEMBERSHIP, 1, row=3) for stream in streams])
