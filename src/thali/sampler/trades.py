"""Trade the level of a line against its components: both are proposed together.

A row that has a high level needs no component to explain its ones, and one with components needs
no high level. Neither gives way by itself: at the high level no component explains anything, and
without components no lower level does. The same holds for columns, whose jumps take part.

Every line is offered another level, at a random distance, with bits that a sweep at that level
draws. With z and g before, z' and g' after, and K_g(z -> z') the probability that a sweep at level
g leads from z to z', the acceptance ratio is

    p(g') p(x, z' | g') K_g(z' -> z) / ( p(g) p(x, z | g) K_g'(z -> z') ).

Every step of a sweep draws a bit from its conditional, so that p(x, z' | g') / p(x, z | g') is the
product, over these steps, of the probability of the new bit divided by that of the old one. What
is left is

    p(g') p(x | z, g') K_g(z' -> z) / ( p(g) p(x | z, g) P ),

where P is the product of the probabilities of the old bits along the way to z'. Rows are
independent as they are in a block of the sweep (:mod:`thali.sampler.buffet`), columns given all
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logit

from thali.bits import Factor
from thali.bits.words import pack
from thali.decide import SCALE, fixed
from thali.engines.base import RowUpdate
from thali.model.priors import stick_odds
from thali.sampler.level_counts import count_lines
from thali.sampler.paths import log_paths
from thali.sampler.single_columns import has_levels_to_offer, offer_to_single_columns
from thali.sampler.trade_kernels import level_changes
from thali.sites import Site, TradeIndex, site_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_MOST = 1 << 23
"""Number of known entries up to which lines are offered trades."""

_FARTHEST = 2.5
"""The largest distance of a proposed level, or jump, from the present one."""

_EVERY = 2
"""Trades are offered in every second draw of levels: in every draw, no more lines are freed."""

_BLOCKS = 2
"""Rows are offered trades in halves. A component without a user in the other half is held: in one
block of all rows, all of them would be."""

_KINDS = 3
"""Columns with jumps change their level, their jump, or both in opposite directions."""


class Offer(NamedTuple):
    """Other levels for some lines, and the components that fit them."""

    mode: int
    lines: Index
    noise: Levels  # with the proposed levels
    factor: Factor  # with the proposed bits
    log_ratio: NDArray[np.float64]  # by line


def trade(
    stream: Stream, state: State, target: Target, number: int
) -> tuple[State, tuple[int, int]]:
    """Offer trades, in every second draw of levels, to half of the rows or all columns in turn.

    In the draws between them, components of single columns are offered levels, and the other way
    round (:mod:`thali.sampler.single_columns`). Returns the state, and how many offers of other
    components were made and accepted. ``number`` is that of the draw of levels.
    """
    counts = np.zeros(2, np.int64)
    number, rest = divmod(number, _EVERY)
    n = target.schedule.trade if can_trade(target) else 0
    if rest:
        if n and has_levels_to_offer(state, target):
            state = offer_to_single_columns(stream, state, target, n, counts)
        return state, (int(counts[0]), int(counts[1]))
    n = n if state.n_components else 0
    for turn in range(n):
        hyper = state.noise.hyper
        round_, is_for_columns = divmod(number * n + turn, 2)
        if is_for_columns and (hyper.column_spread or hyper.jump_spread):
            offer = _offer_to_columns(stream, state, target, turn)
        elif hyper.row_spread and not is_for_columns:
            state, offer = _offer_to_rows(stream, state, target, turn, round_)
        else:
            continue
        state = _settle(stream, state, target, turn, offer, counts)
    return state, (int(counts[0]), int(counts[1]))


def can_trade(target: Target) -> bool:
    """Return whether lines are offered anything, which no trade changes."""
    return len(target.shape) == 2 and target.totals.n_known <= _MOST


def _offer_to_rows(
    stream: Stream, state: State, target: Target, turn: int, number: int
) -> tuple[State, Offer]:
    """Offer other levels to the rows of a block; components may get another order."""
    engine, n_rows = target.engine, target.shape[0]
    rows, is_held, singles = None, np.zeros(state.n_components, np.bool_), None
    if target.priors.buffet is None:
        odds = _odds(state, 0)
    else:
        # The blocks and their order do not depend on the state.
        blocks = engine.partition(stream, min(_BLOCKS, n_rows))
        rows = blocks[number % len(blocks)]
        at = n_rows + turn  # blocks of the sweep have lower numbers
        block = engine.order_components(stream, at, state.factors, rows, is_integrated=False)
        state = state.with_order(block.factors, block.order)
        is_held, singles = block.is_held, block.singles
        uniforms = stream.uniforms(Site.STICKS, len(block.sizes), row=at)
        odds = stick_odds(block.sizes, n_rows, uniforms)
    _, codes = state.factors
    lines = np.arange(n_rows) if rows is None else engine.rows_of(rows)
    noise: Levels = state.noise
    grid = noise.prior.grids.rows
    old = np.asarray(noise.rows, np.int64)
    new, is_possible = old.copy(), np.zeros(n_rows, np.bool_)
    moved = old[lines] + _distances(stream, 0, turn, n_rows, grid)[lines]
    is_possible[lines] = (moved >= 0) & (moved < len(grid))
    new[lines] = np.where(is_possible[lines], moved, old[lines])
    proposed = noise.with_rows(new, noise.hyper)
    job = RowUpdate(
        mode=0, rows=rows, codes=codes, is_held=is_held, weights=proposed.fixed_weights(),
        singles=singles, prior=fixed(odds), stream=stream, site=_site(Site.TRADE_BITS, 0, turn),
    )  # fmt: skip
    of_levels = noise.prior.grids.of_rows[noise.hyper.row_spread]
    log_prior = of_levels[new[lines]] - of_levels[old[lines]]
    none = np.zeros(n_rows)
    both = np.stack([grid[old], none]), np.stack([grid[new], none])
    return state, _offer(state, target, job, proposed, lines, both, log_prior, is_possible[lines])


def _offer_to_columns(stream: Stream, state: State, target: Target, turn: int) -> Offer:
    """Offer other levels and jumps to all columns.

    Components are in an order that was drawn at random before. Where both a level and a jump
    change, the same random number gives both distances: 1 - u then leads back by both.
    """
    noise: Levels = state.noise
    grids, hyper, n = noise.prior.grids, noise.hyper, target.shape[1]
    columns, jumps = (np.asarray(part, np.int64) for part in (noise.columns, noise.jumps))
    kinds = np.zeros(n, np.int64)
    if hyper.jump_spread:
        uniforms = stream.uniforms(_site(Site.TRADE, 1, turn), n, row=TradeIndex.KIND)
        kinds = (uniforms * _KINDS).astype(np.int64)
        if not hyper.column_spread:
            kinds[:] = 1
    sizes = grids.jumps[:: grids.stride]
    of_levels = _distances(stream, 1, turn, n, grids.columns)
    of_jumps = _distances(stream, 1, turn, n, sizes)
    new = np.where(kinds == 1, columns, columns + of_levels)
    new_jumps = jumps + grids.stride * np.where(
        kinds == 0, 0, np.where(kinds == 1, of_jumps, -of_jumps)
    )
    is_possible = (new >= 0) & (new < len(grids.columns))
    is_possible &= (new_jumps >= 0) & (new_jumps < len(grids.jumps))
    new, new_jumps = np.where(is_possible, new, columns), np.where(is_possible, new_jumps, jumps)
    prior = grids.of_columns[hyper.column_mean, hyper.column_spread]
    log_prior = prior[new] - prior[columns]
    if hyper.jump_spread:
        prior = grids.of_jumps[hyper.jump_mean, hyper.jump_spread - grids.first_spread]
        log_prior += prior[new_jumps // grids.stride] - prior[jumps // grids.stride]
    both = (
        np.stack([grids.columns[columns], grids.jumps[jumps]]),
        np.stack([grids.columns[new], grids.jumps[new_jumps]]),
    )
    proposed = noise.with_columns(new, new_jumps, hyper)
    job = RowUpdate(
        mode=1, rows=None, codes=state.factors[0],
        is_held=np.zeros(state.n_components, np.bool_), weights=proposed.fixed_weights(),
        singles=None, prior=fixed(_odds(state, 1)), stream=stream,
        site=_site(Site.TRADE_BITS, 1, turn),
    )  # fmt: skip
    return _offer(state, target, job, proposed, np.arange(n), both, log_prior, is_possible)


def _offer(
    state: State, target: Target, job: RowUpdate, proposed: Levels, lines: Index,
    levels: tuple[NDArray[np.float64], NDArray[np.float64]], log_prior: NDArray[np.float64],
    is_possible: NDArray[np.bool_],
) -> Offer:  # fmt: skip
    """Draw the components that fit the proposed levels, and weigh both."""
    engine, noise, mode = target.engine, state.noise, job.mode
    before, other = state.factors[mode], state.factors[1 - mode]
    after, _ = engine.update(job, before)
    chosen = None if job.rows is None else lines
    odds = np.where(job.is_held, np.nan, job.odds / SCALE)
    bits = before.dense()[lines]
    forth = engine.score_bits(mode, chosen, other, before, after, proposed.rounded_weights())
    back = engine.score_bits(mode, chosen, other, after, before, noise.rounded_weights())
    values, jumps, classes = noise.across(mode)
    counts = count_lines(state, target, mode, classes)
    jumps = jumps if len(jumps) else np.zeros(1)
    gains = level_changes(
        *counts, values + noise.offset, jumps, *levels, tuple(noise.lattice), lines
    )
    log_ratio = log_prior + gains + log_paths(back, odds, bits) - log_paths(forth, odds, bits)
    log_ratio[~is_possible] = -np.inf
    return Offer(mode, lines, proposed, after, log_ratio)


def _settle(
    stream: Stream, state: State, target: Target, turn: int, offer: Offer, counts: Index
) -> State:
    """Decide for every line; add to the counts of offers and of accepted ones."""
    mode, lines, proposed, after, log_ratio = offer
    before = state.factors[mode]
    uniforms = stream.uniforms(
        _site(Site.TRADE, mode, turn), before.n_rows, row=TradeIndex.DECISION
    )
    is_taken = np.zeros(before.n_rows, np.bool_)
    is_taken[lines] = np.log(uniforms[lines]) < log_ratio
    differs = np.zeros(before.n_rows, np.bool_)
    differs[lines] = (before.dense() != after.dense()).any(axis=1)[lines]
    counts += differs.sum(), (differs & is_taken).sum()
    if not is_taken.any():
        return state
    noise: Levels = state.noise
    if mode == 0:
        changed = noise.with_rows(np.where(is_taken, proposed.rows, noise.rows), noise.hyper)
    else:
        columns = np.where(is_taken, proposed.columns, noise.columns)
        jumps = np.where(is_taken, proposed.jumps, noise.jumps)
        changed = noise.with_columns(columns, jumps, noise.hyper)
    state = state._replace(noise=changed)
    if not (differs & is_taken).any():
        return state
    (chosen,) = pack(is_taken[None])
    words = (before.words & ~chosen) | (after.words & chosen)
    return target.recount(state.with_factor(mode, Factor(words, before.n_rows)))


def _distances(
    stream: Stream, mode: int, turn: int, n_lines: int, grid: NDArray[np.float64]
) -> Index:
    """Draw by how many levels the level of every line is to change: up or down, not none."""
    if len(grid) < 2:
        return np.full(n_lines, len(grid))  # beyond the only one
    most = max(1, round(_FARTHEST * (len(grid) - 1) / float(grid[-1] - grid[0])))
    uniforms = stream.uniforms(_site(Site.TRADE, mode, turn), n_lines, row=TradeIndex.DISTANCE)
    numbers = (uniforms * (2 * most)).astype(np.int64)
    return np.where(numbers < most, numbers - most, numbers - most + 1)


def _odds(state: State, mode: int) -> NDArray[np.float64]:
    """Return the prior log odds of every component."""
    odds: NDArray[np.float64] = np.broadcast_to(
        logit(state.densities[mode]), (state.n_components,)
    )
    return odds


def _site(site: Site, mode: int, turn: int) -> int:
    """Return a site of its own for every mode and turn."""
    return site_of(site, 2 * turn + mode)
