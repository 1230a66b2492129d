"""How often moves of whole components were accepted, as a table in HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from thali.report.facts import percent
from thali.sentences import numbered

if TYPE_CHECKING:
    from thali.posterior import Posterior

_MANY_CHAINS = 8  # number of chains beyond which only their total is shown

_HELP = (
    "Besides updating single entries, the sampler proposes to split, merge, add and delete whole "
    "components. If the number of components is certain, most proposals are rejected. A move that "
    "one chain accepts far more often than the others tells that the chains are in different "
    "places."
)


def moves_html(posterior: Posterior) -> str:
    """Show how often each move was accepted, in all chains and in each; nothing if not counted."""
    acceptance = posterior.acceptance
    if not acceptance:
        return ""
    chains = posterior.acceptance_by_chain if 1 < posterior.n_chains <= _MANY_CHAINS else ()
    heads = "".join(
        f"<th scope=col>in chain {numbered(chain)}</th>"
        for chain in posterior.chain_indices[: len(chains)]
    )
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{tried:,}</td><td>{accepted:,}</td>"
        f"<td>{percent(accepted / tried)}</td>"
        + "".join(f"<td>{chain.get(name, (0, 0))[1]:,}</td>" for chain in chains)
        + "</tr>"
        for name, (tried, accepted) in acceptance.items()
    )
    return (
        f'<p class="help">{_HELP}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Moves"><table>'
        "<caption>Moves of whole components after the warm-up"
        f"{'; on the right: accepted in each chain' if chains else ''}</caption><thead><tr>"
        "<th scope=col>move</th><th scope=col>proposed</th><th scope=col>accepted</th>"
        f"<th scope=col>share</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
