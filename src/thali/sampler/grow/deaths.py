"""Deaths of components that the data do not support."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali.model.priors import log_rates
from thali.sampler.grow.values import log_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sampler.grow.growth import Growth


def remove_unsupported(growth: Growth) -> int:
    """Remove the component that is worth least as long as that is less than nothing.

    Returns how many were removed.
    """
    n_removed = 0
    while growth.state.n_components:
        worth = values(growth)
        worst = int(worth.argmin())
        if worth[worst] >= 0.0:
            break
        growth.state = growth.state.take(np.arange(len(worth)) != worst)
        n_removed += 1
    if n_removed:
        growth.state = growth.target.recount(growth.state)
    return n_removed


def values(growth: Growth) -> NDArray[np.float64]:
    """Return by how much each component raises the log joint density, its code summed out."""
    state = growth.state
    users, codes = state.factors
    scores = growth.engine.score_codes(users, codes, codes, state.noise.weights())
    of_users = log(state.alpha) + log_rates(users.sizes(), users.n_rows)
    worth: NDArray[np.float64] = log_sums(scores, growth.odds) + of_users
    return worth
