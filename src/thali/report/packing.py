"""Arrays and names as text for the page: packed, compressed, and written in letters."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def packed(dense: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Pack each line into whole words of four bytes, as the script in the page expects."""
    octets = np.packbits(dense, axis=1, bitorder="little")
    return np.pad(octets, ((0, 0), (0, -octets.shape[1] % 4)))


def deflated(parts: Iterable[NDArray[np.uint8]], most: int) -> bytes | None:
    """Compress arrays one after another; return None once more than `most` bytes result."""
    packer = zlib.compressobj()
    blob = bytearray()
    for part in parts:
        blob += packer.compress(np.ascontiguousarray(part).data)
        if len(blob) > most:
            return None
    blob += packer.flush()
    return None if len(blob) > most else bytes(blob)


def deflated_names(names: Sequence[str]) -> bytes:
    """Compress names."""
    return zlib.compress(json.dumps(names, ensure_ascii=False).encode("utf-8", "replace"))


def text(blob: bytes) -> str:
    """Write bytes in letters."""
    return b64encode(blob).decode("ascii")
