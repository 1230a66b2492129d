"""The command that searches for the fewest errors: ``minimize``."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import thali
from thali.cli.messages import FAILED, command, say, tell, tell_reading
from thali.cli.output import whole_folder, write_tables
from thali.cli.progress import search_shown
from thali.cli.reading import read_data, reading_options, size
from thali.cli.sampling import QUIET
from thali.sentences import n_of

if TYPE_CHECKING:
    from thali.optimize import Factorization


@click.command(short_help="Find the components of DATA with the fewest errors.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--components",
    "-k",
    type=click.IntRange(1),
    help="Number of components; needed unless --exact is given.",
)
@click.option(
    "--to",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder for the components as CSV files (factor_*.csv, components.csv, trace.csv), "
    "summary.json and a page to read, report.html.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Duration of the search (default: 30 seconds); more finds fewer errors.",
)
@click.option(
    "--sweeps",
    type=click.IntRange(1),
    help="Work of the search instead of seconds; the same seed then gives the same answer.",
)
@click.option(
    "--cost",
    type=(float, float),
    metavar="ZERO ONE",
    default=(1.0, 1.0),
    help="Cost of a zero that is covered, and of a one that is not (default: 1 1).",
)
@click.option(
    "--exact", is_flag=True, help="Allow no errors, and find the fewest components that have none."
)
@click.option("--under", is_flag=True, help="Cover no zero: all errors are uncovered ones.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    help="Number of threads (default: all cores). In given seconds, more find fewer errors; with "
    "--sweeps, they change the duration alone.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True,
    help="Seed of the random search.",
)  # fmt: skip
@QUIET
@click.option("--force", is_flag=True, help="Replace files that exist.")
@reading_options
def minimize(
    data: Path,
    components: int | None,
    to: Path | None,
    *,
    exact: bool,
    under: bool,
    quiet: bool,
    force: bool,
    **settings: Any,
) -> None:
    """Find the components of DATA that reproduce it with the fewest errors.

    An error is a zero that some component covers, or a one that none covers; unknown entries are
    not counted. The answer is the best of a random search. It says nothing about how certain the
    components are, nor how many there should be: `thali fit` does.

    Ctrl-C stops early, with the best components so far. DATA is read as by `thali fit`.

    \b
    Examples:
        thali minimize examples/animals.csv -k 10 --seconds 5
        thali minimize examples/animals.csv -k 10 --sweeps 50 --to animals-tables
        thali minimize examples/animals.csv -k 10 --seconds 5 --under
        thali minimize examples/animals.csv --exact --seconds 5
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    if components is None and not exact:
        msg = "neither --components nor --exact was given; give one of them."
        raise click.UsageError(msg)
    if exact and (components is not None or under):
        msg = "--exact finds the number of components without errors; leave the others out."
        raise click.UsageError(msg)
    if not quiet:
        tell_reading(data)
    tensor = read_data(data, settings)
    place = nullcontext() if to is None else whole_folder(to, force=force)
    with place as folder:  # which is refused before the search if it cannot be written
        found = thali.minimize(
            tensor,
            components,
            exact="under" if under else exact,
            progress=search_shown(quiet=quiet),
            **settings,
        )
        say("\n".join([f"{data.name}: {size(tensor)}", *_lines(found)]))
        if folder is not None:
            _write(found, folder)
    size_words = ("--exact",) if components is None else ("-k", components)
    keep = command("minimize", data, *size_words, "--to", "tables")
    say(f"Nothing was kept. Next: {keep}" if to is None else f"{to} is written.")
    if found.is_stopped:
        tell(f"stopped early, after {found.seconds:.1f} seconds.")
        sys.exit(FAILED)


def _write(found: Factorization, folder: Path) -> None:
    write_tables(found.tables(), folder)
    summary = json.dumps(_summary(found), indent=2, allow_nan=False)
    (folder / "summary.json").write_text(f"{summary}\n", encoding="utf-8")
    import_module("thali.report").write(found, folder / "report.html")  # --help must stay fast


def _lines(found: Factorization) -> list[str]:
    verb = "contradicts" if found.errors == 1 else "contradict"
    wrong = f"{n_of(found.errors, 'known entry')} ({found.errors / found.tensor.n_known:.2%})"
    inside, outside = n_of(found.zeros_inside, "zero"), n_of(found.ones_outside, "one")
    number = n_of(found.n_components, "component")
    lines = [f"{wrong} {verb} the {number}: {inside} covered, {outside} not covered."]
    if found.is_optimal:
        lines.append("No components do better: this is the minimum.")
    elif found.fewest_components is not None:
        lines.append(f"Fewer than {n_of(found.fewest_components, 'component')} cannot do this.")
    elif found.lower_bound > 0:
        lines.append(f"A loss below {found.lower_bound:g} is impossible.")
    last = found.trace[-1][0] if found.trace else 0.0
    lines.append(
        f"The search took {found.seconds:.1f} s; its last improvement was at {last:.1f} s."
    )
    return lines


def _summary(found: Factorization) -> dict[str, Any]:
    return {
        "n_components": found.n_components,
        "errors": found.errors,
        "zeros_inside": found.zeros_inside,
        "ones_outside": found.ones_outside,
        "cost": list(found.cost),
        "loss": found.loss,
        "lower_bound": found.lower_bound,
        "fewest_components": found.fewest_components,
        "is_optimal": found.is_optimal,
        "is_under": found.is_under,
        "seed": found.seed,
        "seconds": found.seconds,
        "is_stopped": found.is_stopped,
    }
