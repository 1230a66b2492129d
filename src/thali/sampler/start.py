"""The start of a chain: components that are grown on the data before its first sweep.

Several starts are grown and pooled; then components are removed and regrown as long as that
helps (:mod:`thali.sampler.grow`). All of it happens on the threads of the host, on a random
subset of the rows if there are many. Every row of the data then draws its memberships given these
components, and the chain continues from there.

The sampler stays exact. A Markov chain has the same limit from any initial state, and the start
precedes its first sweep, with random numbers of other keys; all draws come from the same kernel.
Components that only rows outside the subset use are not known at first; ordinary sweeps find them.
"""

from __future__ import annotations

import logging
from math import nan, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import Factor
from thali.model import Effects, Levels, UnequalRates
from thali.sampler.grow.boxes import as_boxes, choose_lines, for_lines, some_lines, unfolded
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.released import eager_births, fitted_levels, swept
from thali.sampler.grow.search import HOPELESS, LONG, grow, improve, is_same, judged, pool
from thali.sampler.grow.sides import log_evidence
from thali.sampler.grow.trial import Trial, Tried, choose, hide, on_trial, rates_alone
from thali.sampler.levels import draw_levels
from thali.sampler.step import update_memberships, update_mode
from thali.sites import Site
from thali.streams import Stream, start_key

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import TypeAlias

    from thali.engines.base import Hidden
    from thali.sampler.grow.search import Judged
    from thali.sampler.state import State
    from thali.sampler.target import Target

    _Grown: TypeAlias = tuple[Growth, Judged]

log = logging.getLogger("thali")

_PASSES = 2
"""Number of passes over the memberships of all rows: in the first pass, the memberships of a
component are drawn before those of later components, which may explain the same entries better."""


_LITTLE = 3.0
"""Gain in log evidence below which a further round is not tried; more if estimates differ more."""


_THOROUGH, _MOST, _WORK = 2, 48, 1 << 27
"""There are then so many times as many starts with effects as asked for (at most the second
number), and as many times the rounds, unless entries times components are more than can be
searched in about a minute: each start finds something that others miss."""

_FIRST = {
    "": "",
    "fitted": "effects first, ",
    "flat": "components first, ",
    "plain": "without effects, ",
}
"""What to call the searches where there are effects, as pages do."""

_HIDING, _NONE, _LAST, _RATES, _PLAIN, _TRIALS = 101, 102, 103, 104, 106, 110
"""Numbers of the keys of what comes beside the starts themselves, which have small numbers."""


_RELEASED, _EAGER = 8, 16
"""Sweeps of a flat start of a tensor before its levels are looked at, and of a fitted one."""


class Attempted(NamedTuple):
    """One stage of a start, and what it reached."""

    stage: str  # "grown", "pooled", "regrown", "tried" or "chosen"
    n_components: int
    evidence: float  # log joint density of data and one side of the components; if tried or
    # chosen, before the sweeps of the trial
    kind: str = ""  # with effects: "none" (no component), "fitted", "flat" or "plain" (no effects)
    tried: Tried | None = None  # how it predicted hidden entries, if tried or chosen


class Starting(NamedTuple):
    """The progress of a start."""

    state: State  # a state of the target only at the end
    history: tuple[Attempted, ...]
    stage: str


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
    if rows is None:
        yield now._replace(state=target.recount(state), stage="")
        return
    for whole in _for_all(own, state, target):
        yield now._replace(state=whole, stage="all rows")


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
        sizes = np.maximum(state.factors[0].sizes(), 0.5)
        odds = np.log(sizes) - np.log(len(lines[0]) + 1.0 - sizes)
        for number in range(_PASSES):
            stream = Stream(key, np.uint64(1 + number))
            if isinstance(state.noise, Levels):
                state = state._replace(noise=draw_levels(stream, state, target))
            state = update_memberships(stream, state, target, odds)
            for mode in range(1, len(target.shape)):
                state = update_mode(stream, state, target, mode)
        if not target.model.is_finite:
            state = state.take(state.factors[0].sizes() > 0)
    yield now._replace(state=target.recount(state), stage="")


def _boxes(key: np.uint64, host: Target, kind: str = "") -> Iterator[Starting]:
    """Grow components of the matrix to which a tensor unfolds, and take their codes apart."""
    matrix, history = unfolded(host), list[Attempted]()
    state, _ = yield from _family(key, matrix, range(matrix.n_starts), history, kind)
    yield Starting(host.recount(as_boxes(state, host)), tuple(history), "done")


