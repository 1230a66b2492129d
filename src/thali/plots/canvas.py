"""Parts that all pictures share: figures, colours, and names along the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from thali.errors import require
from thali.posterior import Posterior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
"""The colours of Okabe and Ito (2008), without black and yellow.

Colour-blind readers can distinguish them, and they stand out from both white and black."""

_PALE_TO_BLUE = ("#f4f6f9", "#c9dcee", "#7fb2d9", "#2f78b7", "#0b2f66")
_BLUE_TO_RED = ("#1b5e9e", "#8fbcdc", "#f7f7f7", "#f0a582", "#b2301f")
UNKNOWN = "#a6a6a6"
"""Grey for unknown entries; it occurs on neither colour map, as they have no value to show."""

MOST_NAMES = 80
"""Largest number of rows for which a new figure is made tall enough to name every row."""

LEAST_POINTS = 4.5
"""Size of the smallest readable font, in points."""

_LINE = 1.15  # height of a line of text, relative to the font size


def checked(posterior: Posterior) -> Posterior:
    """Return the posterior; raise an error if it is not one, or has no draws."""
    if not isinstance(posterior, Posterior):
        msg = (
            f"a {type(posterior).__name__} was given; give a Posterior, as returned by "
            "thali.sample() and thali.load()."
        )
        raise TypeError(msg)
    if posterior.n_draws == 0:
        msg = "there are no draws to show yet; continue with resume() until the warm-up is over."
        raise ValueError(msg)
    return posterior


def one_axes(ax: Any, size: tuple[float, float]) -> Axes:
    """Return the user's Axes, or those of a new figure of the given size in inches."""
    axes = require("matplotlib.axes", extra="plot").Axes
    if ax is None:
        plt = require("matplotlib.pyplot", extra="plot")
        return plt.subplots(figsize=size, layout="constrained")[1]  # type: ignore[no-any-return]
    if not isinstance(ax, axes):
        msg = (
            f"ax is a {type(ax).__name__}; give one Matplotlib Axes, as plt.subplots() returns, "
            "or leave it out for a new figure."
        )
        raise TypeError(msg)
    return ax  # type: ignore[no-any-return]


def a_figure(figure: Any, size: tuple[float, float]) -> Figure | SubFigure:
    """Return the user's Figure or SubFigure, or a new figure of the given size in inches."""
    module = require("matplotlib.figure", extra="plot")
    if figure is None:
        plt = require("matplotlib.pyplot", extra="plot")
        return plt.figure(figsize=size, layout="constrained")  # type: ignore[no-any-return]
    if not isinstance(figure, module.Figure | module.SubFigure):
        msg = (
            f"figure is a {type(figure).__name__}; give a Matplotlib Figure or SubFigure, as "
            "plt.figure() returns, or leave it out for a new figure."
        )
        raise TypeError(msg)
    return figure  # type: ignore[no-any-return]


def probability_map() -> Colormap:
    """Return the colour map for values from 0 (pale) to 1 (dark blue)."""
    return _map("probability", _PALE_TO_BLUE)


def difference_map() -> Colormap:
    """Return the colour map for values from -1 (blue) through 0 (pale) to 1 (red)."""
    return _map("difference", _BLUE_TO_RED)


def _map(name: str, colours: Sequence[str]) -> Colormap:
    module = require("matplotlib.colors", extra="plot")
    made = module.LinearSegmentedColormap.from_list(f"thali_{name}", colours)
    return made.with_extremes(bad=UNKNOWN)  # type: ignore[no-any-return]


def height_for(n_rows: int, *, are_named: bool) -> float:
    """Return the height of a map in inches: enough for all names, unless there are too many."""
    if are_named and n_rows <= MOST_NAMES:
        return max(2.2, 0.145 * n_rows)
    return 5.0


def name_places(
    ax: Axes, which: Literal["x", "y"], names: Sequence[str] | None, *, rotation: float = 0.0
) -> bool:
    """Write names at positions 0, 1, … if all are readable there; otherwise remove all ticks.

    Returns
    -------
    are_named
        Whether the names were written.
    """
    axis = ax.yaxis if which == "y" else ax.xaxis
    room = place_points(ax, which, len(names or ())) / _LINE
    if names is None or room < LEAST_POINTS:
        axis.set_ticks([])
        return False
    size = min(room, float(axis.get_major_ticks(1)[0].label1.get_fontsize()))
    axis.set_ticks(range(len(names)), names, fontsize=size, rotation=rotation)
    axis.set_tick_params(length=0)
    return True


def place_points(ax: Axes, which: Literal["x", "y"], n_places: int) -> float:
    """Return the room in points (1/72 inch) for each of `n_places` places along an axis."""
    box = ax.get_window_extent()
    pixels = box.height if which == "y" else box.width
    return float(pixels) * 72.0 / ax.figure.dpi / max(1, n_places)


def small_bar(image: Any, where: Any, words: str, **settings: Any) -> None:
    """Add a slim colour bar to a map."""
    figure = (where[0] if isinstance(where, list) else where).figure
    bar = figure.colorbar(image, ax=where, aspect=22, **settings)
    bar.set_label(words, fontsize="small")
    bar.ax.tick_params(labelsize="small", length=2)
    bar.outline.set_visible(False)


def say(ax: Axes, text: str) -> Axes:
    """Write a sentence in place of a picture when there is nothing to draw."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, wrap=True)
    return ax


def plain_frame(ax: Axes) -> None:
    """Remove the frame and the tick marks of a map."""
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
