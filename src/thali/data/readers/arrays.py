"""Read arrays from the files that NumPy and SciPy write."""

from __future__ import annotations

import json
import zipfile
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binarize import GIVE_THRESHOLD, binarize, check_threshold
from thali.data.binary import BinaryTensor
from thali.data.build import MAX_ROWS, check_fits_in_memory, pack_rows
from thali.data.classify import check_dtype, check_shape, classify, frozen
from thali.data.entries import Packed, every_column, transposed
from thali.data.layout import n_words, row_words
from thali.data.readers.options import damaged
from thali.data.readers.stored import StoredArray, explained, stored_array
from thali.errors import InvalidValue
from thali.sentences import Argument, Load, was_given

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from thali.data.readers.options import Options
    from thali.data.row_part import RowPart

_BLOCK_ENTRIES = 1 << 20  # entries per block, as in convert.py: 8 MB of float64
_SMALL = 1 << 12  # bytes; the shape of a sparse matrix takes fewer
_LONGEST_HEADER = 1 << 24  # bytes of the header of a run
_MAGIC = b"\x93NUMPY"


def read_npy(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read an array from a .npy file, in blocks."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            msg = "the file could not be read (it does not begin as arrays do); use numpy.save"
            raise ValueError(msg)
        file.seek(0)
        return _from_stored(stored_array(file, path.stat().st_size), options)


def read_npz(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read an array of an .npz archive in blocks, or a SciPy sparse matrix, or the data of a run.

    The parts of a sparse matrix and of a run are read at once.
    """
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            msg = "the file could not be read (it is no archive); save it with numpy.savez"
            raise ValueError(msg)
        with zipfile.ZipFile(file) as archive:
            sizes = {
                part.filename.removesuffix(".npy"): part.file_size
                for part in archive.infolist()
                if part.filename.endswith(".npy")
            }
            if options.array is None and "format" in sizes:
                return _from_sparse(file, sizes, options)
            if options.array is None and set(sizes) - {"known"} == {"ones", "names"}:
                return _from_run(path, file, sizes)
            name = _chosen(list(sizes), options.array)
            with archive.open(f"{name}.npy") as content:
                return _from_stored(stored_array(content, sizes[name]), options)


def _chosen(names: list[str], given: str | None) -> str:
    """Return the name of the array to read."""
    listed = ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
    if given is not None and given not in names:
        raise InvalidValue(
            was_given("array", given), f"its arrays are {listed or 'none'}", "choose one"
        )
    if given is None and len(names) > 1:
        raise InvalidValue(
            f"it holds {len(names)} arrays: {listed}",
            remedy=("choose one with ", Argument("array")),
        )
    if not names:
        msg = "it holds no array; save one with numpy.savez"
        raise ValueError(msg)
    return names[0] if given is None else given


def _from_stored(stored: StoredArray, options: Options) -> BinaryTensor | RowPart:
    """Pack a matrix block by block; put the entries of an array with more modes into Booleans."""
    check_shape(stored.shape)
    if stored.dtype.hasobject:
        raise explained(ValueError("pickle"))
    check_dtype(stored.dtype, "the array")
    modes = tuple(f"mode_{mode}" for mode in range(len(stored.shape)))
    names = (None,) * len(modes)
    n_rows = stored.shape[0]
    if len(stored.shape) != 2:
        if stored.is_by_column:  # the values of a row are all over the file
            return BinaryTensor(*_dense(stored, options.binarize, 0, n_rows), modes, names)
        dense = _dense(stored, options.binarize, *options.rows(n_rows))
        return options.labelled(*dense, modes, names, n_rows)
    lo, hi = options.rows(n_rows)
    n_lines, n_across = stored.lines
    lines, across = (0, n_lines), slice(0, n_across)
    if stored.is_by_column:
        across = slice(lo, hi)
    else:
        lines = lo, hi
    n_kept = across.stop - across.start
    check_fits_in_memory(8 * (lines[1] - lines[0]) * n_words(n_kept), stored.shape)
    step = max(1, _BLOCK_ENTRIES // n_across)
    check_fits_in_memory(min(step, n_lines) * n_across * (stored.dtype.itemsize + 4), stored.shape)

    def bad(value: Any, line: int, at: int) -> ValueError:
        return refuse(value, *((lo + at, line) if stored.is_by_column else (lo + line, at)))

    values = stored.blocks(step * n_across, *(n_across * line for line in lines))
    blocks = ((part.reshape(-1, n_across)[:, across], None) for part in values)
    ones, unknown = pack_rows(n_kept, blocks, options.binarize, bad)
    if stored.is_by_column:
        entries = transposed(ones), None if unknown is None else transposed(unknown)
        return options.labelled(*entries, modes, names, n_rows)
    return options.labelled(ones, unknown, modes, names, n_rows)


def _dense(
    stored: StoredArray, threshold: float | None, lo: int, hi: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Read rows of an array; an array in the order of Fortran is read as a whole."""
    shape, before = (hi - lo, *stored.shape[1:]), lo * prod(stored.shape[1:])
    n_entries = prod(shape)
    check_fits_in_memory(2 * n_entries, stored.shape)
    ones = np.empty(n_entries, np.bool_)
    unknown: NDArray[np.bool_] | None = None
    at = 0
    for values in stored.blocks(_BLOCK_ENTRIES, before, before + n_entries):
        here = slice(at, at + len(values))
        ones[here], is_unknown, bad = classify(values, None, threshold)
        if bad is not None:
            where = np.unravel_index(before + at + bad, stored.shape, stored.order)
            raise refuse(values[bad], *map(int, where))
        if is_unknown is not None:
            unknown = np.zeros(n_entries, np.bool_) if unknown is None else unknown
            unknown[here] = is_unknown
        at += len(values)

    def shaped(flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return frozen(np.ascontiguousarray(flat.reshape(shape, order=stored.order)))

    return shaped(ones), None if unknown is None else shaped(unknown)


def refuse(value: Any, *place: int, name: str = "") -> ValueError:
    """Return the error for a value of an array that is not 0, 1 or unknown."""
    shown = value.item() if isinstance(value, np.generic) else value
    return InvalidValue(
        f"the tensor holds {shown!r} at {place}{name}",
        "allowed are 0, 1 and NaN for unknown",
        GIVE_THRESHOLD,
    )


def _from_sparse(file: IO[bytes], sizes: dict[str, int], options: Options) -> BinaryTensor:
    from scipy import sparse  # noqa: PLC0415

    check_threshold(options.binarize, is_sparse=True)
    file.seek(0)
    try:
        with np.load(file, allow_pickle=False) as content:
            stored = content["shape"] if sizes.get("shape", 0) < _SMALL else np.zeros(0)
        if stored.shape != (2,) or stored.dtype.kind not in "iu" or max(stored) > MAX_ROWS:
            msg = f"a matrix of at most {MAX_ROWS} rows and columns is expected"
            raise ValueError(msg)  # noqa: TRY301 - all damage is told alike
        shape = (int(stored[0]), int(stored[1]))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(damaged(error)) from None
    # Its arrays, a copy in another order, and where each row and column begins.
    check_fits_in_memory(2 * sum(sizes.values()) + 8 * sum(shape), shape)
    file.seek(0)
    try:
        rows: Any = sparse.load_npz(file)
        rows = rows.tocsr()
        rows.check_format()
    except (ValueError, TypeError) as error:
        raise ValueError(damaged(error)) from None
    values = rows if options.binarize is None else binarize(rows, options.binarize)
    return BinaryTensor.from_any(values, threads=options.threads)


def _from_run(path: Path, file: IO[bytes], sizes: dict[str, int]) -> BinaryTensor:
    """Read the packed rows that a run stores; their shape is in the header of the run."""
    try:
        with path.with_name("header.json").open("rb") as header:
            shape = tuple(json.loads(header.read(_LONGEST_HEADER))["settings"]["shape"])
        check_fits_in_memory(2 * sum(sizes.values()), shape)
        file.seek(0)
        with np.load(file, allow_pickle=False) as content:
            parts = content["ones"], content["known"] if "known" in sizes else None
            modes, rows = json.loads(content["names"].tobytes().decode())
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        msg = "it is the data of a run without its header.json; use the one in the run's folder"
        raise ValueError(msg) from None
    is_shape = len(shape) > 1 and all(isinstance(n, int) and n > 0 for n in shape)
    expected = (shape[0], row_words(shape, 0)) if is_shape else ()
    if any(p is not None and p.shape != expected for p in parts):
        raise InvalidValue(
            f"it is not the data of the run in its folder, which has the shape {shape}",
            remedy=("read the run with ", Load(path.parent)),
        )
    ones, known = (None if p is None else np.ascontiguousarray(p, np.uint64) for p in parts)
    assert ones is not None
    unknown = None if known is None else Packed(~known & every_column(shape), shape)
    names = tuple(None if part is None else tuple(part) for part in rows)
    return BinaryTensor(Packed(ones, shape), unknown, tuple(modes), names)
