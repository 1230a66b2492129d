"""What a chain carries, and what it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Confusion, Factor
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


class Info(NamedTuple):
    """What is merely interesting about a sweep."""

    n_components: int
    log_joint: float  # log density of data, factors (as a set of components), rates and all
    log_likelihood: float
    confusion: Confusion
    is_warmup: bool
    moves: tuple[tuple[int, int], ...] = ()  # tried and accepted, of every kind
