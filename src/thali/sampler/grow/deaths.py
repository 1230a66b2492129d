"""Deaths of components that the data do not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from thali.sampler.grow.growth import Growth


def remove_unsupported(growth: Growth) -> int:
    """Remove the component that is worth least as long as that is less than nothing.

    Returns how many were removed.
    """
    n_removed = 0
    while growth.state.n_components:
        worth = growth.side.values(growth)
        worst = int(worth.argmin())
        if worth[worst] >= 0.0:
            break
        growth.state = growth.state.take(np.arange(len(worth)) != worst)
        n_removed += 1
    if n_removed:
        growth.state = growth.target.recount(growth.state)
    return n_removed
