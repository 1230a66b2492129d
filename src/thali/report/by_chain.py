"""What every chain says by itself, as a table in HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thali.report.facts import Facts

_HEADS = (
    "chain",
    "components",
    "90% between",
    "log joint density",
    "ones explained",
    "rows without a component",
)


def by_chain_html(known: Facts) -> str:
    """Show each chain by itself if the chains disagree; nothing if they agree."""
    if not known.are_apart:
        return ""
    heads = "".join(f"<th scope=col>{head}</th>" for head in _HEADS)
    rows = "".join(map(_row, known.by_chain))
    shared = f" {escape(known.shared_by_chains)}" if known.shared_by_chains else ""
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Each chain by itself"><table>'
        "<caption>Each chain by itself</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<p class="help">{shared} <code>thali report RUN --chain N</code> writes this page about '
        "one chain, and <code>thali summary RUN --chain N</code> its summary.</p>"
    )


def _row(chain: dict[str, Any]) -> str:
    number, covers = chain["n_components"], chain["coverage"]
    low, high = number["interval"]
    explained, score = covers["ones_explained"]["mean"], chain["log_joint"]["mean"]
    cells = (
        f"{number['mode']}",
        f"{low} and {high}",
        "\N{EN DASH}" if score is None else f"{score:,.1f}",
        "\N{EN DASH}" if explained is None else f"{explained:.1%}",
        f"{covers['rows_without']['mean']:,.1f}",
    )
    values = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr><th scope=row>{chain['chain']}</th>{values}</tr>"
