"""The start of a chain: components that are grown on the data before its first sweep.

Several starts are grown and pooled; then components are removed and regrown as long as that
helps (:mod:`thali.sampler.grow`). Rows and columns of a matrix that have levels then try others
(:mod:`thali.sampler.other_levels`). All of it happens on the threads of the host, on a random
subset of the rows if there are many. Every row of the data then draws its memberships given these
components, and the chain continues from there.

The sampler stays exact. A Markov chain has the same limit from any initial state, and the start
precedes its first sweep, with random numbers of other keys; all draws come from the same kernel.
Components that only rows outside the subset use are not known at first; ordinary sweeps find them.
"""

from __future__ import annotations

import logging
from itertools import count
from math import nan, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.model import Effects, Levels
from thali.sampler.all_rows import for_all_lines, for_all_rows
from thali.sampler.grow.boxes import as_boxes, choose_lines, for_lines, some_lines, unfolded
from thali.sampler.grow.families import (
    bared,
    by_evidence,
    family,
    flat_starts,
    grown_start,
    has_effects,
    without_effects,
)
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.released import eager_births, fitted_levels, swept
from thali.sampler.grow.search import HOPELESS, LONG
from thali.sampler.grow.sides import log_evidence
from thali.sampler.grow.trial import Trial, choose, hide, on_trial, rates_alone
from thali.sampler.other_levels import at_other_levels
from thali.sampler.starting import Attempted, Keys, Starting
from thali.sites import Site
from thali.streams import Stream, start_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from thali.engines.base import Hidden
    from thali.sampler.state import State
    from thali.sampler.target import Target

log = logging.getLogger("thali")

_THOROUGH, _MOST, _WORK = 2, 48, 1 << 27
"""There are then so many times as many starts with effects as asked for (at most the second
number), and as many times the rounds, unless entries times components are more than can be
searched in about a minute: each start finds something that others miss."""

_LARGE = 1 << 26
"""Number of entries of the rows searched from which there is one fitted start, the flat one has
its components, and none are replaced: where rows and columns have effects, another flat start
would find far too many, and a round would take longer than all that came before it."""

_RELEASED, _EAGER = 8, 16
"""Sweeps of a flat start of a tensor before its levels are looked at, and of a fitted one."""


def first_state(key: np.uint64, target: Target) -> State:
    """Return the state before the first sweep of a chain."""
    state = None
    for now in start(key, target):
        state = now.state
    return target.initial(key) if state is None else state


def start(key: np.uint64, target: Target) -> Iterator[Starting]:
    """Grow the components that a chain starts from; yield after every step.

    The caller may inspect, report or stop between steps; only the last state is one of the target.
    Nothing is yielded if the chain has no start.

    Parameters
    ----------
    key
        Key of the chain; the random numbers drawn here have other keys, derived from it.
    target
        Target of all rows; the start uses ``target.n_first`` of them.
    """
    if not target.is_grown:
        return
    if len(target.shape) > 2:
        yield from _of_tensor(start_key(key), target)
        return
    n_rows, n_first, rows = target.shape[0], target.n_first, None
    own = start_key(key)
    if n_first < n_rows:
        log.info("starting with %s of %s rows", f"{n_first:,}", f"{n_rows:,}")
        rows = np.sort(Stream(own, np.uint64(0)).permutation(Site.FIRST_ROWS, n_rows)[:n_first])
    host = target.on_host(rows)
    state = None
    for now in _search(own, host):
        state = now.state
        yield now
    assert state is not None
    if isinstance(state.noise, Levels):
        for better in _at_other_levels(start_key(own, Keys.ASIDE), state, host):
            yield now._replace(state=(state := better), stage="trying other levels")
    if rows is None:
        yield now._replace(state=target.recount(state), stage="")
        return
    for whole in for_all_rows(own, state, target):
        yield now._replace(state=whole, stage="all rows")


def _at_other_levels(key: np.uint64, state: State, host: Target) -> Iterator[State]:
    """Give rows and columns other levels where these explain more; the last state counts."""
    streams = (Stream(key, np.uint64(number)) for number in count())
    for mode in (0, 1):
        for better in at_other_levels(streams, state, host, mode):
            yield (state := better)
    yield state.take(state.factors[0].sizes() > 0)


