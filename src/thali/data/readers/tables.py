"""Read text tables of entries, with or without column names and row names."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.data.binary import BinaryTensor
from thali.data.build import RowBuilder
from thali.data.readers.header import has_header
from thali.data.readers.options import columns_named
from thali.data.readers.separators import SIGNS
from thali.data.readers.text_values import BAD, ONE, UNKNOWN, Spelling
from thali.errors import InvalidValue
from thali.sentences import Argument, Setting, n_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.data.readers.options import Options
    from thali.data.readers.text import Fields, Lines
    from thali.sentences import Part

_PAIRS = (", or give ", Setting("kind", "pairs"), " if each line names a row and a column")


class _Layout(NamedTuple):
    """How the lines of a table are laid out."""

    header: list[str] | None  # column names, also that of the column of row names
    n_fields: int
    names_at: int | None  # the column of row names; None if there is none
    ends_with_separator: bool  # every line ends with a separator
    dropped: tuple[int, ...] = ()  # columns that are left out

    @property
    def columns(self) -> slice | NDArray[np.int64]:
        """The columns that hold entries."""
        n_columns = self.n_fields - self.ends_with_separator
        if not self.dropped and not self.names_at:  # there may be millions
            return slice(int(self.names_at is not None), n_columns)
        own = () if self.names_at is None else (self.names_at,)
        return np.setdiff1d(np.arange(n_columns), (*own, *self.dropped))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of every column that holds entries, among all columns."""
        numbers: NDArray[np.int64] = np.arange(self.n_fields)[self.columns]
        return numbers

    def column(self, number: int) -> str:
        """Return what to call a column in a message: its name, or else its number from 1."""
        name = "" if self.header is None else self.header[number]
        return repr(name) if name else str(number + 1)


def read_table(lines: Lines, between: str, options: Options) -> BinaryTensor:
    """Read a table of entries in blocks of lines.

    ``between`` says in messages what separates its fields.
    """
    options.refuse_unlisted()
    spelling = Spelling.of(options)
    parts = lines()
    start = next(parts, None)
    if start is None:
        raise options.empty()
    first, rest = _split_off_first_line(start)
    if not len(rest.counts):  # the line of column names may fill the first block
        rest = next(parts, rest)
    layout = _layout(first, rest, between, spelling, options)
    reader = _TableReader(layout, spelling, is_told=options.names is not None)
    names: list[str] = []
    begun = [rest] if layout.header is not None else [first, rest]
    for fields in chain(begun, parts):
        names += reader.read(_check_field_counts(fields, layout))
    if reader.rows.n_rows == 0:
        msg = "it has a header and no rows; add them"
        raise ValueError(msg)
    spelling.tell_unseen()
    ones, unknown = reader.rows.entries()
    header, at = layout.header, layout.names_at
    columns = None if header is None else _chosen(header, layout.columns)
    mode = header[at] if header is not None and at is not None else ""
    return BinaryTensor(
        ones,
        unknown,
        (mode if mode and mode != "mode_1" else "mode_0", "mode_1"),
        (None if at is None else tuple(names), columns),
    )


def _chosen(header: list[str], columns: slice | NDArray[np.int64]) -> tuple[str, ...]:
    if isinstance(columns, slice):
        return tuple(header[columns])
    return tuple(header[number] for number in columns.tolist())


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
    line: Fields, rest: Fields, between: str, spelling: Spelling, options: Options
) -> _Layout:
    """Find out from the first lines whether there are names; refuse the file if it is unclear."""
    n_fields = int(line.counts[0])
    start = line.texts(slice(0, 1))[0]
    is_last_empty = n_fields > 1 and bool(line.starts[-1] == line.ends[-1])
    if not has_header(line, rest, spelling, options.kind):
        if options.names is not None or options.drop:
            columns_named(None, *_about_columns(options))
        if n_fields == 1 and not spelling.is_entry(start):
            raise _one_column(between)
        names_at = None if spelling.is_entry(start) else 0
        is_ended = is_last_empty and options.kind == "matrix"
        return _Layout(None, n_fields, names_at, ends_with_separator=is_ended)
    second = rest.texts(slice(0, 1))
    if n_fields == 1 and second and not spelling.is_entry(second[0]):
        raise _one_column(between)
    names = line.texts(slice(None))
    if len(set(names)) < n_fields:
        repeated = [name for name, n in Counter(names).items() if n > 1 and name]
        if repeated:
            msg = f"the header names {repeated[0]!r} twice; give every column its own name"
            raise ValueError(msg)
    header = names[:-1] if is_last_empty else names
    dropped = tuple(columns_named(header, "drop", options.drop))
    has_names = not start or (bool(second) and not spelling.is_entry(second[0]))
    names_at = 0 if has_names and 0 not in dropped else None
    if options.names is not None:
        (names_at,) = columns_named(header, "names", [options.names])
    layout = _Layout(header, n_fields, names_at, is_last_empty, dropped)
    if not len(layout.numbers):
        msg = f"it has names and no column of entries; separate columns by {between}"
        raise ValueError(msg)
    if names_at is None and 0 not in dropped:
        _refuse_counting_column(rest, names, options)
    return layout


