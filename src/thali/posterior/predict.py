"""Predictions: Boolean products averaged over draws, for which labels do not matter."""

from __future__ import annotations

from itertools import chain, islice
from math import fsum, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from thali.bits import PackedTensor, inner_mode, khatri_rao
from thali.bits.codes import is_covered, outer_modes
from thali.bits.words import WORD, gather_bits, n_words, pack, transpose
from thali.model import Levels
from thali.posterior.batches import (
    batches,
    check_passes,
    checked,
    row_numbers,
    unfolded_width,
)
from thali.posterior.coverage import (
    GROUP,
    add_entry_values,
    add_level_values,
    add_values,
    sum_logs,
)
from thali.posterior.positions import checked_positions, without_padding
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from thali.bits import Factor, Index, Words
    from thali.data import BinaryTensor
    from thali.trace import Draw

_BLOCK_ENTRIES = 1 << 25
"""Probabilities summed at a time, 256 MB; each block takes one pass over the draws."""

_NO_DATA = np.zeros((0, 0), np.uint64)
_BITS = (np.arange(256)[:, None] >> np.arange(GROUP)) & 1  # (byte, draw)


class Score(NamedTuple):
    """How well known entries are predicted; a higher score is better."""

    total: float  # sum of log predictive probabilities
    n_entries: int
    mean: float


def predictive(
    draws: Iterable[Draw],
    shape: Sequence[int],
    rows: slice | ArrayLike,
    *,
    noise_free: bool = False,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the probability of a one at every entry of some rows of the first mode.

    The average over the draws is exact; unknown entries are predicted like all others. The
    function passes over the draws once. It needs the memory of the result, or twice as much if
    the last mode does not fill whole words.

    Parameters
    ----------
    draws
        Draws with their error rates.
    shape
        Number of rows of each mode.
    rows
        Rows of the first mode: a slice, or row numbers.
    noise_free
        Return the probability that an entry is covered instead, that is before errors.
    threads
        Number of threads; by default, the number of cores that this process may use. The result
        does not depend on it.

    Returns
    -------
    probabilities
        ``(len(rows), *shape[1:])``.

    Notes
    -----
    The mean over draws of the probability of a one, given whether the draw covers the entry
    (:meth:`thali.model.Noise.entry_probabilities`).

    Examples
    --------
    >>> from thali.bits import Factor
    >>> from thali.model import Noise
    >>> from thali.sampler import State
    >>> from thali.trace import Draw
    >>> factors = tuple(Factor.from_dense(np.eye(2, n, dtype=bool).T) for n in (2, 3))
    >>> draw = Draw(State(factors, Noise(0.1, 0.2), 1.0, (), (0, 0), 0), 0.0, 0.0)
    >>> predictive([draw], (2, 3), slice(None)).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]
    """
    shape = tuple(shape)
    index = row_numbers(rows, shape[0])
    threads = n_threads(threads)
    sums = np.zeros((len(index), WORD * unfolded_width(shape, 0)))
    n_draws = _accumulate(
        checked(draws, shape), index, sums, _NO_DATA, threads, noise_free=noise_free
    )
    sums /= n_draws
    return without_padding(sums, shape, WORD)


def predictive_entries(
    draws: Iterable[Draw],
    shape: Sequence[int],
    positions: ArrayLike,
    *,
    noise_free: bool = False,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return the probability of a one at listed entries.

    The results equal those of :func:`predictive` bit for bit. The function passes over the draws
    once, and needs the memory of the result and of eight draws.

    Parameters
    ----------
    draws, shape, noise_free, threads
        See :func:`predictive`.
    positions
        ``(n_entries, arity)`` row numbers, one per mode.

    Returns
    -------
    probabilities
        ``(n_entries,)``.

    Examples
    --------
    >>> from thali.bits import Factor
    >>> from thali.model import Noise
    >>> from thali.sampler import State
    >>> from thali.trace import Draw
    >>> factors = tuple(Factor.from_dense(np.eye(2, n, dtype=bool).T) for n in (2, 3))
    >>> draw = Draw(State(factors, Noise(0.1, 0.2), 1.0, (), (0, 0), 0), 0.0, 0.0)
    >>> predictive_entries([draw], (2, 3), [[0, 0], [0, 2]]).tolist()
    [0.8, 0.1]
    """
    shape = tuple(shape)
    positions = checked_positions(positions, shape)
    threads = n_threads(threads)
    sums = np.zeros(len(positions))
    firsts = np.cumsum([0, *shape[:-1]])
    n_draws = 0
    waiting = checked(draws, shape)
    while group := list(islice(waiting, GROUP)):
        lines = _row_lines([d.state.factors for d in group], shape)
        noise = group[0].state.noise
        if not noise_free and isinstance(noise, Levels):
            for draw in group:
                sums += _level_values(draw, positions)
            n_draws += len(group)
            continue
        probabilities = np.array([d.state.noise.entry_probabilities() for d in group])
        table = _tables(probabilities, noise_free=noise_free)[0, 1]
        job = (lines, firsts, positions, table, sums)
        parallel_for(add_entry_values, len(positions), threads, *job)
        n_draws += len(group)
    return sums / _some(n_draws)


