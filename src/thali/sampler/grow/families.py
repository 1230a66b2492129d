"""Several starts of one kind: grown, put together, and improved.

With row and column effects, flat starts have none until components are grown, and fitted ones
begin with them. A plain search has two error rates.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from thali.model import Effects, UnequalRates
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.search import (
    LONG,
    give_back,
    grow,
    improve,
    is_same,
    judged,
    pool,
    without_single_columns,
)
from thali.sampler.starting import Attempted, Keys, Starting
from thali.streams import start_key

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import TypeAlias

    from thali.sampler.grow.search import Judged
    from thali.sampler.state import State
    from thali.sampler.target import Target

    Grown: TypeAlias = tuple[Growth, Judged]

_LITTLE = 3.0
"""Gain in log evidence below which a further round is not tried; more if estimates differ more."""


_FIRST = {
    "": "",
    "fitted": "effects first, ",
    "flat": "components first, ",
    "plain": "without effects, ",
}
"""What to call the searches where there are effects, as pages do."""

_SWEEPS = 2
"""Sweeps after effects are taken from a start."""


def family(
    key: np.uint64,
    host: Target,
    numbers: Sequence[int],
    history: list[Attempted],
    kind: str = "",
    before: Sequence[Grown] = (),
    n_rounds: int | None = None,
    most_work: float = inf,
) -> Generator[Starting, None, tuple[State, float]]:
    """Grow several starts beside those from ``before``, pool them and improve the result.

    If a strict and a tolerant start have found the same, the search ends there. It also ends when
    entries times components are more than ``most_work``. Returns the result and its evidence; the
    ``history`` grows on the way.
    """
    grown, first = list(before), _FIRST[kind]
    for number in numbers:
        if _agree(grown):
            break
        which = f"start {len(grown) + 1} of {len(before) + len(numbers)}"
        grown.append((yield from grown_start(key, host, number, history, kind, which)))
    agree = _agree(grown)
    grown.sort(key=by_evidence)
    growth, best = grown[0]
    for _, other in [] if agree else grown[1:]:
        best = pool(growth, best, other.state)
        history.append(Attempted("pooled", best.state.n_components, best.value, kind))
        yield Starting(best.state, tuple(history), f"{first}putting starts together")
    n_rounds = host.schedule.regrow if n_rounds is None else n_rounds
    for number in range(0 if agree else n_rounds):
        if prod(host.shape) * best.state.n_components > most_work:
            break
        growth.state = best.state
        was = judged(growth)  # again: the best so far may have been lucky
        enough, best = max(_LITTLE, abs(best.value - was.value)), was
        stage = f"{first}replacing components, round {number + 1}"
        for now in improve(growth, best):
            best = now
            yield Starting(best.state, tuple(history), stage)
        if best.value < was.value + enough and host.shape[1] >= LONG:
            for now in give_back(growth, best):
                best = now
                yield Starting(best.state, tuple(history), stage)
        history.append(Attempted("regrown", best.state.n_components, best.value, kind))
        # Of many uncertain memberships, evidence varies, and the best of many tries is higher.
        is_chance = host.is_large and host.shape[1] < LONG and is_same(best.state, was.state)
        if is_chance or best.value < was.value + enough:
            break
    growth.state = best.state
    result = growth.result()
    yield Starting(result, tuple(history), f"{first}done")
    return result, best.value


def _agree(grown: Sequence[Grown]) -> bool:
    """Whether the first two starts, and no further ones, have found the same."""
    return len(grown) == 2 and is_same(grown[0][1].state, grown[1][1].state)


def grown_start(
    key: np.uint64,
    host: Target,
    number: int,
    history: list[Attempted],
    kind: str,
    stage: str,
) -> Generator[Starting, None, Grown]:
    """Grow one start, strict or tolerant, and return it with its evidence."""
    is_strict = number % 2 == 0
    growth = Growth(
        start_key(key, 1 + number), host, is_strict=is_strict, is_flat=kind != "fitted"
    )
    for _ in grow(growth):
        yield Starting(growth.state, tuple(history), f"{_FIRST[kind]}{stage}")
    growth.release()
    now = judged(growth)
    if kind == "flat":
        now = without_single_columns(growth, now)
    history.append(Attempted("grown", now.state.n_components, now.value, kind))
    return growth, now


def flat_starts(
    key: np.uint64, host: Target, numbers: Sequence[int], history: list[Attempted]
) -> Generator[Starting, None, list[Grown]]:
    """Grow starts before rows and columns have effects; return them, the best first."""
    flats: list[Grown] = []
    for number in numbers:
        which = f"start {len(flats) + 1}"
        flats.append((yield from grown_start(key, host, number, history, "flat", which)))
    return sorted(flats, key=by_evidence)


def by_evidence(both: Grown) -> float:
    """Sort the best start first."""
    return -both[1].value


def bared(key: np.uint64, host: Target, state: State, history: list[Attempted]) -> Grown:
    """Return a start with the components of a state, in which rows and columns do not differ.

    Components that were grown with effects may explain more without them.
    """
    growth = Growth(key, host)
    growth.state = host.recount(state._replace(noise=growth.state.noise))
    for _ in range(_SWEEPS):
        growth.settle()
        growth.sweep()
    now = judged(growth)
    history.append(Attempted("grown", now.state.n_components, now.value, "flat"))
    return growth, now


def without_effects(
    key: np.uint64, host: Target, flats: list[Grown], history: list[Attempted], n_rounds: int
) -> Generator[Starting, None, Grown]:
    """Search with two error rates, in a fraction of the time, and let effects in at the end.

    As long as components are missing, effects take their place. If none is missing, they may have
    nothing left to explain. The search begins with what the flat starts have found.
    """
    prior = host.priors.noise
    assert isinstance(prior, Effects)
    plain = host._replace(priors=host.priors._replace(noise=UnequalRates()))
    grown = [
        bared(start_key(key, Keys.PLAIN + number), plain, found.state, [])
        for number, (_, found) in enumerate(flats)
    ]
    state, _ = yield from family(key, plain, [], history, "plain", grown, n_rounds)
    growth = Growth(start_key(key, Keys.AFTER), host)
    noise = prior.flat(host.shape, state.noise.spurious, state.noise.dropped)
    growth.state = host.recount(state._replace(noise=noise))
    growth.release()
    found = judged(growth)
    history.append(Attempted("grown", found.state.n_components, found.value, "flat"))
    return growth, found


def has_effects(state: State) -> bool:
    """Whether rows or columns differ. Jumps may differ: they are not what is to be decided."""
    return any(np.ptp(levels) > 0 for levels in state.noise.lines)
