"""Read workbooks (.xlsx): a sheet is a table or a list, like a text file with its cells."""

from __future__ import annotations

import warnings
import zipfile
from contextlib import contextmanager
from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.build import memory
from thali.data.readers import pairs, tables
from thali.data.readers.header import refuse_title
from thali.data.readers.options import damaged
from thali.data.readers.text import Block, Fields, few_fields
from thali.errors import InvalidValue, require
from thali.sentences import Argument, was_given

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from thali.data.binary import BinaryTensor
    from thali.data.readers.options import Options

_N_ROWS = 1_000  # of a sheet that are read at a time

# How much memory the texts of a workbook take, which are read all at once, relative to their file.
_EXPANSION = 10


class _Rows(Block):
    """Cells of some rows of a sheet; rows are numbered as the sheet numbers them."""

    numbers: tuple[tuple[int, int], ...]  # where each row begins, and its number

    def line(self, position: int) -> int:
        """Return the number of the row that contains the byte at a position."""
        return max((number for start, number in self.numbers if start <= position), default=1)


def read_workbook(path: Path, options: Options) -> BinaryTensor:
    """Read one sheet of a workbook; its cells are written as in text files."""
    _refuse_dangerous(path)
    sheet = _sheet(path, options.sheet)
    lines = partial(_lines, path, sheet, options.skip)
    refuse_title(lines)
    if options.modes is not None:
        return pairs.read_listed(lines, options)
    kind = options.kind
    if kind is None and pairs.looks_like_pairs(few_fields(lines)):
        kind = "pairs"
    if kind == "pairs":
        return pairs.read_pairs(lines, options)
    return tables.read_table(lines, "cells", options)


def _refuse_dangerous(path: Path) -> None:
    """Refuse a file that is no workbook, or asks for more than a workbook may."""
    with path.open("rb") as file:
        start = file.read(4)
        if start == b"\xd0\xcf\x11\xe0":
            msg = "it is a workbook of an old format, or has a password; save it as .xlsx without"
            raise ValueError(msg)
        if start[:2] != b"PK":
            msg = "the file could not be read (it is no workbook); save it as .xlsx"
            raise ValueError(msg)
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            # Sheets are read row by row, all else at once.
            rest = sum(part.file_size for part in parts if "/worksheets/" not in part.filename)
            if rest * _EXPANSION > memory():
                msg = f"its texts take {rest / 1e9:.1f} GB; divide it, or save it as .csv"
                raise ValueError(msg)
            for part in parts:
                with archive.open(part) as content:
                    if b"<!DOCTYPE" in content.read(1024).upper():
                        msg = f"its part {part.filename!r} has a DOCTYPE; save the workbook anew"
                        raise ValueError(msg)


@contextmanager
def _opened(path: Path, *, formulas: bool) -> Iterator[Any]:
    """Open a workbook, with the formulas in its cells or with their values."""
    openpyxl = require("openpyxl", "io")
    # A sheet that was read in part keeps a file open that openpyxl opened.
    with path.open("rb") as file, warnings.catch_warnings(action="ignore"):
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=not formulas)
        except Exception as error:
            raise ValueError(damaged(error)) from error
        try:
            yield book
        finally:
            book.close()


def _sheet(path: Path, given: str | None) -> str:
    """Return the name of the sheet that the user names, or of the only one with anything in it."""
    with _opened(path, formulas=True) as book:
        names = [str(sheet.title) for sheet in book.worksheets]
        if given is not None:
            if given in names:
                return given
            raise InvalidValue(
                was_given("sheet", given), f"its sheets are {_listed(names)}", "choose one"
            )
        full = names if len(names) == 1 else [name for name in names if any(_rows(book[name]))]
    if len(full) == 1:
        return str(full[0])
    if not full:
        msg = "all of its sheets are empty; check that it was written"
        raise ValueError(msg)
    raise InvalidValue(
        f"it holds {len(full)} sheets: {_listed(full)}",
        remedy=("choose one with ", Argument("sheet")),
    )


def _listed(names: list[str]) -> str:
    more = ", …" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the cells of every row; a sheet may claim more columns than it has."""
    sheet.reset_dimensions()
    try:
        yield from sheet.iter_rows(values_only=True)
    except Exception as error:
        raise ValueError(damaged(error)) from error


def _lines(path: Path, sheet: str, skip: int) -> Iterator[Fields]:
    """Yield the cells of some rows at a time as fields; rows without anything are left out.

    Every row has as many fields as the first one, or more if it is longer.
    """
    width = 0
    waiting: list[tuple[int, list[str]]] = []
    with _opened(path, formulas=False) as book, _opened(path, formulas=True) as written:
        both = zip_longest(_rows(book[sheet]), _rows(written[sheet]), fillvalue=())
        for number, (values, formulas) in islice(enumerate(both, 1), skip, None):
            cells = [_text(value) for value in values]
            for column, formula in enumerate(formulas):
                if formula is not None and (column >= len(values) or values[column] is None):
                    msg = (
                        f"row {number}, column {column + 1} holds a formula without a value; open "
                        "and save it in a spreadsheet program"
                    )
                    raise ValueError(msg)
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                width = width or len(cells)
                waiting.append((number, cells + [""] * (width - len(cells))))
            if len(waiting) == _N_ROWS:
                yield _fields(waiting)
                waiting = []
    if waiting:
        yield _fields(waiting)


def _text(value: Any) -> str:
    """Return the value of a cell as one would write it to a text file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _fields(rows: list[tuple[int, list[str]]]) -> Fields:
    octets: list[bytes] = []  # the cells of every row, and what ends it
    for _, cells in rows:
        octets += [cell.encode("utf-8", "replace") for cell in cells]
        octets.append(b"\n")
    lengths = np.array([len(part) for part in octets], np.int64)
    ends = np.cumsum(lengths)
    counts = np.array([len(cells) for _, cells in rows], np.int64)
    is_cell = np.ones(len(octets), np.bool_)
    is_cell[np.cumsum(counts + 1) - 1] = False
    starts = (ends - lengths)[is_cell]
    block = _Rows(np.frombuffer(b"".join(octets), np.uint8), rows[0][0], has_quotes=False)
    firsts = starts[np.cumsum(counts) - counts].tolist()
    block.numbers = tuple(zip(firsts, (number for number, _ in rows), strict=True))
    return Fields(block, starts, ends[is_cell], counts)
