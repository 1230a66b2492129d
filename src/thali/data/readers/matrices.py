"""Read Matrix Market files, and the folders with one that programs of 10x Genomics write."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.data.binarize import check_threshold
from thali.data.build import PositionBuilder
from thali.data.readers.open import TextFile, open_text
from thali.data.readers.options import unreadable
from thali.data.readers.text import Fields, blocks_of_open_file, decode, split_blanks
from thali.data.readers.text_values import BAD, UNKNOWN, ZERO, Spelling, whole_numbers
from thali.sentences import n_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from thali.data.binary import BinaryTensor
    from thali.data.entries import Entries
    from thali.data.readers.options import Options
    from thali.data.row_part import RowPart

    _Numbers = NDArray[np.int64]

# Bytes of a line of the header; a longer line means that this is another kind of file.
_LONGEST_LINE = 1 << 16

_BANNER = "%%matrixmarket"


class _Header(NamedTuple):
    """What the header of a Matrix Market file says."""

    is_listed: bool  # entries with their positions; otherwise all entries, by column
    has_values: bool
    is_symmetric: bool
    shape: tuple[int, int]
    n_listed: int
    n_lines: int


def read_mtx(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read a Matrix Market file; entries that are not listed are zero."""
    ones, unknown, n_rows = read_entries(path, options)
    return options.labelled(ones, unknown, ("mode_0", "mode_1"), (None, None), n_rows)


def read_entries(
    path: Path, options: Options, *, transpose: bool = False
) -> tuple[Entries, Entries | None, int]:
    """Read the entries of a Matrix Market file in blocks of lines; transpose them if asked.

    All lines are read, as entries are in any order, but only the rows of the options are kept.
    Returns the number of all rows as well.
    """
    spelling = Spelling.of(options)
    with open_text(TextFile(path)) as file:
        header = _header(file)
        if header.is_listed:
            check_threshold(options.binarize, is_sparse=True)
        bound = header.n_listed * (2 if header.is_symmetric else 1)
        n_rows, n_columns = header.shape[::-1] if transpose else header.shape
        lo, hi = options.rows(n_rows)
        positions = PositionBuilder((hi - lo, n_columns), bound)

        def add(rows: _Numbers, columns: _Numbers, unknown: NDArray[np.bool_] | None) -> None:
            if hi - lo < n_rows:
                own = (lo <= rows) & (rows < hi)
                rows, columns = rows[own] - lo, columns[own]
                unknown = None if unknown is None else unknown[own]
            positions.add((rows, columns), unknown)

        n_read = 0
        for block in blocks_of_open_file(file, header.n_lines + 1):
            fields = split_blanks(block)
            rows, columns, values = _positions(fields, header, n_read)
            n_read += len(rows)
            if n_read > header.n_listed:
                break
            unknown = None
            if values is not None:
                codes = _codes(values, spelling)
                listed = codes != ZERO
                rows, columns, unknown = rows[listed], columns[listed], codes[listed] == UNKNOWN
            if transpose:
                rows, columns = columns, rows
            add(rows, columns, unknown)
            if header.is_symmetric:
                add(columns, rows, unknown)
    if n_read != header.n_listed:
        found = "more" if n_read > header.n_listed else str(n_read)
        follow = "follows" if n_read == 1 else "follow"
        msg = (
            f"its header says {n_of(header.n_listed, 'entry')} and {found} {follow}; it was cut "
            "off or altered, so get the file again"
        )
        raise ValueError(msg)
    return *positions.entries(), n_rows


def _header(file: IO[bytes]) -> _Header:
    banner = decode(file.readline(_LONGEST_LINE), 1).lower().split()
    if len(banner) != 5 or banner[0] != _BANNER:
        msg = "its first line is not '%%MatrixMarket matrix …'; check that it is such a file"
        raise ValueError(msg)
    _, thing, form, field, symmetry = banner
    if (
        thing != "matrix"
        or form not in ("coordinate", "array")
        or field not in ("real", "double", "integer", "unsigned-integer", "pattern")
        or symmetry not in ("general", "symmetric")
        or (form == "array" and (field == "pattern" or symmetry == "symmetric"))
    ):
        msg = (
            f"it is of the kind {' '.join(banner[1:])!r}; allowed are coordinate matrices, real, "
            "integer or pattern, general or symmetric, and general arrays; convert it"
        )
        raise ValueError(msg)
    number, line = 2, file.readline(_LONGEST_LINE)
    while line.startswith(b"%") or (line and not line.strip()):
        number, line = number + 1, file.readline(_LONGEST_LINE)
    sizes = decode(line, number).split()
    n_sizes = 3 if form == "coordinate" else 2
    is_whole = all(size.isascii() and size.isdigit() and len(size) < 19 for size in sizes)
    if len(sizes) != n_sizes or not is_whole:
        what = "rows, columns and entries" if n_sizes == 3 else "rows and columns"
        msg = f"line {number} should hold the numbers of {what}; it holds {' '.join(sizes)[:40]!r}"
        raise ValueError(msg)
    n_rows, n_columns, n_listed = (*map(int, sizes), 0)[:3]
    size = f"{n_of(n_rows, 'row')} and {n_of(n_columns, 'column')}"
    if not n_rows or not n_columns:
        msg = f"it has {size}; both must be at least 1"
        raise ValueError(msg)
    if symmetry == "symmetric" and n_rows != n_columns:
        msg = f"it is symmetric with {size}; they must be equal"
        raise ValueError(msg)
    return _Header(
        is_listed=form == "coordinate",
        has_values=field != "pattern",
        is_symmetric=symmetry == "symmetric",
        shape=(n_rows, n_columns),
        n_listed=n_listed if form == "coordinate" else n_rows * n_columns,
        n_lines=number,
    )


