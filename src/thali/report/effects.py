"""The effects of rows and columns, as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from thali.report.cards import tile
from thali.report.charts import Dot, dots
from thali.report.facts import percent
from thali.sentences import mode_words, n_of
from thali.views import has_effects, levels, names

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.report.facts import Facts
    from thali.views import LineLevels

_MOST_DOTS = 300
"""Number of rows that are drawn one by one; of more, as many are picked from low to high."""

_N_EXTREME = 3  # number of rows that are named as the highest and the lowest


def effects_link(posterior: Posterior) -> str:
    """Return the link to the section on effects, if there is one."""
    return '<a href="#effects">Effects</a>\n' if has_effects(posterior) else ""


def effects_section(posterior: Posterior, known: Facts) -> str:
    """Show how full the lines of every mode are for other reasons than components."""
    if not has_effects(posterior):
        return ""
    words = mode_words(posterior.mode_names)
    levels_of = " and ".join(f"a level of its {escape(word)}" for word in words[-2:])
    levels_of = "".join(f"a level of its {escape(word)}, " for word in words[:-2]) + levels_of
    figures = "".join(
        _figure(posterior, mode, word, found)
        for mode, (word, found) in enumerate(zip(words, levels(posterior), strict=True))
    )
    tiles = "".join(
        tile(
            quantity.title, f"{spread.mean:.2f}", quantity.base,
            f"{spread.low:.2f} and {spread.high:.2f}",
        )
        for quantity in known.noise.spreads
        if (spread := known.spreads[quantity.name]).high > 0.0
    )  # fmt: skip
    return (
        '<section id="effects" aria-labelledby="effects-title">'
        '<h2 id="effects-title">Row and column effects</h2>'
        '<p class="lead">The log odds that an entry reads one are the sum of '
        f"{levels_of}, and are higher if a component covers it. Levels tell what is full for "
        "other reasons than components: cells that were read more deeply, genes that every cell "
        "needs. Among those with the same share of ones, the lower ones owe more of their ones to "
        "components. Point at a dot to see its name.</p>"
        f'<dl class="tiles across">{tiles}</dl><div class="traces">{figures}</div></section>\n\n'
    )


def _figure(posterior: Posterior, mode: int, word: str, found: LineLevels) -> str:
    order = np.argsort(found.mean, kind="stable")
    shown = order
    if len(order) > _MOST_DOTS:
        shown = order[np.linspace(0, len(order) - 1, _MOST_DOTS).round().astype(np.int64)]
    low, high = found.low, found.high
    drawn = [
        Dot(
            float(found.share[row]), float(found.mean[row]), float(low[row]), float(high[row]),
            f"{name}: level {found.mean[row]:.2f} (90% between {low[row]:.2f} and "
            f"{high[row]:.2f}), {percent(float(found.share[row]))} ones",
        )
        for row, name in zip(shown, names(posterior, mode, shown), strict=True)
        if np.isfinite(found.share[row])
    ]  # fmt: skip
    title = f"Level of every {word} (log odds) against its share of ones; right: all levels"
    some = (
        f" Drawn are {len(shown)} of them, evenly from low to high." if shown is not order else ""
    )
    ends = (
        ", ".join(names(posterior, mode, part))
        for part in (order[::-1][:_N_EXTREME], order[:_N_EXTREME])
    )
    highest, lowest = ends
    return (
        f'<figure class="trace"><figcaption>{escape(title)}</figcaption>'
        f"{dots(title, drawn, found.mean)}"
        f'<p class="help">{escape(n_of(len(order), word))}. Highest: {escape(highest)}. Lowest: '
        f"{escape(lowest)}.{some}</p></figure>"
    )
