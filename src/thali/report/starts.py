"""What the chains began with, as a table in HTML."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from thali.sentences import n_of, numbered

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.sampler import Attempted

_STAGES = {
    "grown": "best of {}",
    "pooled": "all together",
    "regrown": "after {} of removing and regrowing",
}
_TIMES = {"grown": "start", "pooled": "start", "regrown": "round"}
_KINDS = {
    "": "",
    "fitted": "effects first",
    "plain": "without effects",
    "flat": "components first",
    "none": "no component",
}

_HELP = (
    "Before its first sweep, each chain grew components on the data in several starts, put these "
    "together, and removed and regrew some. A higher log evidence is better. "
)
_TRIED = (
    "This was done twice: after effects of rows and columns were fitted, and before. Both "
    "results, and a start without components, predicted hidden entries, unless their evidence was "
    "far too low. Evidence without effects is that of a simpler model. A higher log score is "
    "better; the gain is over row and column rates alone, with its standard error. Of starts that "
    "predict about equally well, the one with the fewest components is chosen. "
)
_LAST = (
    "The last line of a chain is what it began with. If the chains agree, the answer does not "
    "depend on it."
)


def starts_html(posterior: Posterior) -> str:
    """Show what every chain reached before its first sweep: a line per chain and kind of stage."""
    if not any(posterior.starts):
        return ""
    is_tried = any(part.tried for history in posterior.starts for part in history)
    rows = "".join(
        f"<tr><th scope=row>{numbered(chain)}</th><td class=left>{words}</td>"
        f"<td>{part.n_components:,}</td>"
        f"<td>{number(part.evidence, ',.1f')}</td>{_scores(part) if is_tried else ''}</tr>"
        for chain, history in zip(posterior.chain_indices, posterior.starts, strict=True)
        for words, part in _lines(history)
    )
    more = "<th scope=col>log score</th><th scope=col>gain</th>" if is_tried else ""
    return (
        '<details class="starts"><summary>How the chains started</summary>'
        f'<p class="help">{_HELP}{_TRIED if is_tried else ""}{_LAST}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Starts"><table>'
        "<caption>What the chains began with</caption><thead><tr>"
        "<th scope=col>chain</th><th scope=col class=left>stage</th><th scope=col>components</th>"
        f"<th scope=col>log evidence</th>{more}</tr></thead><tbody>{rows}</tbody></table></div>"
        "</details>"
    )


def number(value: float, digits: str = ".4g") -> str:
    """Write a number that may be infinite or missing."""
    if isfinite(value):
        return f"{value:{digits}}"
    return "infinite" if value == inf else "\N{EN DASH}"


def _lines(history: tuple[Attempted, ...]) -> list[tuple[str, Attempted]]:
    """Return the best of every kind of stage, those on trial, and the chosen one last."""
    lines = []
    for kind, first in _KINDS.items():
        for stage, words in _STAGES.items():
            reached = [part for part in history if (part.stage, part.kind) == (stage, kind)]
            if reached:
                best = max(reached, key=lambda part: part.evidence)
                told = words.format(n_of(len(reached), _TIMES[stage]))
                lines.append((f"{first}: {told}" if first else told, best))
    chosen = [part for part in history if part.stage == "chosen"]
    others = {part.kind for part in chosen}
    lines += [
        (f"{_KINDS[part.kind]}: on trial", part)
        for part in history
        if part.stage == "tried" and part.kind not in others
    ]
    return lines + [(f"{_KINDS[part.kind]}: on trial, and chosen", part) for part in chosen]


def _scores(part: Attempted) -> str:
    if part.tried is None:
        return "<td></td><td></td>"
    score, gain, error, _ = part.tried
    return f"<td>{score:.4f}</td><td>{gain:+.4f} \N{PLUS-MINUS SIGN} {error:.4f}</td>"
