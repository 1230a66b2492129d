"""Chains in processes of their own, for small data.

On small data much of a sweep is Python, which threads cannot run in parallel. A chain is a
function of data, settings and its number alone, so that it does not matter which process runs it.
A process gets the data through its standard input, and takes some seconds to begin. Then it asks
for a chain, which may have begun here, sends new draws after every slice of time, and asks for
another chain after some seconds, so that all chains come to about the same number of sweeps. It
stops when its standard input is closed, also because we have died.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.running import RunningChain
from thali.sampler import Target
from thali.trace import MemoryStore
from thali.trace.parcel import Parcel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, TypeAlias

    from thali.bits import PackedTensor
    from thali.progress import Progress
    from thali.trace import Settings

    Exchange: TypeAlias = Callable[[RunningChain | None], RunningChain | None]

log = logging.getLogger("thali")

_COMMAND = "import sys; sys.path[:] = {path!r}; from thali.processes import serve; serve()"

_SIZE = 8
"""Bytes that tell how long a message is."""

_TURN = 3.0
"""Seconds for which a process keeps a chain that has no start before it."""


class _Job(NamedTuple):
    """What a process is for."""

    tensor: PackedTensor
    settings: Settings
    threads: int


class _Task(NamedTuple):
    """A chain for a process, and what it has done so far."""

    number: int
    parcel: Parcel


class _News(NamedTuple):
    """What a chain has drawn in a slice of time."""

    number: int
    parcel: Parcel
    now: Progress | None
    has_more: bool


class Process:
    """A process that runs one chain after the other; draws are put into our own stores."""

    def __init__(self, tensor: PackedTensor, settings: Settings, threads: int) -> None:
        self.left: list[RunningChain] = []
        """The chain that the process runs, if any; once it has ended, the chain can go on here."""
        self._job = _Job(tensor, settings, threads)
        self._child: subprocess.Popen[bytes] | None = None
        self._is_needed = True
        self._lock = Lock()  # it is not dismissed while it begins or gets a chain

    def run(self, exchange: Exchange, stop: Event) -> None:
        """Run chains until none is left, this is stopped, or the process dies.

        ``exchange`` takes back a chain that has sweeps left, or None, and returns the next one.
        """
        child = self._begin()
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        has_died = False
        try:
            self._send(self._job, child.stdin)
            if stop.is_set():
                self.stop()
            with child.stdout:
                has_died = self._receive(child.stdout, child.stdin, exchange)
        finally:
            self.stop()
            child.wait()
        if has_died and self._is_needed and not stop.is_set():
            log.info("a process ended early (%s); all chains go on in this one", child.returncode)

    def stop(self) -> None:
        """Ask the process to stop after the present sweep."""
        if self._child is not None and self._child.stdin is not None:
            with suppress(OSError):
                self._child.stdin.close()

    def dismiss(self) -> None:
        """End the process unless it has a chain: it may still begin, and nothing is left to do."""
        with self._lock:
            self._is_needed = False
            if self._child is not None and not self.left:
                self._child.kill()

    def _begin(self) -> subprocess.Popen[bytes] | None:
        if not sys.executable:  # Python is part of another program
            return None
        command = [sys.executable, "-c", _COMMAND.format(path=sys.path)]
        with self._lock:
            if not self._is_needed:
                return None
            try:
                self._child = subprocess.Popen(  # noqa: S603 - this very Python, and no shell
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # a Ctrl-C is for us, also while the process begins
                )
            except OSError as error:
                log.info("no process could be started (%s); all chains run in this one", error)
            return self._child

    def _send(self, what: _Job | _Task, tasks: IO[bytes]) -> None:
        packed = pickle.dumps(what)
        with suppress(OSError, ValueError):  # it has died, or was stopped; nothing comes back then
            tasks.write(len(packed).to_bytes(_SIZE, "little") + packed)
            tasks.flush()

    def _next(self, exchange: Exchange) -> RunningChain | None:
        """Return the next chain, which may be the one that it had."""
        with self._lock:
            chain = self.left[0] if self.left else None
            new = exchange(chain) if self._is_needed or chain else None
            self.left = [] if new is None else [new]
            return new

    def _receive(self, news_of: IO[bytes], tasks: IO[bytes], exchange: Exchange) -> bool:
        """Put draws into stores as they come; return whether the process died before its time."""
        settings = self._job.settings
        chain: RunningChain | None = None
        while True:
            try:
                news = pickle.load(news_of)  # noqa: S301 - our own process
            except (EOFError, OSError, pickle.UnpicklingError):
                return True
            if isinstance(news, BaseException):
                raise news
            if news is None:
                chain = self._next(exchange)
                if chain is None:
                    return False
                store = chain.store
                parcel = Parcel.pack((), store.state, store.moves, store.start, settings)
                self._send(_Task(chain.number, parcel), tasks)
                continue
            assert chain is not None
            draws, now, chain.store.start = news.parcel.unpack(settings)
            if now is not None:
                chain.store.put(draws, now)
            if news.now is not None:
                chain.now = news.now
            if not news.has_more:
                chain.store.flush()
                self.left = []


def serve() -> None:
    """Run the chains that come from standard input; write news to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there are no sessions, as on Windows
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes elsewhere
    messages: SimpleQueue[Any] = SimpleQueue()
    stop = Event()
    Thread(target=_read_messages, args=(messages, stop), daemon=True).start()
    try:
        job: _Job | None = messages.get()
        if job is not None:  # else whoever asked has stopped
            _run(job, messages, stop, out)
    except BaseException as error:  # noqa: BLE001 - raised by the process that waits for us
        with suppress(OSError):
            out.write(_pickled(error))
    with suppress(OSError):
        out.close()


def _run(job: _Job, messages: SimpleQueue[Any], stop: Event, out: IO[bytes]) -> None:
    """Ask for chains, and run each for a while."""
    settings = job.settings
    target = Target.prepare(job.tensor, settings.model, settings.schedule, "cpu", job.threads)
    while not stop.is_set():
        _tell(None, out)
        task: _Task | None = messages.get()
        if task is None:
            return
        store = MemoryStore(settings)
        _, now, store.start = task.parcel.unpack(settings)
        if now is not None:
            store.put((), now)
        chain = RunningChain(task.number, target, settings, store)
        end, has_more = monotonic() + _TURN, True
        while has_more and not stop.is_set():
            has_more = chain.advance(stop)
            new = store.take_draws(), store.state, store.moves, store.start
            parcel = Parcel.pack(*new, settings)
            _tell(_News(chain.number, parcel, chain.now, has_more), out)
            if not chain.is_starting and monotonic() > end:
                break


def _tell(news: _News | None, out: IO[bytes]) -> None:
    pickle.dump(news, out)
    out.flush()


def _read_messages(messages: SimpleQueue[Any], stop: Event) -> None:
    """Queue what comes from standard input; None and ``stop`` say that it has ended.

    It also ends with a message that cannot be read. Whoever sent it can do without us.
    """
    try:
        while size := _read(_SIZE):
            messages.put(pickle.loads(_read(int.from_bytes(size, "little"))))  # noqa: S301 - ours
    except Exception:
        log.exception("a further process cannot read what it is sent")
    stop.set()
    messages.put(None)


def _read(size: int) -> bytes:
    """Return that many bytes of standard input, or none if it ended before.

    There is no buffer, whose lock would be held when Python ends.
    """
    read = bytearray()
    while len(read) < size:
        part = os.read(0, size - len(read))
        if not part:
            return b""
        read += part
    return bytes(read)


def _pickled(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # noqa: S301 - some errors cannot be read back
    except Exception:  # noqa: BLE001
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed
