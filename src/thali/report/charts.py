"""Charts as SVG: lines, bars and dots, whose colours are defined in the style sheet."""

from __future__ import annotations

from html import escape
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.sentences import n_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_BARS = 24
_ROOM = 32.0  # width that a number such as 0.98 needs, including the space around it
_MOST_POINTS = 240  # points per line; more could not be distinguished
_SHARES = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)  # steps of an axis


def bars(every: dict[int, float], shared: dict[int, float] | None = None) -> str:
    """Draw the probability of each number of components.

    Parameters
    ----------
    every, shared
        Probability of each number of components: of all components, and of those that at least
        two rows share. If `shared` is given, its bars are drawn beside those of `every`.
    """
    series = [every] if shared is None else [every, shared]
    numbers = _numbers(series)
    width, height, top, bottom, left = 400.0, 170.0, 22.0, 22.0, 28.0
    slot = min((width - left) / len(numbers), 16.0 + 48.0 * len(series))
    start = left + (width - left - slot * len(numbers)) / 2
    thick = min(slot * 0.8 / len(series), 40.0)
    room = slot if len(series) == 1 else thick  # width for the number above a bar
    most = max(max(part.values()) for part in series)
    skip = -(-24 // int(slot))  # numbers below the axis must not touch
    parts = []
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5) if most / s < 5)
    n_steps = ceil(most / step - 1e-9)
    most = n_steps * step  # the axis ends above the highest bar, or level with it
    for k in range(1, n_steps + 1):
        y = height - k * step / most * (height - top)
        parts.append(
            f'<line class="axis" x1="{left}" x2="{width:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="end" x="{left - 6}" y="{y + 4:.1f}">{k * step:.2g}</text>'
        )
    for i, number in enumerate(numbers):
        middle = start + (i + 0.5) * slot
        for k, part in enumerate(series):
            share = part.get(number, 0.0)
            tall = share / most * (height - top)
            x = middle + (k - len(series) / 2) * thick
            parts.append(
                f'<rect class="bar series-{k}" x="{x:.1f}" y="{height - tall:.1f}" '
                f'width="{thick - 1:.1f}" height="{tall:.1f}" rx="1.5"/>'
            )
            if share >= 0.005 and room > _ROOM:
                parts.append(
                    f'<text class="value" x="{x + thick / 2:.1f}" y="{height - tall - 6:.1f}">'
                    f"{share:.2f}</text>"
                )
        if i % skip == 0:
            parts.append(f'<text x="{middle:.1f}" y="{height + 16:.1f}">{number}</text>')
    shares = ", ".join(f"{n}: {every.get(n, 0.0):.2f}" for n in numbers)
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height + bottom:.0f}" role="img" '
        f'aria-label="Probability of each number of components: {shares}">'
        f'<line class="axis" x1="{left}" x2="{width:.0f}" y1="{height}" y2="{height}"/>'
        f"{''.join(parts)}</svg>"
    )


def trace(name: str, values: NDArray[np.float64], digits: str) -> str:
    """Draw the trace of a quantity, with one line per chain.

    Parameters
    ----------
    name
        Name of the quantity.
    values
        Values ``(n_chains, n_draws)`` of the quantity.
    digits
        Format of the numbers at the axis, such as ``".3f"``.
    """
    width, height, left = 420.0, 120.0, 62.0
    n_draws = values.shape[1]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    span = (high - low) or 1.0
    middle = 8.0 if high > low else height / 2
    lines = []
    for chain, drawn in enumerate(values):
        points = " ".join(
            f"{left + 4 + at / max(n_draws - 1, 1) * (width - left - 8):.1f},"
            f"{height - 8 - (value - low) / span * (height - 16) if high > low else middle:.1f}"
            for at, value in thinned(drawn)
        )
        lines.append(f'<polyline class="chain chain-{chain % 8}" points="{points}"/>')
    ends = [(high, 12.0), (low, height - 4.0)] if high > low else [(low, middle + 4)]
    labels = "".join(
        f'<text class="end" x="{left - 6}" y="{y:.0f}">{value:{digits}}</text>'
        for value, y in ends
    )
    return (
        f'<figure class="trace"><figcaption>{escape(name)}</figcaption>'
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(name)} in '
        f"{n_of(len(values), 'chain')} over {n_of(n_draws, 'draw')}, from {low:{digits}} to "
        f'{high:{digits}}">'
        f'<line class="axis" x1="{left}" x2="{left}" y1="0" y2="{height}"/>'
        f"{labels}{''.join(lines)}</svg></figure>"
    )


