"""From prepared data to a posterior: chains run on an engine until they end or are stopped."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from thali.errors import NotConverged, StoppedEarly
from thali.posterior import Posterior
from thali.sampler import Target
from thali.trace.parcel import Parcel
from thali.trace.witness import Witness
from thali.workers import LARGE, look, run_chains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.bits import PackedTensor
    from thali.engines.together import Processes
    from thali.progress import Reporter
    from thali.trace import Run, Settings, Store
    from thali.trace.run import Names

log = logging.getLogger("thali")


def prepare(tensor: PackedTensor, settings: Settings, engine: str, threads: int | None) -> Target:
    """Load the data on an engine."""
    tensor = tensor.with_first(settings.mode)
    return Target.prepare(tensor, settings.model, settings.schedule, engine, threads)


def with_density(
    target: Target, settings: Settings, reporter: Reporter
) -> tuple[Target, Settings]:
    """Choose the density of components about which nothing was said: one, or one for each."""
    own = look(target, settings, reporter)
    if own is None:
        return target, settings
    log.info("components differ in size, so that each gets a density of its own")
    model = replace(settings.model, density=own)
    target = target._replace(model=model, priors=model.priors(len(target.shape)))
    return target, replace(settings, model=model)


def n_at_a_time(target: Target, settings: Settings) -> int:
    """Divide the threads among the chains; return how many chains run at a time.

    Threads are used better by chains side by side than by rows side by side, so that only the
    threads that the chains leave over share the rows. On small data much of a sweep is Python,
    which threads cannot run in parallel; there, the chains of a process take turns, and long runs
    have several processes (:mod:`thali.workers`).
    """
    is_large = prod(settings.shape) >= LARGE
    return target.engine.serve_chains(settings.chains) if is_large else 1


def carry_on(
    run: Run,
    target: Target,
    n_workers: int,
    reporter: Reporter,
    seconds: float,
    processes: Processes,
) -> tuple[Sequence[Store], bool]:
    """Run the chains of a stored run to their end.

    Returns
    -------
    stores
        The stored draws of every chain; in all processes but the first, they have no draws.
    is_interrupted
        Whether the user interrupted the chains.
    """

    def opened() -> list[Store]:
        stores: list[Store] = []
        for number in range(run.settings.chains):
            store = run.chain(number)
            store.seconds = seconds
            if store.damage:
                log.warning("%s The chain continues from its last intact draw.", store.damage)
                store.rewind()
            stores.append(store)
        return stores

    stores = processes.first_does(opened)
    settings = run.settings
    parcels = processes.of_first(
        stores and [Parcel.pack((), s.state, s.moves, s.start, settings) for s in stores]
    )
    if stores is None:
        stores = []
        for parcel in parcels:
            store = Witness(settings)
            _, now, store.start = parcel.unpack(settings)
            if now is not None:
                store.put((), now)
            stores.append(store)
    return stores, run_chains(target, settings, stores, n_workers, reporter)


def finish(
    settings: Settings,
    tensor: PackedTensor,
    names: Names,
    stores: Sequence[Store],
    is_interrupted: bool,  # noqa: FBT001
    *,
    extended_from: int | None = None,
) -> Posterior:
    """Make a posterior from the draws; warn if the chains disagree."""
    posterior = Posterior(settings, tensor, names, stores, extended_from=extended_from)
    if is_interrupted:
        if posterior.n_draws == 0:
            raise KeyboardInterrupt
        log.warning(StoppedEarly(posterior.n_draws, settings.draws))
    try:
        verdict = posterior.verdict()
    except ImportError as error:
        log.warning("could not check whether the chains agree: %s", error)
        return posterior
    if verdict is not None:
        warnings.warn(NotConverged(verdict), stacklevel=3)
    return posterior