def _search_boxes(key: np.uint64, host: Target) -> Iterator[Starting]:
    """Search as :func:`_search` does: without levels, with fitted ones, and for no component.

    Components of a flat start are grown on the unfolded matrix, those of a fitted start are born
    by many tries of the exact move that adds boxes.
    """
    trained, hidden = hide(start_key(np.uint64(0), _HIDING), host)
    for now in _boxes(key, trained, "flat"):
        yield now
    history, flat = list(now.history), now.state
    flat = swept(start_key(key, _LAST), trained, flat, _RELEASED)
    empty = fitted_levels(start_key(key, _NONE), trained)
    candidates = [("flat", flat)]
    if flat.noise.weights().has_classes:
        eager = eager_births(trained)
        grown = swept(start_key(key, _NONE), eager, empty, _EAGER)
        history.append(Attempted("grown", grown.n_components, nan, "fitted"))
        yield Starting(grown, tuple(history), "fitted")
        candidates = [("none", empty), ("fitted", grown), ("flat", flat)]
    baseline = rates_alone(start_key(key, _RATES), trained, empty, hidden)
    trials: list[Trial] = []
    tried: list[Attempted] = []
    for number, (kind, state) in enumerate(candidates):
        trial = on_trial(start_key(key, _TRIALS + number), trained, state, hidden)
        trials.append(trial)
        reached = trial.state.n_components, nan, kind, trial.against(baseline)
        tried.append(Attempted("tried", *reached))
        yield Starting(trial.state, (*history, *tried), "on trial")
    best = choose(trials)
    chosen = tried[best]._replace(stage="chosen")
    state = host.recount(trials[best].state)._replace(sweep=0)
    yield Starting(state, (*history, *tried, chosen), "done")


