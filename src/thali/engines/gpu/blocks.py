"""Blocks of random rows on the GPU, and the order of the components in each of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor
from thali.engines.base import Block
from thali.engines.gpu.device import fetch_later
from thali.engines.gpu.device_memory import DeviceMemory, RowBlock, i64, u32, u64
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from thali.bits import Index
    from thali.engines.gpu.device_memory import Lines

_SMALL = 1 << 20
"""Number of bytes up to which reordered lines are also kept on the host."""


class BlocksOfRows(DeviceMemory):
    """The part of the GPU engine that divides rows into blocks."""

    _asked: tuple[Stream, int] | None = None  # what the next sweep will ask for
    _made: tuple[tuple[Stream, int], list[RowBlock]] | None = None  # the answer

    def partition(self, stream: Stream, n_blocks: int) -> list[RowBlock]:
        """Divide the rows of the first mode at random; the rows of each block are increasing."""
        made, self._made = self._made, None
        self._asked = Stream(stream.key, stream.sweep + np.uint64(1)), n_blocks
        if made is not None and made[0] == (stream, n_blocks):
            return made[1]
        return self._divide(stream, n_blocks)

    def divide_ahead(self, users: Lines) -> None:
        """Divide the rows for the next sweep, and start on its first block.

        The device does this while the host ends one sweep and prepares the next.
        """
        if self._asked is not None and self._made is None:
            blocks = self._divide(*self._asked)
            self._made = self._asked, blocks
            self.begin(blocks[0], users)

    def _divide(self, stream: Stream, n_blocks: int) -> list[RowBlock]:
        n_rows = self.totals.shape[0]
        keys = self.xp.empty(n_rows, u64)
        self.device.launch(
            "draw_keys", (self.blocks_of(n_rows, 256), 1), self.threads_of(256),
            [u64(stream.key), u32(stream.sweep), u32(Site.BLOCKS), u32(0), i64(n_rows), keys],
        )  # fmt: skip
        order = self.xp.argsort(keys, kind="stable")
        sizes = np.full(n_blocks, n_rows // n_blocks) + (np.arange(n_blocks) < n_rows % n_blocks)
        first = self.kept(  # of the rows of every block if blocks were one after another
            f"{n_blocks} blocks", self.totals,
            lambda: self.xp.asarray(np.repeat(n_rows * np.arange(n_blocks), sizes)),
        )  # fmt: skip
        rows = self.xp.sort(first + order) - first  # one sort for all blocks
        parts = self.xp.split(rows, np.cumsum(sizes)[:-1].tolist())
        blocks = [RowBlock(part) for part in parts]
        for block, following in pairwise(blocks):
            block.following = following
        return blocks

    def begin(self, block: RowBlock, lines: Lines) -> None:
        """Start on a block whose components have these users: count them, and turn the rows.

        The device does this while the host waits for the end of the block before, and then while
        it prepares the block itself.
        """
        inside = self.xp.zeros(lines.n_words, u32)
        self.device.launch(
            "mark_rows", (self.blocks_of(len(block), 256), 1), self.threads_of(256),
            [block.rows, i64(len(block)), inside],
        )  # fmt: skip
        block.counted = lines.words, fetch_later(self.device, self.sizes_of(lines, inside))
        if self.rows_at_once(0, len(block)) >= len(block):
            self.transposed(0, block)

    def rows_of(self, block: RowBlock) -> Index:
        """Return the numbers of the rows of a block, in increasing order, on the host."""
        rows: Index = self.device.to_host(block.rows).astype(np.int64)
        return rows

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: RowBlock, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them with respect to a block of rows."""
        users = factors[0]
        lines = self.lines(users)
        if rows.counted is None or rows.counted[0] is not lines.words:
            self.begin(rows, lines)
        sizes, within = rows.counted[1]().view(np.int64).T
        singles = None  # most blocks have none
        is_single = (sizes == 1) & (within == 1)
        bits = stream.bits(Site.ORDER, users.n_components, row=number)
        order = np.argsort(bits, kind="stable")
        if is_integrated and is_single.any():
            own = np.flatnonzero(is_single)
            singles = self.xp.zeros(len(rows), u32)
            self.device.launch(
                "find_singles", (len(own), 1), self.threads_of(256),
                [lines.words, lines.stride, i64(lines.n_words), self.xp.asarray(own), rows.rows,
                 i64(len(rows)), singles],
            )  # fmt: skip
            order = order[~is_single[order]]
        is_held = sizes == within
        return Block(
            order, self.reorder(factors, order), sizes[order], is_held[order], is_single[order],
            singles,
        )  # fmt: skip

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""
        index = self.xp.asarray(order)

        def reordered(factor: Factor) -> Factor:
            lines = self.lines(factor)
            is_small = factor.has_words and factor.words.nbytes <= _SMALL
            words = factor.words[order] if is_small else None
            moved = self.xp.take(lines.words, index, axis=0)
            return Factor(words, factor.n_rows, lines._replace(words=moved))

        return tuple(reordered(factor) for factor in factors)
