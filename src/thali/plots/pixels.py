"""Data, reconstruction and residual, averaged to the pixels of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali import views
from thali.plots.canvas import (
    MOST_NAMES,
    UNKNOWN,
    a_figure,
    checked,
    difference_map,
    height_for,
    name_places,
    plain_frame,
    probability_map,
    small_bar,
)
from thali.views.aligned import names, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from thali.posterior import Posterior
    from thali.views import Blocks

_TITLES = ("data", "reconstruction", "residual")


def reconstruction(
    posterior: Posterior, *, mode: int = 1, figure: Figure | SubFigure | None = None
) -> NDArray[np.object_]:
    """Draw the data, their reconstruction and the residual side by side.

    The reconstruction is the probability that some component covers an entry. The residual is the
    data minus the reconstruction: red where ones are not explained, blue where ones were expected
    but zeros observed. Unknown entries are grey. Rows and columns are in the order of
    :func:`thali.views.seriate`. If there are more of them than pixels, each pixel shows the mean
    over a block.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    mode
        The mode whose rows are the columns of the picture. All other modes but the first are
        averaged over.
    figure
        Figure or SubFigure to draw on; a new figure by default.

    Returns
    -------
    axes
        Array of three Axes: data, reconstruction and residual.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> axes = thali.pl.reconstruction(posterior, figure=Figure())
    >>> [ax.get_title() for ax in axes]
    ['data', 'reconstruction', 'residual']
    """
    rows, columns = views.seriate(checked(posterior), mode)
    are_named = posterior.row_names[0] is not None and len(rows) <= MOST_NAMES
    are_columns_named = posterior.row_names[mode] is not None and len(columns) <= MOST_NAMES
    figure = a_figure(figure, (11.0, height_for(len(rows), are_named=are_named) + 0.9))
    axes: NDArray[np.object_] = figure.subplots(1, 3, sharex=True, sharey=True)
    box = axes[0].get_window_extent()
    shape = (max(1, int(box.height)), max(1, int(box.width)))
    shown = views.blocks(posterior, rows, columns, shape, mode=mode)
    is_exact = shown.data.shape == (len(rows), len(columns)) and len(posterior.shape) == 2
    _draw(axes, shown, is_exact=is_exact)
    for ax, title in zip(axes, _TITLES, strict=True):
        ax.set_title(title, fontsize="medium")
        column_names = names(posterior, mode, columns) if are_columns_named and is_exact else None
        if not name_places(ax, "x", column_names, rotation=90.0):
            ax.set_xlabel(f"{word(posterior, mode)} ({len(columns)})")
    row_names = names(posterior, 0, rows) if are_named and is_exact else None
    if not name_places(axes[0], "y", row_names):
        axes[0].set_ylabel(f"{word(posterior, 0)} ({len(rows)})")
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)
    if (shown.known == 0.0).any():
        _explain_grey(axes[0])
    return axes


def _draw(axes: NDArray[np.object_], shown: Blocks, *, is_exact: bool) -> None:
    """Draw the three maps; the first two share one colour bar."""
    most = 1.0 if is_exact else _most(shown)
    # The colour bars take room from the maps, so blocks may not match the pixels exactly: they are
    # interpolated as the user's settings say. Single entries are not interpolated.
    interpolation = "nearest" if is_exact else None
    scale: dict[str, Any] = {"aspect": "auto", "interpolation": interpolation}
    probabilities = scale | {"cmap": probability_map(), "vmin": 0.0, "vmax": most}
    axes[0].imshow(shown.data, **probabilities)
    image = axes[1].imshow(shown.prediction, **probabilities)
    residual = axes[2].imshow(
        shown.residual, cmap=difference_map(), vmin=-most, vmax=most, **scale
    )
    for ax in axes:
        plain_frame(ax)
        ax.set_xticks([])
    place: dict[str, Any] = {"location": "bottom", "pad": 0.02}
    small_bar(image, list(axes[:2]), "share of ones: observed and expected", shrink=0.3, **place)
    small_bar(residual, [axes[2]], "data minus reconstruction", shrink=0.6, **place)


def _most(shown: Blocks) -> float:
    """Return the upper end of the scale for means, which may be far below 1, in steps of 0.1."""
    values = np.concatenate([shown.data[~np.isnan(shown.data)], shown.prediction.ravel()])
    return float(np.clip(np.ceil(10.0 * np.quantile(values, 0.995)) / 10.0, 0.1, 1.0))


def _explain_grey(ax: Axes) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional

    ax.legend(
        handles=[Patch(color=UNKNOWN, label="unknown")],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        frameon=False,
        fontsize="small",
        handlelength=1.0,
    )
