"""Start a chain of many rows on a random subset of the rows.

As long as there are no components, nearly every row has ones that only a component of its own can
explain, and the rows of a block do not see what the other rows find: a first sweep of a million
rows creates hundreds of thousands of components. Therefore a chain on a random subset of the rows
finds the components first. Then every row draws its memberships given these components, and the
chain of all rows continues from there. A subset that is still large itself starts on a quarter of
its rows: the fewer the rows, the fewer sweeps it takes until every component is present exactly
once.

The sampler stays exact. A Markov chain has the same limit from any initial state, and the start
precedes its first sweep, with random numbers of another key; all sweeps after that use the same
kernel as any other chain. Components that only rows outside the subset use are not known at first;
ordinary sweeps find them.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor
from thali.bits.words import n_words
from thali.sampler.schedule import MANY
from thali.sampler.step import report, step, update_mode
from thali.sites import Site
from thali.streams import Stream, start_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thali.bits import Index
    from thali.sampler.state import Info, State
    from thali.sampler.target import Target

log = logging.getLogger("thali")

_LEAST = 1024
"""Smallest subset that may start a larger subset. Measured with 24 components in 1,000 and 4,000
columns (error rates 2% and 40%, 8 data sets): 1,024 rows had each component exactly once after 48
to 118 sweeps; 4,096 rows without such a start still had 25 to 29 components after 200 sweeps
(3 data sets)."""

_PASSES = 2
"""Number of passes over the memberships of all rows: in the first pass, the memberships of a
component are drawn before those of later components, which may explain the same entries better."""


def first_state(key: np.uint64, target: Target) -> State:
    """Return the state before the first sweep of a chain, after its start on a subset, if any."""
    state = None
    for state, _ in start(key, target):  # noqa: B007 - only the last state is used
        pass
    return target.initial(key) if state is None else state


def start(key: np.uint64, target: Target) -> Iterator[tuple[State, Info]]:
    """Yield every sweep on the subset, then the state of all rows before their first sweep.

    The caller may inspect, report or stop between sweeps; only the last state is a state of the
    target. Nothing is yielded for a chain that starts with all of its rows.

    Parameters
    ----------
    key
        Key of the chain; the random numbers drawn here have another key, derived from it.
    target
        Target of all rows; the subset has ``target.n_first`` rows.
    """
    n_rows, n_first = target.shape[0], target.n_first
    if not n_first:
        return
    key = start_key(key)
    log.info("starting with %s of %s rows", f"{n_first:,}", f"{n_rows:,}")
    rows = Stream(key, np.uint64(0)).permutation(Site.FIRST_ROWS, n_rows)[:n_first]
    few = _target_of(np.sort(rows), target)
    state = None
    for state, info in start(key, few):
        yield state, info
    state = few.initial(key) if state is None else state
    for _ in range(few.schedule.warmup):
        state, info = step(key, state, few)
        yield state, info
    for whole in _for_all(key, state, target, few.schedule.warmup):
        yield whole, report(whole, target, is_warmup=True)


def _for_all(key: np.uint64, state: State, target: Target, sweep: int) -> Iterator[State]:
    """Draw the memberships of all rows, given the components found on the subset."""
    n_rows = target.shape[0]
    sizes = state.factors[0].sizes()
    state = state.take(sizes > 1)  # drop components that a single row uses
    # The weights of the Beta process are set to their means (P5).
    weights = sizes[sizes > 1] / (state.factors[0].n_rows + 1.0)
    users = Factor(np.zeros((len(weights), n_words(n_rows)), np.uint64), n_rows)
    state = state.with_factor(0, users)._replace(covered=(0, 0), sweep=0)
    nothing = state.densities[0]  # the buffet factor has no density
    for number in range(_PASSES):
        stream = Stream(key, np.uint64(sweep + number))
        state = state._replace(densities=(weights, *state.densities[1:]))
        state = update_mode(stream, state, target, 0)
        state = state._replace(densities=(nothing, *state.densities[1:]))
        is_used = state.factors[0].sizes() > 0
        state, weights = state.take(is_used), weights[is_used]
        yield state


def _target_of(rows: Index, target: Target) -> Target:
    """Return the target of a subset of rows, in which every sweep is warm-up."""
    n_sweeps, fewer = target.schedule.first_sweeps, len(rows) // MANY
    if fewer < _LEAST:
        fewer = 0
    else:  # the smaller subset finds nearly all components, so fewer sweeps are needed here
        n_sweeps //= MANY
    return target.of_rows(rows, replace(target.schedule, warmup=n_sweeps, first_rows=fewer))
