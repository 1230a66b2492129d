"""From prepared data to a posterior: chains run on an engine until they end or are stopped."""

from __future__ import annotations

import logging
import warnings
from math import prod
from typing import TYPE_CHECKING

from thali.errors import NotConverged, StoppedEarly
from thali.posterior import Posterior
from thali.sampler import Target
from thali.workers import run_chains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.bits import PackedTensor
    from thali.progress import Reporter
    from thali.trace import Run, Settings, Store
    from thali.trace.run import Names

log = logging.getLogger("thali")

_LARGE = 1 << 22
"""Entries from which chains on threads of their own are faster: of two chains on two cores,
6 million entries took 0.85 of the time of one after the other, 0.1 million 1.4 times as long."""


def prepare(
    tensor: PackedTensor, settings: Settings, engine: str, threads: int | None
) -> tuple[Target, int]:
    """Load the data on an engine; return how many chains run at a time.

    Chains side by side use threads better than rows side by side; what is left over goes to rows.
    On small data a sweep is mostly Python, which threads cannot share: one thread takes turns.
    """
    target = Target.prepare(tensor, settings.model, settings.schedule, engine, threads)
    is_large = prod(settings.shape) >= _LARGE
    return target, target.engine.serve_chains(settings.chains) if is_large else 1


def carry_on(
    run: Run, target: Target, n_workers: int, reporter: Reporter, seconds: float
) -> tuple[Sequence[Store], bool]:
    """Carry a stored run to its end; return its chains and whether they were interrupted."""
    stores = [run.chain(number) for number in range(run.settings.chains)]
    for store in stores:
        store.seconds = seconds
        if store.damage:
            log.warning("%s The chain goes on from its last whole draw.", store.damage)
            store.rewind()
    return stores, run_chains(target, run.settings, stores, n_workers, reporter)


def finish(
    settings: Settings,
    tensor: PackedTensor,
    names: Names,
    stores: Sequence[Store],
    is_interrupted: bool,  # noqa: FBT001
) -> Posterior:
    """Make a posterior of what was drawn; warn if it cannot be trusted."""
    posterior = Posterior(settings, tensor, names, stores)
    if is_interrupted:
        if posterior.n_draws == 0:
            raise KeyboardInterrupt
        log.warning(StoppedEarly(posterior.n_draws, settings.draws))
    try:
        verdict = posterior.verdict()
    except ImportError as error:
        log.warning("whether the chains agree was not checked: %s", error)
        return posterior
    if verdict is not None:
        warnings.warn(NotConverged(verdict), stacklevel=3)
    return posterior
