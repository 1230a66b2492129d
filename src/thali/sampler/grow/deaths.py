"""Deaths of components that the data do not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from thali.sampler.grow.growth import Growth

_AT_ONCE = 64
"""Number of components for each of which one more may be removed before all are valued anew."""


def remove_unsupported(growth: Growth) -> int:
    """Remove the component that is worth least as long as that is less than nothing.

    Of many components, several are removed at once. Returns how many were removed.
    """
    n_removed = 0
    while growth.state.n_components:
        worth = growth.side.values(growth)
        worst = np.argsort(worth, kind="stable")[: 1 + len(worth) // _AT_ONCE]
        worst = worst[worth[worst] < 0.0]
        if len(worst) == 0:
            break
        is_kept = np.ones(len(worth), np.bool_)
        is_kept[worst] = False
        growth.state = growth.state.take(is_kept)
        n_removed += len(worst)
    if n_removed:
        growth.state = growth.target.recount(growth.state)
    return n_removed