def _about_columns(options: Options) -> tuple[str, tuple[str, ...]]:
    if options.names is not None:
        return "names", (options.names,)
    return "drop", options.drop


def _one_column(between: str) -> ValueError:
    return InvalidValue(
        f"it has one column of text; fields are expected to be separated by {between}",
        remedy=("give ", Argument("sep"), " if another sign separates them"),
    )


def _refuse_counting_column(fields: Fields, first: list[str], options: Options) -> None:
    """Refuse a first column that counts the lines; with a threshold it would become ones."""
    if options.binarize is None or options.kind == "table":
        return
    if (fields.counts != len(first)).any() or len(fields.counts) < 3:
        return
    column = fields.texts(slice(0, None, len(first)))
    start = column[0]
    if start in ("0", "1") and column == [str(int(start) + i) for i in range(len(column))]:
        raise InvalidValue(
            f"its first column, {first[0]!r}, counts the lines",
            remedy=(
                *("give ", Setting("names", first[0]), " if it holds row names, or "),
                *(Setting("kind", "table"), " if it holds entries"),
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
            f"line {number} has {n_of(int(fields.counts[line]), 'field')}, the {other} "
            f"{layout.n_fields}; make all lines equally long"
        )
        raise ValueError(msg)
    return fields


class _TableReader:
    """Packs blocks of fields into rows, and remembers how each column writes its entries."""

    def __init__(self, layout: _Layout, spelling: Spelling, *, is_told: bool) -> None:
        self.layout = layout
        self.is_told = is_told  # which column holds the row names
        self.spelling = spelling
        self.columns = layout.columns
        self.rows = RowBuilder(len(layout.numbers))
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
            starts=starts[:, self.columns].ravel(), ends=ends[:, self.columns].ravel()
        )
        flat, is_word = self.spelling.codes(part)
        codes = flat.reshape(len(starts), self.rows.n_columns)
        if (flat == BAD).any():
            self._refuse(part, int((flat == BAD).argmax()))
        self._check_words(codes, is_word.reshape(codes.shape), part)
        self.rows.append(codes == ONE, codes == UNKNOWN)
        if layout.names_at is None:
            return []
        names = fields.texts(slice(layout.names_at, None, layout.n_fields))
        if not self.is_told:
            self._check_names(names)
        return names

    def _refuse(self, part: Fields, bad: int) -> None:
        layout = self.layout
        number = int(layout.numbers[bad % self.rows.n_columns])
        text = part.texts(slice(bad, bad + 1))[0]
        if number == 0 and layout.names_at is None and layout.header is not None:
            raise self._mixed(text)
        line = part.block.line(int(part.starts[bad]))
        where = f"line {line}, column {layout.column(number)}"
        advice: tuple[str | Part, ...] = _PAIRS if layout.n_fields in (2, 3) else ()
        if layout.header is not None and not advice:
            advice = (*advice, ", or leave its column out with ", Argument("drop"))
        if any(sign in text for sign in SIGNS):
            advice = (*advice, ", or give ", Argument("sep"), " if it holds several fields")
        raise self.spelling.refusal(text, where, *advice)

    def _mixed(self, text: str) -> InvalidValue:
        assert self.layout.header is not None
        name = self.layout.header[0]
        return InvalidValue(
            f"its first column, {name!r}, holds entries and {text!r}",
            remedy=("give ", Setting("names", name), " if it holds row names"),
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
        is_full = (part.ends > part.starts).reshape(codes.shape)  # nothing may be given as zero
        self._has_digits |= ((codes < UNKNOWN) & ~is_word & is_full).any(axis=0)
        both = self._has_words & self._has_digits
        if both.any():
            column = int(both.argmax())
            at = self.layout.column(int(self.layout.numbers[column]))
            msg = (
                f"it holds words (true, false, yes, no) and numbers in column {at}, up to line "
                f"{part.block.line(int(part.starts[-1]))}; write all entries of a column alike"
            )
            raise ValueError(msg)
