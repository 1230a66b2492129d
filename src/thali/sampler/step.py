"""One sweep: ``step(key, state, target) -> (state, info)``, a pure function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from thali.bits import khatri_rao
from thali.decide import fixed, units
from thali.engines.base import RowUpdate
from thali.model import Levels, PerComponent
from thali.model.effects import Effects
from thali.sampler import small
from thali.sampler.buffet import sweep_blocks, sweep_serial
from thali.sampler.info import Info
from thali.sampler.levels import draw_levels
from thali.sampler.moves import try_moves
from thali.sampler.offset_with_jump import draw_offset_with_jump, has_one_jump
from thali.sampler.trades import can_trade, trade
from thali.sites import Site, site_of
from thali.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.model import Noise
    from thali.model.priors import DensityPrior
    from thali.sampler.state import State
    from thali.sampler.target import Target


_FEW, _MOST, _HUGE = 1 << 17, 8, 1 << 32
"""Levels are drawn in every sweep of a table with few entries, and once in up to eight sweeps of a
larger one: many entries determine each of them, and a draw takes longer than the rest of a
sweep. A huge table draws them once in sixteen sweeps. Nothing is lost: a row of 28,000 entries
determines its level to a tenth of a step of the grid, so that hardly any level changes between two
draws, and what follows from the data and the factors alone need not be drawn often."""


def step(key: np.uint64, state: State, target: Target) -> tuple[State, Info]:
    """Do one sweep: update every factor, then densities, concentration and error rates.

    Parameters
    ----------
    key
        Key of the chain (:func:`thali.streams.chain_key`).
    state
        Present state of the chain; it is not changed.
    target
        Data, model and schedule.
    """
    stream = Stream(np.uint64(key), np.uint64(state.sweep))
    target = with_weights(stream, state, target)
    schedule, priors = target.schedule, target.priors
    is_warmup = state.sweep < schedule.warmup
    if priors.buffet is None:
        state = small.update_users(stream, state, target) or update_mode(stream, state, target, 0)
    elif schedule.kind == "parallel":
        state = sweep_blocks(stream, state, target)
    else:
        state = sweep_serial(stream, state, target)
    state, acceptance = try_moves(stream, state, target)
    is_held = is_warmup and state.sweep < schedule.hold and not target.is_grown
    done = None if is_held else small.finish(stream, state, target)
    state = _finish(stream, state, target, is_held=is_held) if done is None else done
    if isinstance(state.noise, Levels) and not is_held:
        number, rest = _draw_of_levels(state, target)
        if not rest:
            state, counts = trade(stream, state, target, number)
            acceptance = {**acceptance, "trade": counts}
            if number % 2 and can_trade(target) and has_one_jump(state):
                state = draw_offset_with_jump(stream, state, target)
    state = state._replace(sweep=state.sweep + 1)
    return state, Info(state, target, is_warmup, acceptance)


def with_weights(stream: Stream, state: State, target: Target) -> Target:
    """Draw the weights that tie the densities of components, given these, for one sweep.

    They need not be kept: the next sweep draws them anew, given the densities that it begins with.
    """
    densities: list[DensityPrior | None] = [*target.priors.densities]
    for mode, prior in enumerate(densities):
        if isinstance(prior, PerComponent) and prior.tied is not None:
            uniforms = stream.uniforms(site_of(Site.DENSITY, mode), 2 * prior.n_values, row=1)
            densities[mode] = prior.given(state.densities[mode], uniforms)
            priors = target.priors._replace(densities=tuple(densities))
            target = target._replace(priors=priors)
    return target


def _finish(stream: Stream, state: State, target: Target, *, is_held: bool) -> State:
    """Update all factors but the first, then everything else unless it is held."""
    for mode in range(1, len(state.factors)):
        if target.priors.buffet is not None:
            # A fresh random order, for the reason given in sampler/buffet.py.
            order = stream.permutation(site_of(Site.ORDER, mode), state.n_components)
            state = state.with_order(target.engine.reorder(state.factors, order), order)
        state = update_mode(stream, state, target, mode)
    if not is_held:
        state = update_hyperparameters(stream, state, target)
        state = state._replace(noise=draw_noise(stream, state, target))
    return state


def draw_noise(stream: Stream, state: State, target: Target) -> Noise | Levels:
    """Draw error rates, or levels of rows and columns, given the factors."""
    prior = target.priors.noise
    if isinstance(prior, Effects):
        number, rest = _draw_of_levels(state, target)
        if rest:
            levels: Levels = state.noise
            return levels
        return draw_levels(stream, state, target, number=number)
    return prior.draw(target.counts(state), stream.uniforms(Site.NOISE, 2), state.noise)


def _draw_of_levels(state: State, target: Target) -> tuple[int, int]:
    """Return the number of the last draw of levels, and for how many sweeps they stay since."""
    return divmod(state.sweep, sweeps_per_draw(target.totals.n_known))


def sweeps_per_draw(n_known: int) -> int:
    """Return in one of how many sweeps levels are drawn, given the number of known entries."""
    return 2 * _MOST if n_known >= _HUGE else min(max(1, n_known // _FEW), _MOST)


def update_mode(stream: Stream, state: State, target: Target, mode: int) -> State:
    """Draw all entries of a factor with independent entries (eq. 10)."""
    n = state.n_components
    if n == 0:  # often so in small tables, where the work order would cost more than the sweep
        return state
    odds = logit(state.densities[mode])
    job = RowUpdate(
        mode=mode,
        rows=None,
        codes=khatri_rao(state.factors, mode),
        is_held=np.zeros(n, np.bool_),
        weights=state.noise.fixed_weights(),
        singles=None,
        prior=fixed(odds) if odds.ndim else np.full(n, units(float(odds))),
        stream=stream,
        site=site_of(Site.ROW_BITS, mode),
    )
    factor, gained = target.engine.update(job, state.factors[mode])
    return state.with_factor(mode, factor, gained)


def update_memberships(
    stream: Stream, state: State, target: Target, odds: NDArray[np.float64]
) -> State:
    """Draw the memberships of all rows given the log odds of the components' weights."""
    of_codes = state.densities
    state = state._replace(densities=(expit(odds), *of_codes[1:]))
    return update_mode(stream, state, target, 0)._replace(densities=of_codes)


def update_hyperparameters(stream: Stream, state: State, target: Target) -> State:
    """Draw the densities and the concentration given the factors."""
    densities = []
    for mode, prior in enumerate(target.priors.densities):
        if prior is None:
            densities.append(state.densities[mode])
            continue
        factor = state.factors[mode]
        uniforms = stream.uniforms(site_of(Site.DENSITY, mode), max(1, factor.n_components))
        present = state.densities[mode]
        densities.append(prior.draw(factor.sizes(), factor.n_rows, uniforms, present))
    alpha = state.alpha
    if target.priors.buffet is not None:
        uniform = float(stream.uniforms(Site.ALPHA, 1)[0])
        alpha = target.priors.buffet.draw(state.n_components, target.shape[0], uniform)
    return state._replace(densities=tuple(densities), alpha=alpha)
