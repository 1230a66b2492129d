"""Priors of levels as compiled code takes them, made once for every choice of grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.sampler.level_weights import BLOCK

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.model.effects import Effects
    from thali.model.level_grids import Grids

    Pair: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
    Table: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

_MOST = 16
"""Most priors whose tables are in memory."""


class Tables(NamedTuple):
    """Priors by something that is given; of rows, nothing is.

    The arrays of a pair are log priors, ``(n_given, n_priors, n_levels)``, and their exponentials,
    ``(n_given, n_levels + BLOCK, n_priors)``; a table also has the exponentials in the order of
    the log priors. Jumps have none if all columns have one jump.
    """

    rows: Table
    columns: tuple[Pair, Table]  # means by spread, and spreads by mean
    jumps: Table  # spreads by mean


_made: dict[int, tuple[Grids, Tables]] = {}
"""Tables by the grids of a prior: to find them by the prior itself takes 20 microseconds."""


def tables_of(prior: Effects) -> Tables:
    """Return the tables of a prior, which are made once."""
    grids = prior.grids
    if (made := _made.get(id(grids))) is None:
        if len(_made) == _MOST:
            _made.clear()
        made = _made[id(grids)] = grids, _make(prior)
    return made[1]


def _make(prior: Effects) -> Tables:
    grids = prior.grids
    of_jumps = grids.of_jumps if prior.jumps else np.zeros((1, 1, 1))
    return Tables(
        _table(grids.of_rows[None]),
        (_pair(grids.of_columns.swapaxes(0, 1)), _table(grids.of_columns)),
        _table(of_jumps),
    )


def transposed(log_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exponentials of log priors, ``(n_levels + BLOCK, n_priors)``."""
    n, n_levels = log_prior.shape
    prior = np.zeros((n_levels + BLOCK, n))
    np.exp(log_prior.T, out=prior[:n_levels])
    return prior


def _pair(log_priors: NDArray[np.float64]) -> Pair:
    return np.ascontiguousarray(log_priors), np.stack([transposed(some) for some in log_priors])


def _table(log_priors: NDArray[np.float64]) -> Table:
    return *_pair(log_priors), np.exp(log_priors)
