"""Teams of threads, which share compiled functions over rows (:mod:`thali.team_kernels`)."""

from __future__ import annotations

import os
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.registry import CPUDispatcher

from thali import team_kernels as kernels
from thali._jit import is_inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali._jit import Kernel

_PATIENCE = 20_000
"""How often a member of a team looks for work before it sleeps: some milliseconds, in which it
steps aside for whoever needs its core. A member that wakes needs the interpreter's lock, for which
the thread that asks would wait, so members should sleep only when a chain has ended."""

_PARTS_PER_THREAD = 4
"""So that threads that are disturbed leave parts to the others."""

_N_RESULTS = 4


def share(
    kernel: Kernel, n_rows: int, threads: int, *arguments: Any, first: int = 0, step: int = 1,
    parts: int = _PARTS_PER_THREAD,
) -> NDArray[np.int64]:  # fmt: skip
    """Run a compiled function over rows ``first … first + n_rows - 1``, in parts on threads.

    A part is a multiple of ``step`` rows, and there are at most ``parts`` of them per thread. The
    function returns integers or nothing. Returns their sums over all rows.
    """
    n_parts = min(-(-n_rows // step), threads * parts, kernels.MOST_PARTS)
    sums = np.zeros(_N_RESULTS, np.int64)
    if not isinstance(kernel, CPUDispatcher) or (threads == 1 and not is_inner(kernel)):
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
        self._memory = np.zeros(kernels.N_WORDS, np.uint64)
        self._woken: SimpleQueue[None] = SimpleQueue()
        for _ in range(n):
            Thread(target=self._serve, name="thali", daemon=True).start()

    def do(
        self, kernel: Kernel, first: int, n_rows: int, n_parts: int, step: int, *arguments: Any
    ) -> None:
        """Have a compiled function done in parts."""
        function = in_parts(kernel)
        for _ in range(kernels.invite(self._memory, min(self._n, n_parts - 1)) if self._n else 0):
            self._woken.put(None)
        function(self._memory, first, n_rows, n_parts, step, *arguments)
        if self._memory[kernels.FAILED]:
            raise MemoryError

    def rest(self) -> None:
        """Be there for the next who asks."""
        _resting[self._n].append(self)

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
