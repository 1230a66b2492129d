"""A running chain: sweeps for a slice of time, and records what it draws."""

from __future__ import annotations

from functools import partial
from math import nan
from time import monotonic
from typing import TYPE_CHECKING

from thali.progress import Progress
from thali.sampler import chain, start
from thali.sampler.grow.densities import look
from thali.streams import chain_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from threading import Event

    import numpy as np

    from thali.model import PerComponent
    from thali.sampler import Info, State, Target
    from thali.sampler.starting import Starting
    from thali.trace import Settings, Store

_SLICE = 0.2
"""Seconds for which a chain advances before the next chain has its turn."""


class RunningChain:
    """A running chain: the generator of its sweeps, and the store that keeps its draws."""

    def __init__(self, number: int, target: Target, settings: Settings, store: Store) -> None:
        self.number = number
        self.store = store
        self.n_sweeps = settings.n_sweeps
        self._engine = target.engine
        self._begin = partial(self._sweeps, chain_key(settings.seed, number), target)
        self.sweeps = self._begin()
        self.now: Progress | None = None

    def go_on(self) -> None:
        """Go on from the state in the store, which another process may have changed."""
        self.sweeps = self._begin()

    @property
    def is_starting(self) -> bool:
        """Whether it has no state yet. A start that another process takes over begins anew."""
        return self.store.state is None

    @property
    def n_left(self) -> int:
        """Number of sweeps that are left."""
        state = self.store.state
        return max(0, self.n_sweeps - (0 if state is None else state.sweep))

    def advance(self, stop: Event) -> bool:
        """Sweep for one slice of time; return whether the chain has sweeps left."""
        end = monotonic() + _SLICE
        now = None
        for now in self.sweeps:
            if self._engine.agree(stop.is_set() or monotonic() > end):
                self.now = now()
                return True
        if now is not None:
            self.now = now()
        self.store.flush()
        return False

    @property
    def waiting(self) -> Progress:
        """The progress of a chain that has done nothing yet."""
        return Progress(self.number, 0, self.n_sweeps, True, 0, nan)

    def _sweeps(self, key: np.uint64, target: Target) -> Iterator[Callable[[], Progress]]:
        """Yield after every sweep, once it is recorded; what is yielded tells the progress."""
        begun = self.store.state
        if begun is None:
            for now in start(key, target):
                begun, self.store.start = now.state, now.history
                yield partial(self._progress_of_start, now)
        n_left = self.n_sweeps - (0 if begun is None else begun.sweep)
        for state, info in chain(key, target, max(0, n_left), begun):
            self.store.record(state, info)
            yield partial(self._progress, state.sweep, info)

    def _progress(self, sweep: int, info: Info) -> Progress:
        now = info.is_warmup, info.n_components, info.log_joint
        waited = self._engine.waited
        return Progress(self.number, sweep, self.n_sweeps, *now, waited=waited)

    def _progress_of_start(self, now: Starting) -> Progress:
        evidence = max((part.evidence for part in now.history), default=nan)
        n_components = now.state.n_components
        stage = f"starting: {now.stage or 'done'}"
        return Progress(self.number, 0, self.n_sweeps, True, n_components, nan, stage, evidence)


class Looking:
    """A look at the data before the chains begin, which advances as a chain does."""

    number = 0  # shown as what the first chain does
    is_starting = True

    def __init__(self, target: Target, n_sweeps: int) -> None:
        self._engine = target.engine
        self.waiting = Progress(
            self.number, 0, n_sweeps, True, 0, nan, "starting: looking at sizes of components"
        )
        self.now: Progress | None = None
        self.found: PerComponent | None = None
        self._steps = self._look(target)

    def advance(self, stop: Event) -> bool:
        """Go on for one slice of time; return whether something is left to do."""
        end = monotonic() + _SLICE
        for state in self._steps:
            self.now = self.waiting._replace(n_components=state.n_components)
            if self._engine.agree(stop.is_set() or monotonic() > end):
                return True
        return False

    def _look(self, target: Target) -> Generator[State, None, None]:
        self.found = yield from look(target)
