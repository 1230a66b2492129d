"""One pass over the factor with the Indian buffet prior, by either schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits.words import set_bits
from thali.decide import fixed
from thali.engines.base import RowUpdate
from thali.model import PerComponent
from thali.model.births import birth_tables, move_tables
from thali.model.priors import stick_odds
from thali.streams import Site, site_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Factor
    from thali.engines.base import Births
    from thali.engines.cpu.order_components import Block
    from thali.model.births import BirthTables
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


def sweep_serial(stream: Stream, state: State, target: Target) -> State:
    """Update one row after another (the paper's Algorithm 1, corrected)."""
    n_rows = target.tensor.shape[0]
    users = np.arange(n_rows + 1, dtype=np.float64)  # of the other rows: 0 and N do not occur
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
    """Update the rows block after block, the rows of a block all at once.

    Given the weights of the Beta process, the entries of a block in components that somebody
    outside keeps alive are independent over rows, and so are the components that one row of the
    block owns alone. Components with two or more users, all inside, stay as they are.
    """
    n_rows = target.tensor.shape[0]
    prior = target.priors.densities[1]
    tables = None if isinstance(prior, PerComponent) else _tables(state, target)
    tp = fp = 0
    # The partition must not depend on the state.
    blocks = target.engine.partition(stream, min(target.schedule.blocks, n_rows))
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
    """Remember how many components each row owns alone, sum their codes out, draw them anew."""
    state, block = _arrange(stream, state, target, number, rows, is_integrated=True)
    job = _work_order(stream, state, number, rows, block, tables.weights)
    users, births = target.engine.renew(job, state.factors[0], tables)
    return _add(state, users, births), births.covered


def _update_with_own_densities(
    stream: Stream, state: State, target: Target, number: int, rows: Any
) -> tuple[State, tuple[int, int]]:
    """Hold the components a row owns alone; then let one of them be born or die."""
    prior = target.priors.densities[1]
    assert isinstance(prior, PerComponent)
    state, block = _arrange(stream, state, target, number, rows, is_integrated=False)
    weights = fixed(np.array([state.noise.weights()]))
    job = _work_order(stream, state, number, rows, block, weights)
    users, _ = target.engine.update(job, state.factors[0])
    rate = state.alpha / users.n_rows
    tables = move_tables(rate, prior.grid, state.noise, state.n_components)
    moves = target.engine.moves(job, users, block.is_single, tables)
    state = state._replace(factors=(users, *state.factors[1:])).take(~moves.has_died)
    densities = np.concatenate([state.densities[1], prior.grid[moves.density]])
    state = state._replace(densities=(state.densities[0], densities))
    return _add(state, state.factors[0], moves.births), moves.births.covered


def _arrange(
    stream: Stream, state: State, target: Target, number: int, rows: Any, *, is_integrated: bool
) -> tuple[State, Block]:
    """Return the state with its components in a random order, and what they are to the block."""
    users, codes = state.factors
    block = target.engine.arrange(stream, number, state.factors, rows, is_integrated=is_integrated)
    factors = (users._replace(words=block.users), codes._replace(words=block.codes))
    own = state.densities[1]
    densities = (state.densities[0], own[block.order] if own.ndim else own)
    return state._replace(factors=factors, densities=densities), block


def _work_order(
    stream: Stream,
    state: State,
    number: int,
    rows: Any,
    block: Block,
    weights: NDArray[np.int64],
) -> RowUpdate:
    uniforms = stream.uniforms(Site.STICKS, len(block.sizes), row=number)
    odds = stick_odds(block.sizes, state.factors[0].n_rows, uniforms)
    return RowUpdate(
        mode=0,
        rows=rows,
        codes=block.codes,
        is_held=block.is_held,
        weights=weights,
        singles=block.singles,
        prior=fixed(odds),
        stream=stream,
        site=site_of(Site.ROW_BITS, 0),
    )


def _add(state: State, users: Factor, births: Births) -> State:
    """Append new components, each used by one row."""
    codes = state.factors[1]
    if len(births.codes):
        born = np.zeros((len(births.owners), users.words.shape[1]), np.uint64)
        set_bits(born, 0, np.arange(len(born) + 1), births.owners)
        users, codes = users.append(born), codes.append(births.codes)
    return state._replace(factors=(users, codes))


def _tables(state: State, target: Target) -> BirthTables:
    return birth_tables(
        state.alpha / target.tensor.shape[0],
        float(state.densities[1]),
        state.noise,
        target.most_ones,
        state.n_components,
    )
