"""The sections of the page, as HTML."""

from __future__ import annotations

import platform
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

import thali
from thali.posterior.diagnostics import MAX_R_HAT, MIN_ESS_PER_CHAIN
from thali.report.cards import cards_html
from thali.report.charts import bars, trace
from thali.report.facts import BY, agreement, details, mode_words, n_of, percent, quantity_words
from thali.report.reproduce import command, python_call
from thali.sentences import capitalized
from thali.trace.run import digest

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.report.facts import Facts, Range

_LEGEND = (
    ("ink", "data reconstruction", "one"),
    ("paper", "data reconstruction", "zero"),
    ("spurious", "residual", "one that no component covers (spurious)"),
    ("dropped", "residual", "zero that a component covers (dropped)"),
    ("paper", "residual", "explained"),
)


def data_words(posterior: Posterior, known: Facts) -> str:
    """Say what was read."""
    words = mode_words(posterior)
    size = BY.join(n_of(n, word) for n, word in zip(posterior.shape, words, strict=True))
    missing = known.n_entries - known.n_known
    gaps = f", {percent(missing / known.n_entries)} unknown" if missing else ""
    return f"{size}: {percent(known.share_of_ones)} ones{gaps}"


def table_words(posterior: Posterior, known: Facts, kind: str, shape: list[int]) -> str:
    """Say what the table shows, for those who do not see it."""
    confusion = posterior.point_estimate().confusion
    told = (
        f"Of {n_of(known.n_known, 'known entry')}, {percent(1 - known.point_error)} are as "
        f"reconstructed by the point estimate; {confusion.fn:,} ones are not covered by any "
        f"component, {confusion.fp:,} zeros are."
    )
    if kind == "shares":
        told += (
            f" The table is shown as {shape[0]}{BY}{shape[1]} blocks: shares of ones, the "
            "probability that a component covers an entry, and their difference."
        )
    return f"{told} Where a pixel stands for many entries, its strength grows with their share."


def answer(posterior: Posterior, known: Facts) -> str:
    """Say how many components there are, how sure, and with what errors."""
    sentences = " ".join(map(escape, details(known)))
    is_sound = known.verdict is None
    shared = None if known.shared == known.every else known.shared
    legend = (
        '<ul class="legend"><li><i class="key series-0"></i>all components</li>'
        '<li><i class="key series-1"></i>shared by two rows or more</li></ul>'
        if shared
        else ""
    )
    return (
        f'<p class="words">{sentences}</p>'
        f'<p class="verdict {"sound" if is_sound else "doubt"}">'
        f"<b>{_verdict(posterior, is_sound=is_sound)}</b> "
        f"{escape(agreement(posterior, known))}</p>"
        '<div class="facts">'
        f"<figure><figcaption>Number of components: probability</figcaption>"
        f"{bars(known.every, shared)}{legend}</figure>"
        '<dl class="tiles">'
        f"{_rates(known)}{_wrong(known.wrong, known.share_wrong)}</dl></div>"
    )


def _verdict(posterior: Posterior, *, is_sound: bool) -> str:
    if not is_sound:
        return "Read with care."
    return "The chains agree." if posterior.n_chains > 1 else "The chain has settled."


def _rates(known: Facts) -> str:
    """Tell the rates with two decimals, as the command line does."""
    tiles = []
    for quantity in known.noise.quantities:
        rate = known.rates[quantity.name]
        between = f"{rate.low:.2%} and {rate.high:.2%}" if known.noise.has_interval else ""
        tiles.append(_tile(quantity.title, rate.mean, quantity.base, between))
    return "".join(tiles)


def _wrong(wrong: Range, share: float) -> str:
    low, high = (f"{end:,.0f}" for end in wrong[1:])
    of = f"of the known entries: {wrong.mean:,.0f} on average over the draws"
    return _tile("Wrong entries", share, of, "" if low == high else f"{low} and {high}")


def _tile(name: str, share: float, of: str, between: str) -> str:
    most = f"; 90% between {between}" if between else ""
    return f"<div><dt>{name}</dt><dd>{share:.2%}<small>{of}{most}</small></dd></div>"


def legend(*, has_unknown: bool) -> str:
    """Name the colours of the table."""
    lines = [*_LEGEND, *([("unknown", "data residual", "unknown")] if has_unknown else [])]
    return "".join(
        f'<li data-for="{layers}"><i class="key {colour}"></i>{told}</li>'
        for colour, layers, told in lines
    )


def components(posterior: Posterior, known: Facts) -> str:
    """Describe the components."""
    n_unmatched = posterior.align().unmatched.mean()
    lead = (
        f"{n_of(posterior.point_estimate().factors[0].n_components, 'component')} of the point "
        "estimate, the largest first. A number beside a name is the probability that it belongs "
        "to the component, over all draws; <b>sure</b> is their mean over what the point "
        "estimate puts into it. Numbers of components are those of "
        "<code>posterior.align()</code>."
    )
    if known.verdict is not None:
        lead += (
            " Here these are only shares of draws that cannot be trusted yet, as said at the top."
        )
    if n_unmatched >= 0.5:
        lead += (
            f" A draw has {n_unmatched:.1f} further components on average that none of these "
            "stands for."
        )
    return f'<p class="lead">{lead}</p>{cards_html(posterior, mode_words(posterior))}'


# --- chains ----------------------------------------------------------------------------------


def chains(posterior: Posterior) -> str:
    """Show the chains and their diagnostics."""
    n_draws = posterior.n_draws
    words = quantity_words(posterior)
    traces = [
        trace("Number of components", posterior.n_components.astype(np.float64), ".0f"),
        trace("Log joint density", posterior.log_joint, ",.0f"),
        *(
            trace(capitalized(words[name].removeprefix("the ")), drawn, ".4f")
            for name, drawn in posterior.noise.items()
        ),
    ]
    key = "".join(
        f'<li><i class="key chain-{chain % 8}"></i>chain {chain}</li>'
        for chain in range(min(posterior.n_chains, 8))
    )
    rows = "".join(
        f"<tr><th scope=row>{escape(words[str(name)].removeprefix('the '))}</th>"
        f"<td>{_number(line['mean'])}</td><td>{_number(line['sd'])}</td>"
        f"{_flagged(line['r_hat'], '.3f', is_bad=line['r_hat'] > MAX_R_HAT)}"
        f"{_flagged(line['ess_bulk'], ',.0f', is_bad=_is_few(posterior, line['ess_bulk']))}"
        f"<td>{_number(line['ess_tail'], ',.0f')}</td></tr>"
        for name, line in posterior.summary().iterrows()
    )
    return (
        '<p class="lead">Chains agree where their lines overlap and stay level. '
        f"R-hat should be at most {MAX_R_HAT}, and the draws worth at least "
        f"{MIN_ESS_PER_CHAIN * posterior.n_chains} independent ones (ESS).</p>"
        f'<ul class="legend">{key}</ul><div class="traces">{"".join(traces)}</div>'
        f'<p class="help">{n_of(n_draws, "draw")} a chain, from left to right.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Diagnostics"><table>'
        "<caption>Diagnostics of quantities that need no labels</caption><thead><tr>"
        "<th scope=col>quantity</th><th scope=col>mean</th><th scope=col>sd</th>"
        "<th scope=col>R-hat</th><th scope=col>ESS, bulk</th><th scope=col>ESS, tails</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div>{_moves(posterior)}"
    )


def _moves(posterior: Posterior) -> str:
    """Show how often moves of whole components were accepted."""
    acceptance = posterior.acceptance
    if not acceptance:
        return ""
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{tried:,}</td><td>{accepted:,}</td>"
        f"<td>{percent(accepted / tried)}</td></tr>"
        for name, (tried, accepted) in acceptance.items()
    )
    return (
        '<p class="help">Beside single entries, whole components are split, merged, added and '
        "deleted at once. Most tries are rejected where the number of components is certain.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Moves"><table>'
        "<caption>Moves of whole components, all chains together</caption><thead><tr>"
        "<th scope=col>move</th><th scope=col>tried</th><th scope=col>accepted</th>"
        f"<th scope=col>share</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _is_few(posterior: Posterior, ess: float) -> bool:
    return bool(ess < MIN_ESS_PER_CHAIN * posterior.n_chains)


def _flagged(value: float, digits: str, *, is_bad: bool) -> str:
    if not is_bad:
        return f"<td>{_number(value, digits)}</td>"
    return f'<td class="bad">{_number(value, digits)}<span class="unseen"> (not good)</span></td>'


def _number(value: float, digits: str = ".4g") -> str:
    if isfinite(value):
        return f"{value:{digits}}"
    return "infinite" if value == np.inf else "\N{EN DASH}"


# --- repeat ----------------------------------------------------------------------------------


def repeat(posterior: Posterior) -> str:
    """Say how to draw the same again."""
    settings = posterior.settings
    line = command(settings)
    by_command = (
        f"<h3>Command</h3><pre tabindex=0><code>{escape(line)}</code></pre>"
        '<p class="help">DATA read with the same options as then; they are not part of a run.</p>'
        if line
        else "<p>The command line has no option for some of these settings; use Python.</p>"
    )
    told = {
        "Data": BY.join(f"{n:,}" for n in posterior.shape),
        "Digest of the data (SHA-256)": digest(posterior.tensor),
        "Seed": str(settings.seed),
        "Chains": f"{posterior.n_chains} of {settings.warmup:,} sweeps of warm-up and "
        f"{posterior.n_draws:,} draws"
        + (f", {settings.thin} sweeps a draw" if settings.thin > 1 else "")
        + (f"; {settings.draws:,} were asked for" if posterior.n_draws < settings.draws else ""),
        "Schedule": settings.schedule.kind,
        "Noise": str(settings.model.noise),
        "Concentration": "none: the number is fixed"
        if settings.model.is_finite
        else str(settings.model.alpha),
        "Density": str(settings.model.density),
        "Versions": f"thali {thali.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}",
    }
    lines = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in told.items())
    return (
        '<p class="lead">The same data, settings and seed give the same draws, bit for bit, on '
        f"any number of threads.</p>{by_command}<h3>Python</h3><pre tabindex=0><code>"
        f'{escape(python_call(settings))}</code></pre><dl class="settings">{lines}</dl>'
    )
