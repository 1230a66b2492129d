# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The search: replace some components by others, fit those that they meet, keep or undo.

Fitting one component after another ends in a minimum that no change of a single component leaves.
So one to three components are dropped, others are grown from what is then uncovered, and the
components that share entries with either are fitted again. The result is kept if the loss has
not risen by more than a random threshold, which falls with the temperature (annealing).
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from thali._jit import jit, lean
from thali.bits.words import Index, Words, copy_line
from thali.optimize.cover import (
    SPARE,
    Side,
    changed_lines,
    clear_changed,
    copy_rows,
    copy_side,
    count_own,
    count_wrong,
    is_empty,
    meet,
)
from thali.optimize.fit import drop, grow, refit
from thali.optimize.join import JOIN, KEEP, TOSS, Tools, below, draw, make_tools

_ZERO = np.uint64(0)
_BETWEEN = np.uint64(1 << 30)
"""Where the numbers of the fits before a swap begin, and twice that those of a kick: beyond those
of the swap."""

_MOST_KICKED = 3
_FIRST = np.int64(1)  # a plain one would be a type of its own, and functions compiled twice

STARTS = 12
"""Most starts that a new component is grown from."""

_RIVALS = 3
_NO_ZEROS = 1e3
"""How many ones a covered zero costs if none is to be covered."""

PASSES = np.int64(3)
"""Most times that a component is fitted again after a swap."""


@lean
def touch(sides: tuple[Side, Side], component: int, is_waiting: Words) -> None:
    """Mark the components that share an entry with a component: they may fit better now."""
    rows, code = sides[0].lines[component], sides[1].lines[component]
    for other in range(is_waiting.shape[0]):
        if (
            not is_waiting[other]
            and meet(sides[0].lines[other], rows)
            and meet(sides[1].lines[other], code)
        ):
            is_waiting[other] = True


@lean
def one_of_all(sides: tuple[Side, Side], random: Words) -> int:
    """Choose a component to replace: any, or of some that which alone covers the fewest ones."""
    n_components = sides[0].lines.shape[0]
    chosen = below(random, n_components)
    if draw(random) < 0.5:
        fewest, _ = count_own(sides[0], sides[0].lines[chosen], sides[1].lines[chosen])
        for _ in range(_RIVALS):
            rival = below(random, n_components)
            ones, _ = count_own(sides[0], sides[0].lines[rival], sides[1].lines[rival])
            if ones < fewest:
                fewest, chosen = ones, rival
    return chosen


@lean
def without_gain(costs: tuple[float, float]) -> int:
    """Return what a row does that neither gains nor loses by a component.

    Where no zero may be covered, it takes the component: the ones that are then covered twice
    keep being covered if another component goes.
    """
    return JOIN if costs[0] >= _NO_ZEROS * costs[1] else KEEP


@lean
def choose(sides: tuple[Side, Side], random: Words, chosen: Index) -> int:
    """Choose components to replace: the empty ones, or one with some others that it meets."""
    n_components = sides[0].lines.shape[0]
    n = 0
    for component in range(n_components):
        if is_empty(sides[0].lines[component]):
            chosen[n] = component
            n += 1
    if n > 0:
        return n
    first = one_of_all(sides, random)
    chosen[0] = first
    more = draw(random)
    n_more = min(n_components - 1, 0 if more < 0.6 else 1 if more < 0.9 else 2)
    is_near = draw(random) < 0.5
    n = 1
    tries = 0
    while n <= n_more and tries < 4 * n_components:
        tries += 1
        other = below(random, n_components)
        is_new = True
        for i in range(n):
            is_new = is_new and chosen[i] != other
        if not is_new:
            continue
        if (
            is_near
            and tries < 2 * n_components
            and not (
                meet(sides[0].lines[other], sides[0].lines[first])
                and meet(sides[1].lines[other], sides[1].lines[first])
            )
        ):
            continue
        chosen[n] = other
        n += 1
    return n


