"""What is in each component, as lines of a table."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from thali.posterior.answer_words import are_apart
from thali.posterior.by_chain import MOST
from thali.posterior.visible import visible
from thali.sentences import mode_words, numbered, plural
from thali.views import cards

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.views.describe import Card

_N_NAMES = 6
"""Columns of a component that are named."""

_LONGEST = 40
"""Characters of a name that are shown."""


def contents(posterior: Posterior, found: dict[str, Any]) -> list[str]:
    """Return lines that name the columns of each component, ranked as on the page.

    Nothing is returned for very large runs, whose draws would take long to compare.

    Parameters
    ----------
    posterior
        Posterior with at least one draw.
    found
        What :func:`~thali.posterior.answer.answer` returned for it.
    """
    if prod(posterior.shape) * len(posterior) > MOST:
        return []
    listed = cards(posterior, _N_NAMES)
    if not listed:
        return []
    words = [visible(word) for word in mode_words(posterior.mode_names)]
    heads = ["component", *map(plural, words), "certainty"]
    rows = [
        [str(numbered(card["component"])), *map(_count, card["counts"]), f"{card['sure']:.0%}"]
        for card in listed
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    names = [_names(card, words) for card in listed]
    lines = [""]
    if are_apart(found):
        lines += ["The chains disagree: `--chain N` shows the components of one chain."]
    for cells, last in zip(
        [heads, *rows],
        [f"surest {plural(words[1]) if len(words) == 2 else 'rows of other modes'}", *names],
        strict=True,
    ):
        padded = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{'  '.join(padded)}  {last}".rstrip())
    return lines


def _names(card: Card, words: list[str]) -> str:
    """Name the surest columns of a component; of tensors, those of every mode but the first."""
    parts = []
    for mode, (top, n) in enumerate(zip(card["top"], card["counts"], strict=True)):
        if mode == 0:
            continue
        named = [_short(member["name"]) for member in top[:n]]
        more = f" and {n - len(named):,} more" if n > len(named) else ""
        told = f"{', '.join(named)}{more}" if named else "none"
        parts.append(f"{words[mode]}: {told}" if len(words) > 2 else told)
    return "; ".join(parts)


def _count(number: int) -> str:
    return f"{number:,}"


def _short(name: str) -> str:
    name = " ".join(visible(name).split())
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
