"""One work order on the GPU: component after component, all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from thali.bits import Factor
    from thali.engines.base import RowUpdate
    from thali.engines.gpu import GpuEngine, Lines

VECTOR, PART_PLANES, SLOT_PLANES, COUNT_WARPS = 4, 10, 12, 4
"""As in rows.cu."""

_MOST_A_PART = (1 << PART_PLANES) - 1
_LEAST_A_PART = 48
"""Visits below which a warp spends more on handing its counts over than on counting."""

_MOST_SLOTS = 4
"""Slots that are summed as they are; if there were more, warps add theirs up first."""

_BLOCKS = 3
"""Counting blocks that a processor does side by side."""

_MOST_ROWS = 1 << 22
_MOST_SHARED = 48 << 10
"""Bytes of shared memory that any device gives to a block."""

NULL = np.uint64(0)
u32, i64, u64 = np.uint32, np.int64, np.uint64


class VerticalUpdate:
    """What the kernels need to carry out a work order."""

    def __init__(self, engine: GpuEngine, job: RowUpdate) -> None:
        self.engine, self.job = engine, job
        self.device, self.xp = engine.device, engine.xp
        self._warps = min(COUNT_WARPS, engine.device.warps)
        self.codes = engine.lines(job.codes, 64 * job.codes.shape[1])
        self.sizes = engine.sizes(self.codes)[:, 0]
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        n = len(self.sizes)
        self.columns = self.xp.empty(max(1, int(self.starts[-1])), u32)
        threads = engine.threads_of(1024)
        self.device.launch(
            "list_columns", (n, 1), threads,
            [self.codes.words, self.codes.stride, i64(self.codes.n_words),
             self.xp.asarray(self.starts), self.columns],
        )  # fmt: skip
        self.n_masks = -(-n // 32)
        n_columns = 32 * self.codes.n_words
        self.masks = self.xp.empty((n_columns, self.n_masks), u32)
        threads = engine.threads_of(256)
        self.device.launch(
            "list_components", (-(-n_columns // threads), 1), threads,
            [self.codes.words, self.codes.stride, u32(n), i64(n_columns), u32(self.n_masks),
             self.masks],
        )  # fmt: skip
        self.visits = self.xp.empty((len(self.columns), 4), u32)
        self.device.launch(
            "list_visits", (n, max(1, min(64, n_columns // 2048))), threads,
            [self.columns, self.xp.asarray(self.starts), self.masks, u32(self.n_masks), u32(n),
             self.visits],
        )  # fmt: skip
        self.weights = self.xp.asarray(np.ascontiguousarray(job.weights))
        self.prior = self.xp.asarray(np.ascontiguousarray(job.prior))
        self.gained = self.xp.zeros(2, u64)

    def draw(self, factor: Factor) -> tuple[Lines, Any]:
        """Return the factor with new entries, and the ones and zeros newly covered."""
        engine, job = self.engine, self.job
        lines = engine.lines(factor.words, factor.n_rows)
        words = self.xp.zeros((factor.n_components + 1, lines.words.shape[1]), u32)
        words[:-1] = lines.words  # and a line of zeros
        lines = lines._replace(words=words[:-1])
        if job.rows is None and len(engine.tensor.shape) == 2:  # the other unfolding has the lines
            ones, known = engine.unfolding(1 - job.mode)
            self._draw_rows(ones.words, None if known is None else known.words, lines.words,
                            lines.words.shape[1], factor.n_rows, NULL, NULL, None)  # fmt: skip
            return lines, self.gained
        rows = self.xp.arange(factor.n_rows, dtype=i64) if job.rows is None else job.rows
        rows = self.xp.asarray(rows)
        singles = None if job.singles is None else self.xp.asarray(job.singles).astype(u32)
        step = self._rows_at_once(len(rows))
        n_columns = 32 * self.codes.n_words
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            n = len(part)
            stride = self._padded(n)
            turned = []
            for source in engine.unfolding(job.mode):
                turned.append(None)
                if source is not None:
                    turned[-1] = self.xp.empty((n_columns, stride), u32)
                    engine.transpose(source, part, 0, n, turned[-1])
            bits = self.xp.zeros((factor.n_components + 1, stride), u32)
            warps = self.device.warps
            self.device.launch(
                "gather_bits", (factor.n_components, -(-n // (32 * warps))),
                self.device.lanes * warps,
                [lines.words, lines.stride, part, i64(n), bits, i64(stride)],
            )  # fmt: skip
            own = NULL if singles is None else singles[start : start + step]
            self._draw_rows(*turned, bits, stride, n, part, own, lines)
        return lines, self.gained

    def _rows_at_once(self, n_rows: int) -> int:
        """Return how many rows are turned at a time: an eighth of the data's memory."""
        line = 4 * self.codes.n_words
        room = sum(part.words.nbytes for u in self.engine.unfoldings() for part in u if part)
        most = max(room // 8, 1 << 26) // line
        step = min(n_rows, _MOST_ROWS, max(1, most))
        return max(32, -(-step // 32) * 32)

    def _padded(self, n_rows: int) -> int:
        n = -(-n_rows // 32)
        step = 32 if n > 256 else 4
        return -(-n // step) * step

    def _draw_rows(
        self, ones: Any, known: Any, bits: Any, stride: int, n_rows: int, rows: Any, singles: Any,
        all_rows: Lines | None,
    ) -> None:  # fmt: skip
        """Draw the entries of rows whose data are lines of words across them."""
        job, device = self.job, self.device
        lanes, warps = device.lanes, self._warps
        n_tiles = -(-(-(-n_rows // 32)) // (lanes * VECTOR))
        plans = [self._plan(n_tiles, int(size)) for size in self.sizes]
        most = max((slots * kept for slots, _, _, kept in plans), default=0)
        counters = self.xp.empty((max(1, 2 * most), stride), u32)
        tile = 4 * lanes * VECTOR  # bytes of a line
        shared = warps // 2 * 2 * SLOT_PLANES * tile  # half of the warps hand their counts over
        counting = "count_component_of_many"
        if (len(plans) + 1) * tile <= _MOST_SHARED:
            counting, shared = "count_component", max(shared, (len(plans) + 1) * tile)
        whole = (NULL, i64(0)) if all_rows is None else (all_rows.words, all_rows.stride)
        for component, (slots, height, is_joined, kept) in enumerate(plans):
            if job.is_held[component]:
                continue
            size = int(self.sizes[component])
            start = int(self.starts[component])
            if size:
                device.launch(
                    counting, (n_tiles, height), lanes * warps,
                    [ones, NULL if known is None else known, i64(ones.shape[1]), bits,
                     i64(stride), u32(component), u32(len(plans)),
                     self.visits[start : start + size], i64(size), self.masks, u32(self.n_masks),
                     u32(is_joined), u32(kept), counters],
                    shared,
                )  # fmt: skip
            device.launch(
                "draw_component", (-(-n_rows // (32 * lanes)), 1), lanes * device.warps,
                [counters, u32(slots), u32(kept), u32(size.bit_length()), bits, i64(stride),
                 u32(component), i64(n_rows), rows, singles, self.weights, self.prior,
                 u64(job.stream.key), u32(job.stream.sweep), u32(job.site), self.engine.exp,
                 *whole, self.gained],
            )  # fmt: skip

    def _plan(self, n_tiles: int, n_visits: int) -> tuple[int, int, bool, int]:
        """Return slots, grid height, whether warps add up first, and planes kept of a count."""
        if n_visits == 0:
            return 0, 0, False, 0
        warps = self._warps
        least = -(-n_visits // (_MOST_A_PART * warps))
        most = max(least, n_visits // (_LEAST_A_PART * warps))
        wave = _BLOCKS * self.device.n_processors

        def waste(height: int) -> float:
            blocks = n_tiles * height
            return -(-blocks // wave) * wave / blocks + 0.01 * height / max(1, most)

        first = max(least, min(most, -(-wave // n_tiles)))
        height = min(range(first, min(most, 4 * first) + 1), key=waste)
        is_joined = height * warps > _MOST_SLOTS
        slots = height if is_joined else height * warps
        kept = (-(-n_visits // slots)).bit_length()
        return slots, height, is_joined, min(kept, SLOT_PLANES)
