"""One work order on the GPU: component after component, all rows at once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import count_ones

if TYPE_CHECKING:
    from thali.bits import Factor
    from thali.engines.base import RowUpdate
    from thali.engines.resident import Lines, Resident

WIDTH, PART_PLANES, SLOT_PLANES, SUM_PLANES, COUNT_WARPS, COUNT_BLOCKS = 4, 8, 10, 20, 4, 3
EIGHT, HEAD, RECORD = 8, 12, 128
"""As in rows.cu."""

_MOST_A_PART = ((1 << PART_PLANES) - 1) // EIGHT
_LEAST_A_PART = 6
"""Records below which a warp spends more on handing its counts over than on counting."""

_MOST_PAIRS = (RECORD - HEAD) // (2 * EIGHT)
"""Pairs of other components that a record has room for."""

_SMALL = 1 << 20
"""Bytes of codes that the host counts sooner than a device could be asked."""

_MOST_SHARED = 72 << 10
"""Bytes of shared memory of which so many blocks have room on a processor."""

NULL = np.uint64(0)
u32, i64, u64 = np.uint32, np.int64, np.uint64


class VerticalUpdate:
    """What the kernels need to carry out a work order."""

    def __init__(self, engine: Resident, job: RowUpdate) -> None:
        self.engine, self.job = engine, job
        self.device, self.xp = engine.device, engine.xp
        self._warps = min(COUNT_WARPS, engine.device.warps)
        self.codes = engine.lines(job.codes, 64 * job.codes.shape[1])
        is_small = job.codes.nbytes <= _SMALL
        self.sizes = count_ones(job.codes) if is_small else engine.sizes(self.codes)[:, 0]
        self.starts = np.concatenate([[0], np.cumsum(-(-self.sizes // EIGHT))])  # of records
        n = len(self.sizes)
        n_visits, n_columns = EIGHT * max(1, int(self.starts[-1])), 32 * self.codes.n_words
        starts = self.xp.asarray(EIGHT * self.starts)
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
        self.weights = self.xp.asarray(np.ascontiguousarray(job.weights))
        self.prior = self.xp.asarray(np.ascontiguousarray(job.prior))
        self.gained = self.xp.zeros(2, u64)

    def draw(self, factor: Factor) -> tuple[Lines, Any]:
        """Return the factor with new entries, and the ones and zeros newly covered."""
        engine, job = self.engine, self.job
        lines = engine.lines(factor.words, factor.n_rows)
        n = factor.n_components
        words = self._room(n, lines.words.shape[1])
        words[:n] = lines.words
        lines = lines._replace(words=words[:n])
        if job.rows is None and len(engine.tensor.shape) == 2:  # the other unfolding has the lines
            ones, known = engine.unfolding(1 - job.mode)
            self._draw_rows(ones.words, None if known is None else known.words, lines.words,
                            lines.words.shape[1], factor.n_rows, NULL, NULL, None)  # fmt: skip
            return lines, self.gained
        rows = self.xp.arange(factor.n_rows, dtype=i64) if job.rows is None else job.rows
        rows = self.xp.asarray(rows)
        singles = None if job.singles is None else self.xp.asarray(job.singles).astype(u32)
        step = engine.rows_at_once(job.mode, len(rows))
        for start in range(0, len(rows), step):
            part = rows[start : start + step] if step < len(rows) else rows
            n_part = len(part)
            turned = engine.turned(job.mode, part)
            stride = turned[0].shape[1]
            bits = self._room(factor.n_components, stride)
            warps = self.device.warps
            self.device.launch(
                "gather_bits", (factor.n_components, -(-n_part // (32 * warps))),
                self.device.lanes * warps,
                [lines.words, lines.stride, part, i64(n_part), bits, i64(stride)],
            )  # fmt: skip
            own = NULL if singles is None else singles[start : start + step]
            self._draw_rows(turned[0], turned[1], bits, stride, n_part, part, own, lines)
        return lines, self.gained

    def _room(self, n_components: int, stride: int) -> Any:
        """Return zeros for a factor's bits; and for the kernels a line of zeros, one of ones."""
        words = self.xp.zeros((n_components + 2, stride), u32)
        words[-1] = 0xFFFFFFFF
        return words

    def _draw_rows(
        self, ones: Any, known: Any, bits: Any, stride: int, n_rows: int, rows: Any, singles: Any,
        all_rows: Lines | None,
    ) -> None:  # fmt: skip
        """Draw the entries of rows whose data are lines of words across them."""
        job, device = self.job, self.device
        lanes, warps = device.lanes, self._warps
        n_tiles = -(-n_rows // (32 * lanes * WIDTH))
        wave = COUNT_BLOCKS * device.n_processors
        plans = [_plan(n_tiles, int(n), warps, wave) for n in np.diff(self.starts)]
        most = max((slots * kept for slots, kept in plans), default=0)
        counters = self.xp.empty((max(1, 2 * most), stride), u32)
        tile = 4 * lanes * WIDTH  # bytes of a line
        counting, shared = "count_component_of_many", 0
        own = 4 * 2 * RECORD * warps
        if own + (len(plans) + 2) * tile <= min(_MOST_SHARED, device.shared):
            counting = "count_component" if known is None else "count_component_known"
            own += (len(plans) + 2) * tile
        shared = max(own, warps * 2 * PART_PLANES * tile)  # where warps add up
        whole = (NULL, i64(0)) if all_rows is None else (all_rows.words, all_rows.stride)
        for component, (slots, kept) in enumerate(plans):
            if job.is_held[component]:
                continue
            size = int(self.sizes[component])
            start, end = self.starts[component : component + 2]
            if size:
                device.launch(
                    counting, (n_tiles, slots), lanes * warps,
                    [ones, NULL if known is None else known, i64(ones.shape[1]), bits,
                     i64(stride), u32(component), u32(len(plans)), self.records[start:end],
                     u32(end - start), u32(self.room), self.masks, u32(self.n_masks), u32(kept),
                     counters],
                    shared,
                )  # fmt: skip
            is_long = size.bit_length() > SUM_PLANES
            drawing = "draw_long_component" if is_long else "draw_component"
            device.launch(
                drawing, (-(-n_rows // (32 * lanes)), 1), lanes * device.warps,
                [counters, u32(slots), u32(kept), u32(size.bit_length()), bits, i64(stride),
                 u32(component), i64(n_rows), rows, singles, self.weights, self.prior,
                 u64(job.stream.key), u32(job.stream.sweep), u32(job.site), self.engine.exp,
                 *whole, self.gained],
            )  # fmt: skip


def _pairs_of(n_components: int, n_others: float) -> int:
    """Return the pairs of others a record should have room for, given how many there are."""
    likely = n_others + 3 * n_others**0.5
    return max(1, min(_MOST_PAIRS, n_components // 2, math.ceil(likely / 2)))


@lru_cache(maxsize=4096)
def _plan(n_tiles: int, n_records: int, warps: int, wave: int) -> tuple[int, int]:
    """Return slots, and planes kept of a count: as many blocks as fill the device's waves."""
    if n_records == 0:
        return 0, 0
    least = -(-n_records // (_MOST_A_PART * warps))
    most = max(least, n_records // (_LEAST_A_PART * warps))

    def waste(slots: int) -> float:
        blocks = n_tiles * slots
        return -(-blocks // wave) * wave / blocks + 0.01 * slots / most

    first = max(least, min(most, -(-wave // n_tiles)))
    slots = min(range(first, min(most, 4 * first) + 1), key=waste)
    visits = EIGHT * warps * -(-n_records // (warps * slots))
    return slots, min(visits.bit_length(), SLOT_PLANES)