def _of_tensor(key: np.uint64, target: Target) -> Iterator[Starting]:
    """Search for components on some lines of a tensor, or all; then draw those of all lines."""
    lines = choose_lines(Stream(key, np.uint64(0)), target.shape)
    host = some_lines(target, lines)
    # If the number is given, there is nothing to decide between components and levels.
    is_open = isinstance(target.priors.noise, Effects) and not target.model.is_finite
    search = _search_boxes if is_open else _boxes
    for now in search(key, host):
        yield now
    state = for_lines(now.state, target, lines)
    if host.shape != target.shape:
        for whole in for_all_lines(key, state, target, len(lines[0])):
            yield now._replace(state=(state := whole), stage="all lines")
    yield now._replace(state=target.recount(state), stage="")


def _boxes(key: np.uint64, host: Target, kind: str = "") -> Iterator[Starting]:
    """Grow components of the matrix to which a tensor unfolds, and take their codes apart."""
    matrix, history = unfolded(host), list[Attempted]()
    # Where lines have levels, boxes without any can be far too many.
    state, _ = yield from family(
        key, matrix, range(matrix.n_starts), history, kind, most_work=_WORK
    )
    yield Starting(host.recount(as_boxes(state, host)), tuple(history), "done")


def _search_boxes(key: np.uint64, host: Target) -> Iterator[Starting]:
    """Search as :func:`_search` does: without levels, with fitted ones, and for no component.

    Components of a flat start are grown on the unfolded matrix, those of a fitted start are born
    by many tries of the exact move that adds boxes.
    """
    trained, hidden = hide(start_key(np.uint64(0), Keys.HIDING), host)
    for now in _boxes(key, trained, "flat"):
        yield now
    history, flat = list(now.history), now.state
    flat = swept(start_key(key, Keys.LAST), trained, flat, _RELEASED)
    empty = fitted_levels(start_key(key, Keys.NONE), trained)
    candidates = [("flat", flat)]
    if flat.noise.weights().has_classes:
        eager = eager_births(trained)
        grown = swept(start_key(key, Keys.NONE), eager, empty, _EAGER)
        history.append(Attempted("grown", grown.n_components, nan, "fitted"))
        yield Starting(grown, tuple(history), "fitted")
        candidates = [("none", empty), ("fitted", grown), ("flat", flat)]
    baseline = rates_alone(start_key(key, Keys.RATES), trained, empty, hidden)
    trials: list[Trial] = []
    tried: list[Attempted] = []
    for number, (kind, state) in enumerate(candidates):
        trial = on_trial(start_key(key, Keys.TRIALS + number), trained, state, hidden)
        trials.append(trial)
        reached = trial.state.n_components, nan, kind, trial.against(baseline)
        tried.append(Attempted("tried", *reached))
        yield Starting(trial.state, (*history, *tried), "on trial")
    best = choose(trials)
    chosen = tried[best]._replace(stage="chosen")
    state = host.recount(trials[best].state)._replace(sweep=0)
    yield Starting(state, (*history, *tried, chosen), "done")


class _Plan(NamedTuple):
    """How many starts there are."""

    half: int  # of the starts
    first: int  # number of the first flat start, which is strict
    n_first: int  # flat starts that are grown before fitted ones
    n_rounds: int  # in which components are replaced
    is_long: bool  # whether one of the two searches may be given up


