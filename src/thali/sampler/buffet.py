"""One pass over the factor with the Indian buffet prior, by either schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits.words import count_ones, first_bits, n_words, pack, set_bits
from thali.decide import fixed
from thali.engines.base import RowUpdate
from thali.model.births import birth_tables
from thali.model.priors import stick_odds
from thali.streams import Site, site_of

if TYPE_CHECKING:
    from thali.bits import Index, Words
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
    block owns alone: their number is remembered, their codes are integrated out and drawn anew.
    Components with two or more users, all inside, stay as they are.
    """
    n_rows = target.tensor.shape[0]
    tables = _tables(state, target)
    # The partition must not depend on the state; sorting is for memory access only.
    order = stream.permutation(Site.BLOCKS, n_rows)
    tp = fp = 0
    for block, part in enumerate(np.array_split(order, min(n_blocks, n_rows))):
        state, covered = _update_block(stream, state, target, tables, block, np.sort(part))
        tp, fp = tp + covered[0], fp + covered[1]
    return state._replace(covered=(tp, fp))


def _update_block(
    stream: Stream, state: State, target: Target, tables: BirthTables, block: int, rows: Index
) -> tuple[State, tuple[int, int]]:
    users = state.factors[0]
    sizes = users.sizes()
    outside = sizes - count_ones(users.words & _mask(rows, users.n_rows))
    is_single = (sizes == 1) & (outside == 0)
    owners = np.searchsorted(rows, first_bits(users.words[is_single]))
    # A fresh random order: components are stored in order of creation, which tells something
    # about them, and a scan order that depends on the state is not a Gibbs scan.
    order = stream.permutation(Site.ORDER, state.n_components, row=block)
    order = order[~is_single[order]]
    state = state.take(order)
    uniforms = stream.uniforms(Site.STICKS, state.n_components, row=block)
    job = RowUpdate(
        mode=0,
        rows=rows,
        codes=state.factors[1].words,
        is_held=outside[order] == 0,
        weights=tables.weights,
        singles=np.bincount(owners, minlength=len(rows)),
        prior=fixed(stick_odds(sizes[order], users.n_rows, uniforms)),
        stream=stream,
        site=site_of(Site.ROW_BITS, 0),
    )
    users, _ = target.engine.update(job, state.factors[0])
    births = target.engine.births(job, users, tables)
    born = _one_row_each(np.repeat(rows, births.counts), users.n_rows)
    factors = (users.append(born), state.factors[1].append(births.codes))
    return state._replace(factors=factors), births.covered


def _tables(state: State, target: Target) -> BirthTables:
    return birth_tables(
        state.alpha / target.tensor.shape[0],
        float(state.densities[1][0]),
        state.noise,
        target.most_ones,
        state.n_components,
    )


def _mask(rows: Index, n_rows: int) -> Words:
    inside = np.zeros(n_rows, np.bool_)
    inside[rows] = True
    return pack(inside)


def _one_row_each(owners: Index, n_rows: int) -> Words:
    words = np.zeros((len(owners), n_words(n_rows)), np.uint64)
    set_bits(words, 0, np.arange(len(owners) + 1), owners)
    return words
