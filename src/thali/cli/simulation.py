"""The command that simulates data: ``simulate``."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import thali
from thali.cli.messages import command, say
from thali.cli.output import refuse_existing, whole_file
from thali.sentences import n_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDINGS = (".csv", ".tsv", ".npy", ".npz")
_RATE = click.FloatRange(0, 1, max_open=True)
_SPREAD = click.FloatRange(0)


def _lengths(_ctx: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Parse a shape such as 200x500."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", value):
        msg = f"{value!r} is not a shape such as 200x500."
        raise click.BadParameter(msg)
    return tuple(map(int, value.split("x")))


@click.command(short_help="Simulate data whose true components are known.")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--shape",
    metavar="ROWSxCOLUMNS",
    callback=_lengths,
    default="200x500",
    show_default=True,
    help="Number of rows, of columns, and of further modes.",
)
@click.option("--components", type=click.IntRange(0), help="Number of components.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, min_open=True),
    help="Instead of --components: concentration of the buffet process that draws their number.",
)
@click.option("--flip", type=_RATE, help="Probability that an entry is flipped.  [default: 0.1]")
@click.option(
    "--spurious", type=_RATE, help="Instead of --flip: probability that a zero is observed as one."
)
@click.option(
    "--dropped", type=_RATE, help="Instead of --flip: probability that a one is observed as zero."
)
@click.option(
    "--row-spread",
    type=_SPREAD,
    metavar="SD",
    default=0.0,
    show_default=True,
    help="How much rows differ in how full they are: standard deviation of their log odds.",
)
@click.option(
    "--column-spread",
    type=_SPREAD,
    metavar="SD",
    default=0.0,
    show_default=True,
    help="The same for columns.",
)
@click.option(
    "--jump-spread",
    type=_SPREAD,
    metavar="SD",
    default=0.0,
    show_default=True,
    help="How much columns differ in how far a component raises their log odds.",
)
@click.option(
    "--missing-rate",
    type=_RATE,
    default=0.0,
    show_default=True,
    help="Probability that an entry is unknown.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@click.option(
    "--truth",
    metavar="FILE.npz",
    type=click.Path(path_type=Path),
    help="Also write the factors, the noise-free entries and, if there are any, the levels.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
def simulate(
    out: Path,
    shape: tuple[int, ...],
    components: int | None,
    alpha: float | None,
    flip: float | None,
    spurious: float | None,
    dropped: float | None,
    row_spread: float,
    column_spread: float,
    jump_spread: float,
    missing_rate: float,
    seed: int,
    truth: Path | None,
    *,
    force: bool,
) -> None:
    """Draw data from the model and write them to OUT, a .csv, .tsv, .npy or .npz file.

    Half of the entries are ones before noise is added. Tensors of more than two modes need .npy
    or .npz.

    \b
    Example:
        thali simulate plates.csv --shape 200x500 --components 5 --flip 0.1 --truth plates.npz
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    _check(out, shape, truth)
    if (components is None) == (alpha is None):
        msg = "give either --components (their number) or --alpha (to draw their number)."
        raise click.UsageError(msg)
    if flip is not None and (spurious, dropped) != (None, None):
        msg = "give either --flip (one rate) or --spurious and --dropped (two)."
        raise click.UsageError(msg)
    if flip is None and (spurious is None) != (dropped is None):
        msg = "give both --spurious and --dropped, or --flip for one rate."
        raise click.UsageError(msg)
    if spurious is None or dropped is None:
        spurious = dropped = 0.1 if flip is None else flip
    for path in filter(None, (out, truth)):
        refuse_existing(path, force=force)
    drawn = thali.simulate(
        shape,
        components,
        alpha=alpha,
        spurious=spurious,
        dropped=dropped,
        row_spread=row_spread,
        column_spread=column_spread,
        jump_spread=jump_spread,
        unknown=missing_rate,
        seed=seed,
    )
    with ExitStack() as files:  # both files are renamed, or neither
        _write(files.enter_context(whole_file(out, force=force)), drawn.tensor)
        if truth is not None:
            _write_truth(files.enter_context(whole_file(truth, force=force)), drawn)
    n_components = drawn.factors[0].shape[1]
    size = " x ".join(map(str, shape))
    run = out.with_suffix(".run")
    say(
        f"{out}: {size} entries from {n_of(n_components, 'component')}.\n"
        f"Next: {command('fit', out, '--out', run)}"
    )


def _check(out: Path, shape: tuple[int, ...], truth: Path | None) -> None:
    ending = out.suffix.lower()
    if ending not in _ENDINGS:
        msg = f"OUT ends in {out.suffix!r}; allowed are {', '.join(_ENDINGS)}."
        raise click.UsageError(msg)
    if len(shape) > 2 and ending in (".csv", ".tsv"):
        msg = f"a table has two modes, but --shape has {len(shape)}; use .npy or .npz."
        raise click.UsageError(msg)
    if truth is not None and truth.suffix.lower() != ".npz":
        msg = f"--truth ends in {truth.suffix!r}; allowed is .npz."
        raise click.UsageError(msg)
    if truth is not None and truth.absolute() == out.absolute():
        msg = "OUT and --truth are the same file; give two different files."
        raise click.UsageError(msg)


def _write(path: Path, tensor: NDArray[Any]) -> None:
    import numpy as np  # noqa: PLC0415 - --help must stay fast

    if path.suffix.lower() == ".npy":
        np.save(path, tensor)
    elif path.suffix.lower() == ".npz":
        np.savez_compressed(path, tensor=tensor)
    else:
        import pandas as pd  # noqa: PLC0415

        rows, columns = ([f"{name}_{i + 1}" for i in range(n)] for name, n in _named(tensor))
        table = pd.DataFrame(tensor, rows, columns).astype("Int8")  # unknown entries are empty
        table.to_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",")


def _named(tensor: NDArray[Any]) -> list[tuple[str, int]]:
    return list(zip(("row", "column"), tensor.shape, strict=True))


def _write_truth(path: Path, drawn: Any) -> None:
    import numpy as np  # noqa: PLC0415

    factors = {f"factor_{mode}": factor for mode, factor in enumerate(drawn.factors)}
    levels = {}
    if drawn.levels is not None:
        rows, columns, jumps = drawn.levels
        levels = {"row_levels": rows, "column_levels": columns, "jumps": jumps}
    np.savez_compressed(path, noise_free=drawn.noise_free, **factors, **levels)
