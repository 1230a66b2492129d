"""Row and column effects: some rows are fuller than others, and some columns (eq. 25 to 30).

The log odds that an entry reads one are the sum of a level of its row and a level of its column;
if a component covers the entry, they are higher by a jump. Levels and jumps lie on fixed grids, so
that rows and columns fall into classes, and everything stays a sum of weights times counts. In a
tensor, the lines of every further mode have levels as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import logit

from thali.checks import count, switch
from thali.model.level_grids import make_grids, nearest
from thali.model.levels import Hyper, Levels
from thali.model.noise_kinds import EFFECTS

if TYPE_CHECKING:
    from thali.model.level_grids import Grids
    from thali.model.noise_kinds import NoiseKind


def _steps(low: float, high: float, step: float) -> tuple[float, ...]:
    return tuple(np.arange(round(low / step), round(high / step) + 1) * step)


_LONG = 1280
"""Length of a row from which on steps between its levels are small.

A row's level is off by up to half a step. On average this costs ``step**2 / 24`` times the row's
information, which is about 0.15 an entry: with steps of 0.25, half a nat in a row of this length.
In longer rows it would be worth a component: tables of 7,000 to 9,000 columns drawn from rates of
rows and columns alone got 3 to 31 components with steps of 0.25, and none with steps of 0.1."""

_STRIDE = 5
"""Columns that have jumps of their own can have every fifth of the sizes.

