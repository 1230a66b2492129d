"""Threads over ranges of rows: kernels release the interpreter, so that all of them run."""

from __future__ import annotations

import os
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
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


def parallel_for(
    kernel: Callable[..., Any], n_rows: int, threads: int, *arguments: Any, step: int = 1
) -> list[Any]:
    """Run a kernel on threads, each on one range of rows, the kernel's first two arguments.

    Ranges are multiples of ``step`` long. Returns the results in the order of the ranges.
    """
    n_steps = -(-n_rows // step)
    n_parts = min(threads, n_steps)
    if n_parts <= 1:
        return [kernel(0, n_rows, *arguments)]
    tasks = _tasks(threads - 1, os.getpid())
    answers: SimpleQueue[Any] = SimpleQueue()
    edges = [step * (n_steps * i // n_parts) for i in range(n_parts)] + [n_rows]
    ranges = list(pairwise(edges))
    for part in range(1, n_parts):
        tasks.put((answers, part, kernel, (*ranges[part], *arguments)))
    results: list[Any] = [None] * n_parts
    error = None
    try:
        results[0] = kernel(*ranges[0], *arguments)
    finally:  # the others write into our arrays: wait for them even if this part failed
        for _ in range(1, n_parts):
            part, results[part], failed = answers.get()
            error = failed or error
    if error is not None:
        raise error
    return results


_starting = Lock()
_queues: dict[tuple[int, int], SimpleQueue[Any]] = {}


def _tasks(threads: int, process: int) -> SimpleQueue[Any]:
    """Return where the threads of this process wait for work; a forked child gets its own.

    A pool of futures would do the same; a queue wakes a thread in a third of the time, which
    matters when a kernel takes 0.1 ms.
    """
    with _starting:  # chains may ask for the first time side by side
        if (threads, process) not in _queues:
            tasks = _queues[threads, process] = SimpleQueue()
            for _ in range(threads):
                Thread(target=_work, args=(tasks,), name="thali", daemon=True).start()
        return _queues[threads, process]


def _renew_lock() -> None:
    global _starting  # noqa: PLW0603 - in a forked child nobody would release it
    _starting = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _work(tasks: SimpleQueue[Any]) -> None:
    while True:
        answers, part, kernel, arguments = tasks.get()
        try:
            answers.put((part, kernel(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
            answers.put((part, None, error))
        del answers, kernel, arguments  # hold nobody's arrays while waiting
