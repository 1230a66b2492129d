# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, FBT001, PLR0912, PLR0915
"""The posterior of a row's memberships and its level, estimated by a Markov chain.

Every entry has weights of its own here, so columns are listed instead of counted, and the scores
of all levels follow every change of cover. They are integers, so no change leaves a rounding
error behind.

Parallel decomposition: a call handles the rows it is given one after another; threads get
different rows. Rows do not depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.decide import SCALE, categorical, is_unlikely
from thali.posterior.new_row_level_enumeration import read_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

    _Scores = NDArray[np.int64]


@inner
def gain_of(columns: Index, is_on: bool, n_covers: Index, weights: _Scores) -> np.int64:
    """Return the gain by a component in the columns that it alone covers, or would (eq. 27)."""
    gain = np.int64(0)
    for column in columns:
        if n_covers[column] == np.int64(is_on):
            gain += weights[column]
    return gain


@inner
def add_gains(
    columns: Index, is_on: bool, values: Index, gains: _Scores, n_covers: Index, scores: _Scores
) -> None:
    """Change scores of levels to what they are with a component, or without it if it is on."""
    for column in columns:
        if n_covers[column] == np.int64(is_on) and values[column] >= 0:
            if is_on:
                scores -= gains[values[column], column]
            else:
                scores += gains[values[column], column]


@inner
def switch(
    columns: Index, was_on: bool, values: Index, gains: _Scores, n_covers: Index, scores: _Scores
) -> None:
    """Give a row a component or take it away; scores of levels and covers follow."""
    add_gains(columns, was_on, values, gains, n_covers, scores)
    for column in columns:
        n_covers[column] += -1 if was_on else 1


@inner
def score_both(
    columns: Index, is_on: bool, prior: np.int64, values: Index, gains: _Scores, n_covers: Index,
    scores: _Scores, both: _Scores,
) -> None:  # fmt: skip
    """Write the scores of all levels without a component, and then of all levels with it."""
    n_levels = scores.shape[0]
    copy_line(scores, both[:n_levels])
    copy_line(scores, both[n_levels:])
    changed = both[:n_levels] if is_on else both[n_levels:]
    add_gains(columns, is_on, values, gains, n_covers, changed)
    for level in range(n_levels):
        both[n_levels + level] += prior


@inner
def weigh_entries(values: Index, gains: _Scores, level: int, weights: _Scores) -> None:
    """Write the gain by covering each entry of a row of some level; unknown entries gain none."""
    for column in range(values.shape[0]):
        value = values[column]
        weights[column] = gains[value, column, level] if value >= 0 else 0


@inner
def add_greedily(
    starts: Index, listed: Index, prior: _Scores, weights: _Scores, active: NDArray[np.bool_],
    n_covers: Index,
) -> np.int64:  # fmt: skip
    """Add the component that gains most, repeatedly, until none gains; return the whole gain."""
    active[:] = False
    n_covers[:] = 0
    total = np.int64(0)
    while True:
        best = -1
        best_gain = np.int64(0)
        for component in range(active.shape[0]):
            if not active[component]:
                columns = listed[starts[component] : starts[component + 1]]
                gain = prior[component] + gain_of(columns, active[component], n_covers, weights)
                if gain > best_gain:
                    best = component
                    best_gain = gain
        if best < 0:
            return total
        total += best_gain
        active[best] = True
        for column in listed[starts[best] : starts[best + 1]]:
            n_covers[column] += 1


@inner
def start_at_best(
    starts: Index, listed: Index, prior: _Scores, values: Index, gains: _Scores,
    active: NDArray[np.bool_], n_covers: Index, weights: _Scores, scores: _Scores,
) -> int:  # fmt: skip
    """Add components greedily at every level, and choose the level with the highest score.

    ``scores`` are those of the levels without components at first, and then with those chosen.
    """
    best = 0
    best_score = np.int64(0)
    for level in range(scores.shape[0]):
        weigh_entries(values, gains, level, weights)
        gain = add_greedily(starts, listed, prior, weights, active, n_covers)
        if level == 0 or scores[level] + gain > best_score:
            best = level
            best_score = scores[level] + gain
    weigh_entries(values, gains, best, weights)
    add_greedily(starts, listed, prior, weights, active, n_covers)
    for column in range(values.shape[0]):
        if n_covers[column] > 0 and values[column] >= 0:
            scores += gains[values[column], column]
    return best


@jit
def sample_levels(
    ones: Words, known: Words, starts: Index, listed: Index, prior: _Scores, log_prior: _Scores,
    uncovered: _Scores, gains: _Scores, reads_one: NDArray[np.float64],
    uniforms: NDArray[np.uint64], partners: Index, swap_uniforms: NDArray[np.uint64],
    level_uniforms: NDArray[np.uint64], warmup: int,
    members: NDArray[np.float64], reads: NDArray[np.float64],
) -> None:  # fmt: skip
    """Average the conditional probabilities along a chain of every row (eq. 10, 27 and 28).

    A sweep draws every membership given the others and the level, then exchanges of components as
    in :mod:`thali.posterior.new_row_chain`, and then the level together with one membership, of
    each component in its turn. Level and membership alone could hardly change: a row that has a
    component too few looks fuller than it is, and at that level the component gains nothing.

    Parameters
    ----------
    ones, known
        Packed rows; ``known`` has no rows if all entries are known.
    starts, listed
        The columns of component l are ``listed[starts[l] : starts[l + 1]]``.
    prior, log_prior
        Prior log odds of components, and log prior of levels, as integer scores.
    uncovered, gains, reads_one
        The arrays of :class:`~thali.posterior.new_row_levels.LevelTables`, the first two as
        integer scores.
    uniforms, partners, swap_uniforms, level_uniforms
        ``(n_sweeps, n_components)``, for levels ``(n_sweeps,)``; the same for all rows: random
        numbers for the bits, partners of the components, random numbers for the exchanges and for
        the levels.
    warmup
        Number of sweeps before averaging begins.
    members
        Result, ``(n_rows, n_components)``.
    reads
        Result, ``(n_rows, n_columns)``: the probability that an entry would read one if observed
        again; not computed if it has no columns.
    """
    n_components, n_levels = prior.shape[0], log_prior.shape[0]
    n_sweeps, n_columns = uniforms.shape[0], uncovered.shape[1]
    values = np.empty(n_columns, np.int64)
    n_covers = np.empty(n_columns, np.int64)
    weights = np.empty(n_columns, np.int64)
    scores = np.empty(n_levels, np.int64)  # of every level, given the memberships
    both = np.empty(2 * n_levels, np.int64)
    active = np.empty(n_components, np.bool_)
    odds = np.empty(n_components, np.int64)
    chances = np.empty(n_components, np.float64)
    sums = np.empty(n_components, np.float64)
    now = np.empty(reads.shape[1], np.float64)
    # Most rows seldom change, so what depends on the state is kept until it changes.
    version = 0
    scored = np.full(n_components, -1)
    swap_gains = np.empty((n_components, n_components), np.int64)
    gained = np.full((n_components, n_components), -1)
    for row in range(ones.shape[0]):
        read_values(ones, known, row, values)
        copy_line(log_prior, scores)
        for column in range(n_columns):
            if values[column] >= 0:
                scores += uncovered[values[column], column]
        level = start_at_best(
            starts, listed, prior, values, gains, active, n_covers, weights, scores
        )
        version += 1
        averaged = -1
        n_same = 0
        now[:] = 0.0
        reads[row] = 0.0
        sums[:] = 0.0
        for sweep in range(n_sweeps):
            for component in range(n_components):
                was_on = active[component]
                columns = listed[starts[component] : starts[component + 1]]
                if scored[component] != version:
                    gain = gain_of(columns, was_on, n_covers, weights)
                    odds[component] = prior[component] + gain
                    chances[component] = 1.0 / (1.0 + np.exp(-odds[component] / SCALE))
                    scored[component] = version
                score = odds[component]
                is_on = (score >= 0) != is_unlikely(score, uniforms[sweep, component])
                if sweep >= warmup:
                    sums[component] += chances[component]
                if is_on != was_on:
                    version += 1
                    scored[component] = version  # its odds do not depend on its own value
                    active[component] = is_on
                    switch(columns, was_on, values, gains, n_covers, scores)
            for component in range(n_components):
                partner = partners[sweep, component]
                if active[component] == active[partner]:
                    continue
                on, off = (component, partner) if active[component] else (partner, component)
                lost = listed[starts[on] : starts[on + 1]]
                won = listed[starts[off] : starts[off + 1]]
                if gained[on, off] != version:
                    kept = prior[on] + gain_of(lost, active[on], n_covers, weights)
                    for column in lost:
                        n_covers[column] -= 1
                    new = prior[off] + gain_of(won, active[off], n_covers, weights)
                    for column in lost:
                        n_covers[column] += 1
                    swap_gains[on, off] = new - kept
                    gained[on, off] = version
                gain = swap_gains[on, off]
                if (gain >= 0) == is_unlikely(gain, swap_uniforms[sweep, component]):
                    continue
                version += 1
                switch(lost, active[on], values, gains, n_covers, scores)
                switch(won, active[off], values, gains, n_covers, scores)
                active[on] = False
                active[off] = True
            if n_components == 0:
                drawn = categorical(scores, n_levels, level_uniforms[sweep])
            else:
                component = sweep % n_components
                was_on = active[component]
                columns = listed[starts[component] : starts[component + 1]]
                own = prior[component]
                score_both(columns, was_on, own, values, gains, n_covers, scores, both)
                drawn = categorical(both, 2 * n_levels, level_uniforms[sweep])
                is_on = drawn >= n_levels
                drawn %= n_levels
                if is_on != was_on:
                    version += 1
                    active[component] = is_on
                    switch(columns, was_on, values, gains, n_covers, scores)
            if drawn != level:
                version += 1
                level = drawn
                weigh_entries(values, gains, level, weights)
            if reads.shape[1] == 0 or sweep < warmup:
                continue
            if averaged != version:
                for column in range(n_columns):
                    reads[row, column] += n_same * now[column]
                averaged = version
                n_same = 0
                for column in range(n_columns):
                    now[column] = reads_one[np.int64(n_covers[column] > 0), column, level]
            n_same += 1
        n_averaged = n_sweeps - warmup
        for component in range(n_components):
            members[row, component] = sums[component] / n_averaged
        for column in range(reads.shape[1]):
            reads[row, column] = (reads[row, column] + n_same * now[column]) / n_averaged