@lean
def swap(
    sides: tuple[Side, Side],
    costs: tuple[float, float],
    tools: Tools,
    spare: Words,
    wrong: Index,
    chosen: Index,
    is_waiting: Words,
) -> None:
    """Replace some components, and fit the others that they meet again."""
    n = choose(sides, tools.random, chosen)
    clear_changed(spare)
    for component in range(is_waiting.shape[0]):
        is_waiting[component] = False
    for i in range(n):
        touch(sides, chosen[i], is_waiting)
        drop(sides, chosen[i], spare, wrong)
    for i in range(n):
        is_waiting[chosen[i]] = False
    settled = without_gain(costs)
    ties = TOSS if draw(tools.random) < 0.1 and settled == KEEP else settled
    if draw(tools.random) < 0.5:  # what was uncovered may fit others first
        descend(sides, _FIRST, ties, costs, tools, spare, wrong, is_waiting)
    for i in range(n):
        n_starts = 1 + below(tools.random, STARTS)
        grow(sides, chosen[i], n_starts, settled, costs, tools, spare, wrong)
        touch(sides, chosen[i], is_waiting)
    descend(sides, PASSES, ties, costs, tools, spare, wrong, is_waiting)


@lean
def descend(
    sides: tuple[Side, Side],
    passes: int,
    ties: int,
    costs: tuple[float, float],
    tools: Tools,
    spare: Words,
    wrong: Index,
    is_waiting: Words,
) -> None:
    """Fit the waiting components again, and those that they meet if they change."""
    n_components = is_waiting.shape[0]
    for i in range(passes):
        first = below(tools.random, n_components)
        is_done = True
        for step in range(n_components):
            component = (first + step) % n_components
            if not is_waiting[component]:
                continue
            is_waiting[component] = False
            how = ties if i == 0 else without_gain(costs)
            if refit(sides, component, how, costs, tools, spare, wrong):
                touch(sides, component, is_waiting)
                is_waiting[component] = False
                is_done = False
        if is_done:
            return


@lean
def note(
    sides: tuple[Side, Side],
    wrong: Index,
    prices: tuple[float, float],
    best: tuple[Words, Words],
    least: Index,
) -> None:
    """Remember the factors if their loss is the lowest so far."""
    lowest_loss = prices[0] * least[0] + prices[1] * least[1]
    if prices[0] * wrong[0] + prices[1] * wrong[1] >= lowest_loss:
        return
    copy_line(wrong, least)
    for component in range(best[0].shape[0]):
        copy_line(sides[0].lines[component], best[0][component])
        copy_line(sides[1].lines[component], best[1][component])


class Room(NamedTuple):
    """Working storage of a search."""

    kept: tuple[Side, Side]  # the factors before a swap
    saved: tuple[Side, Side]  # the factors before a kick
    spare: Words  # lines
    chosen: Index  # components that are replaced
    is_waiting: Words  # components that may fit better
    before: Index  # errors before a swap
    tools: Tools


@lean
def copy_sides(sides: tuple[Side, Side], to: tuple[Side, Side]) -> None:
    """Copy both sides."""
    copy_side(sides[0], to[0])
    copy_side(sides[1], to[1])


@lean
def copy_changed(sides: tuple[Side, Side], spare: Words, to: tuple[Side, Side]) -> None:
    """Copy what a swap has changed on both sides."""
    rows, columns = changed_lines(sides, spare)
    copy_rows(sides[0], rows, to[0])
    copy_rows(sides[1], columns, to[1])


@lean
def anneal(
    sides: tuple[Side, Side],
    room: Room,
    best: tuple[Words, Words],
    least: Index,
    wrong: Index,
    prices: tuple[float, float],
    costs: tuple[float, float],
    first: int,
    n_swaps: int,
    temperatures: tuple[float, float],
) -> None:
    """Do some swaps, each of which is kept or undone."""
    hot, cold = temperatures
    before = room.before
    copy_sides(sides, room.kept)
    for i in range(n_swaps):
        room.tools.random[1] = np.uint64(first + i)
        room.tools.random[2] = _ZERO
        copy_line(wrong, before)
        swap(sides, costs, room.tools, room.spare, wrong, room.chosen, room.is_waiting)
        temperature = hot * (cold / hot) ** (i / n_swaps)
        threshold = -temperature * log(draw(room.tools.random))
        if costs[0] * (wrong[0] - before[0]) + costs[1] * (wrong[1] - before[1]) > threshold:
            copy_changed(room.kept, room.spare, sides)
            copy_line(before, wrong)
            continue
        copy_changed(sides, room.spare, room.kept)
        note(sides, wrong, prices, best, least)
        if least[0] + least[1] == 0:
            return


