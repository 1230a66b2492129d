"""Labels of rows, such as cell types, drawn as a strip of colours beside a map."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.plots.canvas import COLOURS, UNKNOWN
from thali.sentences import n_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from thali.bits import Index

_STRIP = 0.035  # width of the strip, relative to the map
_MOST_IN_LEGEND = 20


class Labels(NamedTuple):
    """One label per row; the code of a row without a label is -1."""

    codes: NDArray[np.int64]
    categories: list[str]

    @classmethod
    def read(cls, labels: Any, n_rows: int) -> Labels:
        """Read a sequence of labels; pandas categories keep their order, others are sorted."""
        import pandas as pd  # noqa: PLC0415 - heavy

        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            msg = (
                f"labels={labels!r} were given; give one label per row, as a list, array or "
                "Series."
            )
            raise TypeError(msg)
        is_flat = getattr(labels, "ndim", 1) == 1
        if not is_flat or len(labels) != n_rows:
            shape = getattr(labels, "shape", (len(labels),))
            msg = (
                f"labels of shape {tuple(shape)} were given for {n_of(n_rows, 'row')}; give one "
                "label per row."
            )
            raise ValueError(msg)
        try:
            known = pd.Categorical(labels)
        except TypeError as error:
            msg = (
                f"labels that cannot be compared were given ({error}); convert them to strings, "
                "numbers or other plain values."
            )
            raise TypeError(msg) from None
        return cls(
            np.asarray(known.codes, np.int64), [str(category) for category in known.categories]
        )

    def colours(self) -> list[str]:
        """Return one colour per category; consecutive categories have different colours."""
        return [COLOURS[i % len(COLOURS)] for i in range(len(self.categories))]


def draw_strip(ax: Axes, labels: Labels, rows: Index) -> None:
    """Draw the labels of rows as a strip left of a map, and name its colours.

    If the rows of each label are adjacent, labels are written beside their rows; otherwise they
    are listed in a legend.
    """
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - optional
    from matplotlib.patches import Patch  # noqa: PLC0415

    strip = ax.inset_axes((-2.0 * _STRIP, 0.0, _STRIP, 1.0), sharey=ax)
    palette = np.array([to_rgb(colour) for colour in [*labels.colours(), UNKNOWN]])
    codes = labels.codes[rows]
    strip.imshow(palette[codes][:, None, :], aspect="auto", interpolation="nearest")
    strip.set_xticks([])
    strip.tick_params(axis="y", which="both", length=0, labelleft=False, labelright=False)
    strip.spines[:].set_visible(False)
    runs = _runs(codes)
    if len(runs) == len(np.unique(codes)):
        for code, start, stop in runs:
            text = "no label" if code < 0 else labels.categories[code]
            middle = (start + stop - 1) / 2
            strip.text(
                -0.9, middle, text, ha="right", va="center", fontsize="small", clip_on=False
            )
        for _, start, _ in runs[1:]:
            ax.axhline(start - 0.5, color="#444444", linewidth=0.6)
        return
    used = [code for code in np.unique(codes) if code >= 0][:_MOST_IN_LEGEND]
    colours = labels.colours()
    strip.legend(
        handles=[Patch(color=colours[code], label=labels.categories[code]) for code in used],
        loc="upper right",
        bbox_to_anchor=(-0.5, 1.0),
        frameon=False,
        fontsize="small",
    )


def _runs(codes: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return code, start and end of every run of equal codes."""
    runs, start = [], 0
    for code, run in groupby(codes.tolist()):
        stop = start + len(list(run))
        runs.append((code, start, stop))
        start = stop
    return runs
