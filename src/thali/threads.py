"""Threads over ranges of rows: kernels release the GIL, so that threads run in parallel.

Those that a sweep calls again and again are shared by a team instead (:mod:`thali.team`).
"""

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


_MOST = 1024
"""More threads than any machine has cores; far more of them could not be started."""


def n_threads(threads: int | None) -> int:
    """Return the number of threads to use: all available cores if ``threads`` is None."""
    return available_cores() if threads is None else count("threads", threads, 1, _MOST)


def parallel_for(
    kernel: Callable[..., Any], n_rows: int, threads: int, *arguments: Any, step: int = 1
) -> list[Any]:
    """Run a kernel on several threads, each of which does one range of rows.

    The kernel's first two arguments are the first row of a range and the row after its last.
    The length of a range is a multiple of ``step``. Returns the results in the order of the
    ranges.
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
    finally:  # other threads write into our arrays: wait for them even if this part failed
        for _ in range(1, n_parts):
            part, results[part], failed = answers.get()
            error = failed or error
    if error is not None:
        raise error
    return results


_starting = Lock()
_queues: dict[tuple[int, int], SimpleQueue[Any]] = {}


def _tasks(threads: int, process: int) -> SimpleQueue[Any]:
    """Return the queue at which the threads of this process wait; a forked child has its own.

    A thread pool with futures would do the same, but a queue wakes a thread in a third of the
    time, which matters if a kernel takes 0.1 ms.
    """
    with _starting:  # several chains may ask for the first time at once
        if (threads, process) not in _queues:
            tasks = _queues[threads, process] = SimpleQueue()
            for _ in range(threads):
                Thread(target=_work, args=(tasks,), name="thali", daemon=True).start()
        return _queues[threads, process]


def _renew_lock() -> None:
    global _starting  # noqa: PLW0603 - a forked child may inherit it locked
    _starting = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _work(tasks: SimpleQueue[Any]) -> None:
    while True:
        answers, part, kernel, arguments = tasks.get()
        try:
            answers.put((part, kernel(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the calling thread
            answers.put((part, None, error))
        del answers, kernel, arguments  # keep no arrays alive while waiting
