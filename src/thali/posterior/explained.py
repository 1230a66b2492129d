"""What the components leave unexplained: ones outside, zeros inside, rows and columns without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor
    from thali.posterior.draws import Draws


def coverage(draws: Draws) -> dict[str, NDArray[np.float64]]:
    """Return what the components of every draw explain, by name of the quantity.

    Parameters
    ----------
    draws
        Draws of all chains; traversed once.

    Returns
    -------
    quantities
        Arrays ``(n_chains, n_draws)``: ``ones_explained``, the share of the known ones that some
        component covers (NaN without ones); ``ones_outside``, the number of those that none
        covers; ``zeros_inside``, the number of known zeros that some component covers; and
        ``without_<mode>``, the number of rows of a mode that no component has.
    """
    covered = draws.covered.astype(np.float64)
    n_ones = draws.tensor.n_ones
    found = {
        "ones_explained": covered[:, :, 0] / (n_ones or np.nan),
        "ones_outside": n_ones - covered[:, :, 0],
        "zeros_inside": covered[:, :, 1],
    }
    numbers = np.array([without(draw.state.factors) for draw in draws], np.float64)
    of_modes = numbers.reshape(draws.n_chains, draws.n_draws, -1)
    for mode, name in enumerate(draws.mode_names):
        found[f"without_{name}"] = of_modes[:, :, mode]
    return found


def without(factors: Sequence[Factor]) -> list[int]:
    """Return how many rows of every mode belong to no component.

    A component without rows in some mode covers nothing, and does not count.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor
    >>> users = np.array([[1, 0], [1, 0], [0, 1]], bool)
    >>> codes = np.array([[1, 0], [1, 0]], bool)  # the second component has no columns
    >>> without([Factor.from_dense(users), Factor.from_dense(codes)])
    [1, 0]
    """
    is_there = np.all([factor.sizes() > 0 for factor in factors], axis=0)
    found = []
    for factor in factors:
        has = np.bitwise_or.reduce(factor.words[is_there], axis=0, initial=np.uint64(0))
        found.append(factor.n_rows - int(np.bitwise_count(has).sum()))
    return found
