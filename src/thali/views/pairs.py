"""A tensor seen along every pair of its modes: means over all other modes."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.posterior.predict import predictive
from thali.views.aligned import components, likely
from thali.views.order import component_order, gray_order
from thali.views.raster import chosen_draws, chunks, edges_of, observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior import Posterior


class Pair(NamedTuple):
    """Means over blocks of rows of two modes, ``(n_blocks, n_blocks)``."""

    modes: tuple[int, int]  # the mode that goes down, and the one that goes across
    data: NDArray[np.float64]  # share of ones among the known entries; NaN if none is known
    prediction: NDArray[np.float64]  # mean probability that some component covers an entry


def pairs(posterior: Posterior, n_blocks: int = 200) -> list[Pair]:
    """Average data and predictions over all modes but two, for every pair of modes.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_blocks
        Number of blocks of each mode; if it has fewer rows, each block is one row.

    Returns
    -------
    pairs
        One for each pair of modes; rows of every mode are grouped by component, as by
        :func:`~thali.views.seriate`. Very large data are averaged over some rows and draws, as by
        :func:`~thali.views.blocks`.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((20, 9, 7), 2, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=100, draws=50, seed=1
    ... )  # the model of these data
    >>> [(pair.modes, pair.data.shape) for pair in views.pairs(posterior)]
    [((0, 1), (20, 9)), ((0, 2), (20, 7)), ((1, 2), (9, 7))]
    """
    shape, shown = posterior.shape, components(posterior)
    order = component_order(posterior)
    orders = [gray_order(likely(shown, mode)[:, order]) for mode in range(len(shape))]
    edges = [edges_of(n, n_blocks) for n in shape]
    both = list(combinations(range(len(shape)), 2))
    totals = {pair: np.zeros((4, *(shape[mode] for mode in pair))) for pair in both}
    draws = chosen_draws(posterior)
    for _, rows in chunks(orders[0], edges[0], prod(shape[1:])):
        ones, known = observed(posterior, rows)
        covered = predictive(draws, shape, rows, noise_free=True)
        n_known = np.ones_like(ones) if known is None else known
        for pair, total in totals.items():
            others = tuple(mode for mode in range(len(shape)) if mode not in pair)
            for into, part in zip(
                total, (ones, n_known, covered, np.ones_like(ones)), strict=True
            ):
                found = part.sum(axis=others, dtype=np.float64)
                if pair[0] == 0:
                    into[rows] += found
                else:
                    into += found
    return [_pair(pair, totals[pair], orders, edges) for pair in both]


def _pair(
    modes: tuple[int, int], total: NDArray[np.float64], orders: list[Index], edges: list[Index]
) -> Pair:
    """Group rows, and divide sums by the numbers of entries."""
    down, across = modes
    total = total[:, orders[down]][:, :, orders[across]]
    total = np.add.reduceat(total, edges[down][:-1], axis=1)
    n_ones, n_known, covered, n_entries = np.add.reduceat(total, edges[across][:-1], axis=2)
    with np.errstate(invalid="ignore"):
        return Pair(modes, n_ones / n_known, covered / n_entries)
