"""Run chains side by side: on the threads of this process, or in further processes."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from thali.compiling import COMPILED, kernels
from thali.engines.cpu.engine import CpuEngine
from thali.model.effects import Effects
from thali.processes import Process
from thali.running import Looking, RunningChain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thali.model import PerComponent
    from thali.progress import Reporter
    from thali.sampler import Target
    from thali.trace import Settings, Store

LARGE = 1 << 22
"""From this many entries on, chains run faster on threads of their own. Measured with two chains
on two cores: side by side took 0.85 times as long as one after the other with 6 million entries,
1.4 times as long with 0.1 million."""

MANY_SWEEPS = 2000
"""Number of sweeps of all chains from which on further processes pay, with row and column effects.
A process takes one to three seconds to begin, in which the chains go on here; these sweeps take 5
to 10 seconds. Without effects, sweeps take a quarter of the time, and four times as many must be
left."""


class _Workers:
    """Threads that advance all chains in turn, each chain for one slice of time.

    A process has a thread, too, which waits for its news. It begins once nothing was compiled for
    a slice of time: two processes would compile the same functions. Then it takes one of the
    chains that wait here, and exchanges it for another one after some seconds.
    """

    def __init__(
        self,
        chains: Sequence[RunningChain | Looking],
        n_workers: int,
        processes: Sequence[Process] = (),
        agree: Callable[[bool], bool] = bool,  # alone, what we wish
    ) -> None:
        self._waiting = deque(chains)
        self._agree = agree
        self.were_stopped = False  # also by a process that shares the data
        self._processes = processes
        self._stop = threading.Event()
        self._is_compiled = threading.Event()
        tasks: list[tuple[Callable[..., None], tuple[Process, ...]]] = [(self._work, ())]
        tasks = tasks * n_workers + [(self._follow, (process,)) for process in processes]
        # Before Python 3.13, an interrupted Thread.join marks a running thread as ended.
        self._ended = [threading.Event() for _ in tasks]
        self._threads = [
            threading.Thread(target=self._do, args=(ended, task), daemon=True)
            for ended, task in zip(self._ended, tasks, strict=True)
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
            self._halt()
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

    def _halt(self) -> None:
        self._stop.set()
        self._is_compiled.set()
        for process in self._processes:
            process.dismiss()  # it may not have begun to read
            process.stop()

    def _do(
        self, ended: threading.Event, task: tuple[Callable[..., None], tuple[Process, ...]]
    ) -> None:
        """Carry out the task of a thread."""
        function, arguments = task
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.failures.append(error)
            self._halt()
        finally:
            self._is_compiled.set()
            ended.set()

    def _work(self) -> None:
        """Advance one chain after the other in this process."""
        while True:
            if self._agree(self._stop.is_set()):
                self.were_stopped = True
                return
            try:
                current = self._waiting.popleft()
            except IndexError:  # other threads run all remaining chains
                for process in self._processes:
                    process.dismiss()
                return
            n_compiled = COMPILED.n_functions
            if current.advance(self._stop):
                # A process that takes over a start begins it anew, so it gets another chain.
                back = self._waiting.appendleft if current.is_starting else self._waiting.append
                back(current)
            if COMPILED.n_functions == n_compiled:
                self._is_compiled.set()

    def _follow(self, process: Process) -> None:
        """Let a process run chains; if it dies, its chain goes on here."""
        self._is_compiled.wait()
        if not self._stop.is_set():
            process.run(self._exchange, self._stop)
            for chain in process.left:
                self._put_back(chain)
            self._work()

    def _exchange(self, chain: RunningChain | None) -> RunningChain | None:
        """Take back the chain of a process, if any, and return the one that waits longest."""
        if chain is not None:
            self._put_back(chain)
        with suppress(IndexError):
            longest = self._waiting.popleft()
            assert isinstance(longest, RunningChain)  # a look has no processes beside it
            return longest
        return None

    def _put_back(self, chain: RunningChain) -> None:
        chain.go_on()
        self._waiting.append(chain)


def look(
    target: Target, settings: Settings, reporter: Reporter
) -> tuple[PerComponent | None, bool]:
    """Decide whether components get densities of their own (:mod:`.sampler.grow.densities`).

    It takes a thread, as chains do, so that the user can watch and stop it. Returns what was
    decided, and whether it was stopped before.
    """
    looking = Looking(target, settings.n_sweeps)
    workers = _Workers([looking], 1, agree=target.engine.agree)
    is_stopped = False
    try:
        workers.run(lambda: _tell([looking], reporter))
    except KeyboardInterrupt:
        is_stopped = True
    is_stopped |= workers.were_stopped
    if workers.failures or is_stopped:
        reporter.close()
    if workers.failures:
        raise workers.failures[0]
    return looking.found, is_stopped


def run_chains(
    target: Target,
    settings: Settings,
    stores: Sequence[Store],
    n_workers: int,
    reporter: Reporter,
) -> bool:
    """Run all chains to their end; return whether the user interrupted them."""
    chains = [RunningChain(number, target, settings, store) for number, store in enumerate(stores)]
    processes = _processes(target, settings, chains)
    workers = _Workers(chains, n_workers, processes, target.engine.agree)

    is_interrupted = False
    try:
        workers.run(lambda: _tell(chains, reporter))
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
    return is_interrupted or workers.were_stopped


def _tell(chains: Sequence[RunningChain | Looking], reporter: Reporter) -> None:
    """Report what chains do, or that kernels are compiled."""
    news = {chain.number: chain.now for chain in chains if chain.now is not None}
    if COMPILED.is_running:  # only the first chain says so
        now = chains[0].now or chains[0].waiting
        news[chains[0].number] = now._replace(kernels=kernels())
    reporter(list(news.values()))


def _processes(
    target: Target, settings: Settings, chains: Sequence[RunningChain]
) -> list[Process]:
    """Return the processes besides this one that pay: at most one for every other chain."""
    engine = target.engine
    if prod(target.shape) >= LARGE or not isinstance(engine, CpuEngine):
        return []
    has_effects = isinstance(target.priors.noise, Effects)
    if sum(chain.n_left for chain in chains) < (1 if has_effects else 4) * MANY_SWEEPS:
        return []
    n = engine.serve_chains(max(1, sum(chain.n_left > 0 for chain in chains)))
    return [Process(engine.tensor, settings, engine.threads) for _ in range(1, n)]
