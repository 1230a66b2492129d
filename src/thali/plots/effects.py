"""A picture of how full rows and columns are for other reasons than components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali import views
from thali.plots.canvas import COLOURS, a_figure, checked
from thali.views.aligned import word

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from thali.posterior import Posterior
    from thali.views import LineLevels

_MOST_BARS = 2000
"""Number of rows beyond which intervals are left out: they would hide the points."""


def effects(
    posterior: Posterior, *, figure: Figure | SubFigure | None = None
) -> NDArray[np.object_]:
    """Draw the levels of the lines of every mode against their shares of ones, and how they vary.

    A point is a row, or a column: its posterior mean, with an interval that contains 90% of the
    probability, in log odds. Among those with the same share of ones, the lower ones owe more of
    their ones to components. In single cells, the level of a cell follows its sequencing depth.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior` with row and column effects (``noise="effects"``).
    figure
        Figure or SubFigure to draw on; a new figure by default.

    Returns
    -------
    axes
        ``(n_modes, 2)``: for rows and columns, the points and the histogram of all levels.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((30, 40), 1, spurious=0.05, seed=1)
    >>> few = {"n_components": 1, "chains": 2, "warmup": 100, "draws": 400, "seed": 1}
    >>> posterior = thali.sample(data.tensor, noise="effects", **few)
    >>> axes = thali.pl.effects(posterior, figure=Figure())
    >>> axes[1, 0].get_xlabel()
    'share of ones of the column'
    """
    found = views.levels(checked(posterior))
    figure = a_figure(figure, (7.5, 2.5 * len(found)))
    axes: NDArray[np.object_] = figure.subplots(
        len(found), 2, squeeze=False, sharey="row", width_ratios=[4, 1]
    )
    for mode, (levels, (points, bars)) in enumerate(zip(found, axes, strict=True)):
        _draw(points, bars, levels, word(posterior, mode), COLOURS[mode % len(COLOURS)])
    return axes


def _draw(points: Axes, bars: Axes, levels: LineLevels, name: str, colour: str) -> None:
    if len(levels.mean) <= _MOST_BARS:
        points.vlines(levels.share, levels.low, levels.high, color=colour, alpha=0.3, linewidth=1)
    points.plot(
        levels.share, levels.mean, ".", color=colour, markersize=5, alpha=0.75, rasterized=True
    )
    points.set_xlabel(f"share of ones of the {name}")
    points.set_ylabel(f"level of the {name}\n(log odds)")
    bars.hist(levels.mean, bins=30, orientation="horizontal", color=colour, alpha=0.75)
    bars.set_xlabel("number")
    for ax in (points, bars):
        ax.spines[["top", "right"]].set_visible(False)
