"""A picture of the fewest errors: the data, and where they contradict the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.plots.canvas import height_for, one_axes, plain_frame
from thali.sentences import mode_words, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from thali.bits import Factor
    from thali.optimize import Factorization

_KINDS = ("zero", "one, covered", "one, not covered", "zero, covered", "unknown")
_COLOURS = ("#ffffff", "#9db8cf", "#c1440e", "#e3a008", "#d9d9d9")
_MOST_LINES = 2000  # more rows or columns than pixels: only some of them are drawn


def errors(found: Factorization, *, ax: Axes | None = None) -> Axes:
    """Draw the entries of the data, and which of them contradict the components.

    Rows and columns are in the order of their components. Of more than 2,000 rows or columns,
    evenly spaced ones are drawn.

    Parameters
    ----------
    found
        What :func:`thali.minimize` returned.
    ax
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax
        The Axes with the picture.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> found = thali.minimize(data.tensor, 3, sweeps=20, seed=1, progress=False)
    >>> ax = thali.pl.errors(found, ax=Figure().subplots())
    >>> ax.images[0].get_array().shape
    (60, 80)
    """
    from matplotlib.colors import ListedColormap  # noqa: PLC0415 - optional
    from matplotlib.patches import Patch  # noqa: PLC0415

    rows, columns = (_order(factor) for factor in found.factors)
    users, codes = (factor.dense() for factor in found.factors)
    covered = users[rows] @ codes[columns].T
    ones, known = _entries(found, rows, columns)
    kind = np.where(ones, np.where(covered, 1, 2), np.where(covered, 3, 0))
    kind[~known] = 4
    ax = one_axes(ax, (7.0, height_for(len(rows), are_named=False) + 1.0))
    colours = ListedColormap(_COLOURS)
    ax.imshow(kind, cmap=colours, vmin=0, vmax=4, aspect="auto", interpolation="nearest")
    plain_frame(ax)
    ax.set_xticks([])
    ax.set_yticks([])
    words = mode_words(found.mode_names)
    ax.set_ylabel(f"{plural(words[0])} ({found.shape[0]})")
    ax.set_xlabel(f"{plural(words[1])} ({found.shape[1]})")
    shown = np.unique(kind)
    handles = [Patch(fc=_COLOURS[i], ec="#808080", lw=0.5, label=_KINDS[i]) for i in shown]
    ax.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(handles),
        frameon=False, fontsize="small", handlelength=1.0,
    )  # fmt: skip
    return ax


def _order(factor: Factor) -> NDArray[np.intp]:
    """Return rows in the order of their components, some of them if there are many."""
    dense = factor.dense()
    order = np.lexsort(~dense.T[::-1]) if dense.shape[1] else np.arange(len(dense))
    step = max(1, -(-len(order) // _MOST_LINES))
    chosen: NDArray[np.intp] = order[::step]
    return chosen


def _entries(
    found: Factorization, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of some entries are ones, and which are known."""
    from thali.bits import unpack  # noqa: PLC0415 - as above

    unfolding = found.tensor.unfoldings[0]
    ones = unpack(unfolding.ones[rows], found.shape[1])[:, columns]
    if unfolding.known is None:
        return ones, np.ones_like(ones)
    return ones, unpack(unfolding.known[rows], found.shape[1])[:, columns]
