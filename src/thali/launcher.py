"""Whether mpiexec or srun started this process, and its number, as the environment says.

This is known without MPI: commands that need no other process must not wait for one.
"""

from __future__ import annotations

import os

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_VARIABLES = (
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PALS_RANKID",
    "MV2_COMM_WORLD_RANK",
)


def place() -> int | None:
    """Return the number of this process among those of its job; None if it was started alone."""
    for name in _VARIABLES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def n_started() -> int | None:
    """Return how many processes were started together, if the environment says so.

    The number of tasks of a step comes last: mpiexec may have started fewer within that step.
    """
    sizes = (int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdigit())
    return next(sizes, None) if place() is not None else None


def may_have_others() -> bool:
    """Whether this process may be one of several; MPI knows for sure."""
    return place() is not None and n_started() != 1


def is_first() -> bool:
    """Whether this is the process that talks and stores; a process alone is the first."""
    return not place()
