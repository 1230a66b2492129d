"""The options that say how a file of data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from thali.data import BinaryTensor
    from thali.engines.together import Processes

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--binarize", metavar="T", type=float, help="Entries above T are ones, the others zeros."
    ),
    click.option(
        "--missing",
        metavar="TEXT",
        multiple=True,
        help="Text that marks unknown entries; may be repeated.",
    ),
    click.option(
        "--transpose", is_flag=True, help="Swap rows and columns; components are assigned to rows."
    ),
    click.option(
        "--sep",
        metavar="SIGN",
        help="What separates the fields of a text file, such as ';', tab or space (default: "
        "the sign of which all lines have as many).",
    ),
    click.option("--array", metavar="NAME", help="Which array of an .npz file to read."),
    click.option("--sheet", metavar="NAME", help="Which sheet of a workbook (.xlsx) to read."),
    click.option("--layer", metavar="NAME", help="Which matrix of an AnnData file to read."),
    click.option(
        "--kind",
        metavar="KIND",
        help="What the file holds, if its name and first line do not show it: a table (with "
        "column names), a matrix (without), pairs or baskets.",
    ),
    click.option(
        "--modes",
        metavar="NAMES",
        help="Columns that name the rows of an entry, one per mode and separated by commas, if "
        "every line of the file is an entry of a tensor, such as head,tail,relation; components "
        "are assigned to rows of the first one.",
    ),
    click.option(
        "--unlisted",
        type=click.Choice(["zero", "unknown"]),
        default="zero",
        show_default=True,
        help="What entries are that a list of entries or pairs does not name.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a text file, such as latin-1 (default: UTF-8, or what the file says).",
    ),
    click.option(
        "--skip",
        metavar="N",
        type=click.IntRange(0),
        default=0,
        help="Leave out the first N lines, such as a title above the table.",
    ),
    click.option(
        "--names",
        metavar="COLUMN",
        help="Column of a table that holds the row names (default: the first, if it has no name "
        "or holds text).",
    ),
    click.option(
        "--drop",
        metavar="COLUMN",
        multiple=True,
        help="Column of a table to leave out; may be repeated.",
    ),
    click.option(
        "--ones",
        metavar="TEXT",
        multiple=True,
        help="Text that is a one, such as ja; may be repeated.",
    ),
    click.option(
        "--zeros",
        metavar="TEXT",
        multiple=True,
        help="Text that is a zero, such as nein; may be repeated.",
    ),
)


def reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how its data are read."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_data(
    path: Path, settings: dict[str, Any], processes: Processes | None = None
) -> BinaryTensor:
    """Read a file, and take the options about reading out of those of a command."""
    from thali.engines.together import Alone  # noqa: PLC0415 - --help must stay fast

    names = (
        *("binarize", "missing", "transpose", "sep", "array", "sheet", "layer", "kind", "modes"),
        *("unlisted", "encoding", "skip", "names", "drop", "ones", "zeros"),
    )
    given = {name: settings.pop(name) for name in names}
    if given["modes"] is not None:
        given["modes"] = [name.strip() for name in given["modes"].split(",")]
    return (processes or Alone()).read(path, threads=settings["threads"], **given)


def size(tensor: BinaryTensor) -> str:
    """Say how large the data are."""
    shape = " x ".join(map(str, tensor.shape))
    return f"{shape} entries, {tensor.n_known} known, {tensor.n_ones} of them one"
