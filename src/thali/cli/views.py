"""The commands that show or export a run: ``summary``, ``report`` and ``export``."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import chain as chained
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import thali
from thali.cli.messages import CommandFace, command, say, tell, tell_reading
from thali.cli.output import (
    refuse_existing,
    refuse_page,
    whole_file,
    whole_folder,
    write_page,
    write_tables,
)
from thali.sentences import n_of

if TYPE_CHECKING:
    from thali.posterior import Posterior

_HDF5 = 1 << 20
"""Bytes beside the arrays in such a file. There must be room for all before it is begun: if there
is none in the middle, the library ends the process."""

_RUN = click.argument("run", type=click.Path(path_type=Path))
_FORCE = click.option("--force", is_flag=True, help="Replace files that exist.")
_CHAIN = click.option(
    "--chain",
    metavar="N",
    type=click.IntRange(1),
    help="Use only this chain, counted from 1; helps if the chains disagree.",
)
_AFTER = click.option(
    "--after",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    help="Leave out the first N draws of every chain, as if the warm-up had been longer.",
)


@click.command(short_help="Show what RUN found.")
@_RUN
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for other programs.")
@_CHAIN
@_AFTER
def summary(run: Path, chain: int | None, after: int, *, as_json: bool) -> None:
    """Show what RUN found: the number of components, error rates, and whether the chains agree.

    The columns of each component are named, the surest first and, among equals, those whose ones
    are rarest elsewhere. It also works for a run that was stopped or that is still running.

    \b
    Examples:
        thali summary animals.run
        thali summary animals.run --json
        thali summary animals.run --chain 2
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    posterior = _load(run, chain, after)
    from thali.posterior.answer import answer  # noqa: PLC0415 - --help must stay fast

    found = answer(posterior, CommandFace(run))
    if as_json:
        say(json.dumps({"run": str(run), **found}, indent=2, allow_nan=False))
        return
    title = f"{run}" if chain is None else f"{run}, chain {chain} alone"
    title += f", without the first {n_of(after, 'draw')}" if after else ""
    from thali.cli.contents import contents  # noqa: PLC0415

    lines = _lines(title, found)
    at = lines.index("")  # what is in the components comes after the answer in words
    say("\n".join([*lines[:at], *contents(posterior, found), *lines[at:]]))
    if found["warning"] is not None:
        tell(found["warning"])


@click.command(short_help="Write what RUN found as an HTML page.")
@_RUN
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@click.option("--title", help="Headline of the report.")
@_CHAIN
@_AFTER
@_FORCE
def report(
    run: Path, out: Path, title: str | None, chain: int | None, after: int, *, force: bool
) -> None:
    """Write what RUN found as one HTML file, with pictures.

    \b
    Example:
        thali report animals.run -o animals.html
    """  # noqa: D301 - as above
    refuse_page(out, "--out", force=force)
    say(write_page(_load(run, chain, after), out, title=title, force=force))


@click.command(short_help="Write what RUN found for other programs.")
@_RUN
@click.option(
    "--to",
    metavar="OUT",
    required=True,
    help="A folder for CSV files, a .nc file (NetCDF) or a .h5ad file (AnnData).",
)
@_FORCE
@_CHAIN
@_AFTER
def export(run: Path, to: str, chain: int | None, after: int, *, force: bool) -> None:
    """Write what RUN found for other programs.

    \b
    --to FOLDER    CSV files: the components of every row and column (factor_*.csv), and their
                   probabilities (probability_*.csv); components.csv, n_components.csv and
                   summary.json
    --to FILE.nc   NetCDF with all draws, for ArviZ and xarray
    --to FILE.h5ad AnnData: the data with their components

    Names that a spreadsheet would take for a formula (they begin with =, +, -, @ or a tab) get an
    apostrophe in CSV files; characters that turn the direction of text are written out.

    \b
    Examples:
        thali export animals.run --to animals-tables
        thali export animals.run --to animals.nc
        thali export animals.run --to second-chain --chain 2
    """  # noqa: D301 - as above
    path = Path(to)
    ending = "" if to.endswith("/") or path.is_dir() else path.suffix.lower()
    if ending not in ("", ".nc", ".h5ad"):
        msg = f"--to ends in {path.suffix!r}; allowed are a folder (for CSV files), .nc and .h5ad."
        raise click.UsageError(msg)
    if ending:
        refuse_existing(path, force=force)
    posterior = _load(run, chain, after)
    from thali.posterior.visible import with_visible_names  # noqa: PLC0415 - as above

    posterior = with_visible_names(posterior)
    if ending == ".nc":
        tree = posterior.to_datatree()
        with whole_file(path, force=force, n_bytes=tree.nbytes + _HDF5) as temporary:
            tree.to_netcdf(temporary, engine="h5netcdf")
    elif ending == ".h5ad":
        annotated = import_module("thali.single_cell").to_anndata(posterior)
        n_bytes = annotated.__sizeof__() + _HDF5
        with whole_file(path, force=force, n_bytes=n_bytes) as temporary:
            annotated.write_h5ad(temporary)
    else:
        with whole_folder(path, force=force) as temporary:
            _write_tables(posterior, temporary, run)
    say(f"{path} is written.")
    verdict = posterior.verdict()
    if verdict is not None and verdict.kind == "disagreement":  # the files average over chains
        tell(verdict.sentence(CommandFace(run)))


