"""A work order on the GPU: one component after another, many rows at once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits.words import count_ones
from thali.engines.gpu.classes import by_class, classes_of, columns_of, one_class
from thali.engines.gpu.counting import (
    FEW,
    SHORT_PLANES,
    SLOT_PLANES,
    SUM_PLANES,
    OneLaunch,
    Rows,
    Slots,
    count,
    plan_slots,
    planes_of,
    staged_bytes,
    tiles_of,
    warps_of,
)
from thali.engines.gpu.device_memory import NULL, RowBlock, i64, u32, u64
from thali.engines.gpu.visits import EIGHT, Visits, components_of, first_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from thali.bits import Factor
    from thali.engines.base import RowUpdate
    from thali.engines.gpu.classes import Classes
    from thali.engines.gpu.device_memory import DeviceMemory, Lines

_SMALL = 1 << 20
"""Number of bytes of codes up to which the host counts faster than the device."""


class Place(NamedTuple):
    """Where rows are that are drawn together."""

    numbers: Any  # of the rows, on the device; NULL if they are all rows
    singles: Any  # number of integrated single-row components per row, or NULL
    all_rows: Lines | None  # lines of all rows, in which changed bits are flipped, too


class VerticalUpdate:
    """Carries out a work order: lists the visits, then counts and draws."""

    def __init__(self, engine: DeviceMemory, job: RowUpdate) -> None:
        self.engine, self.job = engine, job
        self.device, self.xp = engine.device, engine.xp
        self.gained = self.xp.zeros(2, u64)
        self.codes = engine.lines(job.codes)
        self.weights = job.weights.of_mode(job.mode)
        self.classes = columns_of(engine, job.mode, self.weights.columns)
        self.n_others = 0.0  # mean number of components per column
        self.order: Classes | None = None  # in which columns are visited
        if self.codes.n_lines == 0:
            return
        masks = components_of(engine, self.codes)
        classes = self.classes or one_class(engine, job.mode, self.codes.n_bits)
        # The columns of the first mode have been sorted when the codes were drawn.
        self.order = classes.rearranged(engine, masks, job.stream if job.mode else None)
        in_order = self.order.codes_in_order(engine, self.codes, masks)
        if self.classes is not None:
            _ = self.prior  # drawn while the device turns rows: it must be waited for here
            self.sizes = self.order.sizes(engine, in_order)
            table = self.weights.table  # the same in all blocks of a sweep
            self.table = engine.kept("weights", table, lambda: self.xp.asarray(by_class(table)))
        elif job.codes.has_words and job.codes.words.nbytes <= _SMALL:
            self.sizes = count_ones(job.codes.words)[:, None]
        else:
            self.sizes = engine.sizes(self.codes)[:, :1]
        self.starts = first_records(self.sizes)
        if self.classes is not None:
            (starts,) = engine.sent(EIGHT * self.starts)
        else:
            starts, self.table = engine.sent(EIGHT * self.starts, self.weights.of_one_class())
        self.first_visits = starts
        n_visits = EIGHT * int(self.starts[-1])
        self.n_others = n_visits / (32 * self.codes.n_words)
        self.visits = Visits(
            engine, in_order, masks, self.codes.n_lines, starts, n_visits, self.n_others,
            self.order,
        )  # fmt: skip

    @cached_property
    def prior(self) -> Any:
        """The prior log odds on the device, asked for once lists of visits are being made."""
        return self._odds_and_held[0]

    @cached_property
    def _odds_and_held(self) -> list[Any]:
        return self.engine.sent(self.job.odds, self.job.is_held.astype(i64))

    def draw(
        self,
        factor: Factor,
        then: Callable[[Rows, Any, int], None] | None = None,
        bits_per_row: int = 0,
    ) -> tuple[Lines, Any]:
        """Return the factor with new entries, and the ones and zeros newly covered.

        ``then`` is called with every part of the rows that was drawn, their numbers, and the
        place of the first of them in the work order; it takes so many bits of memory per row.
        """
        engine, job = self.engine, self.job
        lines = engine.lines(factor)
        n = factor.n_components
        is_matrix = len(engine.totals.shape) == 2
        if job.rows is None and then is None and is_matrix:  # it is transposed already
            ones, known = engine.on_device(1 - job.mode)
            words = engine.with_room(lines.words)
            data = ones.words, None if known is None else known.words
            self._draw_all(Rows(*data, words, factor.n_rows), self._singles())
            return lines._replace(words=words[:n]), self.gained
        lines = lines._replace(words=lines.words.copy())
        block = engine.block_of(job)
        singles = self._singles()
        step = engine.rows_at_once(job.mode, len(block))
        if self.classes is not None:
            bits_per_row = max(bits_per_row, self._bits_per_row())
            step = min(step, engine.rows_to_count(bits_per_row, len(block)))
        for start in range(0, len(block), step):
            is_whole = step >= len(block)
            part = block if is_whole else RowBlock(block.rows[start : start + step])
            ones, known = engine.transposed(job.mode, part)
            stride = ones.shape[1]
            warps = self.device.warps
            bits = self.xp.empty((n + 2, stride), u32)
            self.device.launch(
                "gather_bits", (n + 2, -(-stride // warps)), self.device.lanes * warps,
                [lines.words, lines.stride, u32(n), part.rows, i64(len(part)), bits, i64(stride)],
            )  # fmt: skip
            rows = Rows(ones, known, bits, len(part))
            self._draw_rows(rows, Place(part.rows, _some(singles, start, start + step), lines))
            if then is not None:
                then(rows, part.rows, start)
        return lines, self.gained

    def _singles(self) -> Any:
        """Return the numbers of integrated single-row components on the device, or None."""
        singles = self.job.singles
        return None if singles is None else self.xp.asarray(singles).astype(u32, copy=False)

    def _draw_all(self, rows: Rows, singles: Any) -> None:
        """Draw the entries of all rows; with classes, as many at a time as there is room for."""
        if self.classes is None:
            self._draw_rows(rows, Place(NULL, _some(singles), None))
            return
        step = self.engine.rows_to_count(self._bits_per_row(), rows.n)
        for start in range(0, rows.n, step):
            stop = min(start + step, rows.n)
            words = slice(start // 32, None if stop == rows.n else stop // 32)
            known = None if rows.known is None else rows.known[:, words]
            bits = self.xp.ascontiguousarray(rows.bits[:, words])
            numbers = self.xp.arange(start, stop, dtype=i64)
            self._draw_rows(
                Rows(rows.ones[:, words], known, bits, stop - start),
                Place(numbers, _some(singles, start, stop), None),
            )
            rows.bits[:, words] = bits

    def _bits_per_row(self) -> int:
        """Return the memory that counters by class take, in bits per row."""
        n = self.codes.n_lines
        return 2 * SLOT_PLANES * Slots.largest(self.starts, n) if n else 0

    def _draw_rows(self, rows: Rows, place: Place) -> None:
        """Draw the entries of rows whose data are transposed."""
        if rows.n_components == 0:
            return
        if self.classes is None:
            self._draw_plain(rows, place)
        else:
            self._draw_by_class(rows, place)

    def _draw_plain(self, rows: Rows, place: Place) -> None:
        engine = self.engine
        plan = OneLaunch.plan(engine, rows, np.diff(self.starts))
        if plan is not None:
            self._draw_at_once(plan, rows, place)
            return
        tiles, warps, lanes = tiles_of(engine, rows.n), warps_of(engine), self.device.lanes
        plans = [
            plan_slots(tiles, int(n), warps, self.device.n_processors)
            for n in np.diff(self.starts)
        ]
        counters = self.xp.empty((max([1, *plans]) * 2 * SLOT_PLANES, rows.n_words), u32)
        for component, slots in enumerate(plans):
            if self.job.is_held[component]:
                continue
            size = int(self.sizes[component, 0])
            start, end = self.starts[component : component + 2]
            if size:
                count(
                    engine, "count_component", rows, slots, component, self.visits,
                    self.visits.records[start:end], end - start, counters,
                )  # fmt: skip
            drawing = "draw_long_component"
            for name, most in (("", SUM_PLANES), ("short_", SHORT_PLANES)):
                drawing = f"draw_{name}component" if size >> most == 0 else drawing
            self._launch(
                drawing, lanes if size >> SHORT_PLANES == 0 else min(FEW, lanes), 0, rows, place,
                component, [counters, u32(slots)], [place.singles, self.table],
            )  # fmt: skip

    def _draw_at_once(self, plan: OneLaunch, rows: Rows, place: Place) -> None:
        """Draw the entries of all components in one launch."""
        counters = self.xp.empty((plan.slots * 2 * SLOT_PLANES, rows.n_words), u32)
        waits = self.xp.zeros(1 + plan.tiles, u32)
        prior, is_held = self._odds_and_held
        self.device.launch(
            "draw_components" + ("" if rows.known is None else "_known"),
            (plan.tiles * plan.slots, 1), self.device.lanes * plan.warps,
            [rows.ones, NULL if rows.known is None else rows.known,
             i64(rows.ones.strides[0] // 4), rows.bits, i64(rows.n_words), u32(plan.slots),
             u32(rows.n_components), self.visits.records, self.first_visits, is_held,
             u32(self.visits.room), self.visits.masks, u32(self.visits.n_masks), counters, waits,
             i64(rows.n), place.numbers, place.singles, self.table, prior, *self._ending(place)],
            plan.shared,
        )  # fmt: skip

    def _draw_by_class(self, rows: Rows, place: Place) -> None:
        engine, classes = self.engine, self.classes
        of_rows = classes_of(engine, self.job.mode, self.weights.rows)
        assert classes is not None
        assert of_rows is not None
        slots = Slots.plan(engine, self.starts, rows.n_components, rows.n)
        counters = slots.counters(engine, rows.n_words)
        for component in range(rows.n_components):
            if self.job.is_held[component]:
                continue
            slots.fill(engine, rows, component, component, self.visits, counters)
            name, planes = planes_of(int(self.sizes[component].max()))
            self._launch(
                f"draw_{name}by_class", self.device.lanes, staged_bytes(engine, planes), rows,
                place, component,
                [counters, slots.of_classes[component], u32(classes.n)],
                [place.singles, of_rows.of_lines, u32(of_rows.n), self.table],
            )  # fmt: skip

    def _launch(
        self, name: str, words: int, shared: int, rows: Rows, place: Place, component: int,
        counts: list[Any], tables: list[Any],
    ) -> None:  # fmt: skip
        """Draw the entries of one component, so many words of rows per block."""
        self.device.launch(
            name, (-(-rows.n // (32 * words)), 1), self.device.lanes * self.device.warps,
            [*counts, rows.bits, i64(rows.n_words), u32(component), i64(rows.n), place.numbers,
             *tables, self.prior, *self._ending(place)],
            shared,
        )  # fmt: skip

    def _ending(self, place: Place) -> list[Any]:
        """Return the last arguments of kernels that draw."""
        job, all_rows = self.job, place.all_rows
        whole = (NULL, i64(0)) if all_rows is None else (all_rows.words, all_rows.stride)
        return [
            u64(job.stream.key), u32(job.stream.sweep), u32(job.site), self.engine.exp, *whole,
            self.gained,
        ]  # fmt: skip


def _some(singles: Any, start: int = 0, stop: int | None = None) -> Any:
    return NULL if singles is None else singles[start:stop]
