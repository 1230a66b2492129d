"""Passes over draws: draws are checked and laid out in batches for the compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import inner_mode, khatri_rao
from thali.bits.codes import outer_modes
from thali.bits.words import gather_bits, n_words
from thali.model import Noise
from thali.posterior.coverage import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from thali.bits import Index, Words
    from thali.trace import Draw

_UNKNOWN = np.full((2, 2), np.nan)
_BATCH_DRAWS = 64
_BATCH_WORDS = 1 << 22
"""Words of codes after which a batch ends (32 MB), even if it has fewer than 64 draws."""


class Batch(NamedTuple):
    """Consecutive draws; draw ``d`` has the components ``starts[d]:starts[d + 1]``."""

    codes: Words  # (n_components of all draws, n_words)
    members: Words  # (n_components of all draws, ceil(n_rows / 64)): the rows that use a code
    starts: Index  # (n_draws + 1,)
    probabilities: NDArray[np.float64]  # (n_draws, 2, 2): P(datum | covered) of the noise

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.starts) - 1


def batches(draws: Iterable[Draw], mode: int, rows: Index) -> Iterator[Batch]:
    """Lay out draws for passes over some rows of a mode.

    All batches but the last hold a multiple of eight draws, so the order of the draws alone
    determines which of them are summed together.
    """
    held: list[tuple[Words, Words, Noise]] = []
    size = 0
    for draw in draws:
        factors, noise = draw.state.factors, draw.state.noise
        codes = khatri_rao(factors, mode).words
        held.append((codes, gather_bits(factors[mode].words, rows), noise))
        size += codes.size
        if len(held) % GROUP == 0 and (len(held) == _BATCH_DRAWS or size >= _BATCH_WORDS):
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(held: list[tuple[Words, Words, Noise]]) -> Batch:
    codes, members, noises = zip(*held, strict=True)
    starts = np.cumsum([0, *map(len, codes)])
    # Levels of rows and columns have no common probabilities; predict.py adds those of entries.
    probabilities = np.array(
        [noise.entry_probabilities() if isinstance(noise, Noise) else _UNKNOWN for noise in noises]
    )
    return Batch(np.concatenate(codes), np.concatenate(members), starts, probabilities)


def row_numbers(rows: slice | ArrayLike, n_rows: int) -> Index:
    """Return the row numbers that a slice or a list of integers selects."""
    if isinstance(rows, slice):
        return np.arange(n_rows)[rows]
    try:
        given = np.asarray(rows)
    except ValueError:  # lists of different lengths
        given = np.array(None)
    is_valid = given.ndim == 1 and (given.size == 0 or given.dtype.kind in "iu")
    if not is_valid or (given.size and not 0 <= given.min() <= given.max() < n_rows):
        msg = (
            f"rows={rows!r} was given; allowed are a slice, or a list of row numbers from 0 to "
            f"{n_rows - 1}; choose some of those."
        )
        raise ValueError(msg)
    return given.astype(np.int64)


def unfolded_width(shape: tuple[int, ...], mode: int) -> int:
    """Return the number of words per row of a mode's unfolding."""
    n_outer = prod(shape[m] for m in outer_modes(shape, mode))
    return n_outer * n_words(shape[inner_mode(shape, mode)])


def checked(draws: Iterable[Draw], shape: tuple[int, ...]) -> Iterator[Draw]:
    """Yield the draws, and refuse those of another shape."""
    for draw in draws:
        given = tuple(f.n_rows for f in draw.state.factors)
        if given != shape:
            msg = (
                f"a draw of shape {given} was given for data of shape {shape}; both must agree; "
                "give the draws of these data."
            )
            raise ValueError(msg)
        yield draw


def check_passes(draws: Iterable[Draw]) -> None:
    """Refuse draws that can be traversed only once."""
    if isinstance(draws, Iterator):
        msg = (
            f"a {type(draws).__name__} was given; draws are traversed more than once; give a "
            "list of them."
        )
        raise TypeError(msg)
