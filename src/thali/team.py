"""Teams of threads, which share compiled functions over rows (:mod:`thali.team_kernels`)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.registry import CPUDispatcher

from thali import team_kernels as kernels
from thali._jit import is_inner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali._jit import Kernel

_PATIENCE = 10_000
"""How often a member of a team steps aside for whoever needs its core before it sleeps, which are
some milliseconds. A member that wakes needs the interpreter's lock, for which the thread that asks
would wait, so members should sleep only when a chain has ended."""

PARTS_PER_THREAD = 8
"""So that threads that are disturbed leave parts to the others."""


def share(
    kernel: Kernel, n_rows: int, threads: int, *arguments: Any, first: int = 0, step: int = 1,
    parts: int = PARTS_PER_THREAD, wanted: int | None = None,
) -> NDArray[np.int64]:  # fmt: skip
    """Run a compiled function over rows ``first … first + n_rows - 1``, in parts on threads.

    A part is a multiple of ``step`` rows, and there are at most ``parts`` of them per thread. If
    there is little to do, fewer threads are ``wanted`` than there are. The function returns
    integers or nothing. Returns their sums over all rows.
    """
    wanted = threads if wanted is None else wanted
    n_parts = min(-(-n_rows // step), wanted * parts, kernels.MOST_PARTS)
    sums = np.zeros(kernels.N_RESULTS, np.int64)
    if not isinstance(kernel, CPUDispatcher) or (threads == 1 and not is_inner(kernel)):
        found = kernel(first, first + n_rows, *arguments)
        sums[: len(found or ())] = found or ()
        return sums
    results = np.zeros((n_parts, kernels.N_RESULTS), np.int64)
    with memory_of(threads, min(wanted, n_parts)) as memory:
        in_parts(kernel)(memory, first, n_rows, n_parts, step, results, *arguments)
    return results.sum(axis=0, out=sums)


@contextmanager
def memory_of(threads: int, wanted: int) -> Iterator[NDArray[np.uint64]]:
    """Lend the memory of a team of threads, this one included, of whom some are woken."""
    members = _idle(threads - 1)
    memory = members.wake(wanted - 1)  # if this is interrupted, nobody uses the team any more
    try:
        yield memory
        members.check()
    finally:
        _resting[members.n].append(members)


class _Team:
    """Threads that do compiled functions together with the thread that asks them."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._memory = np.zeros(kernels.N_WORDS, np.uint64)
        self._woken: SimpleQueue[None] = SimpleQueue()
        for _ in range(n):
            Thread(target=self._serve, name="thali", daemon=True).start()

    def wake(self, n: int) -> NDArray[np.uint64]:
        """Have at least so many members look for work; return the memory where they look."""
        self._memory[kernels.FAILED] = 0
        if n > 0 and isinstance(kernels.invite, CPUDispatcher):  # else nothing is compiled
            for _ in range(kernels.invite(self._memory, n)):
                self._woken.put(None)
        return self._memory

    def check(self) -> None:
        """Raise an error if a part has failed; which error it was is not known."""
        if self._memory[kernels.FAILED]:
            msg = "A compiled function failed on one of its threads, probably for lack of memory."
            raise MemoryError(msg)

    def _serve(self) -> None:
        while True:
            self._woken.get()
            kernels.serve(self._memory, _PATIENCE)


def in_parts(kernel: Kernel) -> Kernel:
    """Return what does a compiled function in parts; it is made once."""
    function = _in_parts.get(kernel)
    if function is None:
        function = _in_parts[kernel] = kernels.in_parts(kernel)
    return function


_in_parts: dict[Kernel, Kernel] = {}
_resting: dict[int, list[_Team]] = {}
"""Teams by their number of members, for chains that run side by side."""


def _idle(n: int) -> _Team:
    """Return a team of so many members that nobody else asks."""
    try:
        return _resting.setdefault(n, []).pop()
    except IndexError:
        return _Team(n)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resting.clear)  # a child has none of the threads
