"""From prepared data to a posterior: chains run on an engine until they end or are stopped."""

from __future__ import annotations

import logging
import warnings
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from thali.errors import NotConverged, StoppedEarly
from thali.posterior import Posterior
from thali.sampler import Target
from thali.trace import MemoryStore, Run
from thali.trace.files import only_writer
from thali.trace.parcel import Parcel
from thali.trace.witness import Witness
from thali.workers import LARGE, look, run_chains

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from thali.bits import PackedTensor
    from thali.engines.together import Processes
    from thali.progress import Reporter
    from thali.trace import Settings, Store
    from thali.trace.run import Names

log = logging.getLogger("thali")


def prepare(tensor: PackedTensor, settings: Settings, engine: str, threads: int | None) -> Target:
    """Load the data on an engine."""
    tensor = tensor.with_first(settings.mode)
    return Target.prepare(tensor, settings.model, settings.schedule, engine, threads)


def with_density(
    target: Target, settings: Settings, reporter: Reporter, processes: Processes
) -> tuple[Target, Settings, bool]:
    """Choose the density of components about which nothing was said: one, or one for each.

    Returns target and settings with this density, and whether the user stopped it.
    """
    own, is_stopped = processes.of_first(look(target, settings, reporter))
    if own is None or is_stopped:
        return target, settings, is_stopped
    log.info("components differ in size, so that each gets a density of its own")
    target = target.with_density(own)
    return target, replace(settings, model=target.model), False


def n_at_a_time(target: Target, settings: Settings) -> int:
    """Divide the threads among the chains; return how many chains run at a time.

    Threads are used better by chains side by side than by rows side by side, so that only the
    threads that the chains leave over share the rows. On small data much of a sweep is Python,
    which threads cannot run in parallel; there, the chains of a process take turns, and long runs
    have several processes (:mod:`thali.workers`).
    """
    is_large = prod(settings.shape) >= LARGE
    return target.engine.serve_chains(settings.chains) if is_large else 1


def draw(
    target: Target,
    settings: Settings,
    reporter: Reporter,
    processes: Processes,
    place: tuple[str | os.PathLike[str], PackedTensor, Names, float] | None,
) -> tuple[Sequence[Store], bool]:
    """Run new chains to their end; return their draws, and whether the user interrupted them.

    ``place`` is None, or the folder of a new run with the data and their names to be kept there,
    and the seconds between two writes.
    """
    n_workers = n_at_a_time(target, settings)
    if place is None:
        kind = MemoryStore if processes.is_first else Witness
        stores: Sequence[Store] = [kind(settings) for _ in range(settings.chains)]
        return stores, run_chains(target, settings, stores, n_workers, reporter)
    folder, tensor, names, seconds = place
    with ExitStack() as stack:
        run = processes.first_does(lambda: Run.create(folder, settings, tensor, names))
        tensor.release()
        run = processes.of_first(run)
        processes.first_does(lambda: stack.enter_context(only_writer(run.folder)) or 0)
        return carry_on(run, target, n_workers, reporter, seconds, processes)


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
