"""The page: the template, filled with facts, charts, the table and the cards."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import thali
from thali.optimize import Factorization
from thali.posterior.visible import visible, with_visible_names
from thali.report import sections
from thali.report.effects import effects_link, effects_section
from thali.report.facts import BY, facts, headline
from thali.report.fewest import fewest_page
from thali.report.pairs import pairs_link, pairs_section
from thali.report.table import table

if TYPE_CHECKING:
    import os

    from thali.posterior import Posterior


_SCRIPTS = (
    "naming.js", "bits.js", "factors.js", "paint.js", "view.js", "describe.js", "controls.js",
    "downloads.js", "links.js", "search.js", "cards.js", "contents.js", "main.js",
)  # fmt: skip
"""Files of the script, in the order in which they run: names need the page as it came."""


def write(
    posterior: Posterior | Factorization,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
) -> Path:
    """Write a page about a posterior: one HTML file to open, print and share.

    The page states the answer in words and shows the table with its reconstruction and errors, a
    card for every component, the effects of rows and columns if the model has any, the traces and
    diagnostics of the chains, and the call that reproduces the draws. It needs no network.

    A factorization with the fewest errors gets a smaller page, without probabilities: its errors,
    a picture of them, its components by name, and how the search went.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior` with at least one draw, or a
        :class:`~thali.optimize.Factorization`.
    path
        Path of the file to write; an existing file is replaced.
    title
        Heading of the page.

    Returns
    -------
    path
        Absolute path of the file.

    Raises
    ------
    ValueError
        If there are no draws.
    OSError
        If the file cannot be written.

    Notes
    -----
    The file contains the data and the names of rows and columns: share it only with people who may
    see these. Tables of more than 134 million entries, and tables that do not compress to less
    than 6.5 MB, are shown as means over blocks.

    Examples
    --------
    >>> import tempfile, thali
    >>> from pathlib import Path
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write(posterior, Path(folder) / "report.html", title="Simulated data")
    ...     text = page.read_text(encoding="utf-8")
    >>> "<h1>Simulated data</h1>" in text, "Almost certainly 3 components." in text
    (True, True)
    """
    target = _target(path)
    if title is not None and not isinstance(title, str):
        msg = f"title={title!r} was given; give a text, or None for the default title."
        raise TypeError(msg)
    if isinstance(posterior, Factorization):
        template = Template(_part("fewest.html"))
        html = fewest_page(posterior, title, template, _part("style.css"))
    else:
        html = page(posterior, title)
    try:
        target.write_bytes(html.encode("utf-8", "replace"))
    except OSError as error:
        raise _unwritable(target, error) from error
    return target


def page(posterior: Posterior, title: str | None = None) -> str:
    """Return the page as text."""
    posterior = with_visible_names(posterior)
    title = None if title is None else visible(title)
    known = facts(posterior)  # raises an error if there are no draws
    rates = {
        name: known.rates[quantity.name].mean
        for quantity in known.noise.quantities
        for name in quantity.draws
    }
    shown = table(posterior) | rates
    size = BY.join(f"{n:,}" for n in posterior.shape)
    return Template(_part("page.html")).substitute(
        version=escape(thali.__version__),
        title=escape(title or f"Components of a table of {size}"),
        style=_part("style.css"),
        script="".join(map(_part, _SCRIPTS)),
        data=escape(sections.data_words(posterior, known)),
        headline=escape(headline(known)),
        answer=sections.answer(posterior, known),
        legend=sections.legend(has_unknown=known.n_known < known.n_entries),
        canvas_label=escape(f"The table of {size} entries"),
        table_words=escape(sections.table_words(posterior, known, shown["kind"], shown["shape"])),
        components=sections.components(posterior, known, has_factors=shown["factors"] is not None),
        effects=effects_section(posterior, known),
        effects_link=effects_link(posterior),
        pairs=pairs_section(posterior),
        pairs_link=pairs_link(posterior),
        chains=sections.chains(posterior),
        repeat=sections.repeat(posterior),
        # A name such as "</script>" would end the script element, so every "<" is escaped.
        payload=json.dumps(shown).replace("<", "\\u003c"),
    )


def _target(path: str | os.PathLike[str]) -> Path:
    try:
        target = Path(path).expanduser().absolute()
    except (TypeError, RuntimeError) as error:
        msg = f"{path!r} was given; give the path of a file, such as 'report.html' ({error})."
        raise TypeError(msg) from None
    try:
        is_folder, has_folder = target.is_dir(), target.parent.is_dir()
    except OSError as error:  # for example, if the name is too long
        raise _unwritable(target, error) from error
    if is_folder:
        msg = f"{target} is a folder; give the path of a file, such as {target / 'report.html'}."
        raise IsADirectoryError(msg)
    if not has_folder:
        msg = f"{target.parent} is not a folder; make it first, or choose another path."
        raise FileNotFoundError(msg)
    return target


def _unwritable(target: Path, error: OSError) -> OSError:
    msg = f"{target} could not be written ({error.strerror}); choose another path."
    return OSError(error.errno, msg)


def _part(name: str) -> str:
    return files("thali.report").joinpath(name).read_text(encoding="utf-8")
