"""One pass over the factor with the Indian buffet prior, by either schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import count_ones, first_bits, set_bits
from thali.decide import fixed
from thali.engines.base import RowUpdate
from thali.model import PerComponent
from thali.model.births import birth_tables, move_tables
from thali.model.priors import stick_odds
from thali.streams import Site, site_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index
    from thali.engines.base import Births
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


def sweep_blocks(stream: Stream, state: State, target: Target, n_blocks: int) -> State:
    """Update the rows block after block, the rows of a block all at once.

    Given the weights of the Beta process, the entries of a block in components that somebody
    outside keeps alive are independent over rows, and so are the components that one row of the
    block owns alone. Components with two or more users, all inside, stay as they are.
    """
    n_rows = target.tensor.shape[0]
    prior = target.priors.densities[1]
    # The partition must not depend on the state; sorting is for memory access only.
    order = stream.permutation(Site.BLOCKS, n_rows)
    tables = None if isinstance(prior, PerComponent) else _tables(state, target)
    tp = fp = 0
    for number, part in enumerate(np.array_split(order, min(n_blocks, n_rows))):
        block = _Block.of(stream, state, number, np.sort(part))
        if tables is None:
            state, covered = _update_with_own_densities(stream, state, target, block)
        else:
            state, covered = _update_integrated(stream, state, target, block, tables)
        tp, fp = tp + covered[0], fp + covered[1]
    return state._replace(covered=(tp, fp))


class _Block(NamedTuple):
    """A block of rows, and what it means for every component."""

    number: int
    rows: Index
    sizes: Index  # users of each component
    outside: Index  # users outside the block
    is_single: NDArray[np.bool_]  # one user, inside
    order: NDArray[np.intp]  # a random visiting order

    @classmethod
    def of(cls, stream: Stream, state: State, number: int, rows: Index) -> _Block:
        users = state.factors[0]
        sizes = users.sizes()
        inside = np.zeros((1, users.words.shape[1]), np.uint64)
        set_bits(inside, 0, np.array([0, len(rows)]), rows)
        outside = sizes - count_ones(users.words & inside)
        # A fresh random order: components are stored in order of creation, which tells something
        # about them, and a scan order that depends on the state is not a Gibbs scan.
        order = stream.permutation(Site.ORDER, state.n_components, row=number)
        return cls(number, rows, sizes, outside, (sizes == 1) & (outside == 0), order)


def _update_integrated(
    stream: Stream, state: State, target: Target, block: _Block, tables: BirthTables
) -> tuple[State, tuple[int, int]]:
    """Remember how many components each row owns alone, sum their codes out, draw them anew."""
    single_users = first_bits(state.factors[0].words[block.is_single])
    owners = np.searchsorted(block.rows, single_users)
    singles = np.bincount(owners, minlength=len(block.rows))
    order = block.order[~block.is_single[block.order]]
    state = state.take(order)
    job = _work_order(stream, state, block, order, tables.weights, singles)
    users, _ = target.engine.update(job, state.factors[0])
    births = target.engine.births(job, users, tables)
    return _add(state, users, block.rows, births), births.covered


def _update_with_own_densities(
    stream: Stream, state: State, target: Target, block: _Block
) -> tuple[State, tuple[int, int]]:
    """Hold the components a row owns alone; then let one of them be born or die."""
    prior = target.priors.densities[1]
    assert isinstance(prior, PerComponent)
    state = state.take(block.order)
    weights = fixed(np.array([state.noise.weights()]))
    job = _work_order(stream, state, block, block.order, weights)
    users, _ = target.engine.update(job, state.factors[0])
    rate = state.alpha / users.n_rows
    tables = move_tables(rate, prior.grid, state.noise, state.n_components)
    moves = target.engine.moves(job, users, block.is_single[block.order], tables)
    state = state._replace(factors=(users, *state.factors[1:])).take(~moves.has_died)
    densities = np.concatenate([state.densities[1], prior.grid[moves.density]])
    state = state._replace(densities=(state.densities[0], densities))
    return _add(state, state.factors[0], block.rows, moves.births), moves.births.covered


def _work_order(
    stream: Stream,
    state: State,
    block: _Block,
    order: NDArray[np.intp],
    weights: NDArray[np.int64],
    singles: Index | None = None,
) -> RowUpdate:
    uniforms = stream.uniforms(Site.STICKS, len(order), row=block.number)
    odds = stick_odds(block.sizes[order], state.factors[0].n_rows, uniforms)
    return RowUpdate(
        mode=0,
        rows=block.rows,
        codes=state.factors[1].words,
        is_held=block.outside[order] == 0,
        weights=weights,
        singles=singles,
        prior=fixed(odds),
        stream=stream,
        site=site_of(Site.ROW_BITS, 0),
    )


def _add(state: State, users: Factor, rows: Index, births: Births) -> State:
    """Append new components, each used by one row."""
    codes = state.factors[1]
    if len(births.codes):
        owners = np.repeat(rows, births.counts)
        born = np.zeros((len(owners), users.words.shape[1]), np.uint64)
        set_bits(born, 0, np.arange(len(owners) + 1), owners)
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
