"""Draw the offset and the jump together, where all columns have the same jump.

A covered entry depends on the sum of both, which many entries determine well, while one step of
the jump is many steps of the offset: given one, the other can hardly move. All levels stay. So
pairs are drawn out of a block of neighbours; blocks do not depend on the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.sampler.level_weights import pick
from thali.sites import OffsetIndex, Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_OFFSETS, _JUMPS = 64, 4
"""Numbers of offsets and of jumps in a block: with the default grids, 0.32 and 0.4."""

_MOST = 512
"""Number of classes of entries, at most: with more of them, it takes longer than it helps."""


def has_one_jump(state: State) -> bool:
    """Return whether there is one jump that components tell something about."""
    noise: Levels = state.noise
    n_classes = len(noise.row_classes[0]) * len(noise.across(0).values)
    return state.n_components > 0 and not noise.hyper.jump_spread and n_classes <= _MOST


def draw_offset_with_jump(stream: Stream, state: State, target: Target) -> State:
    """Draw offset and jump given all levels."""
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    uniforms = stream.uniforms(Site.OFFSET_WITH_JUMP, len(OffsetIndex))
    offsets = _block(hyper.offset, len(grids.offsets), _OFFSETS, uniforms[OffsetIndex.OFFSETS])
    jumps = _block(hyper.jump_mean, len(grids.jumps), _JUMPS, uniforms[OffsetIndex.JUMPS])
    weights = log_weights(state, target, grids.offsets[offsets], grids.jumps[jumps])
    offset, jump = divmod(pick(weights.ravel(), uniforms[OffsetIndex.PAIR]), len(jumps))
    hyper = hyper._replace(offset=int(offsets[offset]), jump_mean=int(jumps[jump]))
    same = np.full(len(noise.jumps), hyper.jump_mean)
    return state._replace(noise=noise.with_columns(noise.columns, same, hyper))


def log_weights(
    state: State, target: Target, offsets: NDArray[np.float64], jumps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log likelihoods of all pairs, ``(n_offsets, n_jumps)``, up to a constant."""
    noise: Levels = state.noise
    tp, fp, tn, fn = np.moveaxis(target.counts(state).table, -1, 0)
    without = noise.log_odds[..., 0] - noise.offset

    def by_class(odds: NDArray[np.float64], ones: Index, zeros: Index) -> NDArray[np.float64]:
        """Sum over all classes of entries, which come last."""
        logs = ones * odds - (ones + zeros) * np.logaddexp(0.0, odds)
        total: NDArray[np.float64] = logs.sum(axis=(-2, -1))
        return total

    free = without + offsets[:, None, None]
    covered = free[:, None] + jumps[:, None, None]
    weights: NDArray[np.float64] = by_class(free, fn, tn)[:, None] + by_class(covered, tp, fp)
    return weights


def _block(present: int, n: int, width: int, uniform: float) -> Index:
    """Return neighbours of a number among n, out of blocks that begin anywhere."""
    shift = int(uniform * width)
    start = (present + shift) // width * width - shift
    return np.arange(max(start, 0), min(start + width, n))
