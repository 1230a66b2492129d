"""Pictures of the chains: how many components there are, and whether the chains agree."""

from __future__ import annotations

from itertools import cycle
from math import ceil, isnan
from typing import TYPE_CHECKING

import numpy as np

from thali import views
from thali.plots.canvas import COLOURS, a_figure, checked, one_axes, place_points
from thali.posterior.diagnostics import MAX_R_HAT, MIN_ESS_PER_CHAIN
from thali.sentences import numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from thali.posterior import Posterior
    from thali.views import Quantity

_LABEL_POINTS = 16.0  # room along the axis for a number of up to three digits
_MARKERS = "osD^vP"


def n_components(posterior: Posterior, *, least_users: int = 1, ax: Axes | None = None) -> Axes:
    """Draw the posterior of the number of components: bars for all draws, marks for each chain.

    If marks are far from the top of their bar, the chains disagree.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    least_users
        Count only components that at least this many rows have.
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
    >>> ax = thali.pl.n_components(posterior, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'number of components'
    """
    shown = views.numbers(checked(posterior), least_users)
    ax = one_axes(ax, (min(7.5, 3.0 + 0.4 * len(shown.values)), 2.9))
    ax.bar(shown.values, shown.probability, width=0.8, color="#8fb7d9", label="all chains")
    places = np.linspace(-0.28, 0.28, posterior.n_chains) if posterior.n_chains > 1 else [0.0]
    names = [f"chain {numbered(chain)}" for chain in posterior.chain_indices]
    style = cycle(zip(COLOURS, _MARKERS, strict=True))
    for chain, (place, (colour, marker)) in enumerate(zip(places, style, strict=False)):
        share = shown.of_chains[chain]
        ax.plot(
            shown.values + place,
            np.where(share > 0.0, share, np.nan),
            marker,
            color=colour,
            markersize=5.0,
            markeredgecolor="white",
            markeredgewidth=0.5,
            label=names[chain] if posterior.n_chains <= len(COLOURS) else None,
            clip_on=False,
        )
    step = ceil(_LABEL_POINTS / place_points(ax, "x", len(shown.values)))
    ax.set_xticks(shown.values[::step])
    ax.set_xlim(shown.values[0] - 0.9, shown.values[-1] + 0.9)
    ax.set_ylim(0.0, min(1.0, 1.08 * max(shown.probability.max(), shown.of_chains.max())))
    least = "" if least_users == 1 else f"\nthat at least {least_users} rows have"
    ax.set_xlabel(f"number of components{least}")
    ax.set_ylabel("probability")
    ax.spines[["top", "right"]].set_visible(False)
    handles, texts = ax.get_legend_handles_labels()  # Matplotlib lists the bars last
    ax.legend(
        [handles[-1], *handles[:-1]],
        [texts[-1], *texts[:-1]],
        frameon=False,
        fontsize="small",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )
    return ax


def traces(
    posterior: Posterior, *, figure: Figure | SubFigure | None = None
) -> NDArray[np.object_]:
    """Draw traces of quantities that do not depend on the numbering of the components.

    The lines of chains that agree form one band. Each title gives R-hat, which is 1 if the chains
    agree, and the effective sample size (ESS): the number of independent draws that are as
    informative as the draws of the chains. A title is red if one of the two is insufficient.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    figure
        Figure or SubFigure to draw on; a new figure by default.

    Returns
    -------
    axes
        One-dimensional array with one Axes per quantity.

    Examples
    --------
    >>> import thali
    >>> from matplotlib.figure import Figure
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> axes = thali.pl.traces(posterior, figure=Figure())
    >>> axes[0].get_title(loc="left").splitlines()[0]
    'number of components'
    """
    found = list(views.quantities(checked(posterior)).items())
    shown = [
        quantity
        for i, (_, quantity) in enumerate(found)
        if not any(np.array_equal(quantity.values, q.values) for _, q in found[:i])
    ]  # if both kinds of errors have the same rate, draw it once
    n_columns = min(2, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure = a_figure(figure, (8.0, 0.5 + 1.55 * n_rows))
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True)
    axes: NDArray[np.object_] = grid.ravel()[: len(shown)]
    for ax in grid.ravel()[len(shown) :]:
        ax.remove()
    for ax, quantity in zip(axes, shown, strict=True):
        _trace(ax, quantity)
    for ax in axes[-n_columns:]:
        ax.set_xlabel("draw")
        ax.tick_params(labelbottom=True)
    if 1 < posterior.n_chains <= len(COLOURS):
        lines = axes[0].get_lines()
        figure.legend(
            lines,
            [f"chain {numbered(chain)}" for chain in posterior.chain_indices],
            loc="outside upper right" if _has_layout(figure) else "upper right",
            ncols=len(lines),
            frameon=False,
            fontsize="small",
        )
    return axes


def _trace(ax: Axes, quantity: Quantity) -> None:
    for values, colour in zip(quantity.values, cycle(COLOURS), strict=False):
        ax.plot(values, color=colour, linewidth=0.7, alpha=0.85)
    n_chains = len(quantity.values)
    ess = "never changes" if isnan(quantity.ess) else f"ESS {quantity.ess:.0f}"
    is_bad = quantity.r_hat > MAX_R_HAT or quantity.ess < MIN_ESS_PER_CHAIN * n_chains
    title = ax.set_title(
        f"{quantity.words.removeprefix('the ')}\nR-hat {quantity.r_hat:.2f}, {ess}",
        fontsize="small",
        loc="left",
    )
    if is_bad:
        title.set_color("#d55e00")
    ax.margins(x=0.01)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")
    ax.ticklabel_format(axis="y", useOffset=False)


def _has_layout(figure: Figure | SubFigure) -> bool:
    """Tell whether the figure's layout engine can make room for a legend outside the Axes."""
    engine = figure.figure.get_layout_engine()
    return engine is not None and engine.adjust_compatible is False
