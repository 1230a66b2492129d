# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: FBT001
"""The parts of a sweep in one call each, on matrices so small that calls cost much of the time.

Threads share the rows within a call (:mod:`thali.team_kernels`). These functions do what
:mod:`thali.sampler.step` does, with the same functions, for the default priors: two error rates,
and a density per factor.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from thali import team_kernels
from thali._jit import inner, jit
from thali.bits import Factor
from thali.bits.words import popcount, take_lines
from thali.decide import units
from thali.engines.cpu import horizontal, in_parts, vertical
from thali.engines.cpu.order_components import sort_keys
from thali.engines.cpu.visits import list_visits
from thali.model import Beta, Noise, UnequalRates
from thali.model.draws import draw_density, draw_truncated
from thali.model.special import ADDRESSES
from thali.patience import Patience
from thali.sampler.state import State
from thali.sites import Site, site_of
from thali.streams import read_uniform, uniform64
from thali.team import memory_of
from thali.team_kernels import N_RESULTS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Data, Order, Whole
    from thali.model.special import Addresses
    from thali.sampler.target import Target
    from thali.streams import Stream

    # Parameters of the priors: of the density of users (zeros if there is none), of that of codes,
    # and of both rates.
    Pair: TypeAlias = tuple[float, float]
    Numbers: TypeAlias = tuple[Pair, Pair, Pair, Pair]

_START = np.int64(0)  # a plain zero would be a type of its own
_0, _1 = np.uint64(0), np.uint64(1)
_ROWS, _COLUMNS = (np.uint64(site_of(Site.ROW_BITS, mode)) for mode in range(2))
_ORDER = np.uint64(site_of(Site.ORDER, 1))
_OF_USERS, _OF_CODES = (np.uint64(site_of(Site.DENSITY, mode)) for mode in range(2))
_ALPHA, _NOISE = np.uint64(Site.ALPHA), np.uint64(Site.NOISE)
_NONE = 0.0, 0.0
_ALONE = nullcontext(np.zeros(0, np.uint64))

PATIENCE = Patience()
"""How many updates are done step by step before the kernels of this file are compiled."""


def at_hand(state: State, target: Target, mode: int) -> Whole | None:
    """Return the data of a mode if they are small, and noise and densities are of the default."""
    priors = target.priors
    if (
        len(state.factors) > 2
        or state.n_components == 0
        or type(priors.noise) is not UnequalRates
        or any(type(prior) is not Beta for prior in priors.densities if prior is not None)
    ):
        return None
    whole = target.engine.whole(mode, state.factors[1 - mode].words)
    return whole if whole is not None and PATIENCE.ends(1, _finish) else None


def update_users(stream: Stream, state: State, target: Target) -> State | None:
    """Draw all users, as :func:`thali.sampler.step.update_mode`; None if that should do it."""
    whole = at_hand(state, target, 0)
    if whole is None:
        return None
    users, codes = state.factors
    density, _ = state.densities
    with _memory(whole) as memory:
        words, *gained = _update(
            memory, *stream, _ROWS, users.words, codes.words, whole,
            state.noise.fixed_weights().table, units(float(logit(density))),
        )  # fmt: skip
    return state.with_factor(0, Factor(words, users.n_rows), (gained[0], gained[1]))


def finish(stream: Stream, state: State, target: Target) -> State | None:
    """Draw all codes, then densities, concentration and error rates; None if others should.

    The components of a buffet are put in a random order before.
    """
    whole = at_hand(state, target, 1)
    if whole is None:
        return None
    noise, buffet, densities = target.priors
    assert isinstance(noise, UnequalRates)
    (users, codes), (of_users, of_codes) = state.factors, state.densities
    n_rows, n_known, n_ones, _ = users.n_rows, *target.totals[1:]
    first, second = ((float(p.a), float(p.b)) if isinstance(p, Beta) else _NONE for p in densities)
    (a0, b0), (a1, b1) = noise.spurious, noise.dropped
    numbers = first, second, (float(a0), float(b0)), (float(a1), float(b1))
    with _memory(whole) as memory:
        new_users, new_codes, tp, fp, q0, q1, to_alpha, spurious, dropped = _finish(
            memory, *stream, buffet is not None, users.words, codes.words, n_rows, whole,
            state.noise.fixed_weights().table, units(float(logit(of_codes))), *state.covered,
            n_known, n_ones, ADDRESSES, numbers, state.noise.dropped,
        )  # fmt: skip
    return State(
        (Factor(new_users, n_rows), Factor(new_codes, codes.n_rows)),
        Noise(spurious, dropped),
        state.alpha if buffet is None else buffet.draw(state.n_components, n_rows, to_alpha),
        (of_users if first is _NONE else np.array(q0), np.array(q1)),
        (tp, fp),
        state.sweep,
    )


def _memory(whole: Whole) -> AbstractContextManager[Words]:
    """Return the memory of a team that shares the rows; one thread alone needs none."""
    *_, threads, n_parts = whole
    return _ALONE if n_parts == 1 else memory_of(threads, min(threads, n_parts))


@jit
def _update(
    memory: Words, key: np.uint64, sweep: np.uint64, site: np.uint64, own: Words, codes: Words,
    whole: Whole, weights: NDArray[np.int64], prior: int,
) -> tuple[Words, int, int]:  # fmt: skip
    """Draw all entries of a factor; return them, and the ones and zeros newly covered."""
    data, across, rows, singles, is_vertical, _, n_parts = whole
    n, n_rows = codes.shape[0], rows.shape[0]
    is_held, priors = np.zeros(n, np.bool_), np.full(n, prior)
    order = rows, codes, is_held, weights, singles, priors, key, sweep, site
    after = np.zeros(own.shape, np.uint64)
    visits, starts = np.empty(0, np.uint64), np.empty((0, 2), np.uint64)
    step = np.int64(1)
    if is_vertical:
        visits, starts = list_visits(codes, is_held, singles[:0])
        step = np.int64(64)
    if n_parts == 1:
        tp, fp = _draw(
            _START, n_rows, data, across, order, own, after, visits, starts, is_vertical, True
        )
        return after, tp, fp
    n_parts = min(n_parts, (n_rows + step - 1) // step)
    results = np.zeros((n_parts, N_RESULTS), np.int64)
    _draw_in_parts(
        memory, _START, n_rows, n_parts, step, results, data, across, order, own, after, visits,
        starts, is_vertical, False,
    )  # fmt: skip
    tp, fp = 0, 0
    for part in range(n_parts):
        tp += results[part, 0]
        fp += results[part, 1]
    return after, tp, fp


@inner
def _draw(
    lo: int, hi: int, data: Data, across: Data, order: Order, own: Words, after: Words,
    visits: Words, starts: Words, is_vertical: bool, is_alone: bool,
) -> tuple[int, int]:  # fmt: skip
    """Draw some rows in the form that is faster; return the ones and zeros newly covered."""
    if is_vertical:
        return vertical.update_columns(lo, hi, data, across, order, own, after, visits, starts)
    if is_alone:
        return horizontal.update_rows(lo, hi, data, order, own, after)
    return in_parts.plain(lo, hi, data, order, own, after)


_draw_in_parts = team_kernels.in_parts(_draw, inner)


@jit
def _finish(
    memory: Words, key: np.uint64, sweep: np.uint64, is_buffet: bool, users: Words, codes: Words,
    n_rows: int, whole: Whole, weights: NDArray[np.int64], prior: int, tp: int, fp: int,
    n_known: int, n_ones: int, addresses: Addresses, numbers: Numbers, dropped: float,
) -> tuple[Words, Words, int, int, float, float, float, float, float]:  # fmt: skip
    """Do the work of :func:`finish`.

    Returns users, codes, covered ones and zeros, both densities, the uniform random number of the
    concentration, and both rates.
    """
    of_users, of_codes, of_spurious, of_dropped = numbers
    n, n_columns = users.shape[0], whole[2].shape[0]
    if is_buffet:
        order = _random_order(key, sweep, n)
        users, codes = take_lines(users, order), take_lines(codes, order)
    codes, more_tp, more_fp = _update(
        memory, key, sweep, _COLUMNS, codes, users, whole, weights, prior
    )
    tp, fp = tp + more_tp, fp + more_fp
    q0 = 0.0
    if of_users[0] > 0.0:
        a, b = _counted(of_users, users, n_rows)
        q0 = draw_density(addresses, a, b, read_uniform(key, sweep, _OF_USERS, _0, _0))
    a, b = _counted(of_codes, codes, n_columns)
    q1 = draw_density(addresses, a, b, read_uniform(key, sweep, _OF_CODES, _0, _0))
    to_alpha = read_uniform(key, sweep, _ALPHA, _0, _0)
    u, v = read_uniform(key, sweep, _NOISE, _0, _0), read_uniform(key, sweep, _NOISE, _0, _1)
    a, b = of_spurious[0] + (n_ones - tp), of_spurious[1] + (n_known - n_ones - fp)
    spurious = draw_truncated(addresses, a, b, u, 1.0 - dropped)
    a, b = of_dropped[0] + fp, of_dropped[1] + tp
    dropped = draw_truncated(addresses, a, b, v, 1.0 - spurious)
    return users, codes, tp, fp, q0, q1, to_alpha, spurious, dropped


@inner
def _random_order(key: np.uint64, sweep: np.uint64, n: int) -> Index:
    """Return a random order, as :meth:`thali.streams.Stream.permutation`."""
    keys = np.empty(n, np.uint64)
    for i in range(n):
        keys[i] = uniform64(key, sweep, _ORDER, _0, np.uint64(i))
    return sort_keys(keys)


@inner
def _counted(prior: Pair, factor: Words, n_rows: int) -> Pair:
    """Return the parameters of a Beta distribution after all entries of a factor were seen."""
    total = _0
    for component in range(factor.shape[0]):
        for w in range(factor.shape[1]):
            total += popcount(factor[component, w])
    n_ones = np.float64(total)
    return prior[0] + n_ones, prior[1] + (np.float64(n_rows * factor.shape[0]) - n_ones)
