"""The command line: ``thali fit DATA`` answers how many components there are."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import click

import thali

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thali.sampler import Target

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
    default=2,
    show_default=True,
    help="Independent chains, to see whether they agree.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Sweeps before draws count.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=500,
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
) -> None:
    """Sample the posterior of the components behind DATA and print their number.

    DATA is a table (.csv, .tsv) with a header and, if you like, row names in its first column, or
    an array (.npy, .npz). Entries are 0, 1, or empty for unknown.

    \b
    Example:
        thali fit examples/animals.csv
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    from thali.data.files import read  # noqa: PLC0415 - --help must stay fast
    from thali.sampler import Schedule, Target  # noqa: PLC0415

    try:
        tensor = read(data)
        target = Target.prepare(
            tensor,
            thali.Model(components, noise),
            Schedule(schedule, warmup=warmup),
            threads=threads,
        )
    except (ValueError, OSError, NotImplementedError) as error:
        click.echo(f"thali: {error}", err=True)
        sys.exit(BAD_INPUT)
    with _writing():
        click.echo(f"{data.name}: {tensor!r}")
    start = perf_counter()
    try:
        results = [_run(target, seed, c, chains, warmup + draws) for c in range(chains)]
    except KeyboardInterrupt:
        click.echo("thali: stopped before the chains were done; nothing was kept.", err=True)
        sys.exit(FAILED)
    seconds = perf_counter() - start
    with _writing():
        if noise == "as-published":
            click.echo("error rates as published: what follows is not a posterior")
        _report(results, seconds)


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


class _Chain(NamedTuple):
    """What one chain drew after its warm-up."""

    n_components: list[int]
    rates: list[tuple[float, float]]


def _run(target: Target, seed: int, number: int, chains: int, n_sweeps: int) -> _Chain:
    from thali.sampler import chain  # noqa: PLC0415
    from thali.streams import chain_key  # noqa: PLC0415

    out = _Chain([], [])
    sweeps = chain(chain_key(seed, number), target, n_sweeps)
    label = f"chain {number + 1} of {chains}"
    with click.progressbar(sweeps, n_sweeps, label, file=sys.stderr) as bar:
        for state, info in bar:
            if not info.is_warmup:
                out.n_components.append(info.n_components)
                out.rates.append(state.noise)
    return out


def _report(results: list[_Chain], seconds: float) -> None:
    import numpy as np  # noqa: PLC0415

    numbers = np.array([r.n_components for r in results])
    values, counts = np.unique(numbers, return_counts=True)
    click.echo("components  probability")
    for value, share in zip(values, counts / counts.sum(), strict=True):
        click.echo(f"{value:>10}  {share:>11.3f}  {'#' * round(40 * share)}")
    for name, column in (("spurious ones", 0), ("dropped ones", 1)):
        low, middle, high = np.quantile([r.rates for r in results], [0.05, 0.5, 0.95], (0, 1))[
            :, column
        ]
        click.echo(f"{name}: {middle:.4f} (90% between {low:.4f} and {high:.4f})")
    # Halves of chains as chains of their own: a chain that still drifts disagrees with itself.
    halves = numbers[:, : numbers.shape[1] // 2 * 2].reshape(2 * len(numbers), -1)
    means = halves.mean(axis=1)
    if halves.shape[1] and np.ptp(means) > max(0.5, halves.std(axis=1).mean()):
        told = ", ".join(f"{m:.1f}" for m in means)
        click.echo(
            f"thali: not converged (means over halves of the chains: {told}); raise --warmup.",
            err=True,
        )
    click.echo(f"{numbers.size} draws in {seconds:.1f} s")


if __name__ == "__main__":
    main()
