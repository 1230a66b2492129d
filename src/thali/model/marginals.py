# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The marginal likelihood of the users of some components, with their codes summed out.

Given the users of these components and everything that the other components cover, the bits of
the codes are independent between columns. The marginal likelihood of a column is a sum over the
patterns of its bits.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali._jit import inner, jit, lean
from thali.model.rule import free_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_NEGLIGIBLE = 40.0
"""Terms whose logarithm is this far below the largest do not change a double."""

_TILE = 64
"""Number of columns whose weights are computed together."""

_ONE = np.uint64(1)


class Marginal(NamedTuple):
    """The patterns of some components' bits per column, by prior and likelihood (eq. 17).

    Bit i of a column's pattern is on if component i has the column.
    """

    gains: NDArray[np.float64]  # (n_columns, n_classes): gain by covering a class of rows
    members: Index  # (n_components,): classes that use each component, bit c for class c
    densities: NDArray[np.float64]  # (n_components,): prior probability of a bit

    def gain(self, other: Marginal) -> float:
        """Return by how much the log marginal likelihood exceeds another's, same columns."""
        return float(excess(*self, other.members, other.densities))

    def draw(self, uniforms: NDArray[np.float64]) -> Words:
        """Draw the bits of the components; return them packed, ``(n_components, n_words)``."""
        codes: Words = _draw(*self, uniforms)
        return codes


@inner
def list_patterns(
    members: Index, densities: NDArray[np.float64]
) -> tuple[Index, NDArray[np.float64]]:
    """Return the classes that each pattern covers, and its log prior probability."""
    n = members.shape[0]
    covers, prior = np.zeros(1 << n, np.int64), np.zeros(1 << n)
    for i in range(n):
        log_on, log_off = log(densities[i]), log(1.0 - densities[i])
        for pattern in range(1 << n):
            if (pattern >> i) & 1:
                covers[pattern] |= members[i]
                prior[pattern] += log_on
            else:
                prior[pattern] += log_off
    return covers, prior


@inner
def _list_fresh(of_classes: NDArray[np.float64], covers: Index) -> tuple[Index, Index]:
    """List the classes that only the first component of each pattern covers.

    Classes without rows gain nothing, and are left out. Returns where the list of every pattern
    begins, and the lists.
    """
    n_classes = of_classes.shape[1]
    starts = np.zeros(covers.shape[0] + 1, np.int64)
    lists = np.empty(covers.shape[0] * n_classes, np.int64)
    matters = np.zeros(n_classes, np.bool_)
    _fill_lists(of_classes, covers, starts, lists, matters)
    return starts, lists


