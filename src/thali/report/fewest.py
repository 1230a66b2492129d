"""The page about a factorization: what contradicts it, its components, and how the search went."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

import thali
from thali.posterior.visible import visible
from thali.report.cards import tile
from thali.report.facts import BY, percent
from thali.sentences import mode_words, n_of, numbered, plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from string import Template

    from thali.optimize import Factorization

_MOST_NAMES = 60  # of a component that are seen at once; the others unfold


def fewest_page(found: Factorization, title: str | None, template: Template, style: str) -> str:
    """Return the page as text: nothing in it is a probability, as nothing was sampled."""
    size = BY.join(f"{n:,}" for n in found.shape)
    heading = escape(visible(title) if title else f"Fewest errors in a table of {size}")
    return template.substitute(
        version=escape(thali.__version__),
        title=heading,
        style=style,
        data=escape(_data_words(found)),
        headline=escape(_headline(found)),
        answer=escape(_answer(found)),
        tiles="".join(_tiles(found)),
        picture=_picture(found),
        components="".join(_cards(found)),
        search=_search(found),
    )


def _data_words(found: Factorization) -> str:
    rows, columns = (
        n_of(n, word) for n, word in zip(found.shape, mode_words(found.mode_names), strict=True)
    )
    n_known, n_entries = found.tensor.n_known, found.shape[0] * found.shape[1]
    words = f"{rows} and {columns}, {percent(found.tensor.n_ones / max(1, n_known))} ones"
    unknown = n_entries - n_known
    return f"{words}, {n_of(unknown, 'unknown entry')}." if unknown else f"{words}."


def _headline(found: Factorization) -> str:
    number = n_of(found.n_components, "component")
    return f"{number}, {n_of(found.errors, 'error')}."


def _answer(found: Factorization) -> str:
    if found.is_optimal:
        proof = "This is proven to be the minimum."
    elif found.fewest_components is not None:
        proof = f"At least {n_of(found.fewest_components, 'component')} are needed."
    elif found.lower_bound > 0:
        proof = f"A loss below {found.lower_bound:g} is impossible."
    else:
        proof = "Fewer errors may be possible."
    under = " No component was allowed to cover a zero." if found.is_under else ""
    return (
        f"This is the best of a random search. {proof}{under} The page says nothing about how "
        "certain a component is, nor how many there should be: a posterior does."
    )


def _tiles(found: Factorization) -> Iterator[str]:
    n_known = max(1, found.tensor.n_known)
    inside, outside = found.zeros_inside, found.ones_outside
    share = percent(found.errors / n_known)
    yield tile("Errors", f"{found.errors:,}", f"{share} of the known entries", "")
    yield tile("Zeros that are covered", f"{inside:,}", f"at a cost of {found.cost[0]:g} each", "")
    yield tile("Ones that are not", f"{outside:,}", f"at a cost of {found.cost[1]:g} each", "")


def _picture(found: Factorization) -> str:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    except ImportError:
        return '<p class="help">The picture needs Matplotlib, which is not installed.</p>'
    from thali.plots.fewest import errors  # noqa: PLC0415 - needs Matplotlib

    blob = BytesIO()
    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    errors(found, ax=figure.subplots())
    figure.savefig(blob, format="png", dpi=110)
    words = f"The table, with its {n_of(found.errors, 'error')} in colours"
    return (
        f'<figure><img alt="{escape(words)}" style="max-width: 100%" '
        f'src="data:image/png;base64,{b64encode(blob.getvalue()).decode()}"></figure>'
    )


def _cards(found: Factorization) -> Iterator[str]:
    words = mode_words(found.mode_names)
    frames = found.memberships(), found.components().T
    for number in range(found.n_components):
        lists = []
        for word, frame in zip(words, frames, strict=True):
            names = frame.index[frame.iloc[:, number] == 1]
            lists.append(f"<h4>{n_of(len(names), word)}</h4>{_names(list(names), word)}")
        yield (
            f'<article class="card"><h3>Component {numbered(number)}</h3>{"".join(lists)}'
            "</article>"
        )


def _names(names: list[Any], word: str) -> str:
    shown = [escape(visible(str(name))) for name in names]
    first, more = ", ".join(shown[:_MOST_NAMES]), shown[_MOST_NAMES:]
    if not more:
        return f"<p>{first or 'none'}</p>"
    others = f"{len(more):,} more {plural(word)}"
    return f"<p>{first}</p><details><summary>{others}</summary><p>{', '.join(more)}</p></details>"


def _search(found: Factorization) -> str:
    last = found.trace[-1][0] if found.trace else 0.0
    words = (
        f"The search took {found.seconds:.1f} seconds with seed {found.seed}; its last "
        f"improvement was at {last:.1f} seconds."
    )
    if found.is_stopped:
        words += " It was stopped before its time."
    return f"<p>{words}</p>{_curve(found)}"


def _curve(found: Factorization) -> str:
    """Draw what was best at every moment, as steps."""
    table = found.trace_table()
    if len(table) < 2:
        return ""
    name = "n_components" if found.fewest_components is not None else "errors"
    seconds = np.append(table["seconds"], max(found.seconds, table["seconds"].iloc[-1]))
    best = np.append(table[name], table[name].iloc[-1]).astype(float)
    width, height, left, bottom = 640.0, 200.0, 60.0, 24.0
    across = _spread(np.log10(np.maximum(seconds, 1e-3))) * (width - left) + left
    down = (1.0 - _spread(np.log10(best + 1.0))) * height
    steps = [f"M{across[0]:.1f} {down[0]:.1f}"]
    steps += [f"H{x:.1f} V{y:.1f}" for x, y in zip(across[1:], down[1:], strict=True)]
    label = f"Best so far: from {best[0]:.0f} to {best[-1]:.0f} in {seconds[-1]:.1f} seconds"
    return (
        f'<figure class="trace"><figcaption>{escape(label)}. Both axes are logarithmic.'
        f'</figcaption><svg class="chart" viewBox="0 0 {width:.0f} {height + bottom:.0f}" '
        f'role="img" aria-label="{escape(label)}">'
        f'<line class="axis" x1="{left}" x2="{width:.0f}" y1="{height}" y2="{height}"/>'
        f'<path d="{" ".join(steps)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f'<text class="end" x="{left - 6}" y="10">{best[0]:.0f}</text>'
        f'<text class="end" x="{left - 6}" y="{height}">{best[-1]:.0f}</text>'
        f'<text x="{left}" y="{height + 16}">{max(seconds[0], 1e-3):.3g} s</text>'
        f'<text class="end" x="{width:.0f}" y="{height + 16}">{seconds[-1]:.3g} s</text>'
        "</svg></figure>"
    )


def _spread(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """Return values between 0 and 1, the largest at 1."""
    return (values - values.min()) / max(float(np.ptp(values)), 1e-9)
