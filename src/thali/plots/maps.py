"""Maps of the components: the rows that have them, their columns, and their overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali import views
from thali.checks import count
from thali.plots.canvas import (
    MOST_NAMES,
    checked,
    height_for,
    name_places,
    one_axes,
    place_points,
    plain_frame,
    probability_map,
    say,
    small_bar,
)
from thali.plots.labels import Labels, draw_strip
from thali.sentences import numbered
from thali.views.aligned import names, word
from thali.views.lift import in_and_out, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage
    from numpy.typing import ArrayLike, NDArray

    from thali.bits import Index
    from thali.posterior import Posterior

_BAR_POINTS = 120.0  # length of a colour bar
_NOTHING = "The point estimate has no components."
_ORDERS = ("labels", "seriation", "data")
_ROOM_FOR_LINES = 6.0  # height in points from which on cells are separated by lines
_ROOM_FOR_COUNTS = 18.0  # points that a cell needs to show a number of up to three digits
_ROOM_FOR_SIZES = 20.0  # points that a cell needs to show two such numbers


def membership(
    posterior: Posterior,
    *,
    labels: Sequence[Any] | ArrayLike | None = None,
    order: str | ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw which rows have which components: the posterior mean of the first factor.

    The components are those of the point estimate, matched with those of all draws
    (:meth:`thali.Posterior.align`). A cell shows the share of draws in which the row has the
    component.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    labels
        One label per row, such as its cell type, shown as a strip of colours beside the map. The
        model does not use them.
    order
        Order of the rows: ``"labels"`` (sorted by label; the default if there are labels),
        ``"seriation"`` (rows with the same components are adjacent; the default otherwise),
        ``"data"`` (as in the data), or an array of row numbers.
    ax
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax
        The Axes with the map; the strip of labels is an inset of these Axes.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> ax = thali.pl.membership(posterior, ax=Figure().subplots())
    >>> ax.images[0].get_array().shape
    (60, 3)
    """
    shown = views.components(checked(posterior))
    given = None if labels is None else Labels.read(labels, posterior.shape[0])
    rows = _row_order(posterior, given, order)
    are_named = posterior.row_names[0] is not None
    width = 2.4 + 0.3 * shown.n_components + (0.0 if given is None else 1.2)
    ax = one_axes(ax, (width, height_for(len(rows), are_named=are_named) + 1.0))
    if shown.n_components == 0:
        return say(ax, _NOTHING)
    columns = views.component_order(posterior)
    _map(ax, shown.probabilities[0][np.ix_(rows, columns)], "probability")
    row_names = names(posterior, 0, rows) if are_named else None
    # If there are labels, they are on the left, and the names of rows are on the right.
    ax.yaxis.set_tick_params(labelleft=given is None, labelright=given is not None)
    ax.yaxis.set_label_position("left" if given is None else "right")
    if not name_places(ax, "y", row_names):
        ax.set_ylabel(f"{word(posterior, 0)} ({len(rows)})")
    _name_components(ax, [views.titles(posterior)[k] for k in columns])
    if given is not None:
        draw_strip(ax, given, rows)
    return ax


