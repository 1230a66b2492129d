"""What a chain carries, and what it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Confusion, Factor, Index, Words
    from thali.model import Noise


class State(NamedTuple):
    """All that the next sweep needs, and nothing else."""

    factors: tuple[Factor, ...]  # one per mode
    noise: Noise
    alpha: float  # concentration of the buffet; not used if the number of components is fixed
    densities: tuple[NDArray[np.float64], ...]  # per mode: a scalar, or one a component
    covered: tuple[int, int]  # ones and zeros predicted one: saves a pass over the data
    sweep: int  # completed sweeps: the only random-number state there is

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.factors[0].n_components

    def take(self, components: NDArray[np.intp] | NDArray[np.bool_]) -> State:
        """Select or reorder components."""
        return self._replace(
            factors=tuple(f.take(components) for f in self.factors),
            densities=tuple(d if d.ndim == 0 else d[components] for d in self.densities),
        )

    def replaced(
        self,
        is_rest: NDArray[np.bool_],
        users: Words,
        codes: Words,
        densities: NDArray[np.float64],
    ) -> State:
        """Keep some components of a matrix and append others; covered is not updated."""
        kept = self.take(is_rest)
        factors = (kept.factors[0].append(users), kept.factors[1].append(codes))
        if kept.densities[1].ndim:
            own = np.concatenate([kept.densities[1], densities])
            kept = kept._replace(densities=(kept.densities[0], own))
        return kept._replace(factors=factors)

    def put(self, components: Index, users: Words, codes: Words) -> State:
        """Put other components in the place of some of a matrix; covered is not updated."""
        factors = []
        for factor, new in zip(self.factors, (users, codes), strict=True):
            words = factor.words.copy()
            words[components] = new
            factors.append(factor._replace(words=words))
        return self._replace(factors=tuple(factors))


class Info(NamedTuple):
    """What is merely interesting about a sweep."""

    n_components: int
    log_joint: float  # log density of data, factors (as a set of components), rates and all
    log_likelihood: float
    confusion: Confusion
    is_warmup: bool
    moves: tuple[tuple[int, int], ...] = ()  # tried and accepted, of every kind
