"""Threads over ranges of rows: kernels release the interpreter, so that all of them run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from thali.checks import count

if TYPE_CHECKING:
    from collections.abc import Callable


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads(threads: int | None) -> int:
    """Return how many threads to use: all cores, if nobody says."""
    return available_cores() if threads is None else count("threads", threads, least=1)


def share(
    kernel: Callable[..., Any], n_rows: int, threads: int, *arguments: Any, step: int = 1
) -> list[Any]:
    """Run a kernel over ranges of rows, its first two arguments, one range a thread.

    Ranges are multiples of ``step`` long.
    """
    n_steps = -(-n_rows // step)
    n_parts = min(threads, n_steps)
    if n_parts <= 1:
        return [kernel(0, n_rows, *arguments)]
    pool = _pool(threads - 1, os.getpid())
    edges = [step * (n_steps * i // n_parts) for i in range(n_parts)] + [n_rows]
    ranges = list(pairwise(edges))
    others = [pool.submit(kernel, lo, hi, *arguments) for lo, hi in ranges[1:]]
    return [kernel(*ranges[0], *arguments), *(other.result() for other in others)]


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Return the threads of this process: a forked child, which inherits none, gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="thali")