def _positions(
    fields: Fields, header: _Header, n_before: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Fields | None]:
    """Return the row numbers, column numbers and values that some lines list."""
    if not header.is_listed:
        at = n_before + np.arange(len(fields.starts))
        return at % header.shape[0], at // header.shape[0], fields
    width = 3 if header.has_values else 2
    if (fields.counts != width).any():
        line = int((fields.counts != width).argmax())
        number = fields.block.line(int(fields.starts[fields.counts[:line].sum()]))
        msg = (
            f"line {number} has {n_of(int(fields.counts[line]), 'field')}; {width} were expected; "
            "correct the line"
        )
        raise ValueError(msg)
    parts = [
        fields._replace(starts=fields.starts[i::width], ends=fields.ends[i::width])
        for i in range(width)
    ]
    rows, columns = (whole_numbers(part) - 1 for part in parts[:2])
    is_out = (rows < 0) | (columns < 0) | (rows >= header.shape[0]) | (columns >= header.shape[1])
    if is_out.any():
        bad = int(is_out.argmax())
        row, column = (part.texts(slice(bad, bad + 1))[0] for part in parts[:2])
        msg = (
            f"line {fields.block.line(int(parts[0].starts[bad]))} names row {row[:20]} and column "
            f"{column[:20]}; allowed are 1 to {header.shape[0]} and 1 to {header.shape[1]}"
        )
        raise ValueError(msg)
    return rows, columns, parts[2] if header.has_values else None


def _codes(values: Fields, spelling: Spelling) -> NDArray[np.uint8]:
    codes, _ = spelling.codes(values)
    if (codes == BAD).any():
        bad = int((codes == BAD).argmax())
        line = values.block.line(int(values.starts[bad]))
        raise spelling.refusal(values.texts(slice(bad, bad + 1))[0], f"line {line}")
    return codes


# --- folders ------------------------------------------------------------------------------------


def find_file(folder: Path, *names: str) -> Path | None:
    """Return the first file in a folder with one of these names, compressed or not."""
    paths = (folder / f"{name}{end}" for name in names for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


@contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    """Put the name of a file in a folder before the message of any error about it."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # damaged archives raise what they like
        raise unreadable(path.name, error) from error


def read_folder(folder: Path, options: Options) -> BinaryTensor | RowPart:
    """Read a folder in the format of 10x Genomics; cells become rows and genes columns."""
    matrix = find_file(folder, "matrix.mtx")
    assert matrix is not None
    paths = find_file(folder, "barcodes.tsv"), find_file(folder, "features.tsv", "genes.tsv")
    for path, name in zip(paths, ("barcodes.tsv", "features.tsv or genes.tsv"), strict=True):
        if path is None:
            msg = f"the folder has {matrix.name} and no {name}; copy it there, or read the matrix"
            raise ValueError(msg)
    with _named_in_errors(matrix):
        ones, unknown, n_cells = read_entries(matrix, options, transpose=True)
    cells, genes = (_names(path) for path in paths if path is not None)
    shape = n_cells, ones.shape[1]
    for names, n_rows, path in zip((cells, genes), shape, paths, strict=True):
        if len(names) != n_rows and path is not None:
            msg = (
                f"{path.name} has {n_of(len(names), 'line')} for {n_rows} in {matrix.name}; get "
                "both files again"
            )
            raise ValueError(msg)
    return options.labelled(ones, unknown, ("cell", "gene"), (cells, genes), n_cells)


def _names(path: Path) -> tuple[str, ...]:
    """Return the names of cells or genes: the second column, where symbols are, or the first."""
    with _named_in_errors(path):
        with open_text(TextFile(path)) as file:
            lines = file.read().splitlines()
        fields = [decode(line, n).split("\t") for n, line in enumerate(lines, 1) if line.strip()]
    return tuple(parts[1] if len(parts) > 1 else parts[0] for parts in fields)
