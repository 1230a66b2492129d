"""How many functions this process has compiled, and how long that took.

The first run after an installation compiles its functions, which takes a while. That is not time
of sampling, and whoever waits should know what for.
"""

from __future__ import annotations

import gc
from time import monotonic
from typing import Any

from numba.core import event

from thali._jit import KERNELS

USUAL = 80
"""About how many kernels a run with the default settings needs."""


class Compiled(event.Listener):
    """Counts what is compiled; functions that come from the cache on disk do not count.

    Numba compiles one function at a time in all threads, functions that it calls within it.
    """

    def __init__(self) -> None:
        self.n_functions = 0
        self._seconds = 0.0
        self._began: list[float] = []
        self._collects = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - Numba calls it so
        """Begin a function."""
        if not self._began:
            # Numba makes many objects that live long. Looking for garbage among them again and
            # again takes some 6% of the time.
            self._collects = gc.isenabled()
            gc.disable()
        self._began.append(monotonic())

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Finish a function."""
        began = self._began.pop()
        self.n_functions += 1
        if not self._began:
            self._seconds += monotonic() - began
            if self._collects:
                gc.enable()

    @property
    def seconds(self) -> float:
        """Seconds of compilation so far."""
        began = self._began[:1]
        return self._seconds + (monotonic() - began[0] if began else 0.0)

    @property
    def is_running(self) -> bool:
        """Whether a function is being compiled now."""
        return bool(self._began)


COMPILED = Compiled()
event.register("numba:compile", COMPILED)  # type: ignore[no-untyped-call]


def kernels() -> tuple[int, int]:
    """Return how many kernels this process has by now, and about how many a run needs."""
    n = sum(len(getattr(kernel, "overloads", ())) for kernel in KERNELS)
    return n, max(n, USUAL)


def clock() -> float:
    """Return the time in seconds of a clock that stands still during compilation."""
    return monotonic() - COMPILED.seconds
