"""Statistics that posterior predictive checks compute for the data and for replicates."""

from __future__ import annotations

from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from thali.posterior.diagnostics import sample_pairs
from thali.sentences import n_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Block: TypeAlias = NDArray[np.float64]
    Statistic: TypeAlias = Callable[[Block], Any]

N_PAIRS = 100
"""Number of pairs of rows whose overlap is measured."""

_PAIR_ENTRIES = 1 << 20  # entries of the pairs that are multiplied at once: 8 MB


def default_statistics(
    arity: int, mode_names: Sequence[str] | None = None
) -> dict[str, Statistic]:
    """Return the statistics that a check uses by default.

    They are the fraction of ones and, for every mode, the standard deviation of its rows' shares
    of ones, and the mean and standard deviation of the overlap of pairs of rows, which is the
    share of entries that are one in both. Error rates alone can fit the first statistic; the
    others need components.

    Parameters
    ----------
    arity
        Number of modes.
    mode_names
        Names of the modes; by default ``mode 0`` and so on.

    Returns
    -------
    statistics
        Functions of a dense array with NaN where unknown, by name.

    Examples
    --------
    >>> from thali.posterior.check_statistics import default_statistics
    >>> list(default_statistics(2, ["cells", "genes"]))[:3]
    ['fraction of ones', 'sd of shares, cells', 'mean overlap, cells']
    """
    names = [f"mode {mode}" for mode in range(arity)] if mode_names is None else list(mode_names)
    if len(names) != arity:
        msg = f"mode_names has {n_of(len(names), 'name')} for {arity} modes; give one per mode."
        raise ValueError(msg)
    statistics: dict[str, Statistic] = {"fraction of ones": _fraction}
    for mode, name in enumerate(names):
        statistics[f"sd of shares, {name}"] = partial(_sd_of_shares, mode=mode)
        statistics[f"mean overlap, {name}"] = partial(_mean_overlap, mode=mode)
        statistics[f"sd of overlap, {name}"] = partial(_sd_of_overlap, mode=mode)
    return statistics


# --- statistics ----------------------------------------------------------------------------


def _fraction(block: Block) -> float:
    return float(_shares(block.reshape(1, -1))[0])


def _sd_of_shares(block: Block, mode: int) -> float:
    return _sd(_shares(np.moveaxis(block, mode, 0)))


def _mean_overlap(block: Block, mode: int) -> float:
    overlaps = _overlaps(block, mode)
    overlaps = overlaps[~np.isnan(overlaps)]
    return float(overlaps.mean()) if overlaps.size else nan


def _sd_of_overlap(block: Block, mode: int) -> float:
    return _sd(_overlaps(block, mode))


def _overlaps(block: Block, mode: int) -> Block:
    """Return, of the entries known in both rows of a pair, the share that are one in both."""
    lines = np.ascontiguousarray(np.moveaxis(block, mode, 0))
    left, right = sample_pairs(len(lines), N_PAIRS).T
    step = max(1, _PAIR_ENTRIES // max(1, lines[0].size))
    parts = [slice(start, start + step) for start in range(0, len(left), step)]
    shares = (_shares(lines[left[part]] * lines[right[part]]) for part in parts)
    return np.concatenate([np.empty(0), *shares])


def _shares(lines: Block) -> Block:
    """Return the share of ones of every line, NaN if no entry of it is known."""
    others = tuple(range(1, lines.ndim))
    is_known = ~np.isnan(lines)
    n_known = is_known.sum(axis=others)
    n_ones = lines.sum(axis=others, where=is_known)
    shares: Block = np.divide(n_ones, n_known, out=np.full(len(lines), nan), where=n_known > 0)
    return shares


def _sd(values: Block) -> float:
    values = values[~np.isnan(values)]
    return float(values.std()) if values.size else nan
