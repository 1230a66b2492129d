"""A work order on the GPU: one component after another, all rows at once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import count_ones
from thali.engines.gpu.device_memory import NULL, RowBlock, i64, u32, u64

if TYPE_CHECKING:
    from thali.bits import Factor
    from thali.engines.base import RowUpdate
    from thali.engines.gpu.device_memory import DeviceMemory, Lines

VECTOR, PART_PLANES, SLOT_PLANES, SHORT_PLANES, SUM_PLANES, COUNT_WARPS = 4, 8, 10, 13, 20, 4
EIGHT, HEAD, RECORD = 8, 12, 128
"""The same constants as in ``kernels/``; a test compares them."""

_MOST_A_PART = ((1 << PART_PLANES) - 1) // EIGHT
_START = 3
"""The start and the end of a block take as long as this number of records per warp."""

_TRIED = 16
"""How many numbers of slots are compared to find the fastest."""

_MOST_PAIRS = (RECORD - HEAD) // (2 * EIGHT)
"""Largest number of pairs of other components per column in a record."""

_SMALL = 1 << 20
"""Number of bytes of codes up to which the host counts faster than the device."""

_MOST_SHARED = 72 << 10
"""Bytes of shared memory per block, so that several blocks fit on a processor."""


class VerticalUpdate:
    """Carries out a work order: lists the visits, then counts and draws."""

    def __init__(self, engine: DeviceMemory, job: RowUpdate) -> None:
        self.engine, self.job = engine, job
        self.device, self.xp = engine.device, engine.xp
        self._warps = min(COUNT_WARPS, engine.device.warps)
        self.codes = engine.lines(job.codes)
        if job.codes.has_words and job.codes.words.nbytes <= _SMALL:
            self.sizes = count_ones(job.codes.words)
        else:
            self.sizes = engine.sizes(self.codes)[:, 0]
        # The first record of each component, and the end of the last one.
        self.starts = np.concatenate([[0], np.cumsum(-(-self.sizes // EIGHT))])
        n = len(self.sizes)
        n_visits, n_columns = EIGHT * max(1, int(self.starts[-1])), 32 * self.codes.n_words
        tables = (EIGHT * self.starts, job.weights.of_one_class(), job.prior)
        starts, self.weights, self.prior = self._sent(*tables)
        columns = self.xp.empty(n_visits, u32)
        threads = engine.threads_of(1024)
        self.device.launch(
            "list_columns", (n, 1), threads,
            [self.codes.words, self.codes.stride, i64(self.codes.n_words), starts, columns],
        )  # fmt: skip
        self.n_masks = -(-n // 32)
        self.masks = self.xp.empty((n_columns, self.n_masks), u32)
        threads = engine.threads_of(256)
        self.device.launch(
            "list_components", (-(-n_columns // threads), 1), threads,
            [self.codes.words, self.codes.stride, u32(n), i64(n_columns), u32(self.n_masks),
             self.masks],
        )  # fmt: skip
        self.room = _pairs_of(n, n_visits / n_columns)
        self.records = self.xp.empty((n_visits // EIGHT, HEAD + 2 * EIGHT * self.room), u32)
        self.device.launch(
            "list_visits", (n, max(1, min(64, n_columns // 8192))), threads,
            [columns, starts, self.masks, u32(self.n_masks), u32(n), u32(self.room),
             self.records],
        )  # fmt: skip
        self.gained = self.xp.zeros(2, u64)

    def _sent(self, *tables: Any) -> list[Any]:
        """Copy small tables of integers to the device in one copy, to wait only once."""
        together = self.xp.asarray(np.concatenate([table.ravel() for table in tables]))
        ends = np.cumsum([table.size for table in tables])
        return [together[end - t.size : end] for end, t in zip(ends, tables, strict=True)]

    def draw(self, factor: Factor) -> tuple[Lines, Any]:
        """Return the factor with new entries, and the ones and zeros newly covered."""
        engine, job = self.engine, self.job
        lines = engine.lines(factor)
        if job.rows is None and len(engine.totals.shape) == 2:  # it is transposed already
            ones, known = engine.on_device(1 - job.mode)
            lines = lines._replace(words=self._with_room(lines.words))
            self._draw_rows(ones.words, None if known is None else known.words, lines.words,
                            lines.words.shape[1], factor.n_rows, NULL, NULL, None)  # fmt: skip
            return lines, self.gained
        lines = lines._replace(words=lines.words.copy())
        block = engine.block_of(job)
        singles = None
        if job.singles is not None:
            singles = self.xp.asarray(job.singles).astype(u32, copy=False)
        step = engine.rows_at_once(job.mode, len(block))
        for start in range(0, len(block), step):
            is_whole = step >= len(block)
            part = block if is_whole else RowBlock(block.rows[start : start + step])
            ones, known = engine.transposed(job.mode, part)
            stride = ones.shape[1]
            n, warps = factor.n_components, self.device.warps
            bits = self.xp.empty((n + 2, stride), u32)
            self.device.launch(
                "gather_bits", (n + 2, -(-stride // warps)), self.device.lanes * warps,
                [lines.words, lines.stride, u32(n), part.rows, i64(len(part)), bits, i64(stride)],
            )  # fmt: skip
            own = NULL if singles is None else singles[start : start + step]
            self._draw_rows(ones, known, bits, stride, len(part), part.rows, own, lines)
        return lines, self.gained

    def _with_room(self, lines: Any) -> Any:
        """Copy lines, followed by a line of zeros and a line of ones, which the kernels need."""
        n, stride = lines.shape
        words = self.xp.empty((n + 2, stride), u32)
        words[:n] = lines
        words[n] = 0
        words[n + 1] = 0xFFFFFFFF
        return words[:n]

    def _draw_rows(
        self, ones: Any, known: Any, bits: Any, stride: int, n_rows: int, rows: Any, singles: Any,
        all_rows: Lines | None,
    ) -> None:  # fmt: skip
        """Draw the entries of rows whose data are transposed."""
        job, device = self.job, self.device
        lanes, warps = device.lanes, self._warps
        n_tiles = -(-n_rows // (32 * lanes * VECTOR))
        plans = [_plan(n_tiles, int(n), warps, device.n_processors) for n in np.diff(self.starts)]
        counters = self.xp.empty((max([1, *plans]) * 2 * SLOT_PLANES, stride), u32)
        tile = 4 * lanes * VECTOR  # bytes of a line
        counting = "count_component_of_many"
        own = 4 * 2 * RECORD * warps
        if own + (len(plans) + 2) * tile <= min(_MOST_SHARED, device.shared):
            counting = "count_component" if known is None else "count_component_known"
            own += (len(plans) + 2) * tile
        shared = max(own, warps * 2 * PART_PLANES * tile)  # room for the sums over warps
        whole = (NULL, i64(0)) if all_rows is None else (all_rows.words, all_rows.stride)
        for component, slots in enumerate(plans):
            if job.is_held[component]:
                continue
            size = int(self.sizes[component])
            start, end = self.starts[component : component + 2]
            if size:
                device.launch(
                    counting, (n_tiles * slots, 1), lanes * warps,
                    [ones, NULL if known is None else known, i64(ones.shape[1]), bits,
                     i64(stride), u32(n_tiles), u32(component), u32(len(plans)),
                     self.records[start:end], u32(end - start), u32(self.room), self.masks,
                     u32(self.n_masks), counters],
                    shared,
                )  # fmt: skip
            drawing = "draw_long_component"
            for name, most in (("", SUM_PLANES), ("short_", SHORT_PLANES)):
                drawing = f"draw_{name}component" if size >> most == 0 else drawing
            device.launch(
                drawing, (-(-n_rows // (32 * lanes)), 1), lanes * device.warps,
                [counters, u32(slots), bits, i64(stride), u32(component), i64(n_rows), rows,
                 singles, self.weights, self.prior, u64(job.stream.key), u32(job.stream.sweep),
                 u32(job.site), self.engine.exp, *whole, self.gained],
            )  # fmt: skip


def _pairs_of(n_components: int, n_others: float) -> int:
    """Return the pairs of other components per column in a record, given their mean number."""
    likely = float(n_others) + 3 * math.sqrt(n_others)
    return max(1, min(_MOST_PAIRS, n_components // 2, math.ceil(likely / 2)))


@lru_cache(maxsize=4096)
def _plan(n_tiles: int, n_records: int, warps: int, n_processors: int) -> int:
    """Return the number of slots that keeps all processors busy with blocks that are long enough.

    A slot is a share of a component's records; each has counters of its own.
    """
    if n_records == 0:
        return 0
    least = -(-n_records // (_MOST_A_PART * warps))

    def cost(slots: int) -> float:
        rounds = -(-n_tiles * slots // n_processors)
        return rounds * (-(-n_records // (warps * slots)) + _START) + 0.1 * slots

    return min(range(least, least + _TRIED), key=cost)
