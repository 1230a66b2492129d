"""Read files that list the ones by name: pairs, entries of tensors, and baskets of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.data.binarize import check_threshold
from thali.data.binary import BinaryTensor
from thali.data.build import PositionBuilder
from thali.data.long_tables import chosen_columns
from thali.data.names import VALUES, order_of, stem
from thali.data.readers.open import not_utf8
from thali.data.readers.separators import given_separator
from thali.data.readers.text import Fields, blocks, few_fields, group_by_length, split_file
from thali.data.readers.text_values import BAD, UNKNOWN, ZERO, Spelling
from thali.errors import InvalidValue
from thali.sentences import Setting, n_of, was_given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from thali.data.readers.open import TextFile
    from thali.data.readers.options import Options
    from thali.data.readers.text import Lines
    from thali.sentences import Part

_ROWS = {"row", "user", "cell", "sample", "object", "basket", "transaction", "source"}
_COLUMNS = {"column", "col", "item", "gene", "feature", "attribute", "product", "target"}
_HEADS = (_ROWS, _COLUMNS, VALUES)


class NameIndex:
    """Numbers names in the order in which they occur, or by value if all are whole numbers.

    The numbers are final only after :meth:`finish`, when all names are known.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name.replace('"', '""').encode() in self._numbers

    def number(self, fields: Fields) -> NDArray[np.int64]:
        """Return the number of each field's name; a new name gets the next number."""
        parts = []
        for which, texts in group_by_length(fields):
            distinct, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
            parts.append((which, which[first], distinct.tolist(), inverse))
        new = [
            (int(at), name)
            for _, first, distinct, _ in parts
            for at, name in zip(first, distinct, strict=True)
            if name not in self._numbers
        ]
        for _, name in sorted(new):
            self._numbers[name] = len(self._numbers)
        numbers = np.empty(len(fields.starts), np.int64)
        for which, _, distinct, inverse in parts:
            known = np.array([self._numbers[name] for name in distinct], np.int64)
            numbers[which] = known[inverse]
        return numbers if self._order is None else self._order[numbers]

    def finish(self) -> tuple[str, ...]:
        """Fix the order of the names, and return them in this order."""
        try:
            names = [name.decode().replace('""', '"') for name in self._numbers]
        except UnicodeDecodeError:
            raise not_utf8("one of its names") from None
        order = order_of(names)
        self._order = np.argsort(order)
        return tuple(names[i] for i in order)

    def are_entries(self) -> bool:
        """Return whether every name is 0 or 1, so that the names may be entries."""
        return set(self._numbers) <= {b"0", b"1"}


def looks_like_pairs(header: list[str]) -> bool:
    """Return whether a header names the columns of pairs, such as user, item, rating."""
    return len(header) in (2, 3) and all(
        stem(name) in heads for name, heads in zip(header, _HEADS, strict=False)
    )


def read_pairs(lines: Lines, options: Options) -> BinaryTensor:
    """Read lines of a row, a column and perhaps a value."""
    options.refuse_columns()
    spelling = Spelling.of(options)
    header = few_fields(lines)
    n_fields = len(header)
    if n_fields not in (2, 3):
        n_fields = next((int(part.counts[0]) for part in lines()), 0)
        msg = (
            f"its first line has {n_of(n_fields, 'field')}; pairs have 2, a row and a column, or "
            "3 with a value; check the separator"
        )
        raise ValueError(msg)
    if n_fields == 2:
        _refuse_numbers(options, "pairs of two columns", "add a column of values")
    has_header = _has_header(header, spelling)

    def columns() -> Iterator[list[Fields]]:
        for at, part in enumerate(lines()):
            yield columns_of(part, n_fields, skip=has_header and at == 0)

    is_guess = not looks_like_pairs(header)
    return place_listed(
        columns, spelling, header if has_header else None, options, is_guess=is_guess
    )


def read_listed(lines: Lines, options: Options) -> BinaryTensor:
    """Read lines of which some columns, which the user has chosen, name the rows of an entry."""
    options.refuse_columns()
    fields = next(lines(), None)
    if fields is None:
        raise options.empty()
    n_fields = int(fields.counts[0])
    which = columns_of_modes(fields.texts(slice(0, n_fields)), options)

    def columns() -> Iterator[list[Fields]]:
        for at, part in enumerate(lines()):
            all_columns = columns_of(part, n_fields, skip=at == 0)
            yield [all_columns[number] for number in which]

    return place_listed(columns, Spelling.of(options), None, options)


