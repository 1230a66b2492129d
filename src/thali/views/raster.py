"""Data and predictions averaged to the pixels of a picture."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.tensor import unfold_back
from thali.checks import count
from thali.posterior.predict import predictive
from thali.views.order import check_mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from thali.bits import Index
    from thali.posterior import Posterior
    from thali.trace import Draw

MOST_CELLS = 1 << 21
"""Number of entries unpacked at a time: 16 MB of probabilities."""

MOST_ENTRIES = 1 << 28
"""Largest number of entries that are averaged.

For larger data, evenly spaced rows of each block are used."""

MOST_COVERED = 1 << 32
"""Largest number of entries times draws used for predictions, which takes a few seconds.

If there are more draws, evenly spaced ones are used."""

FEWEST_DRAWS = 8
"""Number of draws used for predictions even if `MOST_COVERED` allows fewer."""


class Blocks(NamedTuple):
    """Means over blocks of rows and columns, each ``(n_row_blocks, n_column_blocks)``."""

    data: NDArray[np.float64]  # share of ones among the known entries; NaN if none is known
    known: NDArray[np.float64]  # share of the entries that are known
    prediction: NDArray[np.float64]  # mean probability that some component covers an entry
    residual: NDArray[np.float64]  # data minus prediction over known entries; NaN if none
    row_edges: Index  # (n_row_blocks + 1,): block i spans edges[i]:edges[i + 1] of the order
    column_edges: Index  # the same for columns


def blocks(
    posterior: Posterior,
    row_order: ArrayLike,
    column_order: ArrayLike,
    shape: tuple[int, int],
    *,
    mode: int = 1,
) -> Blocks:
    """Average data and predictions over blocks of reordered rows and columns.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    row_order, column_order
        Row numbers of the first mode and of ``mode`` in the order of the picture, such as those
        of :func:`~thali.views.seriate`; rows may be left out.
    shape
        Number of blocks down and across. If there are fewer rows than that, each block is one
        row.
    mode
        The mode whose rows are the columns of the picture. All other modes but the first are
        averaged over.

    Returns
    -------
    blocks
        Means over the blocks, whose sizes differ by at most one row or column.

    Raises
    ------
    ValueError
        If an order is not an array of row numbers, or the shape is not two positive integers.

    Notes
    -----
    The data stay packed; a few million entries are unpacked at a time. Averages are exact up to
    268 million entries; beyond that, they are taken over evenly spaced rows of each block.
    A prediction is the share of draws in which some component covers an entry. All draws are used
    if entries times draws are at most 4 billion; otherwise, evenly spaced draws are used.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> shown = views.blocks(posterior, *views.seriate(posterior), shape=(30, 100))
    >>> shown.data.shape
    (30, 80)
    """
    check_mode(posterior, mode)
    rows = _checked("row_order", row_order, posterior.shape[0])
    columns = _checked("column_order", column_order, posterior.shape[mode])
    if not isinstance(shape, tuple) or len(shape) != 2:
        msg = f"shape={shape!r} was given; give a tuple of two numbers, such as (200, 300)."
        raise ValueError(msg)
    edges = [
        edges_of(len(order), count("shape", wanted, least=1))
        for order, wanted in zip((rows, columns), shape, strict=True)
    ]
    sums = np.zeros((4, len(edges[0]) - 1, len(edges[1]) - 1))
    n_entries = np.zeros((len(edges[0]) - 1, 1))
    draws = chosen_draws(posterior)
    for block_of, chosen in chunks(rows, edges[0], prod(posterior.shape[1:])):
        ones, known = observed(posterior, chosen)
        covered = predictive(draws, posterior.shape, chosen, noise_free=True)
        parts = [ones, covered] if known is None else [ones, covered, known, covered * known]
        present, starts, n_rows = np.unique(block_of, return_index=True, return_counts=True)
        for total, part in zip(sums, parts, strict=False):
            # Rows of a block are adjacent: summing over them first leaves fewer to reorder.
            lines = _sum_others(np.add.reduceat(part, starts, axis=0, dtype=np.float64), mode)
            total[present] += np.add.reduceat(lines[:, columns], edges[1][:-1], axis=1)
        n_entries[present, 0] += n_rows
    others = prod(posterior.shape[1:]) / posterior.shape[mode]
    size = n_entries * np.diff(edges[1]) * others
    n_ones, covers, n_known, known_covers = sums
    if posterior.tensor.unfoldings[0].known is None:
        n_known, known_covers = size, covers
    divisor = np.where(n_known > 0, n_known, np.nan)
    return Blocks(
        n_ones / divisor,
        n_known / size,
        covers / size,
        (n_ones - known_covers) / divisor,
        edges[0],
        edges[1],
    )


def chosen_draws(posterior: Posterior) -> list[Draw]:
    """Return evenly spaced draws of every chain, or all draws if the work allows it."""
    n_entries = min(prod(posterior.shape), MOST_ENTRIES)
    most = max(FEWEST_DRAWS, MOST_COVERED // n_entries)
    per_chain = min(posterior.n_draws, max(1, most // posterior.n_chains))
    return [
        posterior.draw(chain, (2 * i + 1) * posterior.n_draws // (2 * per_chain))
        for chain in range(posterior.n_chains)
        for i in range(per_chain)
    ]


def chunks(rows: Index, edges: Index, n_columns: int) -> Iterator[tuple[Index, Index]]:
    """Yield the block numbers and the row numbers of a few rows at a time."""
    most = max(1, MOST_ENTRIES // (n_columns * (len(edges) - 1)))
    places, block_of = [], []
    for block, (start, stop) in enumerate(pairwise(edges.tolist())):
        n_used = min(most, stop - start)
        places.append(start + np.arange(n_used) * (stop - start) // n_used)
        block_of.append(np.full(n_used, block))
    chosen, blocks_of = rows[np.concatenate(places)], np.concatenate(block_of)
    step = max(1, MOST_CELLS // n_columns)
    for first in range(0, len(chosen), step):
        yield blocks_of[first : first + step], chosen[first : first + step]


def observed(
    posterior: Posterior, rows: Index
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Unpack rows of the data, and which of their entries are known (None if all are)."""
    ones, known = posterior.tensor.unfoldings[0]
    shape = posterior.shape
    return unfold_back(ones[rows], shape), None if known is None else unfold_back(
        known[rows], shape
    )


def _sum_others(part: NDArray[np.float64], mode: int) -> NDArray[np.float64]:
    """Sum over all modes but the first and `mode`, which leaves ``(n_rows, n_columns)``."""
    others = tuple(m for m in range(1, part.ndim) if m != mode)
    return part.sum(axis=others) if others else part


def edges_of(n: int, n_blocks: int) -> Index:
    """Return where blocks of rows begin, and the number of rows at the end."""
    n_blocks = min(n, n_blocks)
    return np.arange(n_blocks + 1) * n // n_blocks


def _checked(name: str, order: ArrayLike, n_rows: int) -> Index:
    given = np.asarray(order)
    is_index = given.ndim == 1 and given.size > 0 and given.dtype.kind in "iu"
    if not is_index or not 0 <= given.min() <= given.max() < n_rows:
        msg = (
            f"{name} of shape {given.shape} and type {given.dtype} was given; give at least one "
            f"row number from 0 to {n_rows - 1}, such as the orders that views.seriate() returns."
        )
        raise ValueError(msg)
    return given.astype(np.int64)
