"""When work that is done in small steps should be done by one large kernel instead.

Steps and kernel do the same. The kernel is several times as fast, but compiling it takes as long
as thousands of steps.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from thali._jit import cache_of, is_at_hand, stamp

if TYPE_CHECKING:
    from thali._jit import Kernel

_PAUSE = 1.0
"""Seconds between two looks at what other processes have done."""


class Patience:
    """Has work done in small steps until they have taken as long as it takes to compile a kernel.

    A first short run then ends sooner. The steps of all processes count, whoever runs them: their
    number is kept beside compiled code. Otherwise a user whose runs are all short would never have
    the kernel. Once it is compiled, no new process waits any more.

    Parameters
    ----------
    n
        Number of steps that take as long as it takes to compile the kernel.
    """

    def __init__(self, n: int = 100_000) -> None:
        self._n = n
        self._earlier = 0  # steps of all processes, when this one last looked
        self._since = 0  # steps of this process since then
        self._next_look = -inf

    def ends(self, n: int, kernel: Kernel) -> bool:
        """Count so many further steps; return whether the kernel should do them."""
        if self._earlier + self._since < self._n:
            self._since += n
            if monotonic() >= self._next_look:
                self._look(kernel)
        return self._earlier + self._since >= self._n

    def _look(self, kernel: Kernel) -> None:
        """Tell other processes of the steps since the last look, and learn of theirs."""
        is_there = is_at_hand(kernel)  # perhaps another process has compiled it
        self._earlier = self._n if is_there else _add(self._earlier, self._since, kernel)
        self._since = 0
        self._next_look = monotonic() + _PAUSE


def _add(earlier: int, n: int, kernel: Kernel) -> int:
    """Add steps to those of all processes; return how many there are now.

    Two processes may do this at the same time, and some steps are then not counted. Where nothing
    can be kept, the steps of this process are all that count.
    """
    path = cache_of(kernel)
    if path is None:
        return earlier + n
    path = path.with_suffix(".steps")
    with suppress(OSError, ValueError):
        version, number = path.read_text("ascii").split()
        if version == stamp():  # other code must be compiled anew
            earlier = max(earlier, int(number))
    beside = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(f"{stamp()} {earlier + n}\n", "ascii")
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
    return earlier + n
