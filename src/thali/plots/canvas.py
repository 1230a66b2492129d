"""What all pictures share: figures, colours, names along axes."""

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
"""Colours that differ for the colour-blind, too, and stand out from white and from black: those
of Okabe and Ito (2008) but black and yellow."""

_PALE_TO_BLUE = ("#f4f6f9", "#c9dcee", "#7fb2d9", "#2f78b7", "#0b2f66")
_BLUE_TO_RED = ("#1b5e9e", "#8fbcdc", "#f7f7f7", "#f0a582", "#b2301f")
UNKNOWN = "#a6a6a6"
"""Grey, which neither map has: what is not known has no place on a scale."""

MOST_NAMES = 80
"""Rows up to which a new figure grows, so that every name has its line."""

LEAST_POINTS = 4.5
"""The smallest font that is read, in points."""

_LINE = 1.15  # of the font size: what a line of names needs


def checked(posterior: Posterior) -> Posterior:
    """Refuse what is no posterior, or has no draws."""
    if not isinstance(posterior, Posterior):
        msg = (
            f"a {type(posterior).__name__} was given; a Posterior is needed, which thali.sample() "
            "and thali.load() return; draw that."
        )
        raise TypeError(msg)
    if posterior.n_draws == 0:
        msg = "there are no draws to show yet; go on with resume() until the warm-up is over."
        raise ValueError(msg)
    return posterior


def one_axes(ax: Any, size: tuple[float, float]) -> Axes:
    """Return the user's Axes, or those of a new figure of that size in inches."""
    axes = require("matplotlib.axes", extra="plot").Axes
    if ax is None:
        plt = require("matplotlib.pyplot", extra="plot")
        return plt.subplots(figsize=size, layout="constrained")[1]  # type: ignore[no-any-return]
    if not isinstance(ax, axes):
        msg = (
            f"ax is a {type(ax).__name__}; one Matplotlib Axes is needed, as plt.subplots() "
            "returns; give one, or none for a new figure."
        )
        raise TypeError(msg)
    return ax  # type: ignore[no-any-return]


def a_figure(figure: Any, size: tuple[float, float]) -> Figure | SubFigure:
    """Return the user's figure or part of one, or a new one of that size in inches."""
    module = require("matplotlib.figure", extra="plot")
    if figure is None:
        plt = require("matplotlib.pyplot", extra="plot")
        return plt.figure(figsize=size, layout="constrained")  # type: ignore[no-any-return]
    if not isinstance(figure, module.Figure | module.SubFigure):
        msg = (
            f"figure is a {type(figure).__name__}; a Matplotlib Figure or SubFigure is needed, as "
            "plt.figure() returns; give one, or none for a new one."
        )
        raise TypeError(msg)
    return figure  # type: ignore[no-any-return]


def probability_map() -> Colormap:
    """Return the colours from 0 (pale) to 1 (dark blue)."""
    return _map("probability", _PALE_TO_BLUE)


def difference_map() -> Colormap:
    """Return the colours from -1 (blue) over 0 (pale) to 1 (red)."""
    return _map("difference", _BLUE_TO_RED)


def _map(name: str, colours: Sequence[str]) -> Colormap:
    module = require("matplotlib.colors", extra="plot")
    made = module.LinearSegmentedColormap.from_list(f"thali_{name}", colours)
    return made.with_extremes(bad=UNKNOWN)  # type: ignore[no-any-return]


def height_for(n_rows: int, *, are_named: bool) -> float:
    """Return inches for so many rows: room for all names, if these are not too many."""
    if are_named and n_rows <= MOST_NAMES:
        return max(2.2, 0.145 * n_rows)
    return 5.0


def name_places(
    ax: Axes, which: Literal["x", "y"], names: Sequence[str] | None, *, rotation: float = 0.0
) -> bool:
    """Write names at 0, 1, … if all of them are readable there; otherwise no ticks at all.

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
    """Return how many points (1/72 inch) each of so many places along an axis has."""
    box = ax.get_window_extent()
    pixels = box.height if which == "y" else box.width
    return float(pixels) * 72.0 / ax.figure.dpi / max(1, n_places)


def small_bar(image: Any, where: Any, words: str, **settings: Any) -> None:
    """Add a slim scale for a map."""
    figure = (where[0] if isinstance(where, list) else where).figure
    bar = figure.colorbar(image, ax=where, aspect=22, **settings)
    bar.set_label(words, fontsize="small")
    bar.ax.tick_params(labelsize="small", length=2)
    bar.outline.set_visible(False)


def say(ax: Axes, text: str) -> Axes:
    """Write a sentence where there is nothing to draw."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, wrap=True)
    return ax


def plain_frame(ax: Axes) -> None:
    """Take the frame off a map, which has edges of its own."""
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
