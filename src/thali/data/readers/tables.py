"""Read text tables of entries, with or without column names and row names."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.data.binary import BinaryTensor
from thali.data.build import RowBuilder
from thali.data.readers.text import Fields, split_file
from thali.data.readers.text_values import BAD, ONE, UNKNOWN, Spelling
from thali.errors import InvalidValue
from thali.sentences import Setting

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from thali.data.readers.options import Options

_PAIRS = (", or give ", Setting("kind", "pairs"), " if each line names a row and a column")

SEPARATORS = {".csv": ",", ".tsv": "\t"}


class _Layout(NamedTuple):
    """How the lines of a table are laid out."""

    header: list[str] | None  # column names, also that of the column of row names
    n_fields: int
    has_names: bool
    ends_with_separator: bool  # every line ends with a separator

    @property
    def columns(self) -> slice:
        """The columns that hold entries."""
        return slice(int(self.has_names), self.n_fields - self.ends_with_separator)

    def column(self, number: int) -> str:
        """Return what to call a column in a message: its name, or else its number from 1."""
        name = "" if self.header is None else self.header[number]
        return repr(name) if name else str(number + 1)


def read_table(path: Path, separator: str | None, options: Options) -> BinaryTensor:
    """Read a table of entries in blocks of lines."""
    spelling = Spelling(options.binarize, options.missing)
    parts = split_file(path, separator)
    start = next(parts, None)
    if start is None:
        msg = "it is empty; check that it was written"
        raise ValueError(msg)
    first, rest = _split_off_first_line(start)
    if not len(rest.counts):  # the line of column names may fill the first block
        rest = next(parts, rest)
    layout = _layout(first, rest, separator, spelling, options)
    reader = _TableReader(layout, spelling)
    names: list[str] = []
    lines = [rest] if layout.header is not None else [first, rest]
    for fields in chain(lines, parts):
        names += reader.read(_check_field_counts(fields, layout))
    if reader.rows.n_rows == 0:
        msg = "it has a header and no rows; add them"
        raise ValueError(msg)
    ones, unknown = reader.rows.entries()
    header = layout.header
    columns = None if header is None else tuple(header[layout.columns])
    mode = header[0] if header is not None and layout.has_names else ""
    return BinaryTensor(
        ones,
        unknown,
        (mode if mode and mode != "mode_1" else "mode_0", "mode_1"),
        (tuple(names) if layout.has_names else None, columns),
    )


def _split_off_first_line(fields: Fields) -> tuple[Fields, Fields]:
    """Return the fields of the first line of a block, and those of its other lines."""
    n = int(fields.counts[0])
    first = fields._replace(
        starts=fields.starts[:n], ends=fields.ends[:n], counts=fields.counts[:1]
    )
    rest = fields._replace(
        starts=fields.starts[n:], ends=fields.ends[n:], counts=fields.counts[1:]
    )
    return first, rest


def _layout(
    line: Fields, rest: Fields, separator: str | None, spelling: Spelling, options: Options
) -> _Layout:
    """Find out from the first lines whether there are names; refuse the file if it is unclear."""
    n_fields = int(line.counts[0])
    first = line.texts(slice(None))
    second = rest.texts(slice(0, 1))
    has_header = options.kind != "matrix" and not _holds_entries(first, spelling, options.kind)
    ends_with_separator = (
        n_fields > 1 and not first[-1] and (has_header or options.kind == "matrix")
    )
    if has_header:
        if n_fields == 1 and second and not spelling.is_entry(second[0]):
            raise _one_column(first[0], separator)
        repeated = [name for name, n in Counter(first).items() if n > 1 and name]
        if repeated:
            msg = f"the header names {repeated[0]!r} twice; give every column its own name"
            raise ValueError(msg)
        start = second[0] if second else "0"
        has_names = not first[0] or not spelling.is_entry(start)
        header = first[:-1] if ends_with_separator else first
        if n_fields - ends_with_separator - has_names < 1:
            msg = f"it has names and no column of entries; separate columns by {_shown(separator)}"
            raise ValueError(msg)
        _refuse_counting_column(rest, first, options, has_names=has_names)
        return _Layout(header, n_fields, has_names, ends_with_separator)
    if n_fields == 1 and not spelling.is_entry(first[0]):
        raise _one_column(first[0], separator)
    has_names = not spelling.is_entry(first[0])
    return _Layout(None, n_fields, has_names, ends_with_separator=False)


def _holds_entries(first: list[str], spelling: Spelling, kind: str | None) -> bool:
    """Return whether a first line holds entries, not column names; refuse it if unclear."""
    rest = first if spelling.is_entry(first[0]) else first[1:]
    if kind == "table" or not rest or not all(map(spelling.is_entry, rest)):
        return False
    if not any(rest):
        return False
    if len(set(rest)) < len(rest):
        return True  # column names would all differ
    raise InvalidValue(
        "its first line holds entries",
        remedy=(
            *("write a line of column names above it, or give ", Setting("kind", "matrix")),
            *(" if there are none, or ", Setting("kind", "table"), " if these are the names"),
        ),
    )


def _one_column(text: str, separator: str | None) -> ValueError:
    seen = [sign for sign in ";\t,|" if sign in text and sign != separator]
    hint = ""
    if seen:
        endings = [ending for ending, sign in SEPARATORS.items() if sign == seen[0]]
        remedy = f"rename it to {endings[0]}" if endings and separator else "replace it"
        hint = f" and {seen[0]!r} was seen; {remedy}"
    return ValueError(
        f"it has one column of text; fields are expected to be separated by "
        f"{_shown(separator)}{hint}"
    )


def _shown(separator: str | None) -> str:
    return "blanks" if separator is None else repr(separator)


def _refuse_counting_column(
    fields: Fields, first: list[str], options: Options, *, has_names: bool
) -> None:
    """Refuse a first column that counts the lines; with a threshold it would become ones."""
    if options.binarize is None or has_names or options.kind == "table":
        return
    if (fields.counts != len(first)).any() or len(fields.counts) < 3:
        return
    column = fields.texts(slice(0, None, len(first)))
    start = column[0]
    if start in ("0", "1") and column == [str(int(start) + i) for i in range(len(column))]:
        raise InvalidValue(
            f"its first column, {first[0]!r}, counts the lines",
            remedy=(
                "leave its header empty if it holds row names, or give ",
                Setting("kind", "table"),
                " if it holds entries",
            ),
        )


def _check_field_counts(fields: Fields, layout: _Layout) -> Fields:
    is_bad = fields.counts != layout.n_fields
    if is_bad.any():
        line = int(is_bad.argmax())
        at = int(fields.counts[:line].sum())
        number = fields.block.line(int(fields.starts[at]))
        other = "first line" if layout.header is None else "header"
        msg = (
            f"line {number} has {int(fields.counts[line])} fields, the {other} "
            f"{layout.n_fields}; make all lines equally long"
        )
        raise ValueError(msg)
    return fields


class _TableReader:
    """Packs blocks of fields into rows, and remembers how each column writes its entries."""

    def __init__(self, layout: _Layout, spelling: Spelling) -> None:
        self.layout = layout
        self.spelling = spelling
        columns = layout.columns
        self.rows = RowBuilder(columns.stop - columns.start)
        self._has_words = np.zeros(self.rows.n_columns, np.bool_)
        self._has_digits = np.zeros(self.rows.n_columns, np.bool_)

    def read(self, fields: Fields) -> list[str]:
        """Pack the entries of some lines, and return their row names (none if there are none)."""
        layout = self.layout
        shape = (len(fields.counts), layout.n_fields)
        starts, ends = fields.starts.reshape(shape), fields.ends.reshape(shape)
        if layout.ends_with_separator:
            self._check_last_column(fields, starts[:, -1] < ends[:, -1])
        part = fields._replace(
            starts=starts[:, layout.columns].ravel(), ends=ends[:, layout.columns].ravel()
        )
        flat, is_word = self.spelling.codes(part)
        codes = flat.reshape(len(starts), self.rows.n_columns)
        if (flat == BAD).any():
            self._refuse(part, int((flat == BAD).argmax()))
        self._check_words(codes, is_word.reshape(codes.shape), part)
        self.rows.append(codes == ONE, codes == UNKNOWN)
        if not layout.has_names:
            return []
        names = fields.texts(slice(0, None, layout.n_fields))
        self._check_names(names)
        return names

    def _refuse(self, part: Fields, bad: int) -> None:
        number = bad % self.rows.n_columns
        text = part.texts(slice(bad, bad + 1))[0]
        layout = self.layout
        if number == 0 and not layout.has_names and layout.header is not None:
            raise self._mixed(text)
        line = part.block.line(int(part.starts[bad]))
        column = layout.column(number + layout.columns.start)
        where = f"line {line}, column {column}"
        raise self.spelling.refusal(text, where, *(_PAIRS if layout.n_fields in (2, 3) else ()))

    def _mixed(self, text: str) -> ValueError:
        assert self.layout.header is not None
        return ValueError(
            f"its first column, {self.layout.header[0]!r}, holds entries and {text!r}; leave its "
            "header empty if it holds row names"
        )

    def _check_names(self, names: list[str]) -> None:
        header = self.layout.header
        if header is not None and header[0]:
            for name in names:
                if self.spelling.is_entry(name):
                    other = next((n for n in names if not self.spelling.is_entry(n)), "names")
                    raise self._mixed(other)

    def _check_last_column(self, fields: Fields, is_full: NDArray[np.bool_]) -> None:
        if is_full.any():
            at = (int(is_full.argmax()) + 1) * self.layout.n_fields - 1
            msg = (
                f"line {fields.block.line(int(fields.starts[at]))} has an entry in the last "
                "column, which has no name; name it"
            )
            raise ValueError(msg)

    def _check_words(
        self, codes: NDArray[np.uint8], is_word: NDArray[np.bool_], part: Fields
    ) -> None:
        """Refuse a column of words and digits, which suggests that two tables were mixed."""
        if self._has_words.any() or is_word.any():
            self._has_words |= is_word.any(axis=0)
        self._has_digits |= ((codes < UNKNOWN) & ~is_word).any(axis=0)
        both = self._has_words & self._has_digits
        if both.any():
            column = int(both.argmax())
            at = self.layout.column(column + self.layout.columns.start)
            msg = (
                f"it holds true or false and numbers in column {at}, up to line "
                f"{part.block.line(int(part.starts[-1]))}; write all entries of a column alike"
            )
            raise ValueError(msg)
