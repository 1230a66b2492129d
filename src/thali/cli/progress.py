"""Progress of a run: bars in a terminal, a line every ten seconds in logs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from thali.cli.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from thali.optimize import SearchProgress
    from thali.progress import Progress

_SECONDS = 10.0
"""Seconds between two lines; a run that takes less shows only its answer."""


class Lines:
    """Writes a line about the progress of all chains, at most every ten seconds."""

    def __init__(self, n_chains: int, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._told = clock()
        self._n_chains = n_chains
        self._now: dict[int, Progress] = {}

    def __call__(self, now: Progress) -> None:
        """Record the progress of a chain; write a line about all chains when it is due."""
        self._now[now.chain] = now
        if self._clock() - self._told < _SECONDS:
            return
        from thali.progress import (  # noqa: PLC0415 - as below
            best_evidence,
            compiling,
            n_components,
            waiting,
        )

        self._told = self._clock()
        if now.kernels is not None:
            tell(compiling(now.kernels))
            return
        done = sum(chain.sweep for chain in self._now.values())
        total = now.n_sweeps * self._n_chains
        chains = self._now.values()
        stage = "warm-up" if any(chain.is_warmup for chain in chains) else ""
        start = now.start or next((chain.start for chain in chains if chain.start), "")
        found = [chain.n_components for chain in chains]
        numbers = n_components(found) if any(found) or not start else ""
        evidence = best_evidence(chain.evidence for chain in chains)
        parts = ", ".join(filter(None, [start or stage, numbers, evidence, waiting(now.waited)]))
        tell(f"{done} of {total} sweeps ({parts})")


class SearchLines:
    """Writes a line about the progress of a search, at most every ten seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._told = clock, clock()

    def __call__(self, now: SearchProgress) -> None:
        """Write a line when it is due."""
        if self._clock() - self._told >= _SECONDS:
            self._told = self._clock()
            tell(f"{now.share:.0%} of the search ({now.words()})")


def search_shown(*, quiet: bool) -> bool | Callable[[SearchProgress], object]:
    """Return the ``progress`` argument for a search: a bar in a terminal, lines in a log."""
    return False if quiet else sys.stderr.isatty() or SearchLines()


@contextmanager
def shown(
    n_chains: int, beginning: str, *, quiet: bool
) -> Iterator[bool | Callable[[Progress], object]]:
    """Yield the ``progress`` argument for a run: False, or a function that shows the progress.

    A terminal shows the opening line, ``beginning``, at once. A log gets it with the first news of
    a chain, so that an error before that is the only message.
    """
    if quiet:
        yield False
        return
    from thali.progress import Bars  # noqa: PLC0415 - --help must stay fast

    show = Bars() if sys.stderr.isatty() else Lines(n_chains)
    waiting = [beginning]
    if isinstance(show, Bars):
        tell(waiting.pop())

    def callback(now: Progress) -> None:
        while waiting:
            tell(waiting.pop())
        show(now)

    try:
        yield callback
    finally:
        if isinstance(show, Bars):
            show.close()