def log_scores(
    draws: Iterable[Draw],
    shape: Sequence[int],
    tensor: BinaryTensor | PackedTensor,
    *,
    threads: int | None = None,
) -> Score:
    """Score the known entries of a tensor, for instance one that was held out.

    Probabilities are averaged over draws before the logarithm is taken: this is the log
    predictive density of each entry by itself.

    Parameters
    ----------
    draws
        Draws with their error rates; traversed once per 33 million entries.
    shape
        Number of rows of each mode of the draws.
    tensor
        Data of the same shape; unknown entries do not count.
    threads
        Number of threads; by default, the number of cores that this process may use. The result
        does not depend on it.

    Examples
    --------
    >>> from thali.bits import Factor
    >>> from thali.model import Noise
    >>> from thali.sampler import State
    >>> from thali.trace import Draw
    >>> factors = tuple(Factor.from_dense(np.eye(2, n, dtype=bool).T) for n in (2, 3))
    >>> draw = Draw(State(factors, Noise(0.1, 0.2), 1.0, (), (0, 0), 0), 0.0, 0.0)
    >>> from thali.data import BinaryTensor
    >>> tensor = BinaryTensor.from_any([[1, 0, None], [None, 1, 0]])
    >>> score = log_scores([draw], (2, 3), tensor)
    >>> bool(np.isclose(score.total, 2 * np.log(0.8) + 2 * np.log(0.9))), score.n_entries
    (True, 4)
    """
    shape = tuple(shape)
    if tuple(tensor.shape) != shape:
        msg = (
            f"a tensor of shape {tuple(tensor.shape)} was given to score draws of shape {shape}; "
            "both must agree; fill it up with unknown entries."
        )
        raise ValueError(msg)
    check_passes(draws)
    threads = n_threads(threads)
    packed = tensor if isinstance(tensor, PackedTensor) else PackedTensor.from_tensor(tensor)
    ones, known = packed.unfoldings[0]
    has_entries = np.ones(shape[0], np.bool_) if known is None else known.any(axis=1)
    index = np.flatnonzero(has_entries)
    step = max(1, _BLOCK_ENTRIES // (WORD * unfolded_width(shape, 0)))
    parts = []
    for start in range(0, len(index), step):
        rows = index[start : start + step]
        sums = np.zeros((len(rows), WORD * unfolded_width(shape, 0)))
        n_draws = _accumulate(checked(draws, shape), rows, sums, ones[rows], threads)
        mask = np.repeat(_all_known(shape), len(rows), 0) if known is None else known[rows]
        logs = np.zeros(len(rows))
        parallel_for(sum_logs, len(rows), threads, sums, mask, n_draws, logs)
        parts.extend(logs.tolist())
    total = fsum(parts)
    return Score(total, packed.n_known, total / packed.n_known)


def _accumulate(
    draws: Iterable[Draw],
    rows: Index,
    sums: NDArray[np.float64],
    ones: Words,
    threads: int,
    *,
    noise_free: bool = False,
) -> int:
    """Add the probabilities of all draws to the sums of some rows; return the number of draws."""
    n_draws = 0
    draws = iter(draws)
    first = next(draws, None)
    draws = draws if first is None else chain([first], draws)
    if not noise_free and first is not None and isinstance(first.state.noise, Levels):
        for draw in draws:
            _add_levels(draw, rows, sums, ones, threads)
            n_draws += 1
        return n_draws
    for batch in batches(draws, 0, rows):
        tables = _tables(batch.probabilities, noise_free=noise_free)
        parallel_for(add_values, len(rows), threads, *batch[:3], tables, ones, sums)
        n_draws += batch.n_draws
    return _some(n_draws)


def _add_levels(
    draw: Draw, rows: Index, sums: NDArray[np.float64], ones: Words, threads: int
) -> None:
    """Add the probabilities of a draw with levels of rows and columns."""
    factors, noise = draw.state.factors, draw.state.noise
    assert isinstance(noise, Levels)
    job = (
        khatri_rao(factors, 0).words, gather_bits(factors[0].words, rows),
        noise.row_classes[1][rows], noise.across(0).classes, noise.entry_probabilities(), ones,
        sums,
    )  # fmt: skip
    parallel_for(add_level_values, len(rows), threads, *job)


def _tables(probabilities: NDArray[np.float64], *, noise_free: bool) -> NDArray[np.float64]:
    """Sum the probability of a datum over groups of eight draws: ``(n_groups, 2, 256)``.

    The axes are the group, the datum, and a byte whose bits are the draws that cover the entry.
    ``probabilities`` is ``(n_draws, 2, 2)``, by datum and whether it is covered. The probability
    of a zero is not computed as one minus that of a one: the difference would be lost if errors
    are rare.
    """
    n_draws = len(probabilities)
    n_groups = -(-n_draws // GROUP)
    padded = np.zeros((2, 2, n_groups * GROUP))  # datum, covered, draw
    padded[:, :, :n_draws] = (
        np.eye(2)[:, :, None] if noise_free else probabilities.transpose(1, 2, 0)
    )
    table = np.zeros((n_groups, 2, 256))
    for j in range(GROUP):  # one draw after another: the same order of sums everywhere
        table += padded[:, _BITS[:, j], j::GROUP].transpose(2, 0, 1)
    return table


def _row_lines(draws: list[tuple[Factor, ...]], shape: tuple[int, ...]) -> Words:
    """Lay out the components of every row of all modes, eight draws side by side."""
    width = max(1, *(n_words(factors[0].n_components) for factors in draws))
    lines = np.zeros((sum(shape), width, GROUP), np.uint64)
    for j, factors in enumerate(draws):
        first = 0
        for factor in factors:
            words = transpose(factor.words, factor.n_rows)
            lines[first : first + factor.n_rows, : words.shape[1], j] = words
            first += factor.n_rows
    return lines


def _all_known(shape: tuple[int, ...]) -> Words:
    """Return one row of the first mode's unfolding, with all bits set except the padding."""
    inner = pack(np.ones((1, shape[inner_mode(shape, 0)]), np.bool_))
    return np.tile(inner, prod(shape[m] for m in outer_modes(shape, 0)))


def _level_values(draw: Draw, positions: Index) -> NDArray[np.float64]:
    """Return the probabilities of a one at listed entries, given a draw with levels."""
    noise = draw.state.noise
    assert isinstance(noise, Levels)
    covered = is_covered(draw.state.factors, positions)
    values: NDArray[np.float64] = expit(noise.entry_odds(positions, covered))
    return values


def _some(n_draws: int) -> int:
    if n_draws == 0:
        msg = "no draws were given; at least one is needed to predict; give some."
        raise ValueError(msg)
    return n_draws
