"""Run chains side by side on the threads of one process."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from functools import partial
from math import nan
from time import monotonic
from typing import TYPE_CHECKING

from thali.progress import Progress, Reporter
from thali.sampler import chain, start
from thali.streams import chain_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from thali.sampler import Info, Target
    from thali.sampler.start import Starting
    from thali.trace import Settings, Store

_SLICE = 0.2
"""Seconds for which a thread advances one chain before it takes the next chain in the queue."""


class _Chain:
    """A running chain: the generator of its sweeps, and the store that keeps its draws."""

    def __init__(self, number: int, target: Target, settings: Settings, store: Store) -> None:
        self.number = number
        self.store = store
        self.n_sweeps = settings.n_sweeps
        self.sweeps = self._sweeps(chain_key(settings.seed, number), target)
        self.now: Progress | None = None

    def advance(self, stop: threading.Event) -> bool:
        """Sweep for one slice of time; return whether the chain has sweeps left."""
        end = monotonic() + _SLICE
        now = None
        for now in self.sweeps:
            if stop.is_set() or monotonic() > end:
                self.now = now()
                return True
        if now is not None:
            self.now = now()
        self.store.flush()
        return False

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
        return Progress(self.number, sweep, self.n_sweeps, *now)

    def _progress_of_start(self, now: Starting) -> Progress:
        evidence = max((part.evidence for part in now.history), default=nan)
        n_components = now.state.n_components
        stage = f"starting: {now.stage or 'done'}"
        return Progress(self.number, 0, self.n_sweeps, True, n_components, nan, stage, evidence)


class _Workers:
    """Threads that advance all chains in turn, each chain for one slice of time."""

    def __init__(self, chains: list[_Chain], n_workers: int) -> None:
        self._waiting = deque(chains)
        self._stop = threading.Event()
        # Before Python 3.13, an interrupted Thread.join marks a running thread as ended.
        self._ended = [threading.Event() for _ in range(n_workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(ended,), daemon=True)
            for ended in self._ended
        ]
        self.failures: list[BaseException] = []

    def run(self, tell: Callable[[], None]) -> None:
        """Run all chains to their end, or until the user interrupts; call ``tell`` meanwhile."""
        try:
            for thread in self._threads:
                thread.start()
            for ended in self._ended:
                has_ended = False
                while not has_ended:
                    has_ended = ended.wait(0.1)
                    tell()
        finally:
            self._stop.set()
            for ended in self._started():
                ended.wait()

    @property
    def are_running(self) -> bool:
        """Whether at least one thread is still in a sweep."""
        return not all(ended.is_set() for ended in self._started())

    def _started(self) -> list[threading.Event]:
        """Return the end events of the threads that were started; the others never run."""
        both = zip(self._threads, self._ended, strict=True)
        return [ended for thread, ended in both if thread.ident is not None]

    def _work(self, ended: threading.Event) -> None:
        try:
            while not self._stop.is_set():
                try:
                    current = self._waiting.popleft()
                except IndexError:  # other threads run all remaining chains
                    return
                if current.advance(self._stop):
                    self._waiting.append(current)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.failures.append(error)
            self._stop.set()
        finally:
            ended.set()


def run_chains(
    target: Target,
    settings: Settings,
    stores: Sequence[Store],
    n_workers: int,
    reporter: Reporter,
) -> bool:
    """Run all chains to their end; return whether the user interrupted them."""
    chains = [_Chain(number, target, settings, store) for number, store in enumerate(stores)]
    workers = _Workers(chains, n_workers)
    is_interrupted = False
    try:
        workers.run(lambda: reporter([c.now for c in chains if c.now is not None]))
    except KeyboardInterrupt:
        if workers.are_running:  # a second Ctrl-C: threads may still write to the stores
            raise
        is_interrupted = True
    reporter.close()
    if workers.failures:
        for store in stores:
            with suppress(OSError):
                store.flush()
        raise workers.failures[0]
    for store in stores:
        store.flush()
    return is_interrupted
