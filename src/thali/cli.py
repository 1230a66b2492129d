"""The command line: ``thali fit DATA`` answers how many components there are."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

import thali

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from thali.posterior import Posterior

FAILED, BAD_INPUT = 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(thali.__version__, prog_name="thali")
def main() -> None:
    """Find the hidden Boolean structure of binary data.

    Every row is a plate, the union of a few dishes from a buffet of unknown size: thali infers
    how many dishes there are.
    """


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--components", type=click.IntRange(0), help="Fix their number (default: infer it).")
@click.option(
    "--chains",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Independent chains, to see whether they agree.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=400,
    show_default=True,
    help="Sweeps before draws count.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Sweeps that count, a chain.",
)
@click.option(
    "--noise",
    type=click.Choice(["unequal", "equal", "as-published"]),
    default="unequal",
    show_default=True,
    help="Error rates of ones and zeros; as-published is not a posterior.",
)
@click.option(
    "--schedule",
    type=click.Choice(["parallel", "serial", "serial-integrated"]),
    default="parallel",
    show_default=True,
    help="Rows in blocks, all rows of a block at once; or one after another.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads (default: all cores).")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Same seed, same result, on any number of threads.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder that keeps the run, to go on with `thali resume` or read with thali.load.",
)
def fit(
    data: Path,
    components: int | None,
    chains: int,
    warmup: int,
    draws: int,
    noise: str,
    schedule: str,
    threads: int | None,
    seed: int,
    out: Path | None,
) -> None:
    """Sample the posterior of the components behind DATA and print their number.

    DATA is a table (.csv, .tsv) with a header and, if you like, row names in its first column, or
    an array (.npy, .npz). Entries are 0, 1, or empty for unknown.

    \b
    Example:
        thali fit examples/animals.csv
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    from thali.data.files import read  # noqa: PLC0415 - --help must stay fast

    with _errors():
        tensor = read(data)
    with _writing():
        click.echo(f"{data.name}: {tensor!r}")
    _answer(
        lambda: thali.sample(
            tensor,
            n_components=components,
            noise=noise,
            schedule=schedule,
            chains=chains,
            warmup=warmup,
            draws=draws,
            threads=threads,
            seed=seed,
            out=out,
        )
    )


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--draws", type=click.IntRange(1), help="Go on to so many draws a chain.")
@click.option("--threads", type=click.IntRange(1), help="Threads (default: all cores).")
def resume(run: Path, draws: int | None, threads: int | None) -> None:
    """Go on with RUN, a folder made by `thali fit --out`, and print the answer.

    \b
    Example:
        thali fit examples/animals.csv --out animals.run
        thali resume animals.run --draws 2000
    """  # noqa: D301 - as above
    _answer(lambda: thali.resume(run, draws=draws, threads=threads))


def _answer(sample: Callable[[], Posterior]) -> None:
    """Sample, and say what came out."""
    from thali.errors import NotConverged  # noqa: PLC0415

    start = perf_counter()
    try:
        with _errors(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConverged)
            posterior = sample()
    except KeyboardInterrupt:
        click.echo(
            "thali: stopped before the first draw; a run with --out can be resumed.", err=True
        )
        sys.exit(FAILED)
    seconds = perf_counter() - start
    with _writing():
        _report(posterior, seconds)
    for warning in caught:
        click.echo(f"thali: {warning.message}", err=True)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors that have a sentence of their own into that sentence."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError, NotImplementedError) as error:
        told = str(error)
        if isinstance(error, OSError) and error.strerror:
            told = (
                error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
            )
        click.echo(f"thali: {told}", err=True)
        # A disk that is full is no fault of the command.
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        sys.exit(FAILED if is_full else BAD_INPUT)


@contextmanager
def _writing() -> Iterator[None]:
    """Say in one sentence when the answer cannot be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except OSError as error:
        click.echo(f"thali: the answer could not be written ({error.strerror}).", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush
        sys.exit(FAILED)


def _report(posterior: Posterior, seconds: float) -> None:
    import numpy as np  # noqa: PLC0415

    if posterior.settings.model.noise == "as-published":
        click.echo("error rates as published: what follows is not a posterior")
    click.echo("components  probability")
    for value, share in posterior.n_components_table().items():
        click.echo(f"{value:>10}  {share:>11.3f}  {'#' * round(40 * share)}")
    for name, rates in (("spurious", posterior.spurious), ("dropped", posterior.dropped)):
        low, middle, high = np.quantile(rates, [0.05, 0.5, 0.95])
        click.echo(f"{name} ones: {middle:.4f} (90% between {low:.4f} and {high:.4f})")
    click.echo(f"{len(posterior)} draws in {seconds:.1f} s")


if __name__ == "__main__":
    main()
