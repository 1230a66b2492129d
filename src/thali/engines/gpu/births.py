"""Births on the GPU if columns are of several classes: counted and drawn for all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import pack
from thali.engines.gpu.classes import by_class, classes_of
from thali.engines.gpu.counting import FreeCounts
from thali.engines.gpu.device_memory import i64, u32, u64
from thali.sites import Site

if TYPE_CHECKING:
    from thali.engines.base import RowUpdate
    from thali.engines.gpu.counting import Rows
    from thali.engines.gpu.vertical import VerticalUpdate
    from thali.model.births import BirthTables


class BirthsByClass:
    """Draws the number of single-row components of rows, given their free entries by class."""

    def __init__(self, update: VerticalUpdate, job: RowUpdate, tables: BirthTables) -> None:
        engine, classes = update.engine, update.classes
        assert classes is not None
        of_rows = classes_of(engine, job.mode, update.weights.rows)
        assert of_rows is not None
        self.engine, self.job, self.classes, self.of_rows = engine, job, classes, of_rows
        n_columns = engine.totals.n_columns(job.mode)
        every = engine.upload(pack(np.ones((1, n_columns), np.bool_)))
        self.counts = FreeCounts(engine, every, update.codes, classes, update.n_others)
        self.n_numbers = len(tables.prior)
        self.tables = engine.kept(
            "numbers by class", tables.prior, lambda: [engine.xp.asarray(table) for table in (
                tables.prior, by_class(tables.factors), np.ascontiguousarray(tables.ceiling.T),
            )],
        )  # fmt: skip
        self.n_new = engine.xp.empty(len(engine.block_of(job)), u32)
        self.totals = engine.xp.zeros(3, u64)

    def draw(self, rows: Rows, numbers: Any, start: int) -> None:
        """Draw the numbers of rows of the work order, from number ``start`` on."""
        engine, stream = self.engine, self.job.stream
        engine.device.launch(
            "draw_births_by_class", (engine.blocks_of(rows.n, 128), 1), engine.threads_of(128),
            [self.counts.count(rows), numbers, i64(rows.n), self.of_rows.of_lines,
             engine.known_of_lines(self.job.mode), *self.tables, i64(self.n_numbers),
             u32(self.classes.n), u32(self.of_rows.n), u64(stream.key), u32(stream.sweep),
             u32(Site.BIRTH_COUNT), engine.exp, self.n_new[start : start + rows.n], self.totals],
        )  # fmt: skip
