"""What the processes have drawn for their rows, put together in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from thali.bits import Factor
from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from thali.bits import Index, Words
    from thali.engines.base import RowUpdate
    from thali.engines.cluster.parts import Ranges
    from thali.engines.cluster.ranks import Ranks


def put_together(
    ranks: Ranks, ranges: Ranges, job: RowUpdate, here: Factor, numbers: tuple[int, ...]
) -> tuple[Factor, tuple[int, ...]]:
    """Return a factor whose rows come from the processes that hold them, and sums of numbers.

    Every message begins with the numbers and with a digest of what the work order depends on: if
    processes have gone different ways, as different processors may round differently, a chain must
    not go on. Words of rows come one after another, each for all components, so that all messages
    together are the whole factor, but for their heads.
    """
    n, width = here.n_components, max(1, here.n_components)
    head = np.array([_digest(job), *numbers], np.int64).view(np.uint64)
    n_lines = -(-len(head) // width)  # that the head takes
    lines = np.zeros((n_lines + ranges.lengths[ranks.number], width), np.uint64)
    lines[:n_lines].reshape(-1)[: len(head)] = head
    lines[n_lines:, :n] = here.words[:, ranges.words(ranks.number)].T
    counts = [n_lines + length for length in ranges.lengths]
    together = ranks.gather(lines, [width * count for count in counts]).reshape(-1, width)
    begins = np.cumsum([0, *counts[:-1]])
    at = begins[:, None] + np.arange(n_lines)
    heads = together[at].reshape(ranks.n, -1)[:, : len(head)].view(np.int64)
    if (heads[:, 0] != heads[0, 0]).any():
        odd = ", ".join(map(str, np.flatnonzero(heads[:, 0] != heads[0, 0]).tolist()))
        msg = (
            f"processes {odd} have come to another state than process 0, as different processors "
            "or libraries can make them; run on machines of one kind."
        )
        raise EngineUnavailable(msg)
    is_line = np.ones(len(together), np.bool_)
    is_line[at] = False
    words = np.ascontiguousarray(together[is_line].T[:n])
    return Factor(words, here.n_rows), tuple(heads[:, 1:].sum(axis=0).tolist())


def only_bits(lines: Words) -> Index:
    """Return the place of the only bit of every line."""
    at = (lines != 0).argmax(axis=1) if len(lines) else np.zeros(0, np.int64)
    words = lines[np.arange(len(lines)), at]
    places: Index = at * 64 + np.bitwise_count(words - np.uint64(1)).astype(np.int64)
    return places


def _digest(job: RowUpdate) -> int:
    """Return a number for what all processes must have alike before a work order."""
    value = crc32(job.odds.tobytes(), job.mode)
    value = crc32(job.weights.table.tobytes(), value)
    value = crc32(np.array(job.stream, np.uint64).tobytes(), value)
    return crc32(np.array(job.codes.words.shape, np.int64).tobytes(), value)
