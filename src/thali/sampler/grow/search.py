"""The search of a start: grow, pool several starts, and remove and regrow components."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import overlaps
from thali.sampler.grow.births import add_components
from thali.sampler.grow.deaths import remove_unsupported
from thali.sampler.grow.growth import FITS
from thali.sampler.grow.merges import merge_pairs
from thali.sampler.grow.sides import log_evidence
from thali.sampler.moves.proposal import pick
from thali.sampler.step import step
from thali.sites import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.grow.growth import Growth
    from thali.sampler.state import State

LONG, HOPELESS = 1000, 500.0
"""With rows at least so long, one of the two searches, with and without effects, is given up if
the evidence for its first start is so much lower than that for the first of the other, and so is
having no component, from which sweeps might make far too many. Where rows are short, evidence says
less."""

_ROUNDS = 24
"""Largest number of rounds of growth."""

_TRIES = 30
"""Number of births tried in a round; half as many as there are components if that is more."""

_FEW = 5
"""Number of births tried in a round in which growth is expected to end."""

_IDLE = 2
"""Number of rounds without growth after which it ends."""

_PATIENCE = 5
"""Number of components that are worth least and must each be needed before pruning ends."""

_REGROWN = 12
"""How often, in a round, a few components are removed and others grown in their place."""

_ALIKE = 0.9
"""Share of rows and of columns from which on two components count as the same."""

_INSIDE, _LARGE = 0.7, 0.25
"""A component may hold what belongs to others if it has this share of another's users, and these
are at least this share of its own."""

_POLISH, _WORK = 20, 800
"""Number of ordinary sweeps, with all moves, between growth and regrowth. Of many components
fewer, because moves are then tried more often."""


class Judged(NamedTuple):
    """A state of a start, and the log evidence for it."""

    state: State
    value: float


def judged(growth: Growth) -> Judged:
    """Estimate the evidence for the present state of a start."""
    value = log_evidence(growth)  # which changes the state, and may leave components unused
    growth.state = growth.state.take(growth.state.factors[0].sizes() > 0)
    return Judged(growth.state, value)


def grow(growth: Growth) -> Iterator[None]:
    """Add components until nothing more is gained; yield after every round."""
    n_idle = 0
    for _ in range(_ROUNDS):
        before = growth.state.n_components
        n_tries = max(_TRIES, before // 2) if n_idle == 0 else _FEW
        n_tries = min(n_tries, growth.target.shape[0])  # every row once, about
        add_components(growth, n_tries)
        for _ in range(2):
            growth.sweep()
            growth.settle()
        remove_unsupported(growth)
        merge_pairs(growth)
        yield
        n_idle = n_idle + 1 if growth.state.n_components <= before else 0
        if n_idle == _IDLE:
            break
    merge_pairs(growth, is_thorough=True)


def pool(growth: Growth, best: Judged, other: State) -> Judged:
    """Put the components that only another start has beside those of the best; keep what helps."""
    is_new = _differs(other, best.state)
    if not is_new.any():
        return best
    new = other.take(is_new)
    (density,) = new.densities[1:]
    lines = [factor.words for factor in new.factors]
    both = best.state.append(lines, density if density.ndim else None)
    growth.state = growth.target.recount(both)
    growth.sweep()
    for _ in range(3):
        n_changed = remove_unsupported(growth) + merge_pairs(growth)
        growth.sweep()
        if n_changed == 0:
            break
    return _better(growth, best)


def is_same(state: State, other: State) -> bool:
    """Return whether two starts have found the same components."""
    return not (_differs(state, other).any() or _differs(other, state).any())


def _differs(state: State, other: State) -> NDArray[np.bool_]:
    """Return which components of a state another state does not have, or hardly."""
    n = state.n_components
    if n == 0 or other.n_components == 0:
        return np.ones(n, np.bool_)
    alike = np.ones((n, other.n_components))
    for one, two in zip(state.factors, other.factors, strict=True):
        shared = overlaps(one.words, two.words)
        union = np.add.outer(one.sizes(), two.sizes()) - shared
        alike = np.minimum(alike, shared / np.maximum(union, 1.0))
    differs: NDArray[np.bool_] = alike.max(axis=1) < _ALIKE
    return differs


def improve(growth: Growth, best: Judged) -> Iterator[Judged]:
    """Sweep, prune, and remove and regrow; yield the best so far after every try."""
    best = _polish(growth, best)
    yield best
    for after in _prune(growth, best):
        best = after
        yield best
    yield from _regrow(growth, best)


def _polish(growth: Growth, best: Judged) -> Judged:
    """Do ordinary sweeps with all moves; keep the result if it is better."""
    target = growth.target
    target = target._replace(schedule=replace(target.schedule, warmup=1 << 30))
    state = best.state
    for _ in range(min(_POLISH, 2 + _WORK // (1 + state.n_components))):
        growth.clock += 1
        state, _ = step(growth.key, state._replace(sweep=growth.clock), target)
    growth.state = state
    remove_unsupported(growth)
    merge_pairs(growth, is_thorough=True)
    return _better(growth, best)


def _prune(growth: Growth, best: Judged) -> Iterator[Judged]:
    """Try to do without the components that are worth least; yield the best after every try."""
    n_failed = 0
    while n_failed < _PATIENCE and best.state.n_components > max(1, n_failed):
        growth.state = best.state
        growth.settle()
        out = np.argsort(growth.side.values(growth), kind="stable")[n_failed]
        after = _without(growth, best, out)
        n_failed = n_failed + 1 if after is best else 0
        best = after
        yield best


def _regrow(growth: Growth, best: Judged) -> Iterator[Judged]:
    """Remove a few components and grow others in their place; yield the best after every try.

    Every try begins with another component, and grows around rows that used what was removed.
    """
    order = growth.stream().permutation(Site.REGROWN, best.state.n_components)
    for first in order[:_REGROWN]:
        n = best.state.n_components
        if n < 2:
            return
        to_kind, to_number = growth.stream().uniforms(Site.REGROWN, 2).tolist()
        out = _together(best.state, int(first) % n, pick(to_kind, 3), 1 + pick(to_number, 2))
        is_kept = np.ones(n, np.bool_)
        is_kept[out] = False
        users = np.flatnonzero(best.state.factors[0].dense()[:, out].any(axis=1))
        growth.state = growth.target.recount(best.state.take(is_kept))
        add_components(growth, 6, users)
        growth.sweep()
        add_components(growth, 3, users)
        growth.sweep()
        growth.sweep()
        remove_unsupported(growth)
        merge_pairs(growth)
        growth.sweep()
        best = _better(growth, best)
        yield best


def without_single_columns(growth: Growth, best: Judged) -> Judged:
    """Try to give columns levels instead of components that have one column only.

    Such a component says no more about its column than how many ones it has. In tensors, lines of
    one mode are no columns.
    """
    _, codes, *others = best.state.factors
    is_single = codes.sizes() == 1
    if others or is_single.all() or not is_single.any():
        return best
    growth.state = growth.target.recount(best.state.take(~is_single))
    for _ in range(FITS):
        growth.settle()
        growth.sweep()
    return _better(growth, best)


def give_back(growth: Growth, best: Judged) -> Iterator[Judged]:
    """Try to do without components that may hold columns of others; yield the best of every try.

    A component can have the users of another and some of a third, and hold the columns that both
    have. These are then missing from the codes of both. It is worth much as long as their codes
    stay, so that only sweeps without it tell.
    """
    for users in best.state.factors[0].words[_holders(best.state)]:
        same = np.flatnonzero((best.state.factors[0].words == users).all(axis=1))
        if len(same) > 0 and best.state.n_components > 1:  # it has not gone with another
            best = _without(growth, best, same[0])
            yield best


def _holders(state: State) -> NDArray[np.bool_]:
    """Return which components have nearly all users of another one that is not much smaller."""
    users = state.factors[0]
    sizes = users.sizes()
    is_inside = overlaps(users.words, users.words) >= _INSIDE * sizes
    is_inside &= sizes >= _LARGE * sizes[:, None]
    np.fill_diagonal(is_inside, val=False)
    holders: NDArray[np.bool_] = is_inside.any(axis=1)
    return holders


def _without(growth: Growth, best: Judged, out: int | np.intp) -> Judged:
    """Sweep without a component; return what that leads to, or the best so far."""
    growth.state = best.state.take(np.arange(best.state.n_components) != out)
    growth.state = growth.target.recount(growth.state)
    for _ in range(2):
        growth.sweep()
    remove_unsupported(growth)
    return _better(growth, best)


def _better(growth: Growth, best: Judged) -> Judged:
    """Judge the present state; return it or the best so far."""
    now = judged(growth)
    return now if now.value > best.value else best


def _together(state: State, first: int, kind: int, n_others: int) -> Index:
    """Return a component, alone or with those that are most similar in rows or in columns."""
    if kind == len(state.factors):
        return np.array([first])
    factor = state.factors[kind]
    shared = overlaps(factor.words[[first]], factor.words)[0] / np.sqrt(factor.sizes() + 1.0)
    shared[first] = np.inf
    return np.argsort(-shared, kind="stable")[: 1 + n_others]
