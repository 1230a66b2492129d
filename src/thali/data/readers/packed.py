"""Packed data in a file of which any rows can be read by themselves (``.packed``).

The file begins with a line of JSON, which says its size, shape, counts and names. The packed rows
follow, first the ones and then, if some entries are unknown, which entries are known. Both begin
at a multiple of 4096 bytes, so that they can be mapped into memory.
"""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binary import BinaryTensor
from thali.data.entries import Packed
from thali.data.layout import row_words
from thali.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray

    from thali.data.readers.options import Options

ENDING = ".packed"

_FORMAT = "thali packed 1"
_PAGE = 4096
_LONGEST_HEADER = 1 << 30
_BLOCK = 1 << 20  # words that are written at a time


def write_packed(
    file: BinaryIO,
    tensor: BinaryTensor,
    ones: NDArray[np.uint64],
    known: NDArray[np.uint64] | None,
) -> None:
    """Write packed data with the names of a tensor."""
    header = {
        "format": _FORMAT,
        "shape": list(tensor.shape),
        "n_known": tensor.n_known,
        "n_ones": tensor.n_ones,
        "has_unknown": known is not None,
        "names": [tensor.mode_names, tensor.row_names],
    }
    file.write(json.dumps(header).encode() + b"\n")
    for words in (ones, known):
        if words is None:
            continue
        file.write(b"\0" * (-file.tell() % _PAGE))
        file.writelines(np.ascontiguousarray(rows, "<u8").data for rows in _blocks(words))


def read_packed(path: Path, options: Options) -> BinaryTensor:
    """Map packed data into memory; nothing but the header is read now."""
    if options.binarize is not None:
        msg = "its entries are zeros and ones already; leave the threshold out"
        raise ValueError(msg)
    with path.open("rb") as file:
        line = file.readline(_LONGEST_HEADER)
    try:
        header = json.loads(line)
        if header["format"] != _FORMAT:
            raise ValueError  # noqa: TRY301 - all damage is told alike
        shape = tuple(int(n) for n in header["shape"])
        n_known, n_ones = int(header["n_known"]), int(header["n_ones"])
        modes, rows = header["names"]
        has_unknown = bool(header["has_unknown"])
        names = tuple(None if part is None else tuple(map(str, part)) for part in rows)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _damaged("its first line is not that of packed data") from None
    n_words = shape[0] * row_words(shape, 0) if len(shape) > 1 and min(shape) > 0 else 0
    first = -(-len(line) // _PAGE) * _PAGE
    second = first + -(-8 * n_words // _PAGE) * _PAGE
    size = (second if has_unknown else first) + 8 * n_words
    if not n_words or path.stat().st_size != size:
        raise _damaged(f"{size} bytes were expected")
    unknown = None
    if has_unknown:
        n_unknown = prod(shape) - n_known
        unknown = Packed(_mapped(path, second, shape), shape, n_unknown, is_inverted=True)
    ones = Packed(_mapped(path, first, shape), shape, n_ones)
    return BinaryTensor(ones, unknown, tuple(map(str, modes)), names)


def _mapped(path: Path, offset: int, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Return the words of a file; what is changed in memory stays out of the file."""
    size = shape[0], row_words(shape, 0)
    words: NDArray[np.uint64] = np.asarray(np.memmap(path, "<u8", "c", offset, size))
    return words


def _blocks(words: NDArray[np.uint64]) -> Iterable[Any]:
    step = max(1, _BLOCK // words.shape[1])
    return (words[start : start + step] for start in range(0, len(words), step))


def _damaged(reason: str) -> InvalidValue:
    return InvalidValue(
        f"the file is not packed data of thali, or was cut off ({reason})",
        remedy="write it again with `thali convert`",
    )
