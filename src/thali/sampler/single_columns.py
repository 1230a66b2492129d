"""Trade a component of a single column against the level of that column.

A component that has one column only says which rows are likely to have a one there, and a level of
the column says how many are. One describes a column about as well as the other, but no step leads
from one to the other: row by row, users are needed as long as the level is low, and as long as it
is high, nobody needs the component. Trades of rows or columns change codes, or users, not both. So
a component and a level are proposed together.

The jump of the column, all other components and all other levels stay. Given them, rows are
independent in this column, so that sums over its levels, and over all sets of users, are products
over rows. With the levels g and their prior p(g), let

    A = sum_g p(g) prod_i p(x_i | g)
    B = sum_g p(g) prod_i ((1 - w_g) p(x_i | g) + w_g p(x_i | g, covered))

be what the column says without a component of its own, and with one that a row uses with
probability w_g. A birth chooses one of J columns, proposes a level with the probability that it
has in B, then users given this level; a death chooses one of all components of a single column,
and proposes a level with the probability that it has in A. What is left of the acceptance ratio
of a birth with m users is

    J B alpha rho(m) p(code) / (A w_g^m (1 - w_g)^(N - m) (k + 1)),

where rho(m) is the prior of m users (P1), and k the number of components of a single column that
there were. Any w_g will do that follows from the data and from the other components alone: it is
the share of users that fits the level best, up to a few steps.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from thali.bits import pack, unpack
from thali.engines.base import Cover
from thali.model import PerComponent
from thali.sampler.level_weights import pick as pick_by_weight
from thali.sampler.moves.proposal import log_rate, pick
from thali.sampler.single_column_kernels import count_kinds, weigh_levels
from thali.sites import SingleIndex, Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.model import Levels
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_TRIES = 2
"""Number of such trades where another trade is offered once."""


class Weighed(NamedTuple):
    """What all levels of a column explain, without and with a component of its own."""

    alone: NDArray[np.float64]  # log of the terms of A, by level
    shared: NDArray[np.float64]  # log of the terms of B, by level
    shares: NDArray[np.float64]  # w, by level
    kinds: Index  # of every row: the datum of an open entry, or CLOSED


def has_levels_to_offer(state: State, target: Target) -> bool:
    """Return whether the number of components is open, and columns have levels of their own."""
    return target.priors.buffet is not None and state.noise.hyper.column_spread > 0


def offer_to_single_columns(
    stream: Stream, state: State, target: Target, how_often: int, counts: Index
) -> State:
    """Offer columns a component instead of a level, or a level instead of a component.

    Adds the number of offers and of accepted ones to ``counts``. In the warm-up, no component is
    proposed: these are cheap there (:mod:`thali.sampler.warming`), and would keep levels from
    spreading.
    """
    n_columns = target.shape[1]
    uniforms = np.stack([
        stream.uniforms(Site.SINGLE, len(SingleIndex), row=i) for i in range(how_often * _TRIES)
    ])  # fmt: skip
    is_birth = uniforms[:, SingleIndex.IS_BIRTH] < 0.5
    born = np.array([pick(u, n_columns) for u in uniforms[:, SingleIndex.CHOICE]])
    is_tried = ~is_birth | (state.sweep >= target.schedule.warmup)
    columns = np.union1d(born[is_birth & is_tried], _columns(state, singles(state)))
    if len(columns) == 0:
        return state
    known = _known(state, target, columns)
    before = state
    for i in np.flatnonzero(is_tried).tolist():
        if is_birth[i]:
            data = known[np.searchsorted(columns, born[i])]
            after = birth(stream, state, target, i, int(born[i]), data, uniforms[i])
        elif len(own := singles(state)):
            gone = own[pick(uniforms[i, SingleIndex.CHOICE], len(own))]
            (column,) = _columns(state, gone[None])
            data = known[np.searchsorted(columns, column)]
            after = death(state, target, int(gone), int(column), data, uniforms[i])
        else:
            continue
        counts += 1, after is not None
        state = state if after is None else after
    return state if state is before else target.recount(state)


def singles(state: State) -> Index:
    """Return the components that have one column only."""
    _, codes = state.factors
    return np.flatnonzero(codes.sizes() == 1)


def _columns(state: State, components: Index) -> Index:
    """Return the first column of every component."""
    _, codes = state.factors
    first: Index = unpack(codes.words[components], codes.n_rows).argmax(axis=1)
    return first


def _known(state: State, target: Target, columns: Index) -> Index:
    """Count, for every column and row, the ones and zeros that are known: one of them, or none."""
    sets = pack(columns[:, None] == np.arange(target.shape[1]))
    users, codes = state.factors
    nothing = Cover(codes, users, np.zeros(state.n_components, np.bool_))
    counts = target.engine.count_by_class(0, (0, target.shape[0]), nothing, sets)
    return np.ascontiguousarray(counts.transpose(1, 0, 2))


def birth(
    stream: Stream, state: State, target: Target, number: int, column: int, data: Index,
    uniforms: NDArray[np.float64],
) -> State | None:  # fmt: skip
    """Give a column a component of its own, and a level that fits; None if it is rejected.

    ``number`` is that of the try; ``data`` are the counts of known ones and zeros by row.
    """
    n_rows, n_columns = target.shape
    every = np.ones(state.n_components, np.bool_)
    found = weigh(state, column, data, every)
    level = pick_by_weight(found.shared, uniforms[SingleIndex.LEVEL])
    chance = chances(state, column, found, level)
    is_user = stream.uniforms(Site.SINGLE_ROWS, n_rows, row=number) < chance
    n_users = int(is_user.sum())
    if n_users == 0:
        return None
    log_ratio = _log_ratio(state, target, found, level, n_users)
    if not log(uniforms[SingleIndex.DECISION]) < log_ratio:
        return None
    code = np.arange(n_columns) == column
    (_, prior), new = target.priors.densities, None
    if isinstance(prior, PerComponent):
        densities = _log_densities(state, prior)
        new = prior.grid[[pick_by_weight(densities, uniforms[SingleIndex.DENSITY])]]
    state = state.append((pack(is_user[None]), pack(code[None])), new)
    return _with_level(state, column, level)


def death(
    state: State, target: Target, gone: int, column: int, data: Index,
    uniforms: NDArray[np.float64],
) -> State | None:  # fmt: skip
    """Take its own component from a column, and give it a level; None if it is rejected."""
    is_rest = np.arange(state.n_components) != gone
    found = weigh(state, column, data, is_rest)
    level, n_users = int(state.noise.columns[column]), int(state.factors[0].sizes()[gone])
    rest = state.take(is_rest)
    log_ratio = _log_ratio(rest, target, found, level, n_users)
    if not log(uniforms[SingleIndex.DECISION]) < -log_ratio:
        return None
    return _with_level(rest, column, pick_by_weight(found.alone, uniforms[SingleIndex.LEVEL]))


def weigh(state: State, column: int, data: Index, is_counted: NDArray[np.bool_]) -> Weighed:
    """Weigh the levels of a column, where only some components cover it."""
    noise: Levels = state.noise
    grids, hyper = noise.prior.grids, noise.hyper
    users, codes = state.factors
    levels, classes = noise.row_classes
    has_column = (codes.words[:, column >> 6] >> np.uint64(column & 63)) & np.uint64(1) == 1
    is_covering = has_column & is_counted
    kinds, counts = count_kinds(data, users.words, is_covering, classes, len(levels))
    values, jump = _of_classes(noise, column)
    of_columns = grids.of_columns[hyper.column_mean, hyper.column_spread]
    alone, shared, shares = weigh_levels(
        counts, users.n_rows, values, grids.columns, jump, of_columns, tuple(noise.lattice)
    )
    return Weighed(alone, shared, shares, kinds)


def chances(state: State, column: int, found: Weighed, level: int) -> NDArray[np.float64]:
    """Return the probability that every row uses a new component, if the column has a level."""
    noise: Levels = state.noise
    values, jump = _of_classes(noise, column)
    odds = values + noise.prior.grids.columns[level]
    of_zero = log_expit(-odds - jump) - log_expit(-odds)
    gains = np.stack([of_zero, of_zero + jump, np.zeros(len(odds))])  # by kind of entry
    share = logit(found.shares[level])
    of_rows: NDArray[np.float64] = expit(share + gains)[found.kinds, noise.row_classes[1]]
    return of_rows


def _of_classes(noise: Levels, column: int) -> tuple[NDArray[np.float64], float]:
    """Return the log odds of classes of rows without the level of a column, and its jump."""
    grids = noise.prior.grids
    return grids.rows[noise.row_classes[0]] + noise.offset, float(grids.jumps[noise.jumps[column]])


def _log_ratio(state: State, target: Target, found: Weighed, level: int, n_users: int) -> float:
    """Return the log acceptance ratio of a birth; the state is that without the component."""
    n_rows, n_columns = target.shape
    share = float(found.shares[level])
    log_how = n_users * log(share) + (n_rows - n_users) * log1p(-share)
    ratio = np.logaddexp.reduce(found.shared) - np.logaddexp.reduce(found.alone)
    ratio += log(state.alpha) + log_rate(n_users, n_rows) - log_how
    ratio += log(n_columns) - log(len(singles(state)) + 1)
    return float(ratio + _log_code(state, target))


def _log_code(state: State, target: Target) -> float:
    """Return the log probability that a new component has one given column and no other."""
    _, prior = target.priors.densities
    if isinstance(prior, PerComponent):
        return float(np.logaddexp.reduce(_log_densities(state, prior)))
    _, density = map(float, state.densities)
    return log(density) + (target.shape[1] - 1) * log1p(-density)


def _log_densities(state: State, prior: PerComponent) -> NDArray[np.float64]:
    """Return the same with every density that it may have.

    The weights that tie densities are summed out: those of the sweep were drawn before densities.
    """
    (_, codes), (_, densities) = state.factors, state.densities
    of_code = np.log(prior.grid) + (codes.n_rows - 1) * np.log1p(-prior.grid)
    found: NDArray[np.float64] = prior.expected(densities).log_weights + of_code
    return found


def _with_level(state: State, column: int, level: int) -> State:
    """Return the state with another level of one column."""
    noise: Levels = state.noise
    columns = np.array(noise.columns, np.int64)
    columns[column] = level
    return state._replace(noise=noise.with_columns(columns, noise.jumps, noise.hyper))