def components(
    posterior: Posterior,
    *,
    n_top: int | None = None,
    mode: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Draw which columns belong to which components: the posterior mean of another factor.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_top
        Show only columns that are among the ``n_top`` most probable of some component; of those
        that tie, the most distinctive ones. By default, all columns are shown if there are at
        most 60, and otherwise the top 8.
    mode
        The mode whose rows are the columns.
    ax
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax
        The Axes with the map, which has one named line per column.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> ax = thali.pl.components(posterior, n_top=4, ax=Figure().subplots())
    >>> ax.images[0].get_array().shape[1]
    3
    """
    shown = views.components(checked(posterior))
    rows = views.seriate(posterior, mode)[1]
    if n_top is None and len(rows) > 60:
        n_top = 8
    p = shown.probabilities[mode]
    if n_top is not None:
        n_top = count("n_top", n_top, least=1)
        lift = in_and_out(posterior.tensor, shown.factors, mode).lift
        rows = _among_the_top(rows, p, lift, n_top)
    height = height_for(len(rows), are_named=len(rows) <= MOST_NAMES)
    ax = one_axes(ax, (2.9 + 0.34 * shown.n_components, height + 1.0))
    if shown.n_components == 0:
        return say(ax, _NOTHING)
    columns = views.component_order(posterior)
    _map(ax, p[np.ix_(rows, columns)], "probability")
    is_all = len(rows) == posterior.shape[mode]
    if not name_places(ax, "y", names(posterior, mode, rows)):
        ax.set_ylabel(f"{word(posterior, mode)} ({len(rows)})")
    elif not is_all:
        ax.set_title(f"top {n_top} of each component", fontsize="small", loc="left")
    users = shown.factors[0].sizes()[columns]
    is_roomy = place_points(ax, "x", len(columns)) >= _ROOM_FOR_COUNTS
    numbers = [numbered(int(k)) for k in columns]
    texts = [f"{k}\n({n})" if is_roomy else str(k) for k, n in zip(numbers, users, strict=True)]
    ax.set_xticks(range(len(columns)), texts, fontsize="small")
    ax.set_xlabel("component\n(number of rows)" if is_roomy else "component")
    return ax


def overlap(posterior: Posterior, *, mode: int = 1, ax: Axes | None = None) -> Axes:
    """Draw which components overlap: in rows below the diagonal, in columns above it.

    The colour of a cell is the Jaccard index of two components: the number of rows (or columns)
    that both have, divided by the number that at least one of them has. The number in the cell
    counts those that both have. The diagonal shows how many rows and columns a component has.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    mode
        The mode whose rows are the columns.
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
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> ax = thali.pl.overlap(posterior, ax=Figure().subplots())
    >>> ax.images[0].get_array().shape
    (3, 3)
    """
    order = views.component_order(checked(posterior))
    titles = [views.titles(posterior, mode=mode)[k] for k in order]
    side = max(2.2, 0.42 * len(order))
    ax = one_axes(ax, (side + 2.8, side + 0.9))
    if not len(order):
        return say(ax, _NOTHING)
    both = views.overlap(posterior)
    below, above = (table[np.ix_(order, order)] for table in (both.jaccard[0], both.jaccard[mode]))
    table = np.where(np.tri(len(order), dtype=bool), below, above)
    np.fill_diagonal(table, np.nan)
    image = _map(ax, table, "Jaccard index")
    image.set_cmap(probability_map().with_extremes(bad=(0.0, 0.0, 0.0, 0.0)))  # diagonal
    _write_counts(ax, [both.shared[m][np.ix_(order, order)] for m in (0, mode)], table)
    name_places(ax, "y", titles)
    name_places(ax, "x", [str(numbered(int(k))) for k in order])
    ax.set_xlabel("component\nshared rows below the diagonal, shared columns above")
    return ax


def _map(ax: Axes, table: NDArray[np.float64], words: str) -> AxesImage:
    """Draw a table of numbers from 0 to 1, with a colour bar."""
    image = ax.imshow(
        table, cmap=probability_map(), vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest"
    )
    plain_frame(ax)
    if place_points(ax, "y", len(table)) >= _ROOM_FOR_LINES:
        ax.set_xticks(np.arange(table.shape[1] - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(table.shape[0] - 1) + 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=0.6)
        ax.tick_params(which="minor", length=0)
    share = min(1.0, _BAR_POINTS / place_points(ax, "x", 1))
    place: dict[str, Any] = {"location": "top", "anchor": (0.0, 0.0), "pad": 0.02}
    small_bar(image, ax, words, shrink=share, ticks=[0.0, 0.5, 1.0], **place)
    return image


def _name_components(ax: Axes, titles: list[str]) -> None:
    """Write the titles of components, vertically if they contain words."""
    has_words = any(":" in title for title in titles)
    ax.set_xticks(
        range(len(titles)),
        titles,
        fontsize="small",
        rotation=90 if has_words else 0,
    )
    ax.set_xlabel("component")


def _write_counts(ax: Axes, shared: list[Index], table: NDArray[np.float64]) -> None:
    """Write the number of shared rows or columns into each cell, if there is room."""
    room = min(place_points(ax, "x", len(table)), place_points(ax, "y", len(table)))
    if room < _ROOM_FOR_COUNTS:
        return
    for i, j in np.ndindex(*table.shape):
        if i == j and room >= _ROOM_FOR_SIZES:
            text = f"{shared[0][i, i]}\N{MULTIPLICATION SIGN}{shared[1][i, i]}"
            ax.text(j, i, text, ha="center", va="center", fontsize="x-small")
        elif i != j and shared[int(i < j)][i, j]:
            colour = "white" if table[i, j] > 0.5 else "#222222"
            text = str(shared[int(i < j)][i, j])
            ax.text(j, i, text, ha="center", va="center", fontsize="x-small", color=colour)


def _among_the_top(
    rows: Index, p: NDArray[np.float64], lift: NDArray[np.float64], n_top: int
) -> Index:
    """Keep only rows that are among the most probable of some component, in their order."""
    best = ranked(p, lift)[:n_top]
    is_top = np.zeros(p.shape, np.bool_)
    np.put_along_axis(is_top, best, True, axis=0)
    is_kept = np.any(is_top & (p > 0.0), axis=1, keepdims=True)[:, 0]
    kept = rows[is_kept[rows]]
    return kept if len(kept) else rows[:n_top]


def _row_order(
    posterior: Posterior, labels: Labels | None, order: str | ArrayLike | None
) -> Index:
    n_rows = posterior.shape[0]
    if order is None:
        order = "seriation" if labels is None else "labels"
    if isinstance(order, str):
        if order not in _ORDERS or (order == "labels" and labels is None):
            msg = (
                f"order={order!r} was given; give 'labels' (with labels), 'seriation', 'data' "
                "or an array of row numbers."
            )
            raise ValueError(msg)
        if order == "data":
            return np.arange(n_rows)
        rows = views.seriate(posterior)[0]
        if order == "labels":
            assert labels is not None
            rows = rows[np.argsort(labels.codes[rows], kind="stable")]
        return rows
    given = np.asarray(order)
    is_index = given.ndim == 1 and given.size > 0 and given.dtype.kind in "iu"
    if not is_index or not 0 <= given.min() <= given.max() < n_rows:
        msg = (
            f"order of shape {given.shape} and type {given.dtype} was given; give row numbers "
            f"from 0 to {n_rows - 1}, 'labels', 'seriation' or 'data'."
        )
        raise ValueError(msg)
    return given.astype(np.int64)
