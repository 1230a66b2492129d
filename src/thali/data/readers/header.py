"""Decide whether the first line of a table holds column names, or entries like the other lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.data.readers.text_values import BAD, NO_NUMBER, Spelling
from thali.errors import InvalidValue
from thali.sentences import Argument, Setting, n_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.data.readers.text import Fields, Lines

_N_SEEN = 1_000  # fields of the first line that are looked at before all others

_TABLE, _MATRIX = Setting("kind", "table"), Setting("kind", "matrix")


def has_header(line: Fields, rest: Fields, spelling: Spelling, kind: str | None) -> bool:
    """Return whether a first line holds column names; refuse the file if that is unclear.

    Names are anything but numbers, or numbers that count the columns from 0 or 1 and cannot be
    entries. No line of entries is ever taken for names, and no line of numbers without a word.

    Parameters
    ----------
    line
        The fields of the first line.
    rest
        The fields of the lines after it, as far as they were read.
    spelling
        How entries are written.
    kind
        What the user says that the file holds: a ``"table"`` has names, a ``"matrix"`` has none.
    """
    if kind is not None:
        return kind == "table"
    if _has_text(_part(line, slice(1, _N_SEEN)), spelling):
        return True
    # The first field may be the name of a row, or the name of all row names.
    start = line.texts(slice(0, 1))[0]
    is_name = not start or spelling.values(_part(line, slice(0, 1)))[0][0] == NO_NUMBER
    columns = _part(line, slice(int(is_name), None))
    numbers, is_word = spelling.values(columns)
    if not len(numbers) or (numbers == NO_NUMBER).any() or np.isnan(numbers).all():
        return True
    if (spelling.codes(columns)[0] == BAD).any():
        if _count(numbers):
            return True
        raise _numbers(columns.texts(slice(0, 3)))
    if is_word.all():
        below, are_words = spelling.values(_part(rest, slice(int(is_name), len(line.starts))))
        if len(below) and not are_words.any() and not (below == NO_NUMBER).any():
            return True  # a column does not hold words and digits
    entries = _part(line, slice(int(is_name and start != ""), None))
    for which in (slice(0, _N_SEEN), slice(None)):
        texts = entries.texts(which)
        if len(set(texts)) < len(texts):
            return False  # column names would all differ
    raise InvalidValue(
        "its first line holds entries",
        remedy=(
            *("write a line of column names above it, or give ", _MATRIX),
            *(" if there are none, or ", _TABLE, " if these are the names"),
        ),
    )


def refuse_title(lines: Lines) -> None:
    """Refuse a file whose first lines are shorter than all later ones: they may be a title.

    A header that is one field short, as some programs leave out the name of the row names, is no
    title.
    """
    fields = next(lines(), None)
    if fields is None or len(fields.counts) < 3:
        return
    counts = fields.counts
    n_fields = int(counts[-1])
    n_before = int((counts == n_fields).argmax())
    n_first = int(counts[0])
    if n_first >= n_fields or 1 < n_first == n_fields - 1:
        return
    if (counts[n_before:] != n_fields).any() or 2 * n_before >= len(counts):
        return
    first, begun = (
        fields.block.line(int(fields.starts[at])) for at in (0, int(counts[:n_before].sum()))
    )
    raise InvalidValue(
        f"line {first} has {n_of(n_first, 'field')}, and the lines from {begun} on have "
        f"{n_fields}",
        remedy=("if a title stands above the table, give ", Setting("skip", begun - 1)),
    )


def _numbers(shown: list[str]) -> InvalidValue:
    return InvalidValue(
        f"its first line holds numbers, such as {', '.join(shown)}, that do not count the columns",
        remedy=(
            *("give ", _TABLE, " if they are the names of columns, or ", _MATRIX, " and "),
            *(Argument("binarize"), " if they are entries"),
        ),
    )


def _part(line: Fields, which: slice) -> Fields:
    return line._replace(starts=line.starts[which], ends=line.ends[which])


def _has_text(fields: Fields, spelling: Spelling) -> bool:
    return bool((spelling.values(fields)[0] == NO_NUMBER).any())


def _count(numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers are 0, 1, 2, … or 1, 2, 3, …; the last field may be empty."""
    numbers = numbers[:-1] if np.isnan(numbers[-1]) else numbers
    return numbers[0] in (0.0, 1.0) and bool((np.diff(numbers) == 1.0).all())
