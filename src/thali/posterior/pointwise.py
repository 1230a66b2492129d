"""Single entries draw by draw: their log likelihood, and replicates of them.

ArviZ computes leave-one-out scores from such values. The unit is an entry, not a row: every row
has memberships of its own, which its entries determine, so that leaving out a whole row changes a
draw too much for importance sampling; leaving out one entry hardly changes it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from thali.bits.codes import is_covered
from thali.bits.tensor import unfold_back
from thali.bits.words import count_ones
from thali.model import Levels
from thali.sites import Site
from thali.streams import Stream, simulation_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, PackedTensor
    from thali.posterior.draws import Draws
    from thali.trace import Draw

_GOLDEN = 0.6180339887498949
"""Multiples of this number modulo 1 are spread evenly, without a period in rows or columns."""


class Pointwise(NamedTuple):
    """Some known entries, and what every draw says about them."""

    positions: Index  # (n_entries, arity): the row number in every mode
    observed: NDArray[np.int8]  # (n_entries,): zeros and ones
    log_likelihood: NDArray[np.float64]  # (n_chains, n_draws, n_entries)
    replicated: NDArray[np.int8]  # (n_chains, n_draws, n_entries): simulated, given the draw


def pointwise(draws: Draws, n_entries: int) -> Pointwise:
    """Return the log likelihood and replicates of some known entries in every draw.

    Parameters
    ----------
    draws
        Draws of all chains; traversed once.
    n_entries
        Number of entries. If there are more known ones, some are chosen, spread evenly over the
        data, and always the same.
    """
    positions = some_entries(draws.tensor, n_entries)
    observed = values_at(draws.tensor, positions)
    shape = (draws.n_chains, draws.n_draws, len(positions))
    logs, replicated = np.zeros(shape), np.zeros(shape, np.int8)
    key = simulation_key(draws.settings.seed)
    for number, (at, draw) in enumerate(zip(np.ndindex(shape[:2]), draws, strict=True)):
        by_datum = _probabilities(draw, positions)
        logs[at] = np.log(by_datum[np.arange(len(positions)), observed])
        stream = Stream(key, np.uint64(number))
        replicated[at] = stream.uniforms(Site.REPLICATE, len(positions)) < by_datum[:, 1]
    return Pointwise(positions, observed, logs, replicated)


def some_entries(tensor: PackedTensor, n_entries: int) -> Index:
    """Return the positions of known entries, in C order: all, or some that are spread evenly.

    Examples
    --------
    >>> from thali.bits import PackedTensor
    >>> from thali.data import BinaryTensor
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any([[0, None, 1], [1, None, 0]]))
    >>> some_entries(tensor, 9).tolist()
    [[0, 0], [0, 2], [1, 0], [1, 2]]
    """
    n_known = tensor.n_known
    ranks = np.arange(n_known)
    if n_entries < n_known:
        ranks = np.unique((np.arange(n_entries) * _GOLDEN % 1.0 * n_known).astype(np.int64))
    known = tensor.unfoldings[0].known
    if known is None:
        return np.stack(np.unravel_index(ranks, tensor.shape), axis=1).astype(np.int64)
    ends = np.cumsum(count_ones(known))
    rows = np.searchsorted(ends, ranks, side="right")
    found = []
    for row in np.unique(rows):
        inside = np.argwhere(unfold_back(known[row : row + 1], tensor.shape))
        found.append(inside[ranks[rows == row] - (ends[row - 1] if row else 0)])
        found[-1][:, 0] = row
    empty = np.zeros((0, len(tensor.shape)), np.int64)
    return np.concatenate([empty, *found])


def values_at(tensor: PackedTensor, positions: Index) -> NDArray[np.int8]:
    """Return the data at some known entries."""
    values = np.zeros(len(positions), np.int8)
    for row in np.unique(positions[:, 0]):
        here = positions[:, 0] == row
        dense = unfold_back(tensor.unfoldings[0].ones[row : row + 1], tensor.shape)
        columns = np.ravel_multi_index(tuple(positions[here, 1:].T), tensor.shape[1:])
        values[here] = dense.reshape(prod(tensor.shape[1:]))[columns]
    return values


def _probabilities(draw: Draw, positions: Index) -> NDArray[np.float64]:
    """Return the probability of a zero and of a one at every position, given a draw."""
    factors, noise = draw.state.factors, draw.state.noise
    covered = is_covered(factors, positions).astype(np.int64)
    if isinstance(noise, Levels):
        odds = noise.entry_odds(positions, covered)
        return np.stack([expit(-odds), expit(odds)], axis=1)
    return np.asarray(np.array(noise.entry_probabilities())[:, covered].T, np.float64)
