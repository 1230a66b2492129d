"""Cards that describe the components, and tiles with a number, as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from thali.model import Effects
from thali.report.facts import BY, percent
from thali.sentences import capitalized, n_of, numbered, plural
from thali.views import cards

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.views import Card, Member

_N_OPEN = 9
"""Number of cards that are open; the others are folded away."""

_N_BARS, _N_NAMES = 6, 40
"""Numbers of rows per component and mode that get a bar, and that are named at all."""

_MANY = 60
"""Number of components from which on fewer names are listed, so that the page stays small."""

_N_NEIGHBOURS = 3  # number of overlapping components that are named
_UNLIKELY = 0.1  # rows below this probability are listed only if they are in the point estimate


_ORDERS = {"size": "size", "lift": "lift", "sure": "certainty", "number": "number"}
"""Orders of the cards: the attribute of a card, and the word for it."""


def tools_html(words: list[str], *, has_factors: bool) -> str:
    """Offer other orders of the cards, the factors as files, and the page with its names."""
    orders = "".join(f'<option value="{key}">{word}</option>' for key, word in _ORDERS.items())
    files = "".join(
        f'<button type="button" data-csv="{mode}">{escape(capitalized(word))} (CSV)</button>'
        for mode, word in enumerate(map(plural, words))
    )
    help_words = (
        "Files have a line for each name and a column for each component: 1 if it belongs to it."
        if has_factors
        else "The factors are too large for this page; <code>thali export RUN --to FOLDER</code> "
        "writes them."
    )
    return (
        '<div class="toolbar js-only"><label class="check">Sort by '
        f'<select id="sort">{orders}</select></label>'
        '<div class="buttons" role="group" aria-label="Files">'
        f'{files if has_factors else ""}<button type="button" id="save">Save page</button></div>'
        f'</div><p class="help js-only">{help_words} If you rename components, <b>Save page</b> '
        'keeps their names in a copy of this file. <b id="save-state" role="status"></b></p>'
    )


def cards_html(posterior: Posterior, words: list[str], tools: str) -> str:
    """Describe every component, from the largest to the smallest.

    Parameters
    ----------
    posterior
        A posterior with at least one draw.
    words
        The word for one row of each mode.
    tools
        What is offered above the cards, if there are any.
    """
    n_names = _N_NAMES if posterior.point_estimate().factors[0].n_components < _MANY else _N_BARS
    described = sorted(cards(posterior, n_names), key=lambda card: -card["size"])
    if not described:
        why = "explained as an error"
        if isinstance(posterior.settings.model.priors(len(words)).noise, Effects):
            why = "explained by the rates of its row and column"
        return f"<p>There are no components: every one in the data is {why}.</p>"
    shown = [_card(card, words) for card in described]
    html = f'{tools}<div class="cards">{"".join(shown[:_N_OPEN])}</div>'
    if len(shown) > _N_OPEN:
        rest = shown[_N_OPEN:]
        html += (
            f'<details class="more"><summary>{len(rest)} more '
            f"{'component' if len(rest) == 1 else 'components'}</summary>"
            f'<div class="cards">{"".join(rest)}</div></details>'
        )
    return html


def _card(card: Card, words: list[str]) -> str:
    index, number = card["component"], numbered(card["component"])
    size = BY.join(n_of(n, word) for n, word in zip(card["counts"], words, strict=True))
    # The columns of a component come first, and then the rows that have it.
    modes = [*range(1, len(words)), 0]
    lists = "".join(_members(card, mode, words[mode]) for mode in modes)
    return (
        f'<article class="card" id="component-{number}" tabindex="-1" '
        f'aria-labelledby="name-{number}" data-number="{number}" data-size="{card["size"]}" '
        f'data-lift="{card["lift"]:.6g}" data-sure="{card["sure"]:.6g}">'
        f'<header><h3 id="name-{number}"><a href="#component-{number}">'
        f'<span class="number">Component {number}</span> <span class="given"></span></a></h3>'
        f'<div class="js-only"><button type="button" class="name" '
        f'aria-label="Rename component {number}">Rename</button>'
        f'<button type="button" data-component="{index}" aria-pressed="false" '
        f'aria-label="Mark component {number} in the table">Mark</button></div></header>'
        f'<p class="size">{escape(size)}, lift {_times(card["lift"])}</p>'
        f'<p class="sure">{_meter(card["sure"])}<span>Certainty <b>{card["sure"]:.2f}</b>. '
        f"Has a counterpart in {percent(card['matched'])} of the draws, of mean similarity "
        f"{card['similarity']:.2f}.</span></p>"
        f"{lists}{_overlaps(card, words)}</article>"
    )


def _members(card: Card, mode: int, word: str) -> str:
    """List the most probable rows of a component in one mode."""
    n_members = card["counts"][mode]
    members = [
        member
        for place, member in enumerate(card["top"][mode])
        if place < n_members or member["probability"] >= _UNLIKELY
    ]
    if not members:
        return f"<h4>{escape(plural(word))}</h4><p>none</p>"
    lines = "".join(
        f"<li>{_meter(member['probability'])}{_name(member)}"
        f"<b>{member['probability']:.2f}</b><small>{_times(member['lift'])}</small></li>"
        for member in members[:_N_BARS]
    )
    html = f'<h4>{escape(plural(word))}</h4><ul class="members" data-mode="{mode}">{lines}</ul>'
    n_left = n_members - _N_BARS
    if n_left > 0:
        named = [_name(member) for member in members[_N_BARS:n_members]]
        n_unnamed = n_left - len(named)
        text = ", ".join(named) + (f" and {n_unnamed:,} more" if named and n_unnamed else "")
        html += (
            f"<details><summary>{n_left:,} more</summary>"
            f'<p data-mode="{mode}">{text}</p></details>'
            if named
            else f'<p class="left">and {n_left:,} more</p>'
        )
    return html


def _name(member: Member) -> str:
    """Write the name of a row so that the search can highlight it."""
    return f'<span data-row="{member["row"]}">{escape(member["name"])}</span>'


def _times(lift: float) -> str:
    """Write a lift: how many times as frequent ones are in a component as elsewhere."""
    return f"\N{MULTIPLICATION SIGN}{lift:{'.1f' if lift < 9.95 else '.0f'}}"


def _overlaps(card: Card, words: list[str]) -> str:
    """Say which components share rows of some mode with this one, the most similar first."""
    others = card["overlaps"]
    if not others:
        return '<p class="overlap">Overlaps with no other component.</p>'
    named = []
    for other in others[:_N_NEIGHBOURS]:
        shared = [n_of(n, word) for n, word in zip(other["shared"], words, strict=True) if n > 0]
        number = numbered(other["component"])
        named.append(
            f"{escape(' and '.join(shared))} with "
            f'<a href="#component-{number}" data-to="{number}">component {number}</a>'
        )
    n_left = len(others) - len(named)
    more = f" It also overlaps with {n_of(n_left, 'other component')}." if n_left else ""
    return f'<p class="overlap">Shares {", ".join(named)}.{more}</p>'


def _meter(share: float) -> str:
    """Draw a share as a bar; it is hidden from screen readers, which read the number beside it."""
    return f'<i class="meter" style="--share:{100 * share:.0f}%" aria-hidden="true"></i>'


def tile(name: str, value: str, of: str, between: str) -> str:
    """Show a number in large type, with what it is of, and the interval of its draws."""
    most = f"; 90% of the draws lie between {between}" if between else ""
    return f"<div><dt>{name}</dt><dd>{value}<small>{of}{most}</small></dd></div>"