def thinned(drawn: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return the points of a line, only the lowest and highest of each stretch if it is long.

    Examples
    --------
    >>> import numpy as np
    >>> thinned(np.array([1.0, 3.0, 2.0]))
    [(0, 1.0), (1, 3.0), (2, 2.0)]
    """
    is_known = np.isfinite(drawn)
    places = np.flatnonzero(is_known)
    if len(places) > _MOST_POINTS:
        kept = []
        for stretch in np.array_split(places, _MOST_POINTS // 2):
            part = drawn[stretch]
            kept += sorted({int(stretch[part.argmin()]), int(stretch[part.argmax()])})
        places = np.array(kept)
    return [(int(at), float(drawn[at])) for at in places]


def _numbers(series: list[dict[int, float]]) -> list[int]:
    """Return the numbers to draw: all that occur, or those around the most probable number."""
    used = sorted({n for part in series for n, share in part.items() if share > 0})
    run = list(range(used[0], used[-1] + 1))
    if len(run) <= _MOST_BARS:
        return run
    best = max(series[0], key=series[0].__getitem__)
    first = min(max(best - _MOST_BARS // 2, run[0]), run[-1] - _MOST_BARS + 1)
    return list(range(first, first + _MOST_BARS))


class Dot(NamedTuple):
    """A point with an interval, and the text that is shown where somebody points at it."""

    x: float  # a share, from 0 to 1
    y: float
    low: float
    high: float
    words: str


def dots(name: str, drawn: list[Dot], values: NDArray[np.float64]) -> str:
    """Draw values against shares, and the distribution of all values beside them.

    Parameters
    ----------
    name
        What is drawn, for readers who cannot see it.
    drawn
        The points to draw.
    values
        All values, of which the points may be a part.
    """
    width, height, left, bottom, beside = 420.0, 220.0, 34.0, 20.0, 70.0
    lowest = floor(min([float(values.min()), *(dot.low for dot in drawn)]))
    highest = max(ceil(max([float(values.max()), *(dot.high for dot in drawn)])), lowest + 1)
    most = max([dot.x for dot in drawn], default=1.0) or 1.0
    step = next(s for s in _SHARES if most / s <= 5)
    most = ceil(most / step - 1e-9) * step
    right = width - beside - 8.0

    def across(share: float) -> float:
        return left + share / most * (right - left)

    def down(value: float) -> float:
        return 6.0 + (highest - value) / (highest - lowest) * (height - 12.0)

    every = -(-(highest - lowest) // 6)
    parts = [
        f'<line class="axis" x1="{left}" x2="{width:.0f}" y1="{down(tick):.1f}" '
        f'y2="{down(tick):.1f}"/>'
        f'<text class="end" x="{left - 6}" y="{down(tick) + 4:.1f}">{tick}</text>'
        for tick in range(lowest, highest + 1, every)
    ]
    parts += [
        f'<text x="{across(k * step):.1f}" y="{height + 14:.0f}">{k * step:.3g}</text>'
        for k in range(round(most / step) + 1)
    ]
    for dot in drawn:
        x = f"{across(dot.x):.1f}"
        parts.append(
            f'<g class="dot"><title>{escape(dot.words)}</title>'
            f'<line x1="{x}" x2="{x}" y1="{down(dot.high):.1f}" y2="{down(dot.low):.1f}"/>'
            f'<circle cx="{x}" cy="{down(dot.y):.1f}" r="3"/></g>'
        )
    counts, edges = np.histogram(values, bins=4 * (highest - lowest), range=(lowest, highest))
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        long = beside * count / counts.max()
        parts.append(
            f'<rect class="bar series-0" x="{width - beside:.0f}" y="{down(high):.1f}" '
            f'width="{long:.1f}" height="{down(low) - down(high) - 0.5:.1f}"/>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height + bottom:.0f}" role="img" '
        f'aria-label="{escape(name)}, from {values.min():.2f} to {values.max():.2f}">'
        f"{''.join(parts)}</svg>"
    )
