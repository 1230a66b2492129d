"""Read a file into a labelled binary tensor, by its extension."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binary import BinaryTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


def read(path: str | Path) -> BinaryTensor:
    """Read a table or array of zeros, ones and unknown entries.

    Tables (``.csv``, ``.tsv``) have a header line. A first column without a header, or in which no
    cell is an entry, holds the row names; empty cells and NA are unknown. Arrays are ``.npy``
    files, or ``.npz`` files with one array or a SciPy sparse matrix.

    Raises
    ------
    ValueError
        In one sentence: what is wrong with the file, and what to do.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        msg = (
            f"{path}: files ending in {path.suffix!r} were not expected; allowed are "
            f"{', '.join(_READERS)}; convert the file to one of those."
        )
        raise ValueError(msg)
    if not path.is_file():
        msg = f"{path}: there is no such file; check the path."
        raise FileNotFoundError(msg)
    try:
        content = reader(path)
    except Exception as error:  # parsers of damaged files raise what they like
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = (
            f"{path}: the file could not be read ({reason}); check that it is what its name says."
        )
        raise ValueError(msg) from error
    try:
        return BinaryTensor.from_any(content)
    except (ValueError, TypeError) as error:
        msg = f"{path}: {error}"
        raise ValueError(msg) from error


def _read_table(path: Path, separator: str) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415

    has_names = _check_lines(path, separator)
    table = pd.read_csv(path, sep=separator, skipinitialspace=True)
    if has_names:
        name = table.columns[0]
        is_unnamed = name.startswith("Unnamed: 0")
        table = table.set_index(name).rename_axis(index=None if is_unnamed else name)
    return table


def _check_lines(path: Path, separator: str) -> bool:
    """Refuse what pandas would repair without a word; return whether the first column is names."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        header = next(lines, [])
        first = []
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                msg = f"line {lines.line_num} has {len(line)} fields, the header {len(header)}"
                raise ValueError(msg)
            first.append(line[0])
    repeated = [name for name in header if header.count(name) > 1]
    if not header or not first:
        msg = "it is empty" if not header else "it has a header and no rows"
    elif all(_is_entry(name) for name in header):
        msg = "its first line holds entries; give it a line of column names"
    elif len(header) == 1 and not _is_entry(first[0]):
        msg = f"it has one column of text; fields are expected to be separated by {separator!r}"
    elif repeated:
        msg = f"the header names {repeated[0]!r} twice"
    else:
        return _holds_names(header[0], first)
    raise ValueError(msg)


def _holds_names(header: str, column: list[str]) -> bool:
    """Whether a first column holds row names; a mixture of names and entries is refused."""
    names = [cell for cell in column if not _is_entry(cell)]
    if not header:
        return True
    if names and len(names) < len(column):
        msg = (
            f"its first column, {header!r}, holds entries and {names[0]!r}; leave its header "
            "empty if it holds row names"
        )
        raise ValueError(msg)
    return bool(names)


def _is_entry(cell: str) -> bool:
    """Whether a cell is a zero, a one or unknown, in one of the usual spellings."""
    return cell.strip().lower() in _ENTRIES


_ENTRIES = {"0", "1", "0.0", "1.0", "true", "false", "", "na", "nan", "n/a", "null", "none"}


def _read_array(path: Path) -> Any:
    with path.open("rb") as file:  # np.load would leave a damaged file open
        content = np.load(file)
        if isinstance(content, np.ndarray):
            return content
        names = content.files
        if "format" in names:
            from scipy import sparse  # noqa: PLC0415

            return sparse.load_npz(path)
        if len(names) != 1:
            msg = f"it holds {len(names)} arrays, and one was expected"
            raise ValueError(msg)
        return content[names[0]]


_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": lambda path: _read_table(path, ","),
    ".tsv": lambda path: _read_table(path, "\t"),
    ".npy": _read_array,
    ".npz": _read_array,
}