def _write_tables(posterior: Posterior, folder: Path, run: Path) -> None:
    from thali.posterior.answer import answer  # noqa: PLC0415
    from thali.posterior.tables import tables  # noqa: PLC0415

    write_tables(tables(posterior), folder)
    found = answer(posterior, CommandFace(run))
    (folder / "summary.json").write_text(
        json.dumps({"run": str(run), **found}, indent=2, allow_nan=False) + "\n", encoding="utf-8"
    )


def _load(run: Path, chain: int | None, after: int) -> Posterior:
    """Read a run, or one of its chains, counted from 1; raise an error if it has no draws yet.

    The first draws may be left out.
    """
    tell_reading(run)
    posterior = thali.load(run)
    if chain is not None:
        if chain > posterior.n_chains:
            msg = (
                f"--chain {chain} was given; {run} has {n_of(posterior.n_chains, 'chain')}, "
                "counted from 1; choose one of them."
            )
            raise click.UsageError(msg)
        posterior = posterior.chain(chain - 1)
    if posterior.n_draws == 0:
        msg = f"{run} has no draws yet; `{command('resume', run)}` continues it."
        raise ValueError(msg)
    if after >= posterior.n_draws:
        msg = (
            f"--after {after} was given; {run} has {n_of(posterior.n_draws, 'draw')} per chain, "
            "and at least one must remain; leave out fewer."
        )
        raise click.UsageError(msg)
    return posterior.after(after) if after else posterior


# --- the summary as a table ----------------------------------------------------------------


def _lines(title: str, found: dict[str, Any]) -> list[str]:
    from thali.model.noise_kinds import noise_kind  # noqa: PLC0415 - --help must stay fast
    from thali.posterior import remarks  # noqa: PLC0415
    from thali.posterior.answer import in_words  # noqa: PLC0415

    remarked = (
        remarks.start_in_words(found),
        remarks.own_densities_in_words(found["own_densities"]),
        remarks.same_rows_in_words(found["same_rows"], "`--density own`"),
    )
    lines = [title, *in_words(found), *filter(None, remarked)]
    lines += ["", "components  probability"]
    for value, share in found["n_components"]["pmf"].items():
        lines.append(f"{value:>10}  {share:>11.3f}  {'#' * round(40 * share)}".rstrip())
    lines += _by_chain(found)
    quantities = {name: found[name] for name in ("n_components", "components_that_matter")}
    drawn_as = {}  # names of the noise's quantities in the diagnostics
    kind = noise_kind(found["noise"]["kind"], len(found["shape"]))
    for quantity in (*kind.quantities, *kind.spreads):
        quantities[quantity.name] = found["noise"][quantity.name]
        drawn_as[quantity.name] = quantity.draws
    if found["alpha"] is not None:
        quantities["alpha"] = found["alpha"]
    for name, density in found["density"].items():
        quantities[f"density_{name}"] = density
    quantities["wrong_entries"] = found["wrong_entries"]
    shown = {*quantities, *chained.from_iterable(drawn_as.values())}
    for name in found["r_hat"]:
        if name not in shown:
            quantities[name] = {"mean": None, "interval": [None, None]}
    width = max(map(len, quantities))
    lines += ["", f"{'quantity':<{width}}{'mean':>12}{'5%':>12}{'95%':>12}{'R-hat':>8}{'ESS':>8}"]
    for name, quantity in quantities.items():
        numbers = (quantity["mean"], *quantity["interval"])
        source = drawn_as.get(name, (name,))[0]
        r_hat, ess = found["r_hat"].get(source), found["ess"].get(source)
        cells = [*(_cell(number, 12, ".4g") for number in numbers)]
        cells += [_cell(r_hat, 8, ".2f"), _cell(ess, 8, ".0f")]
        lines.append(f"{name:<{width}}{''.join(cells)}".rstrip())
    return lines + _moves(found["moves"])


def _by_chain(found: dict[str, Any]) -> list[str]:
    """Return lines that show what each of several chains says by itself."""
    if found["chains"] == 1:
        return []
    heads = ("chain", "components", "log joint", "ones explained", "rows without")
    lines = ["", "  ".join(heads)]
    for chain in found["by_chain"]:
        covers = chain["coverage"]
        cells = (
            f"{chain['chain']}",
            f"{chain['n_components']['mean']:.1f}",
            _cell(chain["log_joint"]["mean"], 0, ",.1f"),
            _cell(covers["ones_explained"]["mean"], 0, ".1%"),
            f"{covers['rows_without']['mean']:.1f}",
        )
        padded = (f"{cell:>{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        lines.append("  ".join(padded))
    return lines


def _moves(moves: dict[str, dict[str, int]]) -> list[str]:
    """Return lines that show how often each move was tried and accepted."""
    if not moves:
        return []
    width = max(map(len, moves))
    lines = ["", f"{'move':<{width}}{'tried':>12}{'accepted':>12}{'share':>8}"]
    for name, move in moves.items():
        tried, accepted = move["tried"], move["accepted"]
        lines.append(f"{name:<{width}}{tried:>12}{accepted:>12}{accepted / tried:>8.1%}")
    return lines


def _cell(value: float | None, width: int, form: str) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"