def columns_of_modes(header: list[str], options: Options) -> list[int]:
    """Return the numbers of the columns that the user has chosen, and that of values, if any."""
    which, values = chosen_columns(header, options.modes or ())
    if values is None:
        _refuse_numbers(options, "a list without values", "add a column called 'value'")
    return which if values is None else [*which, values]


def place_listed(
    columns: Callable[[], Iterator[list[Fields]]],
    spelling: Spelling,
    header: list[str] | None,
    options: Options,
    *,
    is_guess: bool = False,
) -> BinaryTensor:
    """Build a matrix from pairs, or a tensor from a list of its entries.

    The list is read twice, first for the names and then for the positions. So only one block of
    it is in memory at a time, besides the names and the tensor.

    Parameters
    ----------
    columns
        Starts reading and yields blocks of entries: the fields with the names of rows, one of
        ``Fields`` per mode, and, if there are values, those of the values.
    spelling
        How values are written.
    header
        The names of the columns of pairs, or None if there is no header.
    options
        The user's options; without modes, there are two.
    is_guess
        Whether the first line was only guessed to be a header. Then the file is refused if one of
        its names occurs again, because it may be the first pair.
    """
    check_threshold(options.binarize, is_sparse=options.unlisted == "zero")
    modes = tuple(NameIndex() for _ in options.modes or ("row", "column"))
    n_listed = 0
    for fields in columns():
        for names, mode in zip(fields, modes, strict=False):
            _check_named(names, options.modes)
            mode.number(names)
        n_listed += len(fields[0].starts)
    if not n_listed:
        what = "entries below it" if options.modes else "pairs"
        msg = f"it has a header and no {what}; add them"
        raise ValueError(msg)
    is_asked = options.kind is not None or options.modes is not None
    if not is_asked and all(mode.are_entries() for mode in modes):
        raise InvalidValue(
            "its header is that of pairs, and its lines hold only 0 and 1",
            remedy=("give ", Setting("kind", "pairs"), " or ", Setting("kind", "table")),
        )
    if header is not None and is_guess:
        _check_header(header, modes)
    row_names = tuple(mode.finish() for mode in modes)
    positions = new_positions(tuple(map(len, modes)), n_listed, options)
    for fields in columns():
        places = [mode.number(names) for names, mode in zip(fields, modes, strict=False)]
        values = None if len(fields) == len(modes) else fields[-1]
        place(positions, places, values, spelling, options)
    spelling.tell_unseen()
    ones, unknown = positions.entries()
    mode_names = tuple(options.modes or ("row", "column"))
    if header and header[0] and header[1] and header[0] != header[1]:
        mode_names = (header[0], header[1])
    return BinaryTensor(ones, unknown, mode_names, row_names)


def new_positions(shape: tuple[int, ...], n_listed: int, options: Options) -> PositionBuilder:
    """Return a builder for a tensor of which a file lists some entries."""
    return PositionBuilder(shape, n_listed, is_packed=options.unlisted == "unknown")


def place(
    positions: PositionBuilder,
    places: list[NDArray[np.int64]],
    values: Fields | None,
    spelling: Spelling,
    options: Options,
) -> None:
    """Add entries that a file lists: ones, or what their values say."""
    if options.unlisted == "unknown":
        positions.observe(places)
    if values is None:
        positions.add(places)
        return
    codes = _values(values, spelling)
    listed = codes != ZERO
    positions.add([rows[listed] for rows in places], codes[listed] == UNKNOWN)


def _has_header(first: list[str], spelling: Spelling) -> bool:
    """Return whether a first line is a header; it is, unless it can only be a pair."""
    if looks_like_pairs(first):
        return True
    if len(first) == 3:
        return not spelling.is_entry(first[2])
    return not all(name.isascii() and name.isdigit() for name in first)


def _check_header(header: list[str], modes: tuple[NameIndex, ...]) -> None:
    """Refuse a header with a name that occurs again below it; it may be the first pair."""
    again = [name for name, mode in zip(header, modes, strict=False) if name in mode]
    if again:
        msg = (
            f"its first line is read as a header, and {again[0][:40]!r} comes again below it; "
            "write a header such as 'row,column' above the first pair, or in place of this one"
        )
        raise ValueError(msg)


