"""Read tensors in the text format of FROSTT: lines of indices, counted from 1, and a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.data.binarize import check_threshold
from thali.data.binary import BinaryTensor
from thali.data.readers.open import TextFile
from thali.data.readers.pairs import columns_of, new_positions, place
from thali.data.readers.text import Fields, blocks, split_blanks
from thali.data.readers.text_values import Spelling, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from thali.data.readers.options import Options

_COMMENT = ord("#")


def read_tns(path: Path, options: Options) -> BinaryTensor:
    """Read a tensor twice: first for its shape, the largest index of every mode, then for all."""
    check_threshold(options.binarize, is_sparse=options.unlisted == "zero")
    shape = np.zeros(0, np.int64)
    n_listed = 0
    for places, _ in _entries(path):
        largest = np.array([rows.max() for rows in places]) + 1
        shape = np.maximum(shape, largest) if n_listed else largest
        n_listed += len(places[0])
    if not n_listed:
        msg = "it lists no entry; check that it was written"
        raise ValueError(msg)
    spelling = Spelling.of(options)
    positions = new_positions(tuple(shape.tolist()), n_listed, options)
    for places, values in _entries(path):
        place(positions, places, values, spelling, options)
    spelling.tell_unseen()
    ones, unknown = positions.entries()
    modes = tuple(f"mode_{mode}" for mode in range(len(shape)))
    return BinaryTensor(ones, unknown, modes, (None,) * len(modes))


def _entries(path: Path) -> Iterator[tuple[list[NDArray[np.int64]], Fields]]:
    """Yield the row numbers, counted from 0, and the values of some entries at a time."""
    n_fields = 0
    for block in blocks(TextFile(path)):
        fields = _without_comments(split_blanks(block))
        if not len(fields.counts):
            continue
        n_fields = n_fields or int(fields.counts[0])
        if n_fields < 3:
            msg = (
                f"its lines have {n_fields} fields; an index for each of two or more modes and a "
                "value are needed; check what the file holds"
            )
            raise ValueError(msg)
        columns = columns_of(fields, n_fields)
        yield [_indices(column) for column in columns[:-1]], columns[-1]


def _without_comments(fields: Fields) -> Fields:
    """Leave out lines that begin with a #."""
    firsts = np.cumsum(fields.counts) - fields.counts
    is_comment = fields.block.data[fields.starts[firsts]] == _COMMENT
    if not is_comment.any():
        return fields
    keep = np.repeat(~is_comment, fields.counts)
    return fields._replace(
        starts=fields.starts[keep], ends=fields.ends[keep], counts=fields.counts[~is_comment]
    )


def _indices(column: Fields) -> NDArray[np.int64]:
    """Return indices, counted from 0; refuse what does not count from 1."""
    numbers = whole_numbers(column)
    if numbers.min() < 1:
        at = int((numbers < 1).argmax())
        line = column.block.line(int(column.starts[at]))
        shown = column.texts(slice(at, at + 1))[0][:40]
        msg = (
            f"line {line} has the index {shown!r}; allowed are whole numbers that count from 1; "
            "correct it"
        )
        raise ValueError(msg)
    return numbers - 1
