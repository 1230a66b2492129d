"""Read Parquet files: tables of entries, pairs of row and column, or lists of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.build import check_fits_in_memory, pack_rows
from thali.data.layout import n_words
from thali.data.readers.arrays import refuse
from thali.data.readers.options import columns_named
from thali.data.readers.pairs import columns_of_modes, looks_like_pairs, place_listed
from thali.data.readers.text import Fields, fields_from_texts
from thali.data.readers.text_values import Spelling
from thali.errors import require
from thali.sentences import n_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from thali.data.binary import BinaryTensor
    from thali.data.readers.options import Options
    from thali.data.row_part import RowPart

_BLOCK_ENTRIES = 1 << 20  # entries per block, as in convert.py


def read_parquet(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read a Parquet file in blocks of rows."""
    parquet = require("pyarrow.parquet", "io")
    with parquet.ParquetFile(path) as file:
        columns = [str(name) for name in file.schema_arrow.names]
        if not columns or not file.metadata.num_rows:
            size = f"{n_of(len(columns), 'column')} and {n_of(file.metadata.num_rows, 'row')}"
            msg = f"it has {size}; at least one of each is needed; check that it was written"
            raise ValueError(msg)
        if options.modes is not None:
            options.refuse_columns()
            return _listed(file, columns, options, columns_of_modes(columns, options))
        if options.kind == "pairs" or (options.kind is None and looks_like_pairs(columns)):
            return _pairs(file, columns, options)
        return _table(file, columns, options)


def _table(file: Any, columns: list[str], options: Options) -> BinaryTensor | RowPart:
    options.refuse_unlisted()
    index = _index_column(file, columns, options.names)
    columns_named(columns, "drop", options.drop)
    entries = [name for name in columns if name != index and name not in options.drop]
    if len(set(columns)) < len(columns):
        msg = "two of its columns have the same name; give every column its own"
        raise ValueError(msg)
    if not entries:
        msg = "it has no column of entries beside the row names; add one"
        raise ValueError(msg)
    n_rows = file.metadata.num_rows
    lo, hi = options.rows(n_rows)
    check_fits_in_memory(8 * (hi - lo) * n_words(len(entries)), (n_rows, len(entries)))
    for field in file.schema_arrow:  # the schema is created anew whenever it is asked for
        if field.name in entries:
            _check_type(field.type, field.name)
    names: list[str] = []
    numbers = [columns.index(name) for name in entries]

    def blocks() -> Iterator[tuple[NDArray[Any], NDArray[np.bool_] | None]]:
        for batch in _batches_of_rows(file, columns, options.threads, lo, hi):
            if index is not None:
                names.extend(map(str, batch.column(columns.index(index)).to_pylist()))
            parts = [batch.column(number) for number in numbers]
            mask = np.zeros((batch.num_rows, len(parts)), np.bool_)
            for at, part in enumerate(parts):
                if part.null_count:
                    mask[:, at] = part.is_null().to_numpy(zero_copy_only=False)
            yield np.column_stack([_numbers(part) for part in parts]), mask

    ones, unknown = pack_rows(
        len(entries),
        blocks(),
        options.binarize,
        lambda value, row, at: refuse(value, lo + row, at, name=f" in column {entries[at]!r}"),
    )
    mode = "mode_0" if index is None or index.startswith("__index_level") else index
    modes = (mode if mode != "mode_1" else "mode_0", "mode_1")
    of_rows = None if index is None else tuple(names)
    both = of_rows, tuple(entries)
    return options.labelled(ones, unknown, modes, both, n_rows, has_own_names=True)


def _index_column(file: Any, columns: list[str], given: str | None) -> str | None:
    """Return the column of row names.

    It is what the user says, or pandas' index, or a first column of text, or None.
    """
    if given is not None:
        columns_named(columns, "names", [given])
        return given
    pandas = file.schema_arrow.pandas_metadata or {}
    index = [name for name in pandas.get("index_columns", []) if name in columns]
    if len(index) > 1:
        msg = f"its rows have {len(index)} names each, {index}; reset all but one"
        raise ValueError(msg)
    if index:
        return str(index[0])
    kind = str(file.schema_arrow.field(0).type)
    return columns[0] if "string" in kind or "utf8" in kind else None


def _check_type(kind: Any, name: str) -> None:
    if not any(word in str(kind) for word in ("bool", "int", "float", "double", "null")):
        msg = (
            f"its column {name!r} has type {kind}; allowed are Booleans, integers and floats; "
            "convert it"
        )
        raise ValueError(msg)


def _numbers(part: Any) -> NDArray[Any]:
    """Return a column as numbers; a missing entry becomes 0, which the mask hides."""
    if part.null_count:
        return np.array([0.0 if v is None else v for v in part.to_pylist()], np.float64)
    return np.asarray(part.to_numpy(zero_copy_only=False))


def _batches(
    file: Any, columns: list[str], threads: int | None, groups: list[int] | None = None
) -> Iterator[Any]:
    """Yield blocks of rows of all row groups, or of some.

    pyarrow has one thread pool for the whole process, so one can only choose to use it or not.
    """
    size = max(1, _BLOCK_ENTRIES // len(columns))
    how = {"batch_size": size, "use_threads": threads != 1}
    return iter(file.iter_batches(row_groups=groups, **how))


def _batches_of_rows(
    file: Any, columns: list[str], threads: int | None, lo: int, hi: int
) -> Iterator[Any]:
    """Yield blocks of the rows ``lo … hi-1``, from the row groups that have some of them."""
    lengths = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    groups = np.flatnonzero((starts < hi) & (ends > lo)).tolist() if lo < hi else []
    at = int(starts[groups[0]]) if groups else hi
    for batch in _batches(file, columns, threads, groups):
        first, end = max(lo - at, 0), min(hi - at, batch.num_rows)
        at += batch.num_rows
        if first < end:
            yield batch.slice(first, end - first)


def _pairs(file: Any, columns: list[str], options: Options) -> BinaryTensor:
    options.refuse_columns()
    if len(columns) not in (2, 3):
        msg = (
            f"it has {n_of(len(columns), 'column')}; pairs have 2, a row and a column, or 3 with "
            "a value; drop the others"
        )
        raise ValueError(msg)

    return _listed(file, columns, options, list(range(len(columns))))


def _listed(file: Any, columns: list[str], options: Options, which: list[int]) -> BinaryTensor:
    """Read some columns, of names and perhaps of values."""

    def fields() -> Iterator[list[Fields]]:
        for batch in _batches(file, columns, options.threads):
            yield [_texts(batch.column(i)) for i in which]

    header = None if options.modes else columns
    return place_listed(fields, Spelling(options.binarize), header, options)


def _texts(part: Any) -> Fields:
    return fields_from_texts(["" if value is None else str(value) for value in part.to_pylist()])