def columns_of(fields: Fields, n_fields: int, *, skip: bool = False) -> list[Fields]:
    """Return the fields of each column of a block, perhaps without its first line."""
    is_bad = fields.counts != n_fields
    if is_bad.any():
        line = int(is_bad.argmax())
        number = fields.block.line(int(fields.starts[fields.counts[:line].sum()]))
        msg = (
            f"line {number} has {n_of(int(fields.counts[line]), 'field')}, the first line "
            f"{n_fields}; make all lines equally long"
        )
        raise ValueError(msg)
    start = n_fields if skip else 0
    return [
        fields._replace(
            starts=fields.starts[start + i :: n_fields], ends=fields.ends[start + i :: n_fields]
        )
        for i in range(n_fields)
    ]


def _check_named(fields: Fields, modes: Sequence[str] | None) -> None:
    is_empty = fields.starts == fields.ends
    if is_empty.any():
        line = fields.block.line(int(fields.starts[is_empty.argmax()]))
        what = "no row of one of the modes" if modes else "no row or no column"
        msg = f"line {line} names {what}; fill it in or delete the line"
        raise ValueError(msg)


def _values(fields: Fields, spelling: Spelling) -> NDArray[np.uint8]:
    codes, _ = spelling.codes(fields)
    if (codes == BAD).any():
        bad = int((codes == BAD).argmax())
        line = fields.block.line(int(fields.starts[bad]))
        raise spelling.refusal(fields.texts(slice(bad, bad + 1))[0], f"line {line}")
    return codes


def read_baskets(path: Path, options: Options) -> BinaryTensor:
    """Read baskets, one per line: the names of its items, with blanks or a sign in between."""
    _refuse_numbers(options, "baskets", "give ", Setting("kind", "matrix"), " for entries")
    options.refuse_unlisted()
    options.refuse_columns()
    file = options.text(path)
    separator = _basket_separator(file, options.sep)
    items = NameIndex()
    n_rows = n_listed = 0
    widths: set[int] = set()
    for fields, _ in _baskets(file, separator):
        items.number(fields)
        n_rows += len(fields.counts)
        n_listed += len(fields.starts)
        widths |= set(np.unique(fields.counts).tolist())
    if not n_rows:
        raise options.empty()
    if options.kind is None and items.are_entries() and len(widths) == 1:
        raise InvalidValue(
            "its lines hold only 0 and 1",
            remedy=(
                *("give ", Setting("kind", "matrix"), " if these are entries, or "),
                *(Setting("kind", "baskets"), " if they name items"),
            ),
        )
    names = items.finish()
    positions = PositionBuilder((n_rows, len(items)), n_listed)
    first = 0
    for fields, rows in _baskets(file, separator):
        positions.add((first + rows, items.number(fields)))
        first += len(fields.counts)
    ones, unknown = positions.entries()
    return BinaryTensor(ones, unknown, ("basket", "item"), (None, names))


def _refuse_numbers(options: Options, what: str, *else_do: str | Part) -> None:
    """Refuse options about values if the file has none."""
    for name in ("binarize", "missing", "ones", "zeros"):
        value = getattr(options, name)
        if value not in (None, ()):
            raise InvalidValue(
                (*was_given(name, value), f" for {what}"),
                "these hold names and no values",
                ("leave it out, or ", *else_do),
            )


def _basket_separator(file: TextFile, given: str | None) -> str | None:
    """Return what the user says; or else a comma or semicolon if the file contains one.

    So names may contain blanks. None means that blanks separate the items.
    """
    sign = given_separator(given)
    if sign is not None:
        return None if sign == " " else sign
    seen = set()
    for block in blocks(file):
        seen |= {sign for sign in ",;" if (block.data == ord(sign)).any()}
        if "," in seen:
            break
    return next((sign for sign in ",;" if sign in seen), None)


def _baskets(file: TextFile, separator: str | None) -> Iterator[tuple[Fields, NDArray[np.int64]]]:
    """Yield the non-empty items of each block, and for each item its line within the block."""
    for fields in split_file(file, separator):
        rows = np.repeat(np.arange(len(fields.counts)), fields.counts)
        keep = fields.starts < fields.ends  # a comma at the end of a line adds no item
        yield fields._replace(starts=fields.starts[keep], ends=fields.ends[keep]), rows[keep]