def _search(key: np.uint64, host: Target) -> Iterator[Starting]:
    """Search for components; with effects, search twice, and let predictions decide.

    Flat searches have no effects until components are grown, fitted ones begin with effects. If a
    flat start then has no use for effects, there is nothing to decide.
    """
    if not isinstance(host.priors.noise, Effects):
        yield from _family(key, host, range(host.n_starts), [])
        return
    # All chains hide the same entries: what they decide then differs by what they have found.
    trained, hidden = hide(start_key(np.uint64(0), _HIDING), host)
    none = Growth(start_key(key, _NONE), trained, is_flat=False)
    empty, evidence = none.result(), log_evidence(none)
    history: list[Attempted] = []
    half = max(1, host.n_starts // 2)
    flat = yield from _grown(key, trained, half, history, "flat", "start 1")
    has_effects = _has_effects(flat[1].state)
    # Where nothing is to be decided, a second start may agree with the first.
    n_flat, n_fitted, n_rounds = half if has_effects else max(2, half), half, host.schedule.regrow
    families = {"flat": ([flat], [*range(half + 1, half + n_flat)])}
    candidates = [("none", empty, evidence)] if has_effects else []
    if has_effects:
        fitted = yield from _grown(key, trained, 0, history, "fitted", "start 1")
        if host.shape[1] >= LONG and flat[1].value < fitted[1].value - HOPELESS:
            del families["flat"]
            if prod(host.shape) * fitted[1].state.n_components <= _WORK:
                n_fitted = min(_THOROUGH * host.schedule.starts, _MOST)
                n_rounds *= _THOROUGH
        # Flat starts have the next numbers; strict and tolerant ones go on alternating after them.
        after = 2 * half + half % 2
        others = [*range(1, half), *range(after, after + n_fitted - half)]
        families = {"fitted": ([fitted], others)} | families
        if host.shape[1] >= LONG and fitted[1].value < flat[1].value - HOPELESS:
            plain = yield from _without_effects(key, trained, history)
            families = {"flat": ([plain, flat], [])}
            if not (has_effects := _has_effects(plain[1].state)):
                families, n_rounds, candidates = {"flat": ([plain], [])}, 0, []
    for kind, (grown, numbers) in families.items():
        found = yield from _family(key, trained, numbers, history, kind, grown, n_rounds)
        candidates.append((kind, *found))
    least = max(value for _, _, value in candidates) - HOPELESS
    n_out = int(has_effects and host.shape[1] >= LONG and evidence < least)
    if n_out or not has_effects:  # what components add is told all the same
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
    baseline = rates_alone(start_key(key, _RATES), trained, empty, hidden)
    alone = Trial(empty, baseline, 0.0).against(baseline)
    history = [part._replace(tried=alone) if part.stage == "tried" else part for part in history]
    trials: list[Trial] = []
    tried: list[Attempted] = []
    for number, (kind, state, evidence) in list(enumerate(candidates))[n_out:]:
        trial = on_trial(start_key(key, _TRIALS + number), trained, state, hidden)
        trials.append(trial)
        reached = trial.state.n_components, evidence, kind, trial.against(baseline)
        tried.append(Attempted("tried", *reached))
        yield Starting(trial.state, (*history, *tried), "predicting hidden entries")
    best = choose(trials, [evidence for _, _, evidence in candidates[n_out:]])
    growth = Growth(start_key(key, _LAST), host, is_flat=False)
    growth.state = host.recount(trials[best].state)
    chosen = tried[best]._replace(stage="chosen")
    yield Starting(growth.result(), (*history, *tried, chosen), "done")


def _without_effects(
    key: np.uint64, host: Target, history: list[Attempted]
) -> Generator[Starting, None, _Grown]:
    """Search with two error rates, in a fraction of the time, and let effects in at the end.

    As long as components are missing, effects take their place. If none is missing, they may have
    nothing left to explain.
    """
    prior = host.priors.noise
    assert isinstance(prior, Effects)
    plain = host._replace(priors=host.priors._replace(noise=UnequalRates()))
    numbers = range(_PLAIN, _PLAIN + 2)
    state, _ = yield from _family(key, plain, numbers, history, "plain")
    growth = Growth(start_key(key, _PLAIN), host)
    noise = prior.flat(host.shape, state.noise.spurious, state.noise.dropped)
    growth.state = host.recount(state._replace(noise=noise))
    growth.release()
    found = judged(growth)
    history.append(Attempted("grown", found.state.n_components, found.value, "flat"))
    return growth, found


def _has_effects(state: State) -> bool:
    """Whether rows or columns differ. Jumps may differ: they are not what is to be decided."""
    return any(np.ptp(levels) > 0 for levels in state.noise.lines)


def _family(
    key: np.uint64,
    host: Target,
    numbers: Sequence[int],
    history: list[Attempted],
    kind: str = "",
    before: Sequence[_Grown] = (),
    n_rounds: int | None = None,
) -> Generator[Starting, None, tuple[State, float]]:
    """Grow several starts beside those from ``before``, pool them and improve the result.

    If a strict and a tolerant start have found the same, the search ends there. Returns the result
    and its evidence; the ``history`` grows on the way.
    """
    grown = list(before)
    agree, first = False, _FIRST[kind]
    for number in numbers:
        which = f"start {len(grown) + 1} of {len(before) + len(numbers)}"
        grown.append((yield from _grown(key, host, number, history, kind, which)))
        if agree := len(grown) == 2 and is_same(grown[0][1].state, grown[1][1].state):
            break
    grown.sort(key=lambda both: -both[1].value)
    growth, best = grown[0]
    for _, other in [] if agree else grown[1:]:
        best = pool(growth, best, other.state)
        history.append(Attempted("pooled", best.state.n_components, best.value, kind))
        yield Starting(best.state, tuple(history), f"{first}putting starts together")
    n_rounds = host.schedule.regrow if n_rounds is None else n_rounds
    for number in range(0 if agree else n_rounds):
        growth.state = best.state
        now = judged(growth)  # again: the best so far may have been lucky
        noise, best = abs(best.value - now.value), now
        least = now.value
        stage = f"{first}replacing components, round {number + 1}"
        for now in improve(growth, best):
            best = now
            yield Starting(best.state, tuple(history), stage)
        history.append(Attempted("regrown", best.state.n_components, best.value, kind))
        if best.value < least + max(_LITTLE, noise):
            break
    growth.state = best.state
    result = growth.result()
    yield Starting(result, tuple(history), f"{first}done")
    return result, best.value


def _grown(
    key: np.uint64,
    host: Target,
    number: int,
    history: list[Attempted],
    kind: str,
    stage: str,
) -> Generator[Starting, None, _Grown]:
    """Grow one start, strict or tolerant, and return it with its evidence."""
    is_strict = number % 2 == 0
    growth = Growth(
        start_key(key, 1 + number), host, is_strict=is_strict, is_flat=kind != "fitted"
    )
    for _ in grow(growth):
        yield Starting(growth.state, tuple(history), f"{_FIRST[kind]}{stage}")
    growth.release()
    now = judged(growth)
    history.append(Attempted("grown", now.state.n_components, now.value, kind))
    return growth, now


def _for_all(key: np.uint64, state: State, target: Target) -> Iterator[State]:
    """Draw the memberships of all rows, given the components found on the subset."""
    sizes = state.factors[0].sizes()
    state = state.take(sizes > 1)  # drop components that a single row uses
    # The weights of the Beta process are set to their means (P5).
    sizes = sizes[sizes > 1]
    odds = np.log(sizes) - np.log(state.factors[0].n_rows + 1.0 - sizes)
    users = Factor.from_dense(np.zeros((target.shape[0], len(sizes)), np.bool_))
    state = state.with_factor(0, users)._replace(covered=(0, 0), sweep=0)
    if isinstance(state.noise, Levels):
        state = state._replace(noise=state.noise.for_rows(target.shape[0]))
    for number in range(_PASSES):
        stream = Stream(key, np.uint64(1 + number))
        if isinstance(state.noise, Levels):
            noise = draw_levels(stream, state, target, is_column_held=True)
            state = state._replace(noise=noise)
        state = update_memberships(stream, state, target, odds)
        is_used = state.factors[0].sizes() > 0
        state, odds = state.take(is_used), odds[is_used]
        yield state
