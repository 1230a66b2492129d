"""A chain of many rows starts with few of them.

With no component yet, nearly every row has ones that only a component of its own can explain, and
the rows of a block do not see what the others find: a first sweep of a million rows makes hundreds
of thousands of components. So a chain of some rows, drawn at random, finds the components; then
every row draws its memberships given those, and the chain of all rows goes on from there. Where
some are still many, they start with a quarter of themselves: the fewer the rows, the fewer the
sweeps until every component is there once.

The sampler stays exact. A Markov chain has the same limit wherever it starts, and all this comes
before its first sweep, with random numbers of another key: what is drawn then comes from the same
kernel as ever. Components that only other rows use are not known yet; ordinary sweeps find them.
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
"""Rows that need no start of their own. Of 24 components in 1,000 and 4,000 columns (errors 2% and
40%, 8 data sets), 1,024 rows had each of them once after 48 to 118 sweeps; 4,096 rows from nothing
still had 25 to 29 after 200 (3 data sets)."""

_PASSES = 2
"""Over the memberships of all rows: in the first, a component cannot know what those drawn later
explain better."""


def first_state(key: np.uint64, target: Target) -> State:
    """Return the state before the first sweep of a chain, once its start is done."""
    state = None
    for state, _ in start(key, target):  # noqa: B007 - the last one counts
        pass
    return target.initial(key) if state is None else state


def start(key: np.uint64, target: Target) -> Iterator[tuple[State, Info]]:
    """Yield every sweep of the first rows, then the state of all rows before their first sweep.

    In between a caller may look, report or stop; only the last state is one of the target. A chain
    that starts with all of its rows has nothing to yield.

    Parameters
    ----------
    key
        Key of the chain that starts; the numbers drawn here belong to a key made of it.
    target
        Target of all rows, of which ``target.n_first`` start.
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
    """Draw the memberships of all rows, given the components that some have found."""
    n_rows = target.shape[0]
    sizes = state.factors[0].sizes()
    state = state.take(sizes > 1)  # what one row has for itself, the others do not have
    # The weights of the Beta process, at their mean (P5).
    weights = sizes[sizes > 1] / (state.factors[0].n_rows + 1.0)
    users = Factor(np.zeros((len(weights), n_words(n_rows)), np.uint64), n_rows)
    state = state.with_factor(0, users)._replace(covered=(0, 0), sweep=0)
    nothing = state.densities[0]  # the buffet has no density
    for number in range(_PASSES):
        stream = Stream(key, np.uint64(sweep + number))
        state = state._replace(densities=(weights, *state.densities[1:]))
        state = update_mode(stream, state, target, 0)
        state = state._replace(densities=(nothing, *state.densities[1:]))
        is_used = state.factors[0].sizes() > 0
        state, weights = state.take(is_used), weights[is_used]
        yield state


def _target_of(rows: Index, target: Target) -> Target:
    """Return the target of some rows, where every sweep is warm-up."""
    n_sweeps, fewer = target.schedule.first_sweeps, len(rows) // MANY
    if fewer < _LEAST:
        fewer = 0
    else:  # these will have found what there is; all that is left is what they do not have
        n_sweeps //= MANY
    return target.of_rows(rows, replace(target.schedule, warmup=n_sweeps, first_rows=fewer))
