"""Components of a tensor, from those that are grown on its unfolding to a matrix.

Unfolded along its rows, a tensor is a matrix whose columns are the combinations of lines of all
other modes. A component of the tensor is one of the matrix, with the same users, whose code is a
box. So components are grown as for a matrix, and their codes are then taken apart into boxes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor, PackedTensor, Unfolding
from thali.bits.codes import inner_mode, outer_modes
from thali.bits.tensor import unfold_back
from thali.bits.words import WORD, pack
from thali.data.entries import every_column
from thali.model import Beta
from thali.sampler.target import Target
from thali.sites import Site, site_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.state import State
    from thali.streams import Stream

    Lines = list[NDArray[np.bool_]]

_LARGE = 1 << 22
"""Entries on which components are grown at most: of a larger tensor, some lines of each mode."""

_SMALLEST = 0.1
"""Share of the entries of a code that a further box must have."""

_MOST, _ROUNDS = 4, 10
"""How many boxes a code is taken apart into at most, and how often each of them is improved."""


def choose_lines(stream: Stream, shape: tuple[int, ...]) -> list[Index]:
    """Choose the lines of every mode on which components are grown: all of them, if possible."""
    share = min(1.0, (_LARGE / prod(shape)) ** (1.0 / len(shape)))
    lines = []
    for mode, n in enumerate(shape):
        n_chosen = n if share == 1.0 else max(min(n, WORD), int(share * n))
        order = stream.permutation(site_of(Site.FIRST_ROWS, mode), n)
        lines.append(np.sort(order[:n_chosen]))
    return lines


def unfolded(target: Target, lines: list[Index]) -> Target:
    """Return a target like another whose data are some lines of a tensor, as a matrix."""
    engine = target.on_host(lines[0]).engine
    ones, known = engine.tensor.unfoldings[0]  # type: ignore[attr-defined]
    shape = tuple(map(len, lines))
    if shape != target.shape:
        ones, known = (_chosen(part, target.shape, lines) for part in (ones, known))
    is_there = every_column(shape)
    known = np.broadcast_to(is_there, ones.shape) if known is None else known & is_there
    first = Unfolding(ones, np.ascontiguousarray(known))
    matrix = PackedTensor.from_unfolding((shape[0], WORD * ones.shape[1]), first)
    model = replace(target.model, density=Beta())
    return Target(engine.load(matrix), model, model.priors(2), target.schedule)


def _chosen(words: Words | None, shape: tuple[int, ...], lines: list[Index]) -> Words | None:
    """Return some lines of the modes beside rows, packed as an unfolding."""
    if words is None:
        return None
    chosen = tuple(map(len, lines))
    inner, outer = inner_mode(chosen, 0), outer_modes(chosen, 0)
    step = max(1, _LARGE // prod(shape[1:]))  # all columns of so many rows are unpacked at a time
    parts = []
    for start in range(0, len(words), step):
        block = words[start : start + step]
        dense = unfold_back(block, (len(block), *shape[1:]))
        dense = dense[np.ix_(np.arange(len(block)), *lines[1:])]
        parts.append(pack(dense.transpose(0, *outer, inner)).reshape(len(block), -1))
    packed: Words = np.concatenate(parts)
    return packed


def as_boxes(state: State, target: Target, lines: list[Index]) -> State:
    """Return a state of a tensor, given one of the matrix that some of its lines make."""
    shape = tuple(map(len, lines))
    outer, inner = outer_modes(shape, 0), inner_mode(shape, 0)
    users = state.factors[0].dense()
    width = -(-shape[inner] // WORD) * WORD
    codes = state.factors[1].dense().T.reshape(-1, *(shape[mode] for mode in outer), width)
    found: list[Lines] = [[] for _ in shape]
    for component, code in enumerate(codes):
        for box in find_boxes(code[..., : shape[inner]]):
            found[0].append(users[:, component])
            for mode, line in zip([*outer, inner], box, strict=True):
                found[mode].append(line)
    factors, densities = [], [np.array(0.0)]
    for mode, (chosen, n) in enumerate(zip(lines, target.shape, strict=True)):
        dense = np.zeros((n, len(found[mode])), np.bool_)
        if found[mode]:
            dense[chosen] = np.stack(found[mode], axis=1)
        factors.append(Factor.from_dense(dense))
        if mode:
            share = (dense[chosen].sum() + 1.0) / (dense[chosen].size + 4.0)
            densities.append(_fixed_or(target, mode, share))
    return state._replace(
        factors=tuple(factors), densities=tuple(densities), sweep=0, covered=(0, 0)
    )


def _fixed_or(target: Target, mode: int, share: float) -> NDArray[np.float64]:
    """Return the density of a mode: as given, or the share of ones if it is learned."""
    prior = target.priors.densities[mode]
    assert prior is not None
    return np.array(share) if isinstance(prior, Beta) else prior.initial(0)


def find_boxes(code: NDArray[np.bool_]) -> Iterator[Lines]:
    """Take a set of entries apart into boxes, the clearest first; yield their lines by mode.

    Examples
    --------
    >>> code = np.zeros((4, 5), bool)
    >>> code[:2, :3] = code[2:, 2:] = True
    >>> for rows, columns in find_boxes(code):
    ...     print(np.flatnonzero(rows), np.flatnonzero(columns))
    [0 1] [0 1 2]
    [2 3] [2 3 4]
    """
    n_all = int(code.sum())
    value = np.where(code, 1.0, -1.0)
    for _ in range(_MOST):
        left = value > 0.0
        if left.sum() <= _SMALLEST * n_all:
            return
        lines = _grow_box(value, _centre(left))
        box = reduce(np.logical_and.outer, lines)
        if (left & box).sum() <= _SMALLEST * n_all:
            return
        yield lines
        value[box & left] = 0.0  # entries that are explained count neither for nor against others


def _centre(left: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return an entry whose lines have many others."""
    seed: list[int] = []
    for _ in range(left.ndim):
        counts = left.sum(axis=tuple(range(1, left.ndim)))
        seed.append(int(counts.argmax()))
        left = left[seed[-1]]
    return tuple(seed)


def _grow_box(value: NDArray[np.float64], seed: tuple[int, ...]) -> Lines:
    """Improve the lines of one mode after another, beginning with those that cross a seed."""
    lines: Lines = []
    for mode in range(value.ndim):
        cross = value[tuple(slice(None) if m == mode else at for m, at in enumerate(seed))]
        lines.append(cross > 0.0)
    for _ in range(_ROUNDS):
        before = [line.copy() for line in lines]
        for mode in range(value.ndim):
            gain = value
            for other in reversed(range(value.ndim)):
                if other != mode:
                    gain = np.tensordot(gain, lines[other].astype(float), axes=(other, 0))
            lines[mode] = gain > 0.0
        if all(np.array_equal(a, b) for a, b in zip(before, lines, strict=True)):
            break
    return lines
