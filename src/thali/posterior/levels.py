"""How full rows and columns are, and by how much cover raises the log odds, over all draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.model import Levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from thali.trace import Draw


class LevelSummary(NamedTuple):
    """Means and standard deviations over the draws, in log odds (eq. 25)."""

    rows_mean: NDArray[np.float64]  # (n_rows,)
    rows_sd: NDArray[np.float64]
    columns_mean: NDArray[np.float64]  # (n_columns,)
    columns_sd: NDArray[np.float64]
    jumps_mean: NDArray[np.float64]  # (n_columns,)
    jumps_sd: NDArray[np.float64]
    more: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...] = ()  # of further modes

    def of_mode(self, mode: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of the levels of a mode."""
        first = (self.rows_mean, self.rows_sd), (self.columns_mean, self.columns_sd)
        return (*first, *self.more)[mode]


def level_summary(draws: Iterable[Draw]) -> LevelSummary:
    """Summarize the levels of rows and columns and the jumps of columns over draws.

    Parameters
    ----------
    draws
        Draws with row and column effects; traversed once.

    Returns
    -------
    summary
        Posterior means and standard deviations in log odds.

    Notes
    -----
    Means and sums of squared deviations are updated draw by draw (Welford), so a level that never
    changes has a standard deviation of exactly zero.
    """
    n_draws = 0
    for draw in draws:
        values = np.concatenate(in_log_odds(draw))
        if n_draws == 0:
            sizes = [len(part) for part in in_log_odds(draw)]
            means, squares = np.zeros_like(values), np.zeros_like(values)
        n_draws += 1
        before = values - means
        means += before / n_draws
        squares += before * (values - means)
    if n_draws == 0:
        msg = "no draws were given; levels are summarized over at least one; give some."
        raise ValueError(msg)
    ends = np.cumsum(sizes)[:-1]
    rows, columns, jumps, *more = zip(
        np.split(means, ends), np.split(np.sqrt(squares / n_draws), ends), strict=True
    )
    return LevelSummary(*rows, *columns, *jumps, tuple(more))


def in_log_odds(draw: Draw) -> tuple[NDArray[np.float64], ...]:
    """Return the levels of rows and columns, the jumps of columns, and levels of further modes."""
    noise = draw.state.noise
    if not isinstance(noise, Levels):
        msg = (
            "a posterior without row and column effects was given, which has no levels; sample "
            "with noise='effects'."
        )
        raise ValueError(msg)  # noqa: TRY004 - what was sampled is wrong, not the type
    grids = noise.prior.grids
    more = (grids.rows[levels] for levels in noise.more)
    columns, jumps = noise.column_odds[noise.columns], grids.jumps[noise.jumps]
    return grids.rows[noise.rows], columns, jumps, *more
