# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901
"""The exact posterior of a row's memberships if its level is unknown, too (eq. 28).

Given a level, all states are summed as without effects; the levels are then averaged by their
posterior probabilities.

Parallel decomposition: a call handles the rows it is given one after another; threads get
different rows. Rows do not depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.posterior.new_row_enumeration import sum_out_states, sum_subsets, weigh_states

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

_ONE = np.uint64(1)


@inner
def read_values(ones: Words, known: Words, row: int, values: Index) -> None:
    """Write the value of every entry of a row; those that are unknown are -1."""
    for column in range(values.shape[0]):
        word, shift = column >> 6, np.uint64(column & 63)
        values[column] = np.int64((ones[row, word] >> shift) & _ONE)
        if known.shape[0] > 0 and (known[row, word] >> shift) & _ONE == 0:
            values[column] = -1


@inner
def normalise(logs: NDArray[np.float64]) -> None:
    """Replace log weights by probabilities."""
    logs -= logs.max()
    for i in range(logs.shape[0]):
        logs[i] = np.exp(logs[i])
    logs /= logs.sum()


@jit
def enumerate_levels(
    ones: Words,
    known: Words,
    of_column: Index,
    sets: Index,
    prior: NDArray[np.float64],
    log_prior: NDArray[np.float64],
    uncovered: NDArray[np.float64],
    gains: NDArray[np.float64],
    reads_one: NDArray[np.float64],
    members: NDArray[np.float64],
    reads: NDArray[np.float64],
) -> None:
    """Compute probabilities by summing over all levels and all states of every row.

    Parameters
    ----------
    ones, known
        Packed rows; ``known`` has no rows if all entries are known.
    of_column, sets
        The sets of components that columns have, the empty one first; and for every column, the
        position of its set among them.
    prior, log_prior
        Log prior weight of every state, and of every level.
    uncovered, gains, reads_one
        The arrays of :class:`~thali.posterior.new_row_levels.LevelTables`.
    members
        Result, ``(n_rows, n_components)``.
    reads
        Result, ``(n_rows, n_columns)``: the probability that an entry would read one if observed
        again; not computed if it has no columns.
    """
    size, n_sets, n_levels = prior.shape[0], sets.shape[0], log_prior.shape[0]
    values = np.empty(of_column.shape[0], np.int64)
    chances_of_levels = np.empty(n_levels)
    gained = np.empty((n_sets, n_levels))  # by covering all columns that have a set
    scores = np.empty(size)
    chances = np.empty(size)
    members_at = np.empty((n_levels, members.shape[1]))
    outside_at = np.ones((n_levels, n_sets))  # probability that a state has none of a set
    for row in range(ones.shape[0]):
        read_values(ones, known, row, values)
        copy_line(log_prior, chances_of_levels)
        gained[:] = 0.0
        for column in range(values.shape[0]):
            value = values[column]
            if value >= 0:
                chances_of_levels += uncovered[value, column]
                for level in range(n_levels):
                    gained[of_column[column], level] += gains[value, column, level]
        for level in range(n_levels):
            scores[:] = 0.0
            for s in range(1, n_sets):  # what has no component is never covered
                scores[sets[s]] = gained[s, level]
            sum_subsets(scores)
            evidence = scores[size - 1] + weigh_states(prior, scores, chances)
            chances_of_levels[level] += evidence
            if reads.shape[1] > 0:
                copy_line(chances, scores)
                sum_subsets(scores)
                for s in range(1, n_sets):
                    outside_at[level, s] = min(scores[size - 1 - sets[s]], 1.0)
            sum_out_states(chances, members_at[level])
        normalise(chances_of_levels)
        members[row] = 0.0
        for level in range(n_levels):
            for component in range(members.shape[1]):
                members[row, component] += chances_of_levels[level] * members_at[level, component]
        for column in range(reads.shape[1]):
            total = 0.0
            for level in range(n_levels):
                outside = outside_at[level, of_column[column]]
                total += chances_of_levels[level] * (
                    outside * reads_one[0, column, level]
                    + (1.0 - outside) * reads_one[1, column, level]
                )
            reads[row, column] = total
