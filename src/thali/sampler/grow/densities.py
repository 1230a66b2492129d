"""Whether components get densities of their own, decided once, before chains begin.

By default, all components share one density. If they differ much in size, two components with the
same rows then take the place of a large one. Densities of their own would be right there, but not
on every table: in many, components with few columns, of which there can be any number, then stand
for what is left over in single rows. So the data are looked at, if rows are long, so that sizes
are well known. Components get densities of their own if their sizes ask for it, and if growing
them so, before rows and columns have effects, explains the data better than growing components
with one density, before effects or after them. Where much is left over, effects come first.
Components that were grown with one density get densities of their own, too, and the better of both
counts: two growths differ by more, by chance, than densities of their own may explain.

The choice changes the model, and is stored with the settings of a run. Given it, chains are exact.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, cast

import numpy as np

from thali.model import Effects, PerComponent
from thali.model.priors import log_bernoulli
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.search import HOPELESS, LONG, grow, judged
from thali.sites import Site, site_of
from thali.streams import Stream, start_key

if TYPE_CHECKING:
    from collections.abc import Generator

    from thali.engines.base import HostEngine
    from thali.model import Model
    from thali.sampler.grow.search import Judged
    from thali.sampler.schedule import Schedule
    from thali.sampler.state import State
    from thali.sampler.target import Target

OWN = PerComponent(4.0, 4.0)
"""Densities from 0.2 to 0.8. With smaller ones, components that have few columns would come in
again."""

_ROWS, _COLUMNS = 1024, 4096
"""Numbers of rows and of columns that are looked at; all, if there are less than twice as many."""

_SWEEPS = 3
"""Sweeps after components get densities of their own."""

_KEY = np.uint64(0)
"""The same for all chains and seeds: what is decided does not depend on the seed."""


def is_looked_at(model: Model, shape: tuple[int, ...], schedule: Schedule) -> bool:
    """Whether the data decide if nothing is said about the density."""
    if len(shape) > 2 or shape[1] < LONG or model.is_finite:
        return False
    is_possible = schedule.starts > 0 and schedule.kind == "parallel"  # others cannot have them
    return is_possible and isinstance(model.priors(len(shape)).noise, Effects)


def look(target: Target) -> Generator[State, None, PerComponent | None]:
    """Grow components on a part of the data; return densities of their own, or None.

    Yields the state after every round, so that the caller may report or stop.
    """
    if not is_looked_at(target.model, target.shape, target.schedule):
        return None
    part = _part(target)
    flat = yield from _grown(part, is_flat=True)
    if log_gain(flat.state) < HOPELESS:
        return None
    of_own = part.with_density(OWN)
    grown = yield from _grown(of_own, is_flat=True)
    # Two searches that differ by chance may differ by more than the densities explain.
    own = max(grown, _with_own(of_own, flat.state), key=lambda found: found.value)
    if own.value < flat.value + HOPELESS:
        return None
    fitted = yield from _grown(part, is_flat=False)
    return OWN if own.value > fitted.value + HOPELESS else None


def _with_own(part: Target, state: State) -> Judged:
    """Judge the components of a state with densities of their own."""
    growth = Growth(start_key(_KEY, 3), part)
    growth.is_flat = False  # rows and columns keep the effects that they have
    densities = (*state.densities[:1], OWN.initial(state.n_components))
    growth.state = part.recount(state._replace(densities=densities))
    for _ in range(_SWEEPS):
        growth.settle()
        growth.sweep()
    return judged(growth)


def log_gain(state: State) -> float:
    """Return how much more probable codes of these sizes are with densities of their own.

    That is the log ratio, with each component's best density and all densities equally likely.
    """
    (codes,), (shared,) = state.factors[1:], state.densities[1:]
    sizes = codes.sizes()
    if len(sizes) == 0:
        return 0.0
    n_zeros = codes.n_rows - sizes[:, None]
    scores = sizes[:, None] * np.log(OWN.grid) + n_zeros * np.log1p(-OWN.grid)
    best = float(scores.max(axis=1).sum()) - len(sizes) * log(OWN.n_values)
    return best - log_bernoulli(sizes, codes.n_rows, shared)


def _part(target: Target) -> Target:
    """Return a target of some rows and columns, on the host."""
    stream = Stream(start_key(_KEY), np.uint64(0))
    rows, columns = (
        np.sort(stream.permutation(site_of(Site.FIRST_ROWS, mode), n)[:most])
        if n >= 2 * most
        else None
        for mode, (n, most) in enumerate(zip(target.shape, (_ROWS, _COLUMNS), strict=True))
    )
    host = target.on_host(rows)
    if columns is None:
        return host
    lines = [np.arange(host.shape[0]), columns]
    return host._replace(engine=cast("HostEngine", host.engine).of_lines(lines))


def _grown(part: Target, *, is_flat: bool) -> Generator[State, None, Judged]:
    """Grow one start, with effects after the components or before them."""
    growth = Growth(start_key(_KEY, 1 + is_flat), part, is_flat=is_flat)
    for _ in grow(growth):
        yield growth.state
    growth.release()
    return judged(growth)
