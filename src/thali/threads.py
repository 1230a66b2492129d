"""Threads over ranges of rows: kernels release the GIL, so that threads run in parallel.

Compiled functions are done in parts by a team (:mod:`thali.team`), other functions by threads that
get them from a queue.
"""

from __future__ import annotations

import os
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.registry import CPUDispatcher

from thali import team
from thali.checks import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali._jit import Kernel

_PATIENCE = 2000
"""How often a member of a team looks for work before it sleeps: about half a millisecond, in which
it steps aside for whoever needs its core. Between the parts of a sweep, Python takes a tenth of
that; to wake a member takes as long."""

_PARTS_PER_THREAD = 4
"""So that threads that are disturbed leave parts to the others."""

_N_RESULTS = 4


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads(threads: int | None) -> int:
    """Return the number of threads to use: all available cores if ``threads`` is None."""
    return available_cores() if threads is None else count("threads", threads, least=1)


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


def share(
    kernel: Kernel, n_rows: int, threads: int, *arguments: Any, first: int = 0, step: int = 1,
    parts: int = _PARTS_PER_THREAD,
) -> NDArray[np.int64]:  # fmt: skip
    """Run a compiled function over rows ``first … first + n_rows - 1``, in parts on threads.

    A part is a multiple of ``step`` rows, and there are at most ``parts`` of them per thread. The
    function returns integers or nothing. Returns their sums over all rows.
    """
    n_parts = min(-(-n_rows // step), threads * parts, team.MOST_PARTS)
    sums = np.zeros(_N_RESULTS, np.int64)
    if threads == 1 or not isinstance(kernel, CPUDispatcher):
        found = kernel(first, first + n_rows, *arguments)
        sums[: len(found or ())] = found or ()
        return sums
    results = np.zeros((n_parts, _N_RESULTS), np.int64)
    members = _idle(threads - 1)
    try:
        members.do(kernel, first, n_rows, n_parts, step, results, *arguments)
    finally:
        members.rest()
    return results.sum(axis=0, out=sums)


class _Team:
    """Threads that do compiled functions together with the thread that asks them."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._memory = np.zeros(team.N_WORDS, np.uint64)
        self._woken: SimpleQueue[None] = SimpleQueue()
        for _ in range(n):
            Thread(target=self._serve, name="thali", daemon=True).start()

    def do(
        self, kernel: Kernel, first: int, n_rows: int, n_parts: int, step: int, *arguments: Any
    ) -> None:
        """Have a compiled function done in parts."""
        function = _in_parts.get(kernel)
        if function is None:
            function = _in_parts[kernel] = team.in_parts(kernel)
        for _ in range(team.invite(self._memory, min(self._n, n_parts - 1))):
            self._woken.put(None)
        function(self._memory, first, n_rows, n_parts, step, *arguments)
        if self._memory[team.FAILED]:
            raise MemoryError

    def rest(self) -> None:
        """Be there for the next who asks."""
        _resting[self._n].append(self)

    def _serve(self) -> None:
        while True:
            self._woken.get()
            team.serve(self._memory, _PATIENCE)


_in_parts: dict[Kernel, Kernel] = {}
_resting: dict[int, list[_Team]] = {}
"""Teams by their number of members, for chains that run side by side."""


def _idle(n: int) -> _Team:
    """Return a team of so many members that nobody else asks."""
    try:
        return _resting.setdefault(n, []).pop()
    except IndexError:
        return _Team(n)


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


def _renew() -> None:
    global _starting  # noqa: PLW0603 - a forked child may inherit it locked
    _starting = Lock()
    _resting.clear()  # a child has none of the threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _work(tasks: SimpleQueue[Any]) -> None:
    while True:
        answers, part, kernel, arguments = tasks.get()
        try:
            answers.put((part, kernel(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the calling thread
            answers.put((part, None, error))
        del answers, kernel, arguments  # keep no arrays alive while waiting
