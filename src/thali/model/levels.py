"""The levels of a state: how full every line of every mode is, and by how much cover adds to it.

The log odds of a one are the sum of the levels of all lines that cross at an entry, and higher by
a jump if a component covers it (eq. 25). Seen from the lines of one mode, the lines of all others
matter only by the sum of their levels. So the columns of a mode's unfolding fall into classes of
equal sums, and everything stays a sum of weights times counts.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from thali.data.layout import WORD, inner_mode, n_words, outer_modes
from thali.decide import SCALE
from thali.model.classes import ranks
from thali.model.level_grids import lattice_of, nearest
from thali.model.noise_kinds import EFFECTS, spreads_of
from thali.model.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Counts, Index
    from thali.model.effects import Effects
    from thali.model.level_grids import Lattice
    from thali.model.noise_kinds import NoiseQuantity

_DIGITS = 9
"""Sums of levels are rounded to so many digits, so that equal sums are equal numbers."""


class Hyper(NamedTuple):
    """Means and spreads of levels and jumps, as positions on their grids."""

    row_spread: int
    column_mean: int
    column_spread: int
    jump_mean: int
    jump_spread: int
    offset: int
    more_spreads: tuple[int, ...] = ()  # of the levels of all modes after the second

    @classmethod
    def of(cls, numbers: list[int]) -> Hyper:
        """Return the positions, given all of them in one list."""
        row, mean, column, jump, of_jumps, offset, *more = numbers
        return cls(row, mean, column, jump, of_jumps, offset, tuple(more))

    def flat(self) -> tuple[int, ...]:
        """Return all positions in one tuple."""
        return *self[:6], *self.more_spreads

    def spread_of(self, mode: int) -> int:
        """Return the spread of the levels of a mode."""
        return (self.row_spread, self.column_spread, *self.more_spreads)[mode]

    def with_spread(self, mode: int, spread: int) -> Hyper:
        """Return the same with another spread of the levels of a mode that has no mean."""
        if mode == 0:
            return self._replace(row_spread=spread)
        more = list(self.more_spreads)
        more[mode - 2] = spread
        return self._replace(more_spreads=tuple(more))


class Across(NamedTuple):
    """The columns of a mode's unfolding, by the sum of the levels of the lines that make them."""

    values: NDArray[np.float64]  # sum of levels by class, without the offset
    jumps: NDArray[np.float64]  # jump by class, or one jump for all
    classes: Index  # of every column, with padding, which belongs to the first class


