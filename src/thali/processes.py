"""Chains in processes of their own, for small data.

On small data much of a sweep is Python, which threads cannot run in parallel. A chain is a
function of data, settings and its number alone, so that it does not matter which process runs it.
A process gets the data and some chains through its standard input, and sends new draws of a chain
after every slice of time. It stops when its standard input is closed, also because we have died.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from thali.running import RunningChain
from thali.sampler import Target
from thali.trace import MemoryStore
from thali.trace.parcel import Parcel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from thali.bits import PackedTensor
    from thali.progress import Progress
    from thali.trace import Settings

log = logging.getLogger("thali")

_COMMAND = "import sys; sys.path[:] = {path!r}; from thali.processes import serve; serve()"


class _Job(NamedTuple):
    """What a process is asked to do."""

    tensor: PackedTensor
    settings: Settings
    threads: int
    chains: list[tuple[int, Parcel]]  # numbers, and the states to go on from


class _News(NamedTuple):
    """What a chain has drawn in a slice of time."""

    number: int
    parcel: Parcel
    now: Progress | None
    has_more: bool


class Process:
    """A process that runs some chains, whose draws are put into the stores of this process."""

    def __init__(
        self,
        chains: Sequence[RunningChain],
        tensor: PackedTensor,
        settings: Settings,
        threads: int,
    ) -> None:
        self.left = list(chains)
        self._tensor = tensor
        self._settings = settings
        self._threads = threads
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, stop: Event) -> None:
        """Run the chains until they end, this is stopped, or the process dies.

        Chains that are still in ``left`` then can go on in this process.
        """
        if not sys.executable:  # Python is part of another program
            return
        command = [sys.executable, "-c", _COMMAND.format(path=sys.path)]
        try:
            child = subprocess.Popen(  # noqa: S603 - this very Python, and no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is for us, also while the process begins
            )
        except OSError as error:
            log.info("no process could be started (%s); all chains run in this one", error)
            return
        self._child = child
        assert child.stdin is not None
        assert child.stdout is not None
        jobs = [(chain.number, self._parcel(chain)) for chain in self.left]
        with suppress(OSError, ValueError):  # it has died, or was stopped; nothing comes back then
            pickle.dump(_Job(self._tensor, self._settings, self._threads, jobs), child.stdin)
            child.stdin.flush()
        if stop.is_set():
            self.stop()
        try:
            with child.stdout:
                self._receive(child.stdout)
        finally:
            self.stop()
            child.wait()
        if self.left and not stop.is_set():
            log.info("a process ended early (%s); its chains go on in this one", child.returncode)

    def stop(self) -> None:
        """Ask the process to stop after the present sweep."""
        if self._child is not None and self._child.stdin is not None:
            with suppress(OSError):
                self._child.stdin.close()

    def _parcel(self, chain: RunningChain) -> Parcel:
        store = chain.store
        return Parcel.pack((), store.state, store.moves, store.start, self._settings)

    def _receive(self, news_of: IO[bytes]) -> None:
        """Put draws into stores as they come."""
        by_number = {chain.number: chain for chain in self.left}
        while True:
            try:
                news = pickle.load(news_of)  # noqa: S301 - our own process
            except (EOFError, OSError, pickle.UnpicklingError):
                return
            if isinstance(news, BaseException):
                raise news
            chain = by_number[news.number]
            draws, now, chain.store.start = news.parcel.unpack(self._settings)
            if now is not None:
                chain.store.put(draws, now)
            if news.now is not None:
                chain.now = news.now
            if not news.has_more:
                chain.store.flush()
                self.left.remove(chain)


def serve() -> None:
    """Run the chains of a job that comes from standard input; write news to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there are no sessions, as on Windows
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes elsewhere
    try:
        job: _Job = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started us
    except (EOFError, pickle.UnpicklingError):  # it stopped while it asked
        return
    stop = Event()
    Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
    try:
        _run(job, stop, out)
    except BaseException as error:  # noqa: BLE001 - raised by the process that waits for us
        with suppress(OSError):
            out.write(_pickled(error))
    with suppress(OSError):
        out.close()


def _run(job: _Job, stop: Event, out: IO[bytes]) -> None:
    settings = job.settings
    target = Target.prepare(job.tensor, settings.model, settings.schedule, "cpu", job.threads)
    waiting: deque[tuple[RunningChain, MemoryStore]] = deque()
    for number, parcel in job.chains:
        store = MemoryStore(settings)
        _, now, store.start = parcel.unpack(settings)
        if now is not None:
            store.put((), now)
        waiting.append((RunningChain(number, target, settings, store), store))
    while waiting and not stop.is_set():
        chain, store = waiting.popleft()
        has_more = chain.advance(stop)
        parcel = Parcel.pack(store.take_draws(), store.state, store.moves, store.start, settings)
        pickle.dump(_News(chain.number, parcel, chain.now, has_more), out)
        out.flush()
        if has_more:
            waiting.append((chain, store))


def _wait_for_end(stop: Event) -> None:
    while os.read(0, 1):  # not through a buffer, whose lock would be held when Python ends
        pass
    stop.set()


def _pickled(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # noqa: S301 - some errors cannot be read back
    except Exception:  # noqa: BLE001
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed
