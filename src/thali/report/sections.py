"""The sections of the page, as HTML."""

from __future__ import annotations

import platform
from html import escape
from typing import TYPE_CHECKING

import numpy as np

import thali
from thali.posterior import remarks
from thali.posterior.beyond import NOTHING
from thali.posterior.diagnostics import MAX_R_HAT, MIN_ESS_PER_CHAIN, in_words
from thali.report.by_chain import by_chain_html
from thali.report.cards import cards_html, tile, tools_html
from thali.report.charts import bars, trace
from thali.report.facts import BY, agreement, details, percent
from thali.report.moves import moves_html
from thali.report.reproduce import command, python_call
from thali.report.starts import number as _number
from thali.report.starts import starts_html
from thali.sentences import capitalized, mode_words, n_of, numbered
from thali.trace.run import digest

if TYPE_CHECKING:
    from thali.posterior import Posterior
    from thali.report.facts import Facts

_LEGEND = (
    ("ink", "data reconstruction", "one"),
    ("paper", "data reconstruction", "zero"),
    ("spurious", "residual", "spurious one: no component covers it"),
    ("dropped", "residual", "dropped one: a zero that a component covers"),
    ("paper", "residual", "explained"),
)


_GUIDE = (
    '<details class="guide"><summary>How to read these numbers</summary><dl>'
    "<dt>Probability</dt><dd>The share of all draws in which a name belongs to the component.</dd>"
    "<dt>Lift of a name</dt><dd>How many times as frequent ones are within the component as "
    "elsewhere. Names are ranked by probability and then by lift.</dd>"
    "<dt>Certainty</dt><dd>The mean probability of everything that the point estimate puts into "
    "the component, of rows or of columns, whichever is smaller.</dd>"
    "<dt>Lift of a component</dt><dd>The share of ones among the entries that it covers, over the "
    "share of ones of the same columns in all other rows.</dd>"
    "<dt>Number</dt><dd>Components are counted from 1; arrays in Python begin at 0.</dd>"
    "</dl></details>"
)


def data_words(posterior: Posterior, known: Facts) -> str:
    """Say how large the data are, and how many ones and unknown entries they have."""
    words = mode_words(posterior.mode_names)
    size = BY.join(n_of(n, word) for n, word in zip(posterior.shape, words, strict=True))
    missing = known.n_entries - known.n_known
    gaps = f", {percent(missing / known.n_entries)} unknown" if missing else ""
    return f"{size}: {percent(known.share_of_ones)} ones{gaps}"


def table_words(posterior: Posterior, known: Facts, kind: str, shape: list[int]) -> str:
    """Describe the table in words, also for readers who cannot see it."""
    confusion = posterior.point_estimate().confusion
    told = (
        f"The point estimate agrees with {percent(1 - known.point_error)} of the "
        f"{n_of(known.n_known, 'known entry')}. Ones that no component covers: {confusion.fn:,}. "
        f"Zeros that a component covers: {confusion.fp:,}."
    )
    if kind == "shares":
        told += (
            f" The table is averaged over {shape[0]}{BY}{shape[1]} blocks: it shows the share of "
            "ones, the probability that a component covers an entry, and their difference."
        )
    return f"{told} Where a pixel covers many entries, a stronger colour means a larger share."


def answer(posterior: Posterior, known: Facts) -> str:
    """Say how many components there are, how certain that is, and how frequent errors are."""
    sentences = " ".join(map(escape, [*details(known), known.covers]))
    is_sound = known.verdict is None
    shared = None if known.shared == known.every else known.shared
    legend = (
        '<ul class="legend"><li><i class="key series-0"></i>all components</li>'
        '<li><i class="key series-1"></i>shared by at least two rows</li></ul>'
        if shared
        else ""
    )
    return (
        f'<p class="words">{sentences}</p>'
        f'<p class="verdict {"sound" if is_sound else "doubt"}">'
        f"<b>{_verdict(posterior, is_sound=is_sound)}</b> "
        f"{escape(agreement(posterior, known))}</p>"
        f"{by_chain_html(known)}"
        '<div class="facts">'
        f"<figure><figcaption>Number of components: probability</figcaption>"
        f"{bars(known.every, shared)}{legend}</figure>"
        '<dl class="tiles">'
        f"{_rates(known)}{_wrong(known)}</dl></div>"
    )


def _verdict(posterior: Posterior, *, is_sound: bool) -> str:
    if not is_sound:
        return "Read with care."
    return "The chains agree." if posterior.n_chains > 1 else "The chain has settled."


def _rates(known: Facts) -> str:
    """Show the error rates with two decimals, as the command line does."""
    tiles = []
    for quantity in known.noise.quantities:
        if known.beyond == NOTHING and quantity.name == "dropped":
            continue  # nothing is covered, so only the prior speaks
        rate = known.rates[quantity.name]
        between = f"{rate.low:.2%} and {rate.high:.2%}" if known.noise.has_interval else ""
        tiles.append(tile(quantity.title, f"{rate.mean:.2%}", quantity.base, between))
    return "".join(tiles)


def _wrong(known: Facts) -> str:
    if known.beyond == NOTHING:
        return ""
    wrong = known.wrong
    low, high = (f"{end:,.0f}" for end in wrong[1:])
    of = f"of the known entries: {wrong.mean:,.0f} on average over the draws"
    title = "Contradicting entries"
    if known.noise.spreads:
        title = "Ones outside, zeros inside components"
    between = "" if low == high else f"{low} and {high}"
    return tile(title, f"{known.share_wrong:.2%}", of, between)


def legend(*, has_unknown: bool) -> str:
    """Explain the colours of the table."""
    lines = [*_LEGEND, *([("unknown", "data residual", "unknown")] if has_unknown else [])]
    return "".join(
        f'<li data-for="{layers}"><i class="key {colour}"></i>{told}</li>'
        for colour, layers, told in lines
    )


def components(posterior: Posterior, known: Facts, *, has_factors: bool) -> str:
    """Describe the components.

    Parameters
    ----------
    posterior, known
        A posterior and what it says.
    has_factors
        Whether the page contains the factors, so that it can offer them as files.
    """
    n_unmatched = posterior.align().unmatched.mean()
    lead = (
        "The point estimate has "
        f"{n_of(posterior.point_estimate().factors[0].n_components, 'component')}, listed from "
        "the largest to the smallest. The numbers beside a name are its probability and its lift."
    )
    if known.verdict is not None:
        lead += (
            " Here probabilities are only shares of draws that cannot be trusted yet: see the top "
            "of the page."
        )
    if n_unmatched >= 0.5:
        lead += (
            f" On average, a draw has {n_unmatched:.1f} further components that match none of "
            "these."
        )
    words = mode_words(posterior.mode_names)
    tools = tools_html(words, has_factors=has_factors)
    return f'<p class="lead">{lead}</p>{_GUIDE}{cards_html(posterior, words, tools)}'


# --- chains ----------------------------------------------------------------------------------


def chains(posterior: Posterior) -> str:
    """Show the chains and their diagnostics."""
    n_draws = posterior.n_draws
    traces = [
        trace("Number of components", posterior.n_components.astype(np.float64), ".0f"),
        trace("Log joint density", posterior.log_joint, ",.0f"),
        *(
            trace(capitalized(in_words(name).removeprefix("the ")), drawn, ".4f")
            for name, drawn in posterior.noise.items()
        ),
    ]
    key = "".join(
        f'<li><i class="key chain-{at % 8}"></i>chain {numbered(chain)}</li>'
        for at, chain in enumerate(posterior.chain_indices[:8])
    )
    rows = "".join(
        f"<tr><th scope=row>{escape(in_words(name).removeprefix('the '))}</th>"
        f"<td>{_number(line['mean'])}</td><td>{_number(line['sd'])}</td>"
        f"{_flagged(line['r_hat'], '.3f', is_bad=line['r_hat'] > MAX_R_HAT)}"
        f"{_flagged(line['ess_bulk'], ',.0f', is_bad=_is_few(posterior, line['ess_bulk']))}"
        f"<td>{_number(line['ess_tail'], ',.0f')}</td></tr>"
        for name, line in posterior.summary().iterrows()
    )
    return (
        '<p class="lead">If the chains agree, their lines overlap and stay level. '
        f"R-hat should be at most {MAX_R_HAT}, and the effective sample size (ESS, the number of "
        "independent draws that would be as informative) at least "
        f"{MIN_ESS_PER_CHAIN * posterior.n_chains}.</p>"
        f'<ul class="legend">{key}</ul><div class="traces">{"".join(traces)}</div>'
        f'<p class="help">{n_of(n_draws, "draw")} per chain, from left to right.</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Diagnostics"><table>'
        "<caption>Diagnostics of quantities that do not depend on the numbering of the components"
        "</caption><thead><tr>"
        "<th scope=col>quantity</th><th scope=col>mean</th><th scope=col>sd</th>"
        "<th scope=col>R-hat</th><th scope=col>ESS, bulk</th><th scope=col>ESS, tails</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div>{starts_html(posterior)}{moves_html(posterior)}"
        f"{_about_sizes(posterior)}"
    )


def _about_sizes(posterior: Posterior) -> str:
    """Remark that components have densities of their own, or that some have the same rows."""
    own = remarks.own_densities_in_words(remarks.has_own_densities(posterior))
    twins = remarks.same_rows(posterior)
    remark = own or remarks.same_rows_in_words(twins, "<code>--density own</code>")
    return f'<p class="help">{remark}</p>' if remark else ""


def _is_few(posterior: Posterior, ess: float) -> bool:
    return bool(ess < MIN_ESS_PER_CHAIN * posterior.n_chains)


def _flagged(value: float, digits: str, *, is_bad: bool) -> str:
    if not is_bad:
        return f"<td>{_number(value, digits)}</td>"
    return f'<td class="bad">{_number(value, digits)}<span class="unseen"> (poor)</span></td>'


# --- repeat ----------------------------------------------------------------------------------


def repeat(posterior: Posterior) -> str:
    """Say how to reproduce the draws."""
    settings = posterior.settings
    line = command(settings)
    by_command = (
        f"<h3>Command</h3><pre tabindex=0><code>{escape(line)}</code></pre>"
        '<p class="help">Read DATA with the same options as before; a run does not store them.</p>'
        if line
        else "<p>The command line has no option for some of these settings; use Python.</p>"
    )
    told = {
        "Data": BY.join(f"{n:,}" for n in posterior.shape),
        "Digest of the data (SHA-256)": digest(posterior.tensor),
        "Seed": str(settings.seed),
        "Chains": f"{posterior.n_chains}, each with {n_of(settings.warmup, 'warm-up sweep')} and "
        f"{n_of(posterior.n_draws, 'draw')}"
        + (f" after the first {posterior.n_left_out:,}" if posterior.n_left_out else "")
        + (f", {settings.thin} sweeps per draw" if settings.thin > 1 else "")
        + (f"; {settings.draws:,} were requested" if posterior.n_draws < settings.draws else ""),
        "Schedule": settings.schedule.kind,
        "Noise": str(settings.model.noise),
        "Concentration": "none: the number of components is fixed"
        if settings.model.is_finite
        else str(settings.model.alpha),
        "Density": str(settings.model.density),
        **({"Mode of the buffet": posterior.mode_names[settings.mode]} if settings.mode else {}),
        "Versions": f"thali {thali.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}",
    }
    lines = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in told.items())
    return (
        '<p class="lead">The same data, settings and seed give the same draws, bit for bit, on '
        f"any number of threads.</p>{by_command}<h3>Python</h3><pre tabindex=0><code>"
        f'{escape(python_call(settings))}</code></pre><dl class="settings">{lines}</dl>'
    )
