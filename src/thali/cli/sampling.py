"""The commands that sample: ``fit`` and ``resume``."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import thali
from thali.cli.density import DENSITY, density_prior, refuse_own_serial
from thali.cli.messages import FAILED, CommandFace, command, say, tell, tell_reading
from thali.cli.output import keep_one, put_aside, refuse_page, write_page
from thali.cli.progress import shown
from thali.cli.reading import read_data, reading_options, size
from thali.defaults import CHAINS, DRAWS, WARMUP
from thali.sentences import n_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thali.engines.together import Processes
    from thali.posterior import Posterior

THREADS = click.option(
    "--threads",
    type=click.IntRange(1),
    help="Number of threads (default: all cores); it does not change the draws.",
)
_ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "cpu", "gpu", "mpi", "mpi-cpu", "mpi-gpu"]),
    default="auto",
    show_default=True,
    help="Engine to run on; it does not change the draws. Under mpiexec, auto is mpi.",
)
_CHECKPOINT = click.option(
    "--checkpoint",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds between two writes to the run.",
)
QUIET = click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
_FORCE = click.option(
    "--force", is_flag=True, help="Replace the run and the page if they exist already."
)


@click.command(short_help="Sample the components behind DATA and show the answer.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Folder in which the run is stored; all other commands read it.",
)
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(path_type=Path),
    help="Also write the answer as an HTML page.",
)
@click.option(
    "--components", type=click.IntRange(0), help="Number of components (default: infer it)."
)
@click.option(
    "--chains",
    type=click.IntRange(1),
    default=CHAINS,
    show_default=True,
    help="Number of independent chains; comparing them shows whether they converged.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=WARMUP,
    show_default=True,
    help="Warm-up sweeps per chain.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=DRAWS,
    show_default=True,
    help="Draws kept per chain.",
)
@click.option(
    "--noise",
    type=click.Choice(["auto", "effects", "unequal", "equal", "as-published"]),
    default="auto",
    show_default=True,
    help="Effects: some rows and columns are fuller than others; unequal or equal error rates of "
    "ones and zeros; auto: effects for matrices whose number of components is inferred, otherwise "
    "unequal; as-published is not a posterior.",
)
@DENSITY
@click.option(
    "--schedule",
    type=click.Choice(["parallel", "serial", "serial-integrated"]),
    default="parallel",
    show_default=True,
    help="Update rows in parallel blocks, or serially, one row after another.",
)
@_ENGINE
@THREADS
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same result on any number of threads.",
)
@_CHECKPOINT
@QUIET
@_FORCE
@click.option(
    "--mode",
    metavar="NAME",
    default="0",
    show_default=True,
    callback=lambda _context, _option, value: int(value) if value.isdigit() else value,
    help="The mode to whose rows components are assigned, by name or number: 0 for rows, 1 for "
    "columns.",
)
@reading_options
def fit(
    data: Path,
    out: Path | None,
    report: Path | None,
    components: int | None,
    *,
    quiet: bool,
    force: bool,
    **settings: Any,
) -> None:
    """Sample the components behind DATA; show how many there are and how certain that is.

    DATA is a table (.csv, .tsv, .xlsx, .parquet), pairs of row and column, a list of the entries
    of a tensor (--modes, .tns), baskets (.basket, .dat, .txt), an array (.npy, .npz, .mtx) or
    cells (.h5ad, .zarr, 10x); text may be compressed (.gz, .zst). Entries are 0 or 1, true or
    false, yes or no, or empty for unknown; with --binarize T, numbers above T become ones.
    Components are assigned to rows (--mode).

    Ctrl-C stops early: with --out everything sampled so far is kept, and `thali resume` continues.

    \b
    Examples:
        thali fit examples/animals.csv --out animals.run --report animals.html
        thali fit examples/animals.csv --components 10 --seed 1
        thali fit counts.csv --sep ";" --binarize 0
        thali fit triples.csv --modes head,tail,relation
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    if report is not None:
        refuse_page(report, "--report", force=force)
    if not quiet:
        tell_reading(data)
    from thali.engines.choose import processes_for  # noqa: PLC0415 - --help must stay fast

    with processes_for(settings["engine"]) as processes:
        tensor = read_data(data, settings, processes)
        _refuse_impossible(components, **settings)
        beginning = f"{data.name}: {size(tensor)}; sampling {_chosen(components, **settings)}"
        settings["density"] = density_prior(settings["density"])
        with (
            _replacing(out if force else None, processes) as is_replaced,
            _told_if_stopped(out, is_replaced=is_replaced),
            shown(settings["chains"], beginning, quiet=quiet) as progress,
        ):
            posterior = thali.sample(
                tensor, n_components=components, out=out, progress=progress, **settings
            )
    if processes.is_first:
        _answer(posterior, out, data, report, force=force)


