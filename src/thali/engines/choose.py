"""The choice of the engine: by name, or by the size of the data."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from thali import launcher
from thali.engines.base import LARGE
from thali.engines.cpu.engine import CpuEngine
from thali.engines.together import Alone
from thali.errors import EngineUnavailable, InvalidValue
from thali.sentences import was_given

if TYPE_CHECKING:
    from thali.engines.base import Engine
    from thali.engines.together import Processes

log = logging.getLogger("thali")

ENGINES = ("auto", "cpu", "gpu", "mpi", "mpi-cpu", "mpi-gpu")


def processes_for(name: str) -> Processes:
    """Return the processes that draw the same chains on the engine of that name.

    ``"auto"`` is all processes that mpiexec or srun has started.
    """
    is_mpi = name in ENGINES and name.startswith("mpi")
    if not is_mpi and (name != "auto" or not launcher.may_have_others()):
        return Alone()
    from thali.engines.cluster.job import job  # noqa: PLC0415 - most have no MPI

    return job() if is_mpi or job().ranks.n > 1 else Alone()


def require_one_process(name: str, what: str) -> None:
    """Raise an error if the engine of that name is shared by processes."""
    if not isinstance(processes_for(name), Alone):
        raise InvalidValue(
            (*was_given("engine", name), " to several processes"),
            f"{what} computes in one process",
            "use thali.sample, or choose the engine cpu or gpu",
        )


def choose(
    name: str = "auto", threads: int | None = None, n_entries: int = 0, *, is_serial: bool = False
) -> Engine:
    """Return the engine of that name; ``"auto"`` logs which engine it chose.

    It chooses the GPU if there is one and the data are large enough to be faster there.
    """
    if name not in ENGINES:
        allowed = ", ".join(map(repr, ENGINES))
        msg = f"engine={name!r} was given; allowed are {allowed}; choose one of those."
        raise EngineUnavailable(msg)
    processes = processes_for(name)
    if not isinstance(processes, Alone):
        from thali.engines.cluster.engine import ClusterEngine  # noqa: PLC0415
        from thali.engines.cluster.job import job  # noqa: PLC0415

        log.info("engine: %d processes", job().ranks.n)
        return ClusterEngine(job().ranks, threads, name.removeprefix("mpi-"))
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
