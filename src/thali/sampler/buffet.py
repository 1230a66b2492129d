"""One pass over the factor with the Indian buffet prior, for the serial and parallel schedules."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from thali.bits import khatri_rao
from thali.decide import fixed
from thali.engines.base import RowUpdate
from thali.model import PerComponent
from thali.model.births import birth_death_tables, birth_tables
from thali.model.priors import stick_odds
from thali.sites import Site, site_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.engines.base import Births, Block
    from thali.model import Weights
    from thali.model.births import BirthTables
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


_NO_ODDS = np.zeros(0, np.int64)


def sweep_serial(stream: Stream, state: State, target: Target) -> State:
    """Update one row after another (the paper's Algorithm 1, corrected)."""
    n_rows = target.shape[0]
    users = np.arange(
        n_rows + 1, dtype=np.float64
    )  # number of other rows that use a component; 0 and N do not occur
    with np.errstate(divide="ignore"):
        odds = fixed(np.log(users) - np.log(n_rows - users))
    factors, covered = target.engine.scan(
        stream,
        state.factors,
        odds,
        _tables(state, target),
        is_integrated=target.schedule.kind == "serial-integrated",
    )
    return state._replace(factors=factors, covered=covered)


def sweep_blocks(stream: Stream, state: State, target: Target) -> State:
    """Update the rows block by block, all rows of a block at once.

    Given the weights of the Beta process, the rows of a block are independent in two respects: in
    their entries for components that also have a user outside the block, and in the components
    that a single row of the block uses alone. Components with two or more users, all of them
    inside the block, stay as they are.
    """
    n_rows = target.shape[0]
    # The partition must not depend on the state.
    blocks = target.engine.partition(stream, min(target.schedule.blocks, n_rows))
    if len(target.shape) > 2:
        for number, rows in enumerate(blocks):
            state = _update_shared(stream, state, target, number, rows)
        return state
    (prior,) = target.priors.densities[1:]
    tables = None if isinstance(prior, PerComponent) else _tables(state, target)
    if tables is not None:
        done = target.engine.scan_blocks(stream, blocks, state.factors, tables)
        if done is not None:
            return state._replace(factors=done[0], covered=done[1])
    tp = fp = 0
    for number, rows in enumerate(blocks):
        if tables is None:
            state, covered = _update_with_own_densities(stream, state, target, number, rows)
        else:
            state, covered = _update_integrated(stream, state, target, number, rows, tables)
        tp, fp = tp + covered[0], fp + covered[1]
    return state._replace(covered=(tp, fp))


def _update_integrated(
    stream: Stream, state: State, target: Target, number: int, rows: Any, tables: BirthTables
) -> tuple[State, tuple[int, int]]:
    """Sum out the codes of single-row components given their number per row; redraw both."""
    state, block = _ordered(stream, state, target, number, rows, is_integrated=True)
    job = _work_order(stream, state, number, rows, block, tables.weights)
    users, births = target.engine.update_with_births(job, state.factors[0], tables)
    return _with_births(state.with_factor(0, users), births), births.covered


def _update_shared(stream: Stream, state: State, target: Target, number: int, rows: Any) -> State:
    """Update the entries of components with a user outside the block, and hold all others.

    The codes of a tensor's components cannot be summed out; components are born and die by moves
    (:mod:`thali.sampler.moves.boxes`).
    """
    if state.n_components == 0:
        return state
    state, block = _ordered(stream, state, target, number, rows, is_integrated=False)
    job = _work_order(stream, state, number, rows, block, state.noise.fixed_weights())
    users, gained = target.engine.update(job, state.factors[0])
    tp, fp = state.covered
    covered = tp + gained[0], fp + gained[1]
    return state.with_factor(0, users)._replace(covered=covered)


def _update_with_own_densities(
    stream: Stream, state: State, target: Target, number: int, rows: Any
) -> tuple[State, tuple[int, int]]:
    """Update entries with single-row components held; then propose one birth or death."""
    (prior,) = target.priors.densities[1:]
    assert isinstance(prior, PerComponent)
    state, block = _ordered(stream, state, target, number, rows, is_integrated=False)
    job = _work_order(stream, state, number, rows, block, state.noise.fixed_weights())
    users, _ = target.engine.update(job, state.factors[0])
    rate = state.alpha / users.n_rows
    tables = birth_death_tables(
        rate, prior.grid, state.noise, state.n_components, prior.log_weights
    )
    births, density, has_died = target.engine.birth_death(job, users, block.is_single, tables)
    state = state.with_factor(0, users)
    if has_died.any():
        state = state.take(~has_died)
    return _with_births(state, births, prior.grid[density]), births.covered


def _ordered(
    stream: Stream, state: State, target: Target, number: int, rows: Any, *, is_integrated: bool
) -> tuple[State, Block]:
    """Return the state with its components in a random order, and their roles in the block."""
    block = target.engine.order_components(
        stream, number, state.factors, rows, is_integrated=is_integrated
    )
    return state.with_order(block.factors, block.order), block


def _work_order(
    stream: Stream, state: State, number: int, rows: Any, block: Block, weights: Weights
) -> RowUpdate:
    @cache
    def prior() -> NDArray[np.int64]:
        if len(block.sizes) == 0:
            return _NO_ODDS
        uniforms = stream.uniforms(Site.STICKS, len(block.sizes), row=number)
        return fixed(stick_odds(block.sizes, state.factors[0].n_rows, uniforms))

    return RowUpdate(
        mode=0,
        rows=rows,
        codes=khatri_rao(state.factors, 0),
        is_held=block.is_held,
        weights=weights,
        singles=block.singles,
        prior=prior,
        stream=stream,
        site=site_of(Site.ROW_BITS, 0),
    )


def _with_births(
    state: State, births: Births, density: NDArray[np.float64] | None = None
) -> State:
    """Append new components, each used by a single row."""
    return state.append(births.lines, density) if len(births.lines[0]) else state


def _tables(state: State, target: Target) -> BirthTables:
    (density,) = state.densities[1:]
    return birth_tables(
        state.alpha / target.shape[0],
        float(density),
        state.noise,
        target.totals.most_ones,
        state.n_components,
    )
