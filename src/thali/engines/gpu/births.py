"""Births on the GPU: the numbers of single-row components are drawn for all rows at once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import pack
from thali.engines.gpu.classes import by_class, classes_of
from thali.engines.gpu.counting import FreeCounts
from thali.engines.gpu.device_memory import Lines, i64, u32, u64
from thali.engines.gpu.visits import components_of
from thali.sites import Site

if TYPE_CHECKING:
    from thali.bits import Index
    from thali.engines.base import RowUpdate
    from thali.engines.gpu.classes import Classes
    from thali.engines.gpu.counting import Rows
    from thali.engines.gpu.engine import GpuEngine
    from thali.engines.gpu.vertical import VerticalUpdate
    from thali.model.births import BirthTables


class Numbers:
    """The numbers of single-row components of rows, which are drawn part by part.

    What only the drawing needs is made when it begins: until then the device waits for the host,
    and from then on it has something to do.
    """

    def __init__(self, engine: GpuEngine, job: RowUpdate, tables: BirthTables) -> None:
        self.engine, self.job, self.tables = engine, job, tables

    @cached_property
    def n_new(self) -> Any:
        """The number of every row of the work order."""
        return self.engine.xp.empty(len(self.engine.block_of(self.job)), u32)

    @cached_property
    def totals(self) -> Any:
        """The sum of the numbers, and the covered ones and zeros of the rows."""
        return self.engine.xp.zeros(3, u64)


class NumbersOfOneClass(Numbers):
    """Draws them with one row per block of threads."""

    def draw(self, rows: Rows, numbers: Any, start: int) -> None:
        """Draw the numbers of rows of the work order, from number ``start`` on."""
        engine, job, tables = self.engine, self.job, self.tables
        table = engine.kept(  # the same in all blocks of a sweep
            "numbers", tables.prior,
            lambda: engine.xp.asarray(np.column_stack([tables.prior, tables.factors[0, 0]])),
        )  # fmt: skip
        masks = components_of(engine, Lines(rows.bits[:-2], rows.n, engine.device))
        engine.launch_rows(
            "draw_births", rows.n, job.mode, job.codes.n_components,
            [*engine.data_of(job.mode, job.codes), masks, u32(masks.shape[1]), numbers,
             i64(rows.n), engine.known_of_lines(job.mode), table, i64(len(tables.prior)),
             i64(tables.ceiling[0, 0]), u64(job.stream.key), u32(job.stream.sweep),
             u32(Site.BIRTH_COUNT), engine.exp, self.n_new[start : start + rows.n], self.totals],
        )  # fmt: skip


class NumbersByClass(Numbers):
    """Draws them for all rows at once, given free entries by class of column."""

    def __init__(
        self, engine: GpuEngine, job: RowUpdate, tables: BirthTables, update: VerticalUpdate
    ) -> None:
        super().__init__(engine, job, tables)
        classes, of_rows = update.classes, classes_of(engine, job.mode, update.weights.rows)
        assert classes is not None
        assert of_rows is not None
        self.classes, self.of_rows = classes, of_rows
        every, sizes = engine.kept("every column", classes, lambda: every_column(engine, classes))
        masks = update.visits.masks if update.order else components_of(engine, update.codes)
        self.counts = FreeCounts(
            engine, every, sizes, update.codes, update.order or classes, update.n_others, masks
        )

    def draw(self, rows: Rows, numbers: Any, start: int) -> None:
        """Draw the numbers of rows of the work order, from number ``start`` on."""
        engine, stream, tables = self.engine, self.job.stream, self.tables
        by_number = engine.kept(
            "numbers by class", tables.prior, lambda: [engine.xp.asarray(table) for table in (
                tables.prior, by_class(tables.factors), np.ascontiguousarray(tables.ceiling.T),
            )],
        )  # fmt: skip
        engine.device.launch(
            "draw_births_by_class", (engine.blocks_of(rows.n, 128), 1), engine.threads_of(128),
            [self.counts.count(rows), numbers, i64(rows.n), self.of_rows.of_lines,
             engine.known_of_lines(self.job.mode), *by_number, i64(len(tables.prior)),
             u32(self.classes.n), u32(self.of_rows.n), u64(stream.key), u32(stream.sweep),
             u32(Site.BIRTH_COUNT), engine.exp, self.n_new[start : start + rows.n], self.totals],
        )  # fmt: skip


def every_column(engine: GpuEngine, classes: Classes) -> tuple[Lines, Index]:
    """Return the set of all columns, in any order, and their numbers by class."""
    sizes = np.diff(engine.device.to_host(classes.edges))
    return engine.upload(pack(np.ones((1, classes.n_lines), np.bool_))), sizes[None]
