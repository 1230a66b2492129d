"""The state of a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index, Words


class State(NamedTuple):
    """Everything that the next sweep needs, and nothing else."""

    factors: tuple[Factor, ...]  # one per mode
    noise: Any  # error rates (Noise), or levels of rows and columns (Levels)
    alpha: float  # concentration of the buffet; not used if the number of components is fixed
    densities: tuple[NDArray[np.float64], ...]  # per mode: a scalar, or one per component
    covered: tuple[int, int]  # known ones and zeros predicted as one; saves a pass over the data
    sweep: int  # completed sweeps: the only random-number state there is

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.factors[0].n_components

    def with_order(self, factors: tuple[Factor, ...], order: Index | NDArray[np.bool_]) -> State:
        """Return the state with factors whose components an engine has selected or reordered."""
        densities = tuple([d if d.ndim == 0 else d[order] for d in self.densities])
        return State(factors, self.noise, self.alpha, densities, self.covered, self.sweep)

    def with_factor(self, mode: int, factor: Factor, gained: tuple[int, int] = (0, 0)) -> State:
        """Return the state with another factor of one mode, which newly covers so many entries."""
        factors = (*self.factors[:mode], factor, *self.factors[mode + 1 :])
        covered = self.covered[0] + gained[0], self.covered[1] + gained[1]
        return State(factors, self.noise, self.alpha, self.densities, covered, self.sweep)

    def take(self, components: Index | NDArray[np.bool_]) -> State:
        """Select or reorder components."""
        return self.with_order(tuple(f.take(components) for f in self.factors), components)

    def append(self, lines: Sequence[Words], density: NDArray[np.float64] | None = None) -> State:
        """Add components at the end; ``covered`` is not updated.

        Parameters
        ----------
        lines
            One array per mode, ``(n_new, n_words)``.
        density
            Densities of the new components in the modes where every component has its own.
        """
        both = zip(self.factors, lines, strict=True)
        factors = tuple(factor.append(words) for factor, words in both)
        new = np.zeros(0) if density is None else density
        densities = tuple(d if d.ndim == 0 else np.append(d, new) for d in self.densities)
        return self._replace(factors=factors, densities=densities)

    def put(self, components: Index, lines: Sequence[Words]) -> State:
        """Replace some components by others; ``covered`` is not updated."""
        both = zip(self.factors, lines, strict=True)
        return self._replace(factors=tuple(f.put(components, words) for f, words in both))