@lean
def _fill_lists(
    of_classes: NDArray[np.float64], covers: Index, starts: Index, lists: Index,
    matters: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Do the work of :func:`_list_fresh`; ``matters`` is memory for the classes with rows."""
    n_columns, n_classes = of_classes.shape
    for column in range(n_columns):
        for c in range(n_classes):
            matters[c] |= of_classes[column, c] != 0.0
    n = 0
    for pattern in range(covers.shape[0]):
        fresh = free_word(covers[pattern], covers[pattern & (pattern - 1)])
        for c in range(n_classes):
            if matters[c] and (fresh >> c) & 1:
                lists[n] = c
                n += 1
        starts[pattern + 1] = n


@lean
def _weigh(
    of_classes: NDArray[np.float64], fresh: tuple[Index, Index], prior: NDArray[np.float64],
    column: int, gains: NDArray[np.float64], out: NDArray[np.float64],
) -> float:  # fmt: skip
    """Compute the log weights of a column's patterns; return the largest.

    The gain of a pattern is the gain without its first component, plus that of the classes of
    rows that only this component covers.
    """
    starts, lists = fresh
    gains[0] = 0.0
    out[0] = prior[0]
    largest = out[0]
    for pattern in range(1, prior.shape[0]):
        gain = gains[pattern & (pattern - 1)]
        for k in range(starts[pattern], starts[pattern + 1]):
            gain += of_classes[column, lists[k]]
        gains[pattern] = gain
        out[pattern] = gain + prior[pattern]
        largest = max(largest, out[pattern])
    return largest


@inner
def _total(
    of_classes: NDArray[np.float64], members: Index, densities: NDArray[np.float64]
) -> float:
    """Return the log marginal likelihood of all columns, relative to no cover."""
    covers, prior = list_patterns(members, densities)
    fresh = _list_fresh(of_classes, covers)
    gains, tops = np.empty((prior.shape[0], _TILE)), np.empty((2, _TILE))
    return _add_up(of_classes, fresh, prior, gains, tops)


@lean
def _weigh_tile(
    of_classes: NDArray[np.float64], start: int, n: int, fresh: tuple[Index, Index],
    prior: NDArray[np.float64], gains: NDArray[np.float64], largest: NDArray[np.float64],
) -> None:  # fmt: skip
    """Compute gains of patterns and largest weights as :func:`_weigh`, of a few columns at once.

    A pattern then takes one short loop over columns.
    """
    starts, lists = fresh
    for j in range(n):
        gains[0, j] = 0.0
        largest[j] = prior[0]
    for pattern in range(1, prior.shape[0]):
        gain, before = gains[pattern], gains[pattern & (pattern - 1)]
        for j in range(n):
            gain[j] = before[j]
        for k in range(starts[pattern], starts[pattern + 1]):
            c = lists[k]
            for j in range(n):
                gain[j] += of_classes[start + j, c]
        for j in range(n):
            largest[j] = max(largest[j], gain[j] + prior[pattern])


@lean
def _add_up(
    of_classes: NDArray[np.float64], fresh: tuple[Index, Index], prior: NDArray[np.float64],
    gains: NDArray[np.float64], tops: NDArray[np.float64],
) -> float:  # fmt: skip
    """Sum the log marginal likelihood over columns; the last two arguments are memory."""
    largest, rest = tops
    total = 0.0
    for start in range(0, of_classes.shape[0], _TILE):
        n = min(_TILE, of_classes.shape[0] - start)
        _weigh_tile(of_classes, start, n, fresh, prior, gains, largest)
        for j in range(n):
            rest[j] = 0.0
        for pattern in range(prior.shape[0]):
            for j in range(n):
                below = largest[j] - (gains[pattern, j] + prior[pattern])
                if below == 0.0:
                    rest[j] += 1.0  # as below, without the time that the exponential takes
                elif below < _NEGLIGIBLE:
                    rest[j] += exp(-below)
        for j in range(n):
            total += largest[j] if rest[j] == 1.0 else largest[j] + log(rest[j])
    return total


@jit
def excess(
    of_classes: NDArray[np.float64], members: Index, densities: NDArray[np.float64],
    other_members: Index, other_densities: NDArray[np.float64],
) -> float:  # fmt: skip
    """Return by how much one log marginal likelihood exceeds another, as :class:`Marginal`."""
    mine = _total(of_classes, members, densities)
    return mine - _total(of_classes, other_members, other_densities)


@jit
def _draw(
    of_classes: NDArray[np.float64], members: Index, densities: NDArray[np.float64],
    uniforms: NDArray[np.float64],
) -> Words:  # fmt: skip
    """Draw a pattern for every column and set its bits."""
    covers, prior = list_patterns(members, densities)
    fresh = _list_fresh(of_classes, covers)
    codes = np.zeros((members.shape[0], (of_classes.shape[0] + 63) >> 6), np.uint64)
    gains, weights = np.empty(prior.shape[0]), np.empty(prior.shape[0])
    n_patterns = prior.shape[0]
    for column in range(of_classes.shape[0]):
        largest = _weigh(of_classes, fresh, prior, column, gains, weights)
        total = 0.0
        for pattern in range(n_patterns):
            weights[pattern] = exp(weights[pattern] - largest)
            total += weights[pattern]
        left = uniforms[column] * total
        chosen = n_patterns - 1
        for pattern in range(n_patterns):
            left -= weights[pattern]
            if left < 0.0:
                chosen = pattern
                break
        for i in range(codes.shape[0]):
            if (chosen >> i) & 1:
                codes[i, column >> 6] |= _ONE << np.uint64(column & 63)
    return codes
