"""Row and column effects: some rows are fuller than others, and some columns (eq. 25 to 30).

The log odds that an entry reads one are the sum of a level of its row and a level of its column;
if a component covers the entry, they are higher by a jump. Levels and jumps lie on fixed grids, so
that rows and columns fall into classes, and everything stays a sum of weights times counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from thali.decide import SCALE
from thali.model.classes import ranks
from thali.model.level_grids import make_grids, nearest
from thali.model.noise_kinds import EFFECTS
from thali.model.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Counts, Index
    from thali.model.level_grids import Grids
    from thali.model.noise_kinds import NoiseKind, NoiseQuantity


def _steps(low: float, high: float, step: float) -> tuple[float, ...]:
    return tuple(np.arange(round(low / step), round(high / step) + 1) * step)


_LONG = 1280
"""Length of a row from which on steps between its levels are small.

A row's level is off by up to half a step. On average this costs ``step**2 / 24`` times the row's
information, which is about 0.15 an entry: with steps of 0.25, half a nat in a row of this length.
In longer rows it would be worth a component: tables of 7,000 to 9,000 columns drawn from rates of
rows and columns alone got 3 to 31 components with steps of 0.25, and none with steps of 0.1."""


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
        has its own jump. Otherwise that spread is zero.
    row_levels, column_levels, jump_sizes
        Ascending grids. Row levels must contain zero, and jumps must be positive. By default,
        steps of rows are 0.25, of columns 0.5, and of jumps 0.1, or 0.25 if every column has its
        own. ``noise="effects"`` has steps of 0.1 for rows of more than 1,280 entries.
    offsets
        Offsets to choose from; all are equally likely a priori.
    spreads
        Standard deviations to choose from, beginning with zero; all are equally likely a priori.
    """

    kind: ClassVar[NoiseKind] = EFFECTS
    rows: bool = True
    columns: bool = True
    jumps: bool = False
    row_levels: tuple[float, ...] = _steps(-8.0, 8.0, 0.25)
    column_levels: tuple[float, ...] = _steps(-8.0, 8.0, 0.5)
    jump_sizes: tuple[float, ...] = ()
    offsets: tuple[float, ...] = _steps(-0.55, 0.55, 0.005)
    spreads: tuple[float, ...] = (
        0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if not self.jump_sizes:
            sizes = _steps(0.5, 6.0, 0.25) if self.jumps else _steps(0.5, 12.0, 0.1)
            object.__setattr__(self, "jump_sizes", sizes)
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
        n_rows, n_columns = shape
        zero = nearest(grids.rows, 0.0)
        return Levels(
            self,
            np.full(n_rows, zero), np.full(n_columns, column), np.full(n_columns, jump),
            Hyper(0, column, 0, jump, 0, offset),
        )  # fmt: skip

    def log_prior(self, noise: Levels) -> float:
        """Return the log prior probability of levels, jumps, means and spreads (eq. 26)."""
        grids, hyper = self.grids, noise.hyper
        total = self.log_levels(noise)
        total += grids.of_jumps[hyper.jump_mean, hyper.jump_spread][noise.jumps].sum()
        n_spreads = len(self.spreads)
        choices = (
            n_spreads if self.rows else 1,
            len(grids.columns) * (n_spreads if self.columns else 1),
            len(grids.jumps) * (n_spreads if self.jumps else 1),
            len(grids.offsets),
        )
        return float(total) - float(np.log(choices).sum())

    def log_levels(self, noise: Levels) -> float:
        """Return the log prior probability of the levels, given their means and spreads."""
        grids, hyper = self.grids, noise.hyper
        total = grids.of_rows[hyper.row_spread][noise.rows].sum()
        total += grids.of_columns[hyper.column_mean, hyper.column_spread][noise.columns].sum()
        return float(total)


class Hyper(NamedTuple):
    """Means and spreads of levels and jumps, as positions on their grids."""

    row_spread: int
    column_mean: int
    column_spread: int
    jump_mean: int
    jump_spread: int
    offset: int


class Levels:
    """The levels and jumps of a state; immutable."""

    def __init__(
        self,
        prior: Effects,
        rows: NDArray[Any],
        columns: NDArray[Any],
        jumps: NDArray[Any],
        hyper: Hyper,
    ) -> None:
        self.prior = prior
        self.rows = rows  # level of every row, as a position on the grid
        self.columns = columns
        self.jumps = jumps
        self.hyper = hyper

    @property
    def offset(self) -> float:
        """What all log odds have in common."""
        return float(self.prior.grids.offsets[self.hyper.offset])

    @property
    def column_odds(self) -> NDArray[np.float64]:
        """Log odds of a one at every level of a column, in an average row without cover."""
        return self.prior.grids.columns + self.offset

    def for_rows(self, n_rows: int) -> Levels:
        """Return the same levels of columns for other rows, which are all average at first."""
        rows = np.full(n_rows, nearest(self.prior.grids.rows, 0.0))
        return Levels(self.prior, rows, self.columns, self.jumps, self.hyper)

    def with_rows(self, rows: Index, hyper: Hyper) -> Levels:
        """Return the same levels of columns with other levels of rows."""
        return self._keeping("column_classes", Levels(
            self.prior, rows, self.columns, self.jumps, hyper
        ))  # fmt: skip

    def with_columns(self, columns: Index, jumps: Index, hyper: Hyper) -> Levels:
        """Return the same levels of rows with other levels and jumps of columns."""
        return self._keeping("row_classes", Levels(self.prior, self.rows, columns, jumps, hyper))

    def with_both(self, rows: Index, columns: Index, hyper: Hyper) -> Levels:
        """Return levels that are all shifted, so that rows and columns keep their classes."""
        both = Levels(self.prior, rows, columns, self.jumps, hyper)
        of_rows, classes = self.row_classes
        both.__dict__["row_classes"] = of_rows + (int(rows[0]) - int(self.rows[0])), classes
        of_columns, *rest = self.column_classes
        shift = int(columns[0]) - int(self.columns[0])
        both.__dict__["column_classes"] = (of_columns + shift, *rest)
        return both

    def with_offset(self, offset: int) -> Levels:
        """Return the same levels with another offset of all log odds."""
        hyper = self.hyper._replace(offset=offset)
        return self.with_both(self.rows, self.columns, hyper)

    def _keeping(self, classes: str, changed: Levels) -> Levels:
        """Let other levels have the same classes, by which an engine has sorted the data."""
        changed.__dict__[classes] = getattr(self, classes)
        return changed

    def with_jump(self, size: float) -> Levels:
        """Return the same levels with one jump for all columns."""
        jump = nearest(self.prior.grids.jumps, size)
        hyper = self.hyper._replace(jump_mean=jump, jump_spread=0)
        return Levels(self.prior, self.rows, self.columns, np.full_like(self.jumps, jump), hyper)

    def values(self) -> tuple[float, ...]:
        """Return the quantities: two rates of an average row and column, and three spreads."""
        grids, hyper = self.prior.grids, self.hyper
        level = self.column_odds[hyper.column_mean]
        covered = level + grids.jumps[hyper.jump_mean]
        spreads = grids.spreads[[hyper.row_spread, hyper.column_spread, hyper.jump_spread]]
        return float(expit(level)), float(expit(-covered)), *map(float, spreads)

    def compact(self) -> Levels:
        """Return the same levels in a byte each, without what was computed from them."""
        rows, columns, jumps = (
            part.astype(np.uint8) for part in (self.rows, self.columns, self.jumps)
        )
        return Levels(self.prior, rows, columns, jumps, self.hyper)

    @classmethod
    def quantities(cls) -> tuple[NoiseQuantity, ...]:
        """Return the description of each quantity, in the order of the values."""
        return *EFFECTS.quantities, *EFFECTS.spreads

    @cached_property
    def row_classes(self) -> tuple[Index, Index]:
        """Levels that occur, and the number of every row's level among them."""
        return ranks(self.rows)

    @cached_property
    def column_classes(self) -> tuple[Index, Index, Index]:
        """Levels and jumps that occur together, and the number of every column's pair."""
        n = len(self.prior.grids.jumps)
        both = self.columns.astype(np.int64) * n + self.jumps
        pairs, classes = ranks(both)
        return pairs // n, pairs % n, classes

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        """Log odds of a one by class of row, class of column, and whether it is covered."""
        grids = self.prior.grids
        levels, jumps, _ = self.column_classes
        plain = grids.rows[self.row_classes[0]][:, None] + self.column_odds[levels]
        both = np.empty((*plain.shape, 2))  # small tables feel the time that np.stack takes
        both[..., 0], both[..., 1] = plain, plain + grids.jumps[jumps]
        return both

    def weights(self) -> Weights:
        """Return the log-likelihood gained by covering an uncovered entry (eq. 27)."""
        return self._weights

    def rounded_weights(self) -> Weights:
        """Return the same, rounded as engines use them."""
        return self._rounded_weights

    @cached_property
    def _rounded_weights(self) -> Weights:
        return self._weights.rounded()

    @cached_property
    def _weights(self) -> Weights:
        zero = log_expit(-self.log_odds)
        gain = zero[..., 1] - zero[..., 0]
        # The log odds, which are higher by the jump, are the difference of both gains. It is a
        # whole number of units, so that both gains are rounded by as much: where all jumps are
        # equal, a one then gains as much more everywhere, and engines count less.
        jumps = np.rint(self.prior.grids.jumps[self.column_classes[1]] * SCALE) / SCALE
        table = np.empty((*gain.shape, 1, 2))
        table[:, :, 0, 0], table[:, :, 0, 1] = gain + jumps, gain
        if table.shape[:2] == (1, 1):  # no effects: as fast as with two rates
            return Weights(table)
        return Weights(table, self.row_classes[1], self.column_classes[2])

    @cached_property
    def typical(self) -> tuple[float, float]:
        """Average gains by covering a one and a zero, for proposals that need not be exact."""
        n_rows = np.bincount(self.row_classes[1]) / len(self.rows)
        n_columns = np.bincount(self.column_classes[2]) / len(self.columns)
        one, zero = np.einsum("r,c,rcx->x", n_rows, n_columns, self._weights.table[:, :, 0])
        return float(one), float(zero)

    def reads_one(self, covered: bool) -> NDArray[np.float64]:  # noqa: FBT001
        """Return the probability that an entry reads one, by class of row and class of column."""
        return expit(self.log_odds[..., int(covered)])

    def entry_probabilities(self) -> NDArray[np.float64]:
        """Return P(datum | covered) by classes of row and column, datum and cover."""
        return np.stack([expit(-self.log_odds), expit(self.log_odds)], axis=2)

    def log_likelihood(self, counts: Counts) -> float:
        """Return the log probability of the known entries."""
        tp, fp, tn, fn = np.moveaxis(counts.table, -1, 0)
        one, zero = log_expit(self.log_odds), log_expit(-self.log_odds)
        return float(
            (tp * one[..., 1] + fp * zero[..., 1] + tn * zero[..., 0] + fn * one[..., 0]).sum()
        )


def effects_for(shape: tuple[int, ...]) -> Effects:
    """Return the effects of a matrix of a shape, with small steps between levels of long rows.

    Examples
    --------
    >>> [len(effects_for((300, n)).row_levels) for n in (1000, 5000)]
    [65, 161]
    """
    is_long = len(shape) == 2 and shape[1] > _LONG
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
