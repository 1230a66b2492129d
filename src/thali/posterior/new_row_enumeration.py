# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The exact posterior of a row's memberships, summed over all of its states.

Parallel decomposition: a call handles the rows it is given one after another; threads get
different rows. Rows do not depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line, popcount
from thali.model.rule import log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inner
def add_at_bits(words: Words, classes: Index, step: int, counts: Index) -> None:
    """Add a step to the count of the class of every column whose bit is set."""
    for w in range(words.shape[0]):
        word = words[w]
        while word != _ZERO:
            position = 64 * w + np.int64(popcount((word & (~word + _ONE)) - _ONE))
            if position < classes.shape[0]:  # unknown entries include the padding
                counts[classes[position]] += step
            word &= word - _ONE


@inner
def sum_subsets(values: NDArray[np.float64]) -> None:
    """Replace the value of every set by the sum over its subsets; bit l of a set is element l.

    Notes
    -----
    ``values[m] = sum(values[p] for p in range(size) if p & m == p)``. With n elements, this takes
    n / 2 additions per set.
    """
    size = values.shape[0]
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            lower = values[start : start + half]
            upper = values[start + half : start + 2 * half]
            for i in range(half):
                upper[i] += lower[i]
        half *= 2


@inner
def weigh_states(
    prior: NDArray[np.float64], scores: NDArray[np.float64], chances: NDArray[np.float64]
) -> float:
    """Write the probability of every state; return the log of the sum of their weights.

    Parameters
    ----------
    prior
        Log prior weight of every state.
    scores
        For every set of components, the gain by covering all columns that have no others.
    chances
        Result.

    Notes
    -----
    A state z covers all columns but those whose components are within its complement. Its weight
    here leaves out the gain by covering everything, which is the same for all states.
    """
    size = prior.shape[0]
    best = -np.inf
    for z in range(size):
        chances[z] = prior[z] - scores[size - 1 - z]
        best = max(best, chances[z])
    total = 0.0
    for z in range(size):
        chances[z] = np.exp(chances[z] - best)
        total += chances[z]
    for z in range(size):
        chances[z] /= total
    return best + np.log(total)


@inner
def sum_out_states(chances: NDArray[np.float64], members: NDArray[np.float64]) -> None:
    """Write the probability of every component, given those of all states, which are changed."""
    half = chances.shape[0] // 2
    for component in range(members.shape[0] - 1, -1, -1):  # the highest is summed out first
        on = 0.0
        for z in range(half):
            on += chances[half + z]
            chances[z] += chances[half + z]
        members[component] = min(on, 1.0)
        half //= 2


@jit
def enumerate_rows(
    ones: Words,
    known: Words,
    classes: Index,
    class_sizes: Index,
    prior: NDArray[np.float64],
    one_weight: float,
    zero_weight: float,
    members: NDArray[np.float64],
    covered: NDArray[np.float64],
) -> None:
    """Compute probabilities by summing over all states of every row.

    Parameters
    ----------
    ones, known
        Packed rows; ``known`` has no rows if all entries are known.
    classes, class_sizes
        For every column the set of components that contain it; for every set, how many columns
        have it.
    prior
        Log prior weight of every state.
    one_weight, zero_weight
        Log-likelihood gained by covering a one and a zero (eq. 4).
    members
        Result, ``(n_rows, n_components)``.
    covered
        Result, ``(n_rows, n_columns)``; not computed if it has no columns.

    Notes
    -----
    A state z covers the columns of all classes but those within its complement. Its log weight is
    therefore ``prior[z] + total - sum(score[p] for p within ~z)``: one sum over subsets gives
    all states, however many columns there are.
    """
    size = prior.shape[0]
    n_known = np.empty(size, np.int64)
    n_ones = np.empty(size, np.int64)
    scores = np.empty(size, np.float64)
    chances = np.empty(size, np.float64)
    unknown = np.empty(ones.shape[1], np.uint64)
    for row in range(ones.shape[0]):
        copy_line(class_sizes, n_known)
        n_ones[:] = 0
        if known.shape[0] > 0:
            for w in range(unknown.shape[0]):
                unknown[w] = ~known[row, w]
            add_at_bits(unknown, classes, -1, n_known)
        add_at_bits(ones[row], classes, 1, n_ones)
        scores[0] = 0.0
        for p in range(1, size):
            n_zeros = n_known[p] - n_ones[p]
            scores[p] = log_odds(0.0, one_weight, zero_weight, n_ones[p], n_zeros)
        sum_subsets(scores)
        weigh_states(prior, scores, chances)
        if covered.shape[1] > 0:
            copy_line(chances, scores)
            sum_subsets(scores)
            for column in range(covered.shape[1]):
                outside = scores[size - 1 - classes[column]]
                covered[row, column] = min(max(1.0 - outside, 0.0), 1.0)
        sum_out_states(chances, members[row])
