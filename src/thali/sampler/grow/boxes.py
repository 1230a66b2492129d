"""Components of a tensor, from those that are grown on its unfolding to a matrix.

Unfolded along its rows, a tensor is a matrix whose columns are the combinations of lines of all
other modes. A component of the tensor is one of the matrix, with the same users, whose code is a
box. So components are grown as for a matrix, and their codes are then taken apart into boxes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from thali.bits import Factor
from thali.bits.codes import inner_mode, outer_modes
from thali.bits.words import WORD
from thali.model import Beta, Effects, Levels
from thali.sampler.state import State
from thali.sampler.target import Target
from thali.sites import Site, site_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import HostEngine
    from thali.streams import Stream

    Lines = list[NDArray[np.bool_]]

_LARGE, _FEWEST = 1 << 22, 64
"""Entries on which components are grown at most: of a larger tensor, some lines of each mode, but
not fewer than the second number."""

_SMALLEST = 0.1
"""Share of the entries of a code that a further box must have."""

_MOST, _ROUNDS = 4, 10
"""How many boxes a code is taken apart into at most, and how often each of them is improved."""


def choose_lines(stream: Stream, shape: tuple[int, ...]) -> list[Index]:
    """Choose the lines of every mode on which components are grown: all of them, if possible."""
    share = min(1.0, (_LARGE / prod(shape)) ** (1.0 / len(shape)))
    lines = []
    for mode, n in enumerate(shape):
        n_chosen = n if share == 1.0 else max(min(n, _FEWEST), int(share * n))
        order = stream.permutation(site_of(Site.FIRST_ROWS, mode), n)
        lines.append(np.sort(order[:n_chosen]))
    return lines


def some_lines(target: Target, lines: list[Index]) -> Target:
    """Return a target like another, on the host, of some lines of a tensor."""
    return target._replace(engine=target.engine.on_host(None).of_lines(lines))


def unfolded(host: Target) -> Target:
    """Return a target whose data are a tensor as a matrix, without levels of lines."""
    model = replace(host.model, n_components=None, density=Beta())
    if isinstance(host.priors.noise, Effects):
        model = replace(model, noise="unequal")
    engine = cast("HostEngine", host.engine).as_matrix()
    return Target(engine, model, model.priors(2), host.schedule)


def as_boxes(state: State, host: Target) -> State:
    """Return a state of a tensor, given one of the matrix to which it unfolds."""
    shape = host.shape
    outer, inner = outer_modes(shape, 0), inner_mode(shape, 0)
    users, codes = (factor.dense() for factor in state.factors)
    width = -(-shape[inner] // WORD) * WORD
    codes = codes.T.reshape(-1, *(shape[mode] for mode in outer), width)
    found: list[Lines] = [[] for _ in shape]
    for component, code in enumerate(codes):
        for box in find_boxes(code[..., : shape[inner]]):
            found[0].append(users[:, component])
            for mode, line in zip([*outer, inner], box, strict=True):
                found[mode].append(line)
    kept = _largest(found, host.model.n_components)
    n_components = host.model.n_components or len(kept)
    factors, densities = [], []
    for mode, n in enumerate(shape):
        dense = np.zeros((n, n_components), np.bool_)
        for component, which in enumerate(kept):
            dense[:, component] = found[mode][which]
        factors.append(Factor.from_dense(dense))
        share = (dense.sum() + 1.0) / (dense.size + 4.0)
        densities.append(_fixed_or(host, mode, share))
    noise, prior = state.noise, host.priors.noise
    if isinstance(prior, Effects):
        noise = prior.flat(shape, *noise)
    return State(tuple(factors), noise, state.alpha, tuple(densities), (0, 0), 0)


def for_lines(state: State, target: Target, lines: list[Index]) -> State:
    """Return a state of all lines, given one of some: the others have no component yet."""
    factors = []
    for factor, chosen, n in zip(state.factors, lines, target.shape, strict=True):
        dense = np.zeros((n, state.n_components), np.bool_)
        dense[chosen] = factor.dense()
        factors.append(Factor.from_dense(dense))
    noise = state.noise
    if isinstance(noise, Levels):
        noise = noise.for_lines(tuple(lines), target.shape)
    return state._replace(factors=tuple(factors), noise=noise)


def _largest(found: list[Lines], n_components: int | None) -> list[int]:
    """Return which boxes to keep: all, or the largest if the number of components is given."""
    sizes = np.prod([[line.sum() for line in of_mode] for of_mode in found], axis=0)
    return np.argsort(-sizes, kind="stable")[:n_components].tolist() if len(sizes) else []


def _fixed_or(target: Target, mode: int, share: float) -> NDArray[np.float64]:
    """Return the density of a mode: as given, or the share of ones if it is learned."""
    prior = target.priors.densities[mode]
    if prior is None:  # the mode has the buffet
        return np.array(0.0)
    n_components = target.model.n_components or 0
    return np.array(share) if isinstance(prior, Beta) else prior.initial(n_components)


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
