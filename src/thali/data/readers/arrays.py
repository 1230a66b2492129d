"""Read arrays from the files that NumPy and SciPy write."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binarize import GIVE_THRESHOLD, binarize, check_threshold
from thali.data.binary import BinaryTensor
from thali.data.build import check_fits_in_memory, pack_rows
from thali.data.classify import check_dtype, check_shape
from thali.data.entries import Packed, n_words, pack
from thali.data.readers.options import damaged
from thali.errors import InvalidValue
from thali.sentences import Load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from thali.data.readers.options import Options

_BLOCK_ENTRIES = 1 << 20  # entries per block, as in convert.py: 8 MB of float64
_MAGIC = b"\x93NUMPY"


def read_npy(path: Path, options: Options) -> BinaryTensor:
    """Read an array from a .npy file; a matrix is read in blocks of rows."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            msg = "the file could not be read (it does not begin as arrays do); use numpy.save"
            raise ValueError(msg)
    with warnings.catch_warnings(action="ignore"):  # a damaged header can look like an old format
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise _explained(error) from None
    return from_array(array, options)


def read_npz(path: Path, options: Options) -> BinaryTensor:
    """Read an .npz archive: a single array, a SciPy sparse matrix, or the data of a run."""
    with path.open("rb") as file:  # np.load would leave a damaged file open
        if file.read(2) != b"PK":
            msg = "the file could not be read (it is no archive); save it with numpy.savez"
            raise ValueError(msg)
        file.seek(0)
        return _from_archive(path, file, options)


def _from_archive(path: Path, file: IO[bytes], options: Options) -> BinaryTensor:
    try:
        archive = np.load(file, allow_pickle=False)
    except ValueError as error:
        raise _explained(error) from None
    with archive as content:
        names = content.files
        if "format" in names:
            return _from_sparse(file, options)
        if set(names) - {"known"} == {"ones", "names"}:
            return _from_run(path, content)
        if len(names) != 1:
            msg = f"it holds {len(names)} arrays, and one was expected; save a single array"
            raise ValueError(msg)
        try:
            array = content[names[0]]
        except ValueError as error:
            raise _explained(error) from None
    if not isinstance(array, np.ndarray):
        msg = f"it holds {names[0]!r}, which is no array; save one with numpy.savez"
        raise ValueError(msg)  # noqa: TRY004 - the file is wrong, not the argument
    return from_array(array, options)


def _explained(error: ValueError) -> ValueError:
    """Reword NumPy's errors on pickles, which advise loading them; thali never does."""
    if "pickle" in str(error) or "Python objects" in str(error):
        return ValueError(
            "it holds Python objects, which are never read; save numbers, with NaN for unknown"
        )
    return ValueError(damaged(error))


def from_array(array: NDArray[Any], options: Options) -> BinaryTensor:
    """Pack a matrix block by block; convert an array with more modes to Booleans."""
    check_shape(array.shape)
    if array.dtype.kind == "O":
        raise _explained(ValueError("pickle"))
    check_dtype(array.dtype, "the array")
    if array.ndim != 2:
        values = array if options.binarize is None else binarize(array, options.binarize)
        return BinaryTensor.from_any(values, threads=options.threads)
    n_rows, n_columns = array.shape
    check_fits_in_memory(8 * n_rows * n_words(n_columns), array.shape)
    ones, unknown = pack_rows(n_columns, _blocks(array), options.binarize, refuse)
    return BinaryTensor(ones, unknown, ("mode_0", "mode_1"), (None, None))


def _blocks(array: NDArray[Any]) -> Iterator[tuple[NDArray[Any], None]]:
    step = max(1, _BLOCK_ENTRIES // array.shape[1])
    for start in range(0, len(array), step):
        yield np.asarray(array[start : start + step]), None


def refuse(value: Any, row: int, column: int, name: str = "") -> ValueError:
    """Return the error for a value of an array that is not 0, 1 or unknown."""
    shown = value.item() if isinstance(value, np.generic) else value
    return InvalidValue(
        f"the tensor holds {shown!r} at ({row}, {column}){name}",
        "allowed are 0, 1 and NaN for unknown",
        GIVE_THRESHOLD,
    )


def _from_sparse(file: IO[bytes], options: Options) -> BinaryTensor:
    from scipy import sparse  # noqa: PLC0415

    check_threshold(options.binarize, is_sparse=True)
    file.seek(0)
    try:
        rows: Any = sparse.load_npz(file)
        rows = rows.tocsr()
        rows.check_format()
    except (ValueError, TypeError) as error:
        raise ValueError(damaged(error)) from None
    values = rows if options.binarize is None else binarize(rows, options.binarize)
    return BinaryTensor.from_any(values, threads=options.threads)


def _from_run(path: Path, content: Any) -> BinaryTensor:
    """Read the packed rows that a run stores; their shape is in the header of the run."""
    header = path.with_name("header.json")
    try:
        shape = tuple(json.loads(header.read_text())["settings"]["shape"])
        modes, rows = json.loads(content["names"].tobytes().decode())
    except (OSError, KeyError, TypeError, ValueError):
        msg = "it is the data of a run without its header.json; use the one in the run's folder"
        raise ValueError(msg) from None
    parts = content["ones"], content["known"] if "known" in content.files else None
    expected = (shape[0], n_words(shape[-1]))
    if len(shape) != 2 or any(p is not None and p.shape != expected for p in parts):
        raise InvalidValue(
            f"it is the data of a run of shape {shape}, which is no matrix",
            remedy=("read the run with ", Load(path.parent)),
        )
    ones, known = (None if p is None else np.ascontiguousarray(p, np.uint64) for p in parts)
    assert ones is not None
    padding = pack(np.ones(shape[1], np.bool_))
    unknown = None if known is None else Packed(~known & padding, shape)
    names = tuple(None if part is None else tuple(part) for part in rows)
    return BinaryTensor(Packed(ones, shape), unknown, tuple(modes), names)