@lean
def kick(sides: tuple[Side, Side], room: Room, wrong: Index, costs: tuple[float, float]) -> None:
    """Replace some components by others that are not the best."""
    n_components = room.is_waiting.shape[0]
    n = 1 + below(room.tools.random, min(n_components, _MOST_KICKED))
    for i in range(n):
        room.chosen[i] = below(room.tools.random, n_components)
        drop(sides, room.chosen[i], room.spare, wrong)
    for i in range(n):
        if is_empty(sides[0].lines[room.chosen[i]]):
            ties = without_gain(costs)
            grow(sides, room.chosen[i], _FIRST, ties, costs, room.tools, room.spare, wrong)
    fit_all(sides, room, wrong, costs)


@lean
def fit_all(
    sides: tuple[Side, Side], room: Room, wrong: Index, costs: tuple[float, float]
) -> None:
    """Fit all components, whatever has changed."""
    for component in range(room.is_waiting.shape[0]):
        room.is_waiting[component] = True
    ties = without_gain(costs)
    descend(sides, PASSES, ties, costs, room.tools, room.spare, wrong, room.is_waiting)


@jit
def run_swaps(
    sides: tuple[Side, Side],
    kept: tuple[Side, Side],
    saved: tuple[Side, Side],
    best: tuple[Words, Words],
    least: Index,
    prices: tuple[float, float],
    costs: tuple[float, float],
    key: np.uint64,
    first: int,
    n_swaps: int,
    temperatures: tuple[float, float],
    depth: int,
    is_settled: bool,  # noqa: FBT001 - compiled functions have no keywords
) -> None:
    """Do some swaps, at temperatures that fall from one to another.

    ``costs`` are those of this part of the search, ``prices`` those that the user asks for:
    ``best`` takes the factors with the lowest loss by these, and ``least`` its two kinds of
    errors. ``kept`` and ``saved`` are room for copies of the sides. If the factors are not
    settled, because costs have changed, all components are fitted first.

    With a ``depth``, every so many swaps begin with a kick, and are then kept or undone together:
    what a better minimum needs first may be worse for many swaps.
    """
    n_components = sides[0].lines.shape[0]
    width = max(sides[0].lines.shape[1], sides[1].lines.shape[1])
    tools = make_tools(key, max(sides[0].ones.shape[0], sides[1].ones.shape[0]))
    room = Room(
        kept, saved, np.zeros((SPARE, width), np.uint64), np.zeros(n_components, np.int64),
        np.zeros(n_components, np.bool_), np.zeros(2, np.int64), tools,
    )  # fmt: skip
    wrong, before = np.zeros(2, np.int64), np.zeros(2, np.int64)
    wrong[0], wrong[1] = count_wrong(sides[0])
    tools.random[1], tools.random[2] = np.uint64(first), _BETWEEN
    if not is_settled:
        fit_all(sides, room, wrong, costs)
        note(sides, wrong, prices, best, least)
    if depth == 0:
        anneal(sides, room, best, least, wrong, prices, costs, first, n_swaps, temperatures)
        return
    for i in range(0, n_swaps, depth):
        room.tools.random[1], room.tools.random[2] = np.uint64(first + i), _BETWEEN + _BETWEEN
        copy_line(wrong, before)
        copy_sides(sides, saved)
        kick(sides, room, wrong, costs)
        threshold = -temperatures[0] * log(draw(room.tools.random))
        n = min(depth, n_swaps - i)
        anneal(sides, room, best, least, wrong, prices, costs, first + i, n, temperatures)
        if costs[0] * (wrong[0] - before[0]) + costs[1] * (wrong[1] - before[1]) > threshold:
            copy_sides(saved, sides)
            copy_line(before, wrong)
        if least[0] + least[1] == 0:
            return
