"""Point estimate: the draw with the smallest expected loss."""

from __future__ import annotations

from collections.abc import Sized
from fractions import Fraction
from itertools import compress, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import count_ones
from thali.checks import positive
from thali.engines.cpu.counters import TILE
from thali.posterior.batches import (
    batches,
    check_passes,
    checked,
    unfolded_width,
)
from thali.posterior.coverage import count_covers, sum_counts
from thali.posterior.most_likely import n_misread
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from thali.bits import Confusion, Factor, Index, PackedTensor, Words
    from thali.trace import Draw

_BLOCK_WORDS = 1 << 23
"""Words of counters held at a time, 64 MB; each block of rows takes two passes over the draws."""

_FEWEST_PLANES = 3  # adding eight numbers at once needs three binary digits


class PointEstimate(NamedTuple):
    """The draw with the smallest expected loss, and how it fits the data."""

    draw: int  # position among all draws, chain after chain
    expected_loss: float
    factors: tuple[Factor, ...]
    confusion: Confusion  # known entries by whether a component covers them, and what they read
    error: float  # share of known entries that read other than it makes likely


def point_estimate(
    draws: Iterable[Draw],
    tensor: PackedTensor,
    *,
    missed: float = 1.0,
    false: float = 1.0,
    modal: bool = True,
    threads: int | None = None,
) -> PointEstimate:
    """Choose the draw whose product is closest to the products of all draws.

    Unlike a mean, it is a product of few components; unlike the draw of highest density, it is
    typical. All entries count, whether known or not.

    Parameters
    ----------
    draws
        Draws that can be traversed more than once.
    tensor
        The data. They only serve to describe the fit of the chosen draw.
    missed, false
        Loss of predicting zero where the entry is one, and one where it is zero.
    modal
        Choose only among draws with the most frequent number of components; if several numbers
        are equally frequent, the smallest of them.
    threads
        Number of threads; by default, the number of cores that this process may use. The result
        does not depend on it.

    Returns
    -------
    estimate
        The chosen draw; if several are equally good, the one of highest log joint density: draws
        without components, for example, differ by their noise alone.

    Raises
    ------
    ValueError
        If there are no draws, their shape differs from the tensor's, or a loss is not positive.

    Notes
    -----
    Let P be the fraction of draws that cover an entry, and f whether this draw does. The loss is
    the sum over entries of ``missed * P * (1 - f) + false * (1 - P) * f``. It is computed from
    counts in exact arithmetic, so ties are the same on every machine.

    A component may make ones likelier without making them likely, such as genes that are seen in
    one of three cells that express them. ``confusion`` is about cover: it has such entries among
    its covered zeros. ``error`` is about what the draw predicts for each entry, given its noise.

    Examples
    --------
    >>> from thali.bits import Factor, PackedTensor
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> from thali.sampler import State
    >>> from thali.trace import Draw
    >>> def draw(row, column, covered):
    ...     factors = tuple(Factor.from_dense(np.array(f, bool)[:, None]) for f in (row, column))
    ...     return Draw(State(factors, Noise(0.1, 0.2), 1.0, (), covered, 0), 0.0, 0.0)
    >>> both = [1, 1]
    >>> draws = [draw(both, [1, 0, 0], (2, 0)), draw(both, [1, 1, 0], (4, 0))]
    >>> draws.append(draw(both, [1, 1, 1], (5, 1)))  # ones and zeros that it covers
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any([[1, 1, 0], [1, 1, 1]]))
    >>> estimate = point_estimate(draws, tensor)
    >>> estimate.draw, round(estimate.expected_loss, 3), estimate.confusion
    (1, 1.333, Confusion(tp=4, fp=0, tn=1, fn=1))
    """
    missed, false = positive("missed", missed), positive("false", false)
    check_passes(draws)
    workers = n_threads(threads)
    n_draws = len(draws) if isinstance(draws, Sized) else sum(1 for _ in draws)
    if n_draws == 0:
        msg = "no draws were given; at least one is needed to choose from; give some."
        raise ValueError(msg)
    sizes, densities = np.zeros(n_draws, np.int64), np.zeros(n_draws)
    is_candidate = np.ones(n_draws, np.bool_)
    n_covers = 0
    of_blocks = []
    mode, n_planes = row_mode(tensor.shape), max(_FEWEST_PLANES, n_draws.bit_length())
    for rows in _blocks(tensor.shape, mode, n_planes):
        planes = np.zeros((len(rows), n_planes, unfolded_width(tensor.shape, mode)), np.uint64)
        noted = _noting(checked(draws, tensor.shape), sizes, densities)
        for batch in batches(noted, mode, rows):
            parallel_for(count_covers, len(rows), workers, *batch[:3], planes)
        if modal:
            is_candidate = sizes == np.bincount(sizes).argmax()
        # Each counter is the number of draws that cover an entry, so their sum is the total.
        n_covers += _sum(planes)
        parts = [
            sum(parallel_for(sum_counts, len(rows), workers, *batch[:3], planes))
            for batch in batches(compress(draws, is_candidate), mode, rows)
        ]
        of_blocks.append(np.concatenate(parts))
    # Missed: entries that other draws cover and this one does not. False: the reverse.
    losses = [
        Fraction(missed) * (n_covers - a) + Fraction(false) * (n_draws * c - a)
        for c, a in np.sum(of_blocks, axis=0).tolist()
    ]
    numbers = np.flatnonzero(is_candidate).tolist()
    best = min(range(len(losses)), key=lambda k: (losses[k], -densities[numbers[k]]))
    draw = numbers[best]
    state = next(islice(draws, draw, None)).state
    confusion = tensor.confusion(*state.covered)  # counted when it was drawn
    error = n_misread(state, tensor, confusion) / tensor.n_known
    return PointEstimate(draw, float(losses[best] / n_draws), state.factors, confusion, error)


def row_mode(shape: tuple[int, ...]) -> int:
    """Choose the mode whose rows are traversed: its codes should fill tiles, but be no longer.

    The loss is the same for every mode. The longer the chosen mode, the shorter its codes.
    """
    widths = {mode: unfolded_width(shape, mode) for mode in range(len(shape))}
    long_enough = [mode for mode, width in widths.items() if width >= TILE]
    if long_enough:
        return max(long_enough, key=lambda mode: shape[mode])
    return max(widths, key=widths.__getitem__)


def _blocks(shape: tuple[int, ...], mode: int, n_planes: int) -> Iterator[Index]:
    """Cut the rows of a mode into blocks, so that the memory for counters is bounded."""
    step = max(1, _BLOCK_WORDS // (n_planes * unfolded_width(shape, mode)))
    for start in range(0, shape[mode], step):
        yield np.arange(start, min(start + step, shape[mode]))


def _noting(draws: Iterable[Draw], sizes: Index, densities: NDArray[np.float64]) -> Iterator[Draw]:
    """Yield the draws, and record their numbers of components and log joint densities."""
    for i, draw in enumerate(draws):
        sizes[i], densities[i] = draw.state.n_components, draw.log_joint
        yield draw


def _sum(planes: Words) -> int:
    """Sum all bit-sliced counters."""
    n_planes = planes.shape[1]
    ones = count_ones(planes.reshape(-1, planes.shape[2])).reshape(-1, n_planes).sum(axis=0)
    return sum(int(n) << plane for plane, n in enumerate(ones))
