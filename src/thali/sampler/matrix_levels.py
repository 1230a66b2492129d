"""Draws of the levels of a matrix with few rows and columns, in few calls.

The draws are those of :mod:`thali.sampler.levels`, which does the same step by step, so that many
threads or processes can share what many lines need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.model.levels import Hyper, Levels
from thali.sampler.level_counts import count_lines
from thali.sampler.level_draws import draw_mode
from thali.sampler.level_tables import tables_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model.effects import Effects
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


def draw_matrix(
    stream: Stream, state: State, target: Target, prior: Effects, uniforms: NDArray[np.float64],
    fine: int, groups: tuple[int, int], number: int, *, is_offset_held: bool, is_jump_held: bool,
    is_column_held: bool,
) -> Levels:  # fmt: skip
    """Draw as :func:`thali.sampler.levels.draw_levels`.

    ``uniforms`` are the random numbers that do not belong to single lines, ``fine`` is the number
    of offsets between two coarse ones, and ``groups`` say how many offsets are in question
    together, and by how many their groups are shifted. ``number`` is that of the draw.
    """
    noise: Levels = state.noise
    grids, tables = noise.prior.grids, tables_of(noise.prior)
    is_drawn = (
        prior.columns, not is_jump_held, prior.jumps and grids.of_jumps.shape[1] > 0,
        noise.prior.rows and grids.steps.of_columns > 0,
    )  # fmt: skip
    columns, jumps = (np.asarray(part, np.int64) for part in (noise.columns, noise.jumps))

    def drawn(mode: int, rows: Index) -> Any:
        values, sizes, classes = noise.across(mode)
        counts = count_lines(state, target, mode, classes)
        return draw_mode(
            mode, *stream, uniforms, number, is_drawn, 0 if is_offset_held else fine, *groups,
            tuple(counts), values, sizes, rows, columns, jumps, noise.hyper[:6],
            (grids.rows, grids.columns, grids.jumps, grids.offsets),
            (grids.stride, grids.first_spread), tuple(noise.lattice), tuple(grids.steps), *tables,
        )  # fmt: skip

    rows = np.asarray(noise.rows, np.int64)
    if prior.rows:
        rows, _, _, found, levels, _, classes = drawn(0, rows)
        noise = noise.with_rows(rows, Hyper(*found)).knowing(row_classes=(levels, classes))
    if is_column_held:
        return noise
    columns, jumps, down, found, *of_columns = drawn(1, rows)
    levels, classes = noise.row_classes
    return Levels(noise.prior, rows - down, columns, jumps, Hyper(*found)).knowing(
        row_classes=(levels - down, classes), column_classes=tuple(of_columns)
    )
