"""Which engine computes: the one that was named, or the one that suits the data."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from thali.engines.cpu.engine import CpuEngine
from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from thali.engines.base import Engine

log = logging.getLogger("thali")

ENGINES = ("auto", "cpu", "gpu")

LARGE = 1 << 24
"""Entries from which ``"auto"`` takes the GPU. Here a sweep on an H200 takes three quarters of the
time of the 16 cores beside it, at 268 million a third (``benchmarks/gpu.py --crossover``)."""


def choose(
    name: str = "auto", threads: int | None = None, n_entries: int = 0, *, is_serial: bool = False
) -> Engine:
    """Return the engine of that name; "auto" chooses once and logs its choice.

    A GPU is chosen if there is one and the data are large enough to gain from it.
    """
    if name not in ENGINES:
        allowed = ", ".join(map(repr, ENGINES))
        msg = f"engine={name!r} was given; allowed are {allowed}; choose one of those."
        raise EngineUnavailable(msg)
    if name == "gpu" or (name == "auto" and n_entries >= LARGE and not is_serial):
        from thali.engines.gpu.device import n_devices  # noqa: PLC0415 - most have no GPU
        from thali.engines.gpu.engine import GpuEngine  # noqa: PLC0415

        try:
            if name == "gpu" or n_devices():
                gpu = GpuEngine(threads=threads)
                log.info("engine: GPU (%s)", gpu.device.name)
                return gpu
        except EngineUnavailable as error:
            if name == "gpu":
                raise
            log.info("engine: the GPU is not available (%s); using the CPU", error)
    engine = CpuEngine(threads)
    if name == "auto":
        log.info("engine: CPU, %d threads", engine.threads)
    return engine
