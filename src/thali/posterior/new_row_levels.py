"""What a new row must know if rows and columns have effects: columns, and levels it may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from thali.model.effects import Effects
from thali.model.level_grids import log_level_prior
from thali.posterior.levels import level_summary

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from thali.model.levels import Levels
    from thali.posterior.posterior import Posterior


class NewRowLevels(NamedTuple):
    """Levels and jumps of columns, and the prior of a row's level, in log odds (eq. 25 and 26)."""

    columns: NDArray[np.float64]  # (n_columns,): level of every column
    jumps: NDArray[np.float64]  # (n_columns,): by how much cover raises its log odds
    rows: NDArray[np.float64]  # (n_levels,): levels that a row may have
    log_prior: NDArray[np.float64]  # (n_levels,): their log prior probabilities

    @classmethod
    def of(cls, noise: Levels) -> Self:
        """Return what a draw says about new rows."""
        grids = noise.prior.grids
        columns, jumps = _unfolded(
            noise.column_odds[noise.columns], grids.jumps[noise.jumps],
            [grids.rows[levels] for levels in noise.more],
        )  # fmt: skip
        return cls._possible(columns, jumps, grids.rows, grids.of_rows[noise.hyper.row_spread])

    @classmethod
    def mean(cls, posterior: Posterior) -> Self:
        """Return the posterior means of columns, and the posterior predictive of a row's level.

        The latter is the mean over the draws of p(g | s_a), so that an uncertain spread counts.
        """
        prior = posterior.settings.model.priors(len(posterior.shape)).noise
        assert isinstance(prior, Effects)
        grid = prior.grids.rows
        spreads, counts = np.unique(posterior.noise["row_spread"], return_counts=True)
        priors = np.exp([log_level_prior(grid, 0.0, spread) for spread in spreads])
        with np.errstate(divide="ignore"):
            log_prior = np.log(counts / counts.sum() @ priors)
        summary = level_summary(posterior)
        more = [mean for mean, _ in summary.more]
        columns, jumps = _unfolded(summary.columns_mean, summary.jumps_mean, more)
        return cls._possible(columns, jumps, grid, log_prior)

    @classmethod
    def _possible(
        cls,
        columns: NDArray[np.float64],
        jumps: NDArray[np.float64],
        rows: NDArray[np.float64],
        log_prior: NDArray[np.float64],
    ) -> Self:
        """Leave out levels that no row can have: most of them, if the spread is zero."""
        is_possible = np.isfinite(log_prior)
        return cls(columns, jumps, rows[is_possible], log_prior[is_possible])


def _unfolded(
    columns: NDArray[np.float64], jumps: NDArray[np.float64], more: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return level and jump of every combination of lines of all modes but the first."""
    for levels in more:
        columns = np.add.outer(columns, levels).ravel()
        jumps = np.repeat(jumps, len(levels))
    return columns, jumps


class LevelTables(NamedTuple):
    """Log-likelihoods of entries for every level of the row."""

    uncovered: NDArray[np.float64]  # (2, n_columns, n_levels): of a zero and a one, not covered
    gains: NDArray[np.float64]  # (2, n_columns, n_levels): by covering it (eq. 27)
    reads_one: NDArray[np.float64]  # (2, n_columns, n_levels): probability, uncovered or covered

    @classmethod
    def of(cls, levels: NewRowLevels) -> LevelTables:
        """Compute the tables."""
        odds = levels.columns[:, None] + levels.rows
        raised = odds + levels.jumps[:, None]
        uncovered, covered = (np.stack([log_expit(-x), log_expit(x)]) for x in (odds, raised))
        # The difference of both gains is the jump; as a difference of logarithms it would be lost
        # where an entry is nearly certain.
        gain = covered[0] - uncovered[0]
        gains = np.stack([gain, gain + levels.jumps[:, None]])
        return cls(uncovered, gains, np.stack([expit(odds), expit(raised)]))
