"""Every process reads its own rows of a file, if the format allows it."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.tensor import Unfolding, pack_entries
from thali.bits.words import count_ones
from thali.data.binary import BinaryTensor
from thali.data.entries import Shared, every_column
from thali.data.readers.files import read, read_rows
from thali.engines.cluster.parts import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from thali.data.entries import Entries
    from thali.data.row_part import RowPart
    from thali.engines.cluster.ranks import Ranks

_SAMPLED = 256
"""Number of places of a file at which processes compare it, or of files in a folder."""

_PAGE = 4096
"""Number of bytes that are compared at each of these places."""


def read_shared(path: Path, ranks: Ranks, **given: Any) -> BinaryTensor:
    """Read a file in all processes; an error of one of them is raised in all.

    The tensor has the rows of this process alone, unless the format cannot be read in parts. The
    names of the rows are those of all, in the first process; the others need none.
    """

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
    if here is None:
        return found  # type: ignore[no-any-return]
    return _together(path, ranks, found, here, digest, given)


def _together(
    path: Path, ranks: Ranks, part: RowPart, here: Unfolding, digest: str, given: dict[str, Any]
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

    def whole() -> tuple[Entries, Entries | None]:
        tensor = read(path, **given)
        return tensor.ones, tensor.unknown

    shared = partial(Shared, lo=part.lo, shape=shape, whole=whole, identity=digest)
    ones = shared(here.ones, n_ones=n_ones, is_inverted=False)
    unknown = None
    if n_unknown:
        assert here.known is not None
        unknown = shared(here.known, n_ones=n_unknown, is_inverted=True)
    return BinaryTensor(ones, unknown, part.mode_names, (first, *part.row_names[1:]))


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