@click.command(short_help="Continue RUN, stopped or finished.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--draws", type=click.IntRange(1), help="Total number of draws per chain.")
@_ENGINE
@THREADS
@_CHECKPOINT
@QUIET
def resume(run: Path, *, quiet: bool, **settings: Any) -> None:
    """Continue RUN, a folder made by `thali fit --out`, and show the answer.

    The draws are those of a run that was never stopped. Damaged draws are computed again.

    \b
    Examples:
        thali resume animals.run
        thali resume animals.run --draws 2000
    """  # noqa: D301 - as above
    if not quiet:
        tell_reading(run)
    from thali.engines.choose import processes_for  # noqa: PLC0415
    from thali.trace import Run  # noqa: PLC0415

    with processes_for(settings["engine"]) as processes:
        stored = Run.open(run).settings
        if not stored.model.is_finite:
            _refuse_serial(settings["engine"], stored.schedule.kind)
        n_chains = stored.chains
        beginning = f"resuming {n_of(n_chains, 'chain')}"
        with _told_if_stopped(run), shown(n_chains, beginning, quiet=quiet) as progress:
            posterior = thali.resume(run, progress=progress, **settings)
    if processes.is_first:
        _answer(posterior, run)


def _chosen(
    components: int | None,
    *,
    noise: str,
    chains: int,
    warmup: int,
    draws: int,
    **_: Any,
) -> str:
    """Say what will be sampled, also where nothing was asked for."""
    from thali.model.model import usual_noise  # noqa: PLC0415 - --help must stay fast

    sweeps = f"{n_of(chains, 'chain')} of {n_of(warmup + draws, 'sweep')}"
    number = "number of components inferred"
    if components is not None:
        number = n_of(components, "component")
    kind = usual_noise(components) if noise == "auto" else noise
    return f"{sweeps} ({number}, noise: {kind})"


def _refuse_impossible(
    components: int | None,
    *,
    schedule: str,
    engine: str,
    density: str | float,
    **_: Any,
) -> None:
    """Raise an error if options do not go together, before anything is sampled."""
    if components is not None:
        return
    refuse_own_serial(density, schedule)
    _refuse_serial(engine, schedule)


def _refuse_serial(engine: str, schedule: str) -> None:
    if engine not in ("auto", "cpu") and schedule != "parallel":
        what = "a GPU cannot speed up" if engine == "gpu" else "processes cannot share"
        msg = (
            f"--engine {engine} was given for --schedule {schedule}; {what} rows that are drawn "
            "one after another; use --engine cpu."
        )
        raise click.UsageError(msg)


@contextmanager
def _replacing(run: Path | None, processes: Processes) -> Iterator[bool]:
    """Keep an earlier run until the new one has a draw; yield whether there is an earlier one.

    If nothing comes of the new run, because a setting is wrong or the user stops it, the earlier
    one has its name again.
    """
    aside = None if run is None else processes.first_does(lambda: put_aside(run))
    try:
        yield aside is not None
    finally:
        if run is not None and aside is not None and processes.is_first:
            keep_one(run, aside)


@contextmanager
def _told_if_stopped(run: Path | None, *, is_replaced: bool = False) -> Iterator[None]:
    """If the user stops a run before its first draw, say what was kept and exit."""
    from thali.errors import NotConverged  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the answer contains the warning
            yield
    except KeyboardInterrupt:
        kept = "nothing was kept."
        if is_replaced:
            kept = f"{run} is what it was before."
        elif run is not None and (run / "header.json").is_file():
            kept = f"{run} keeps the state of the chains; `{command('resume', run)}` continues."
        tell(f"stopped before the first draw; {kept}")
        sys.exit(FAILED)


def _answer(
    posterior: Posterior,
    run: Path | None,
    data: Path | None = None,
    report: Path | None = None,
    *,
    force: bool = False,
) -> None:
    """Show the answer, and what to do next."""
    from thali.posterior.answer import answer, in_words  # noqa: PLC0415

    found = answer(posterior, CommandFace(run))
    is_early = found["draws"] < found["asked"]
    say("\n".join([*in_words(found), "", _next(found, run, data)]))
    if found["warning"] is not None:
        tell(found["warning"])
    if report is not None:  # last, so that the answer is shown even if the page cannot be written
        assert data is not None
        say(write_page(posterior, report, title=data.stem, force=force))
    if is_early:
        kept = "not kept; use --out RUN to keep them."
        if run is not None:
            kept = f"kept in {run}; `{command('resume', run)}` continues."
        draws = "draw" if found["asked"] == 1 else "draws"
        told = f"{found['draws']} of {found['asked']} {draws} per chain are {kept}"
        tell(f"stopped early: {told}")
        sys.exit(FAILED)


def _next(found: dict[str, Any], run: Path | None, data: Path | None) -> str:
    if run is None:
        assert data is not None
        keep = command("fit", data, *_typed(), "--out", f"{data.stem}.run")
        return f"Nothing was kept. Next: {keep}"
    if found["draws"] < found["asked"]:
        return f"Next: {command('resume', run)}"
    if found["agree"]:
        return f"Next: {command('summary', run)}"
    advised = found["verdict"]["advised_draws"]
    if advised is None:  # more draws have not helped
        best = max(found["by_chain"], key=lambda chain: chain["log_joint"]["mean"])
        return f"Next: {command('summary', run, '--chain', best['chain'])}"
    return f"Next: {command('resume', run, '--draws', advised)}"


def _typed() -> list[str]:
    """Return the options of this command that decide what is sampled, as the user typed them."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not ParameterSource.COMMANDLINE or not isinstance(option, click.Option):
            continue
        if option.name in ("out", "report", "quiet", "force"):
            continue
        name, value = max(option.opts, key=len), context.params[option.name or ""]
        for part in value if option.multiple else [value]:
            words += [name] if option.is_flag else [name, str(part)]
    return words
