"""Orders of rows, columns and components that make structure visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.checks import is_integer
from thali.posterior.align import jaccard
from thali.views.aligned import components, likely

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior import Posterior


def seriate(posterior: Posterior, mode: int = 1) -> tuple[Index, Index]:
    """Order rows and columns so that those with the same components are adjacent.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    mode
        The mode whose rows are the columns of the picture.

    Returns
    -------
    row_order, column_order
        Row numbers of the first mode and of ``mode``, in the order in which to show them. Rows
        without components come last; rows with the same components keep the order of the data.

    Notes
    -----
    Components are ordered by :func:`component_order`. Rows are then sorted by their components in
    a reflected Gray code. Rows with the first component precede those without it; among the
    former, rows with the second component come last, among the latter they come first; and so on.
    The first two components thus form unbroken blocks, which overlap at the rows that have both.
    Only sorting is needed, so this works for millions of rows.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> rows, columns = views.seriate(posterior)
    >>> rows.shape, columns.shape
    ((60,), (80,))
    """
    check_mode(posterior, mode)
    order = component_order(posterior)
    shown = components(posterior)
    return gray_order(likely(shown, 0)[:, order]), gray_order(likely(shown, mode)[:, order])


def component_order(posterior: Posterior) -> Index:
    """Order components so that those that share rows or columns are adjacent.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.

    Returns
    -------
    order
        Numbers of components, in the direction in which the larger components come first.

    Notes
    -----
    The order is that of the leaves of a hierarchical clustering by Jaccard distance, with optimal
    leaf ordering, which makes the sum of the distances between neighbours as small as possible.
    """
    factors = components(posterior).factors
    # Components that are all equally far apart keep the order given to the clustering.
    by_size = np.argsort(-_sizes(posterior), kind="stable")
    if len(by_size) < 3:
        return by_size
    from scipy.cluster.hierarchy import leaves_list, linkage  # noqa: PLC0415 - slow to import
    from scipy.spatial.distance import squareform  # noqa: PLC0415

    distances = jaccard(factors, factors)[np.ix_(by_size, by_size)]
    np.fill_diagonal(distances, 0.0)
    near = squareform(distances, checks=False)
    order = by_size[leaves_list(linkage(near, "average", optimal_ordering=True))]
    sizes = _sizes(posterior)[order]
    half = len(order) // 2
    return order if sizes[:half].sum() >= sizes[-half:].sum() else order[::-1].copy()


def gray_order(patterns: NDArray[np.bool_]) -> Index:
    """Sort Boolean rows by their rank in the reflected Gray code, from 100… on, zeros last.

    Parameters
    ----------
    patterns
        Boolean array ``(n_rows, n_bits)``.

    Returns
    -------
    order
        Row numbers ``(n_rows,)``; equal rows keep their order.

    Examples
    --------
    >>> import numpy as np
    >>> patterns = np.array([[0, 0], [0, 1], [1, 1], [1, 0]], bool)
    >>> gray_order(patterns).tolist()
    [3, 2, 1, 0]
    """
    if not patterns.shape[1]:
        return np.arange(len(patterns))
    # Bit i of the rank is the parity of the code's bits up to i. Eight bits are packed into each
    # sort key for speed.
    ranks = np.packbits(np.logical_xor.accumulate(patterns, axis=1), axis=1)
    order: Index = np.lexsort((~ranks).T[::-1])
    return order


def check_mode(posterior: Posterior, mode: int) -> None:
    """Raise an error unless `mode` is one of the modes after the first."""
    allowed = range(1, len(posterior.shape))
    if not is_integer(mode) or mode not in allowed:
        msg = (
            f"mode={mode!r} was given; the columns can be any mode from 1 to {allowed[-1]} "
            "(mode 0 is shown as the rows); choose one of these."
        )
        raise ValueError(msg)


def _sizes(posterior: Posterior) -> NDArray[np.float64]:
    """Count the entries that each component covers."""
    factors = components(posterior).factors
    sizes: NDArray[np.float64] = np.prod([f.sizes() for f in factors], axis=0, dtype=np.float64)
    return sizes
