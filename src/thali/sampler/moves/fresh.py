# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Densities of components that tries of moves would make new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit
from thali.model import PerComponent
from thali.sampler.moves.move import repeated
from thali.streams import read_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


def densities_of(
    stream: Stream, tries: Index, places: Words, state: State, target: Target
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the density of every component, and that of a new one in every try.

    ``places`` has site and index of the random number, by kind of move.
    """
    (density,), (prior,) = state.densities[1:], target.priors.densities[1:]
    if density.ndim == 0:
        common = float(density)
        return repeated(common, state.n_components), repeated(common, len(tries))
    if target.priors.buffet is None:  # no component is new
        return density, np.zeros(len(tries))
    assert isinstance(prior, PerComponent)
    return density, prior.choose(_read(*stream, tries, places))


@jit
def _read(key: np.uint64, sweep: np.uint64, tries: Index, places: Words) -> NDArray[np.float64]:
    uniforms = np.empty(tries.shape[0])
    for i in range(tries.shape[0]):
        site, index = places[tries[i, 0]]
        uniforms[i] = read_uniform(key, sweep, site, np.uint64(tries[i, 1]), index)
    return uniforms