With steps of 0.25, 0.5 and 1, hidden entries of single cells have the same probability up to
0.001, and fewer classes of columns take less time."""


@dataclass(frozen=True)
class Effects:
    """Levels of rows and columns, and jumps, each with a normal prior on a grid.

    The log odds of a one are the level of the row, which is zero on average, plus the level of the
    column, plus the jump of the column if a component covers the entry. The mean of the column
    levels and that of the jumps are unknown, as are the three spreads (standard deviations). A
    spread of zero means that there is no effect; with all three at zero, there are two error rates
    for the whole table. Because steps between levels are wide, all log odds share an offset, which
    is unknown as well: without it, rows would have effects only to make up for a mean that lies
    between two levels.

    Parameters
    ----------
    rows, columns, jumps
        Whether rows have levels of their own, columns have levels of their own, and every column
        has its own jump. Otherwise that spread is zero. In a tensor, ``columns`` stands for all
        modes but the first, and there is one jump, whatever ``jumps`` says.
    row_levels, column_levels, jump_sizes
        Ascending grids; further modes of a tensor have the levels of rows. Row levels must contain
        zero, and jumps must be positive. By default, steps of rows are 0.25, of columns 0.5, and
        of jumps 0.1. ``noise="effects"`` has steps of 0.1 for rows of more than 1,280 entries.
    jump_stride
        If columns have jumps of their own, these are every so many of the sizes, from the first
        on. Their mean may be any size, and so may a jump that all columns have: it must be known
        exactly, single ones need not be. By default it is 5 if the sizes are those by default, so
        that steps between jumps of columns are 0.5, and otherwise 1. If it is more than 1, jumps
        have no spread below half such a step, as their mean may lie between two of them.
    offsets
        Offsets to choose from; all are equally likely a priori.
    spreads
        Standard deviations to choose from, beginning with zero; all are equally likely a priori.
    """

    kind: ClassVar[NoiseKind] = EFFECTS
    rows: bool = True
    columns: bool = True
    jumps: bool = True
    row_levels: tuple[float, ...] = _steps(-8.0, 8.0, 0.25)
    column_levels: tuple[float, ...] = _steps(-8.0, 8.0, 0.5)
    jump_sizes: tuple[float, ...] = ()
    jump_stride: int | None = None
    offsets: tuple[float, ...] = _steps(-0.55, 0.55, 0.005)
    spreads: tuple[float, ...] = (
        0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "jumps"):
            switch(name, getattr(self, name))
        stride = 1 if self.jump_stride is None else self.jump_stride
        if len(self.jump_sizes) == 0:
            object.__setattr__(self, "jump_sizes", _steps(0.5, 12.0, 0.1))
            stride = _STRIDE if self.jump_stride is None else stride
        object.__setattr__(self, "jump_stride", count("jump_stride", stride, 1))
        for name in ("row_levels", "column_levels", "jump_sizes", "offsets", "spreads"):
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        for name, is_right, allowed in (
            ("row_levels", 0.0 in self.row_levels, "zero"),
            ("jump_sizes", self.jump_sizes[0] > 0.0, "positive numbers"),
            ("spreads", self.spreads[0] == 0.0, "zero as the first"),
        ):
            if not is_right:
                first = getattr(self, name)[0]
                msg = f"{name} from {first:g} on were given; allowed are grids with {allowed}."
                raise ValueError(msg)

    @cached_property
    def grids(self) -> Grids:
        """Grids as arrays, and tables that depend on them alone."""
        return make_grids(self)

    def flat(self, shape: tuple[int, ...], spurious: float, dropped: float) -> Levels:
        """Return the noise without effects that is nearest to these error rates."""
        grids = self.grids
        level = float(logit(spurious))
        column = nearest(grids.columns, level)
        offset = nearest(grids.offsets, level - grids.columns[column])
        jump = nearest(grids.jumps, -float(logit(dropped)) - level)
        n_rows, n_columns, *more = shape
        zero = nearest(grids.rows, 0.0)
        return Levels(
            self,
            np.full(n_rows, zero), np.full(n_columns, column), np.full(n_columns, jump),
            Hyper(0, column, 0, jump, 0, offset, (0,) * len(more)),
            tuple(np.full(n, zero) for n in more),
        )  # fmt: skip

    def log_prior(self, noise: Levels) -> float:
        """Return the log prior probability of levels, jumps, means and spreads (eq. 26)."""
        grids, total = self.grids, self.log_levels(noise)
        n_spreads = len(self.spreads)
        choices = (
            n_spreads if self.rows else 1,
            len(grids.columns) * (n_spreads if self.columns else 1),
            len(grids.jumps) * (1 + grids.of_jumps.shape[1] if self.jumps else 1),
            len(grids.offsets),
            *(n_spreads if self.columns else 1 for _ in noise.more),
        )
        return float(total) - float(np.log(choices).sum())

    def log_levels(self, noise: Levels) -> float:
        """Return the log prior probability of levels and jumps, given means and spreads."""
        grids, hyper = self.grids, noise.hyper
        total = grids.of_rows[hyper.row_spread][noise.rows].sum()
        total += grids.of_columns[hyper.column_mean, hyper.column_spread][noise.columns].sum()
        if hyper.jump_spread:
            of_jumps = grids.of_jumps[hyper.jump_mean, hyper.jump_spread - grids.first_spread]
            total += of_jumps[noise.jumps // grids.stride].sum()
        for spread, levels in zip(hyper.more_spreads, noise.more, strict=True):
            total += grids.of_rows[spread][levels].sum()
        return float(total)


def effects_for(shape: tuple[int, ...]) -> Effects:
    """Return the effects of data of a shape, with small steps between levels of long rows.

    The lines of a tensor are long in all modes, so that their levels have equal steps.

    Examples
    --------
    >>> [len(effects_for(shape).row_levels) for shape in ((300, 1000), (300, 5000), (9, 40, 40))]
    [65, 161, 161]
    """
    is_tensor = len(shape) > 2
    is_long = (prod(shape) // min(shape) if is_tensor else shape[1]) > _LONG
    if is_tensor:
        levels = _steps(-8.0, 8.0, 0.1 if is_long else 0.25)
        return Effects(jumps=False, row_levels=levels, column_levels=levels)
    return Effects(row_levels=_steps(-8.0, 8.0, 0.1)) if is_long else Effects()


def _checked(name: str, values: tuple[float, ...]) -> tuple[float, ...]:
    """Return a grid as numbers; a level is stored as a byte."""
    grid = np.asarray(values, np.float64) if len(values) else np.zeros(0)
    is_valid = grid.ndim == 1 and np.isfinite(grid).all() and (np.diff(grid) > 0.0).all()
    if not is_valid or not 1 <= len(grid) <= 255:
        msg = (
            f"{name}={values!r:.60} was given; allowed are 1 to 255 finite numbers in ascending "
            "order; sort them, or give fewer."
        )
        raise ValueError(msg)
    return tuple(grid.tolist())
