"""The command that packs data once for all: ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from thali.cli.messages import command, say, tell_reading
from thali.cli.output import refuse_existing, whole_file
from thali.cli.reading import read_data, reading_options, size

_ENDING = ".packed"


@click.command(short_help="Pack DATA into a file that many processes can read in parts.")
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace OUT if it exists already.")
@reading_options
def convert(data: Path, out: Path, *, force: bool, **settings: Any) -> None:
    """Read DATA and write it to OUT, a .packed file, with one bit per entry.

    Other commands read such a file at once, and every process of an MPI job reads only the rows
    that it needs.

    \b
    Example:
        thali convert examples/animals.csv animals.packed
    """  # noqa: D301 - the backslash is for click: it keeps the lines of the example apart
    if out.suffix.lower() != _ENDING:
        msg = f"OUT ends in {out.suffix!r}; allowed is {_ENDING}."
        raise click.UsageError(msg)
    refuse_existing(out, force=force)
    tell_reading(data)
    tensor = read_data(data, settings | {"threads": None})
    from thali.bits import PackedTensor  # noqa: PLC0415 - --help must stay fast
    from thali.data.readers.packed import write_packed  # noqa: PLC0415

    first = PackedTensor.from_tensor(tensor).unfoldings[0]
    with whole_file(out, force=force) as temporary, temporary.open("wb") as file:
        write_packed(file, tensor, *first)
    say(f"{out}: {size(tensor)}.\nNext: {command('fit', out, '--out', out.with_suffix('.run'))}")