def _plan(host: Target) -> _Plan:
    """Decide how many starts to grow."""
    if prod(host.shape) > _LARGE:
        return _Plan(1, 2, 0, 0, is_long=True)
    half = max(1, host.n_starts // 2)
    is_long = host.shape[1] >= LONG
    n_first = 2 if is_long and host.n_starts > 1 else 1  # a strict and a tolerant one
    return _Plan(half, half + half % 2, n_first, host.schedule.regrow, is_long)


def _search(key: np.uint64, host: Target) -> Iterator[Starting]:
    """Search for components; with effects, search twice, and let predictions decide.

    Flat searches have no effects until components are grown, fitted ones begin with effects. If a
    flat start then has no use for effects, there is nothing to decide.
    """
    if not isinstance(host.priors.noise, Effects):
        yield from family(key, host, range(host.n_starts), [])
        return
    # All chains hide the same entries: what they decide then differs by what they have found.
    trained, hidden = hide(start_key(np.uint64(0), Keys.HIDING), host)
    none = Growth(start_key(key, Keys.NONE), trained, is_flat=False)
    empty, evidence = none.result(), log_evidence(none)
    history: list[Attempted] = []
    half, first, n_first, n_rounds, is_long = _plan(host)
    flats = yield from flat_starts(key, trained, range(first, first + n_first), history)
    with_effects = not flats or has_effects(flats[0][1].state)
    # Where nothing is to be decided, a second start may agree with the first.
    n_flat, n_fitted = half if with_effects else max(2, half), half
    families = {"flat": (flats, [*range(first + n_first, first + n_flat)])}
    candidates = [("none", empty, evidence)] if with_effects else []
    if with_effects:
        fitted = yield from grown_start(key, trained, 0, history, "fitted", "start 1")
        if is_long:
            flats.append(bared(start_key(key, Keys.BARE), trained, fitted[1].state, history))
            flats.sort(key=by_evidence)
        lead = flats[0][1].value - fitted[1].value
        if is_long and lead < -HOPELESS:
            del families["flat"]
            if prod(host.shape) * fitted[1].state.n_components <= _WORK:
                n_fitted = min(_THOROUGH * host.schedule.starts, _MOST)
                n_rounds *= _THOROUGH
        # Flat starts have the next numbers; strict and tolerant ones go on alternating after them.
        after = 2 * first + half % 2
        others = [*range(1, half), *range(after, after + n_fitted - half)]
        families = {"fitted": ([fitted], others)} | families
        if is_long and lead > HOPELESS:
            plain = yield from without_effects(key, trained, flats, history, n_rounds)
            families = {"flat": ([plain, *flats], [])}
            if not (with_effects := has_effects(plain[1].state)):
                families, n_rounds, candidates = {"flat": ([plain], [])}, 0, []
    for kind, (grown, numbers) in families.items():
        found = yield from family(key, trained, numbers, history, kind, grown, n_rounds)
        candidates.append((kind, *found))
    least = max(value for _, _, value in candidates) - HOPELESS
    n_out = int(with_effects and is_long and evidence < least)
    if n_out or not with_effects:  # what components add is told all the same
        history.append(Attempted("tried", 0, evidence, "none"))
    yield from _decided(key, host, trained, hidden, empty, candidates, history, n_out)


def _decided(
    key: np.uint64,
    host: Target,
    trained: Target,
    hidden: Hidden,
    empty: State,
    candidates: list[tuple[str, State, float]],
    history: list[Attempted],
    n_out: int,
) -> Iterator[Starting]:
    """Let all but ``n_out`` candidates predict hidden entries; the last state is the best one."""
    baseline = rates_alone(start_key(key, Keys.RATES), trained, empty, hidden)
    alone = Trial(empty, baseline, 0.0).against(baseline)
    history = [part._replace(tried=alone) if part.stage == "tried" else part for part in history]
    trials: list[Trial] = []
    tried: list[Attempted] = []
    is_alone = len(candidates) - n_out == 1
    for number, (kind, state, evidence) in list(enumerate(candidates))[n_out:]:
        key_of = start_key(key, Keys.TRIALS + number)
        trial = on_trial(key_of, trained, state, hidden, is_alone=is_alone)
        trials.append(trial)
        reached = trial.state.n_components, evidence, kind, trial.against(baseline)
        tried.append(Attempted("tried", *reached))
        yield Starting(trial.state, (*history, *tried), "predicting hidden entries")
    best = choose(trials, [evidence for _, _, evidence in candidates[n_out:]])
    growth = Growth(start_key(key, Keys.LAST), host, is_flat=False)
    growth.state = host.recount(trials[best].state)
    chosen = tried[best]._replace(stage="chosen")
    yield Starting(growth.result(), (*history, *tried, chosen), "done")
