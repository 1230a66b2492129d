"""The gain in log-likelihood by covering sets of free entries, from counts by class (eq. 27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.model.gains import plain_gains

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover, FreeEntries
    from thali.model import Weights
    from thali.sampler.target import Target


def gains_by_set(
    target: Target, weights: Weights, mode: int, lines: tuple[int, int], cover: Cover, sets: Words
) -> NDArray[np.float64]:
    """Return the gain of every line of a range by covering its free entries in sets of columns.

    Returns ``(n_lines, n_sets)``.
    """
    if not weights.has_classes:
        return gains_of(target.engine.count_by_class(mode, lines, cover, sets), weights)
    return target.engine.gains_by_class(mode, lines, cover, sets, weights)


def uncovered_gains(
    rest: FreeEntries, weights: Weights, mode: int, sets: Words
) -> NDArray[np.float64]:
    """Return the same for all lines of a mode and entries that no component covers."""
    if weights.has_classes:
        return rest.gains(mode, sets, weights)
    return gains_of(rest.count(mode, sets), weights)


def gains_of(counts: Index, weights: Weights) -> NDArray[np.float64]:
    """Return the gains of lines, given their counts by set, if there is one class."""
    gains: NDArray[np.float64] = plain_gains(counts, *weights.pair())
    return gains
