"""How many swaps a searcher does before it looks up, and how far a phase then is."""

from __future__ import annotations

from typing import Protocol

from thali.compiling import clock

_SECONDS = 0.05  # between two looks at the clock
_PARTS = 40  # of a phase whose number of swaps is given


class Pace(Protocol):
    """Divides a phase into parts."""

    done: float  # share of the phase that is done
    after: float  # share that will be done after the next part, as far as is known

    def next(self, least: int) -> int:
        """Return how many swaps come next, at least so many unless the phase ends."""

    def finish(self) -> None:
        """Note that they are done."""


class BySwaps:
    """A phase of a given number of swaps: the same parts on any machine."""

    def __init__(self, n_swaps: int) -> None:
        self._total, self._n_done = n_swaps, 0
        self.done = self.after = 0.0

    def next(self, least: int) -> int:
        """Return how many swaps come next."""
        n = max(least, -(-self._total // _PARTS))
        n = min(n, self._total - self._n_done)
        self._n_done += n
        self.after = self._n_done / self._total
        return n

    def finish(self) -> None:
        """Note that they are done."""
        self.done = self.after


class ByClock:
    """A phase of a given duration: temperatures follow the clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._n_swaps = seconds, 1
        self._begun = self._looked = clock()
        self.done = self.after = 0.0 if seconds > 0.0 else 1.0

    def next(self, least: int) -> int:
        """Return how many swaps come next."""
        self._n_swaps = max(least, self._n_swaps)
        self._looked = clock()
        return self._n_swaps

    def finish(self) -> None:
        """Note that they are done, and how long that took."""
        now = clock()
        self.done = self.after = min(1.0, (now - self._begun) / self._seconds)
        pace = _SECONDS / max(now - self._looked, 1e-6)
        self._n_swaps = max(1, int(self._n_swaps * min(4.0, pace)))
