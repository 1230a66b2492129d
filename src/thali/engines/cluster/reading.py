"""How every process gets its own rows: from the file, or else from the first process."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.tensor import PackedTensor, Unfolding, Unfoldings, pack_entries
from thali.bits.words import count_ones
from thali.data.binary import BinaryTensor
from thali.data.entries import Packed, Shared, every_column
from thali.data.layout import row_words
from thali.data.readers.files import has_rows, read, read_rows
from thali.data.readers.options import unreadable
from thali.engines.cluster.parts import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from thali.bits import Words
    from thali.data.entries import Entries
    from thali.data.row_part import RowPart
    from thali.engines.cluster.ranks import Ranks

    _Pair = tuple[Entries, Entries | None]

_SAMPLED = 256
"""Number of places of a file at which processes compare it, or of files in a folder."""

_PIECE = 1 << 21
"""Bytes of packed rows that the first process sends to another at a time."""

_PAGE = 4096
"""Number of bytes that are compared at each of these places."""


def read_shared(path: Path, ranks: Ranks, **given: Any) -> BinaryTensor:
    """Read a file in all processes; an error of one of them is raised in all.

    The tensor has the rows of this process alone. The first process reads all rows, and sends
    them, if they cannot be read in parts. The names of the rows are those of all, in the first
    process; the others need none.
    """

    def whole() -> BinaryTensor:
        return read(path, **given)

    if not ranks.of_first(has_rows(path, **given)):  # others may see no such folder
        return _from_first(ranks, whole)

    def own(n_rows: int) -> tuple[int, int]:
        return Ranges(n_rows, ranks.n).rows(ranks.number)

    def act() -> tuple[BinaryTensor, None, str] | tuple[RowPart, Unfolding, str]:
        found = read_rows(path, own, **given)
        if isinstance(found, BinaryTensor):
            return found, None, ""
        packed = pack_entries(found.ones, found.unknown, given.get("threads"))
        return found, packed, fingerprint(path)

    found, here, digest = ranks.all_do(act)
    ranks.require_same("data", (digest, found.shape, found.mode_names))
    if here is None:  # packed rows in a file, or all rows, which every process has read
        return found  # type: ignore[no-any-return]
    try:
        return _together(ranks, found, here, digest, whole)
    except ValueError as error:  # about all rows, in all processes
        raise unreadable(str(path), error) from error


def _together(
    ranks: Ranks, part: RowPart, here: Unfolding, digest: str, whole: Callable[[], BinaryTensor]
) -> BinaryTensor:
    """Return the tensor of which this process has read some rows."""
    shape = part.shape
    n_hidden = 0
    if here.known is not None:
        n_hidden = len(here.ones) * prod(shape[1:]) - int(count_ones(here.known).sum())
    n_ones, n_unknown = ranks.add(
        np.array([count_ones(here.ones).sum(), n_hidden], np.int64)
    ).tolist()
    if n_unknown and here.known is None:
        here = here._replace(known=np.tile(every_column(shape), (len(here.ones), 1)))
    of_all = ranks.to_first(part.row_names[0])
    first = None
    if of_all is not None and of_all[0] is not None:
        first = tuple(chain.from_iterable(of_all))

    def entries() -> _Pair:
        tensor = whole()
        return tensor.ones, tensor.unknown

    both = _shared(here, part.lo, shape, (n_ones, n_unknown), entries, digest)
    return BinaryTensor(*both, part.mode_names, (first, *part.row_names[1:]))


def _shared(
    here: Unfolding,
    lo: int,
    shape: tuple[int, ...],
    counts: tuple[int, int],
    whole: Callable[[], _Pair],
    digest: str,
) -> tuple[Shared, Shared | None]:
    """Return the rows of this process, given the ones and the unknown entries in all rows."""
    shared = partial(Shared, lo=lo, shape=shape, whole=whole, identity=digest)
    ones = shared(here.ones, n_ones=counts[0], is_inverted=False)
    if here.known is None:
        return ones, None
    return ones, shared(here.known, n_ones=counts[1], is_inverted=True)


def _from_first(ranks: Ranks, whole: Callable[[], BinaryTensor]) -> BinaryTensor:
    """Let the first process read all rows, and send every other its own."""
    tensor = ranks.all_do(whole if ranks.number == 0 else lambda: None)
    packed = None if tensor is None else PackedTensor.from_tensor(tensor)
    both = hand_out(ranks, packed, lambda: PackedTensor.from_tensor(whole())).shared
    assert both is not None
    names = tensor and (tensor.mode_names, (None, *tensor.row_names[1:]))
    mode_names, row_names = ranks.of_first(names)
    return BinaryTensor(*both, mode_names, row_names if tensor is None else tensor.row_names)


def hand_out(
    ranks: Ranks, tensor: PackedTensor | None, whole: Callable[[], PackedTensor]
) -> PackedTensor:
    """Send every process its own rows from the first, which alone has the tensor.

    The rows go in pieces, so that little is in memory at a time. ``whole`` reads the tensor in
    other processes, if they need all rows.
    """
    about = tensor and (tensor.shape, tensor.n_known, tensor.n_ones, tensor.has_mask)
    shape, n_known, n_ones, has_mask = ranks.of_first(about)
    ranges, width = Ranges(shape[0], ranks.n), row_words(shape, 0)
    lo, hi = ranges.rows(ranks.number)
    here = np.empty((1 + has_mask, hi - lo, width), np.uint64)
    step = max(1, _PIECE // (8 * width))

    def rows_of(number: int, piece: int) -> tuple[int, int]:
        first, end = ranges.rows(number)
        return min(first + piece * step, end), min(first + (piece + 1) * step, end)

    def make(piece: int, to: int) -> Words:
        if tensor is None:
            return np.zeros(0, np.uint64)
        return np.stack([part for part in tensor.rows(*rows_of(to, piece)) if part is not None])

    def size(piece: int, source: int) -> int:
        first, end = rows_of(ranks.number, piece) if source == 0 else (0, 0)
        return int(here.shape[0] * (end - first) * width)

    def take(piece: int, source: int, found: Words) -> None:
        if source == 0:
            first, end = rows_of(ranks.number, piece)
            here[:, first - lo : end - lo] = found.reshape(1 + has_mask, end - first, width)

    for piece in range(-(-int(max(np.diff(ranges.edges))) // step)):
        ranks.exchange(partial(make, piece), partial(take, piece), partial(size, piece))

    def entries() -> _Pair:
        ones, known = (whole() if tensor is None else tensor).unfoldings[0]
        unknown = None if known is None else Packed(known, shape, is_inverted=True)
        return Packed(ones, shape), unknown

    own = Unfolding(here[0], here[1] if has_mask else None)
    both = _shared(own, lo, shape, (n_ones, prod(shape) - n_known), entries, "of process 0")
    return PackedTensor(shape, Unfoldings(shape, None, shared=both), n_known, n_ones)


def fingerprint(path: Path) -> str:
    """Return a digest of a file or folder, by which processes find out whether all see the same.

    A large file is compared at some places only: to read the whole of it in every process is what
    must be avoided.
    """
    total = sha256()
    for file, n_places in _files(path):
        size = file.stat().st_size
        total.update(f"{file.relative_to(path)} {size}\n".encode())
        with file.open("rb") as content:
            for place in range(n_places):
                content.seek(place * max(0, size - _PAGE) // max(1, n_places - 1))
                total.update(content.read(_PAGE))
    return total.hexdigest()


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    """Yield files, and at how many places each is compared."""
    if path.is_file():
        yield path, _SAMPLED
        return
    files = sorted(file for file in path.rglob("*") if file.is_file())
    step = -(-len(files) // _SAMPLED)
    for number, file in enumerate(files):
        yield file, int(number % step == 0)