class Levels:
    """The levels and jumps of a state; immutable.

    Parameters
    ----------
    prior
        Grids, and what is known about levels before the data.
    rows, columns
        Levels of the lines of the first two modes, as positions on their grids.
    jumps
        Jump of every line of the second mode. A tensor of more modes has one jump.
    hyper
        Means and spreads.
    more
        Levels of the lines of all further modes, on the grid of rows.
    """

    def __init__(
        self,
        prior: Effects,
        rows: NDArray[Any],
        columns: NDArray[Any],
        jumps: NDArray[Any],
        hyper: Hyper,
        more: tuple[NDArray[Any], ...] = (),
    ) -> None:
        self.prior = prior
        self.rows = rows
        self.columns = columns
        self.jumps = jumps
        self.hyper = hyper
        self.more = more
        self._across: dict[int, Across] = {}

    @property
    def lines(self) -> tuple[NDArray[Any], ...]:
        """Levels of the lines of every mode, as positions on their grids."""
        return self.rows, self.columns, *self.more

    @property
    def lattice(self) -> Lattice:
        """Numbers among which all log odds are."""
        return lattice_of(self.prior, len(self.lines)) if self.more else self.prior.grids.lattice

    def grid(self, mode: int) -> NDArray[np.float64]:
        """Return the levels that a line of a mode may have."""
        return self.prior.grids.columns if mode == 1 else self.prior.grids.rows

    @property
    def offset(self) -> float:
        """What all log odds have in common."""
        return float(self.prior.grids.offsets[self.hyper.offset])

    @property
    def column_odds(self) -> NDArray[np.float64]:
        """Log odds of a one at every level of a column, in an average row without cover."""
        return self.prior.grids.columns + self.offset

    # --- other levels --------------------------------------------------------------------------

    def for_rows(self, n_rows: int) -> Levels:
        """Return the same levels of columns for other rows, which are all average at first."""
        rows = np.full(n_rows, nearest(self.prior.grids.rows, 0.0))
        return Levels(self.prior, rows, self.columns, self.jumps, self.hyper, self.more)

    def for_lines(self, chosen: tuple[Index, ...], shape: tuple[int, ...]) -> Levels:
        """Return levels of more lines, given those of some; others are average, with one jump."""
        zero, mean = nearest(self.prior.grids.rows, 0.0), self.hyper.column_mean
        lines = [np.full(n, mean if mode == 1 else zero) for mode, n in enumerate(shape)]
        for own, some, levels in zip(lines, chosen, self.lines, strict=True):
            own[some] = levels
        jumps, hyper = np.full(shape[1], self.hyper.jump_mean), self.hyper._replace(jump_spread=0)
        return Levels(self.prior, lines[0], lines[1], jumps, hyper, tuple(lines[2:]))

    def with_rows(self, rows: Index, hyper: Hyper) -> Levels:
        """Return the same levels of columns with other levels of rows."""
        return self.with_lines(0, rows, hyper)

    def with_lines(self, mode: int, levels: Index, hyper: Hyper) -> Levels:
        """Return other levels of a mode that has no jumps, and the same of all others."""
        rows = levels if mode == 0 else self.rows
        more = tuple(levels if k == mode else own for k, own in enumerate(self.more, start=2))
        changed = Levels(self.prior, rows, self.columns, self.jumps, hyper, more)
        return self._keeping(changed, mode, "column_classes", "row_classes" if mode else "")

    def with_columns(self, columns: Index, jumps: Index, hyper: Hyper) -> Levels:
        """Return the same levels of rows with other levels and jumps of columns."""
        changed = Levels(self.prior, self.rows, columns, jumps, hyper, self.more)
        return self._keeping(changed, 1, "row_classes")

    def with_both(self, mode: int, levels: Index, columns: Index, hyper: Hyper) -> Levels:
        """Return levels of a mode and of columns that are all shifted, so that classes stay."""
        lines = list(self.lines)
        lines[mode], lines[1] = levels, columns
        both = Levels(self.prior, lines[0], columns, self.jumps, hyper, tuple(lines[2:]))
        moved = [self._shift_of(m, both) for m in range(len(lines))]
        of_rows, own = self.row_classes
        of_columns, *rest = self.column_classes
        down, up = (int(lines[m][0]) - int(self.lines[m][0]) for m in range(2))
        both.knowing(row_classes=(of_rows + down, own), column_classes=(of_columns + up, *rest))
        for m, found in self._across.items() if self.more else ():
            values = np.round(found.values + (sum(moved) - moved[m]), _DIGITS)
            both._across[m] = found._replace(values=values)
        return both

    def knowing(self, **classes: tuple[Index, ...]) -> Levels:
        """Return these levels, whose classes are known and need not be found again."""
        vars(self).update(classes)
        return self

    def with_offset(self, offset: int) -> Levels:
        """Return the same levels with another offset of all log odds."""
        return self.with_both(0, self.rows, self.columns, self.hyper._replace(offset=offset))

    def with_jump(self, size: float) -> Levels:
        """Return the same levels with one jump for all columns."""
        jump = nearest(self.prior.grids.jumps, size)
        hyper = self.hyper._replace(jump_mean=jump, jump_spread=0)
        jumps = np.full_like(self.jumps, jump)
        return Levels(self.prior, self.rows, self.columns, jumps, hyper, self.more)

    def compact(self) -> Levels:
        """Return the same levels in a byte each, without what was computed from them."""
        parts = self.rows, self.columns, self.jumps, *self.more
        rows, columns, jumps, *more = (part.astype(np.uint8) for part in parts)
        return Levels(self.prior, rows, columns, jumps, self.hyper, tuple(more))

    def _keeping(self, changed: Levels, mode: int, *classes: str) -> Levels:
        """Let other levels of one mode have the same classes, by which an engine sorted data."""
        changed.knowing(**{name: getattr(self, name) for name in filter(None, classes)})
        if self.more and mode in self._across:  # a tensor; its jump may have changed
            found = self._across[mode]
            changed._across[mode] = found._replace(jumps=changed._jump)
        return changed

    def _shift_of(self, mode: int, other: Levels) -> float:
        """Return by how much all levels of a mode are higher in other levels."""
        grid = self.grid(mode)
        return float(grid[int(other.lines[mode][0])] - grid[int(self.lines[mode][0])])

    # --- what is reported ----------------------------------------------------------------------

    def values(self) -> tuple[float, ...]:
        """Return the quantities: two rates of an average row and column, and all spreads."""
        grids, hyper = self.prior.grids, self.hyper
        level = self.column_odds[hyper.column_mean]
        covered = level + grids.jumps[hyper.jump_mean]
        positions = hyper.row_spread, hyper.column_spread, hyper.jump_spread, *hyper.more_spreads
        spreads = grids.spreads[list(positions)]
        return float(expit(level)), float(expit(-covered)), *map(float, spreads)

    @classmethod
    def quantities(cls, arity: int = 2) -> tuple[NoiseQuantity, ...]:
        """Return the description of each quantity, in the order of the values."""
        return *EFFECTS.quantities, *spreads_of(arity)

    # --- classes of lines and columns ----------------------------------------------------------

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

    def across(self, mode: int) -> Across:
        """Return the classes of the columns of a mode's unfolding."""
        if mode not in self._across:
            self._across[mode] = self._sums(mode) if self.more else self._other(mode)
        return self._across[mode]

    def _other(self, mode: int) -> Across:
        """Return the classes of the other mode of a matrix."""
        grids = self.prior.grids
        if mode == 1:
            levels, classes = self.row_classes
            return Across(grids.rows[levels], np.zeros(0), classes)
        levels, jumps, classes = self.column_classes
        return Across(grids.columns[levels], grids.jumps[jumps], classes)

    def _sums(self, mode: int) -> Across:
        """Return the classes of all combinations of lines of the other modes of a tensor."""
        shape = [len(own) for own in self.lines]
        inner = inner_mode(shape, mode)
        parts = []
        for other in (*outer_modes(shape, mode), inner):
            levels, classes = self.classes_of(other)
            if other == inner:  # the one mode that is padded
                padding = WORD * n_words(shape[inner]) - shape[inner]
                classes = np.append(classes, np.zeros(padding, np.int64))
            parts.append((self.grid(other)[levels], classes))
        values, classes = reduce(_added, parts)
        return Across(values, self._jump, classes)

    def classes_of(self, mode: int) -> tuple[Index, Index]:
        """Return the levels of a mode that occur, and the number of every line's among them."""
        return self.row_classes if mode == 0 else ranks(self.lines[mode])

    @property
    def _jump(self) -> NDArray[np.float64]:
        """The jump of a tensor, which all its lines share."""
        return self.prior.grids.jumps[[self.hyper.jump_mean]]

    # --- probabilities -------------------------------------------------------------------------

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        """Log odds of a one by class of row, class of column, and whether it is covered."""
        return self._log_odds(0)

    def _log_odds(self, mode: int) -> NDArray[np.float64]:
        """Return log odds by class of line of a mode, class of column, and cover."""
        values, jumps, _ = self.across(mode)
        own = self.grid(mode)[self.classes_of(mode)[0]]
        plain = own[:, None] + (values + self.offset)
        both = np.empty((*plain.shape, 2))  # small tables feel the time that np.stack takes
        both[..., 0], both[..., 1] = plain, plain + jumps
        return both

    def weights(self) -> Weights:
        """Return the log-likelihood gained by covering an uncovered entry (eq. 27)."""
        return self._weights

    def fixed_weights(self) -> Weights:
        """Return the same as the integers that engines use."""
        return self._fixed_weights

    @cached_property
    def _fixed_weights(self) -> Weights:
        return self._weights.fixed()

    def rounded_weights(self) -> Weights:
        """Return the same, rounded as engines use them."""
        return self._rounded_weights

    @cached_property
    def _rounded_weights(self) -> Weights:
        return self._weights.rounded()

    @cached_property
    def _weights(self) -> Weights:
        first = self._weights_of(0)
        if not (self.more and first.has_classes):
            return first
        modes = range(1, len(self.lines))
        return first._replace(others=tuple(self._weights_of(mode) for mode in modes))

    def _weights_of(self, mode: int) -> Weights:
        """Return the weights with the lines of a mode as rows."""
        zero = log_expit(-(self._log_odds(mode) if mode else self.log_odds))
        gain = zero[..., 1] - zero[..., 0]
        _, jumps, classes = self.across(mode)
        # The log odds, which are higher by the jump, are the difference of both gains. It is a
        # whole number of units, so that both gains are rounded by as much: where all jumps are
        # equal, a one then gains as much more everywhere, and engines count less.
        jumps = np.rint(jumps * SCALE) / SCALE
        table = np.empty((*gain.shape, 1, 2))
        table[:, :, 0, 0], table[:, :, 0, 1] = gain + jumps, gain
        if mode == 0 and table.shape[:2] == (1, 1):  # no effects: as fast as with two rates
            return Weights(table)
        return Weights(table, self.classes_of(mode)[1], classes)

    @cached_property
    def typical(self) -> tuple[float, float]:
        """Average gains by covering a one and a zero, for proposals that need not be exact."""
        n_rows = np.bincount(self.row_classes[1]) / len(self.rows)
        of_columns = self.across(0).classes
        n_columns = np.bincount(of_columns) / len(of_columns)
        one, zero = np.einsum("r,c,rcx->x", n_rows, n_columns, self._weights.table[:, :, 0])
        return float(one), float(zero)

    def reads_one(self, covered: bool) -> NDArray[np.float64]:  # noqa: FBT001
        """Return the probability that an entry reads one, by class of row and class of column."""
        return expit(self.log_odds[..., int(covered)])

    def entry_probabilities(self) -> NDArray[np.float64]:
        """Return P(datum | covered) by classes of row and column, datum and cover."""
        return np.stack([expit(-self.log_odds), expit(self.log_odds)], axis=2)

    def entry_odds(self, positions: Index, covered: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log odds of a one at listed entries, one line of every mode each."""
        rows, columns, *more = positions.T
        grids = self.prior.grids
        odds = grids.rows[self.rows[rows]] + self.column_odds[self.columns[columns]]
        for levels, at in zip(self.more, more, strict=True):
            odds = odds + grids.rows[levels[at]]
        found: NDArray[np.float64] = odds + grids.jumps[self.jumps[columns]] * covered
        return found

    def odds_of_rows(self, rows: Index, covered: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the log odds of a one at all entries of some rows, with one axis per mode."""
        grids = self.prior.grids
        odds = np.add.outer(grids.rows[self.rows[rows]], self.column_odds[self.columns])
        for levels in self.more:
            odds = np.add.outer(odds, grids.rows[levels])
        jumps = grids.jumps[self.jumps].reshape(-1, *(1 for _ in self.more))
        found: NDArray[np.float64] = np.where(covered, odds + jumps, odds)
        return found

    def log_likelihood(self, counts: Counts) -> float:
        """Return the log probability of the known entries."""
        tp, fp, tn, fn = np.moveaxis(counts.table, -1, 0)
        one, zero = log_expit(self.log_odds), log_expit(-self.log_odds)
        return float(
            (tp * one[..., 1] + fp * zero[..., 1] + tn * zero[..., 0] + fn * one[..., 0]).sum()
        )


def _added(
    some: tuple[NDArray[np.float64], Index], others: tuple[NDArray[np.float64], Index]
) -> tuple[NDArray[np.float64], Index]:
    """Return the sums of levels that occur, and that of every combination of lines."""
    (values, classes), (more, inner) = some, others
    sums, table = np.unique(np.round(values[:, None] + more, _DIGITS), return_inverse=True)
    table = table.reshape(len(values), len(more))
    return sums, table[classes][:, inner].ravel()
