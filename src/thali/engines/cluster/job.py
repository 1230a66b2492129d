"""The MPI job that this process belongs to: what its processes agree on, and how they end."""

from __future__ import annotations

import atexit
import sys
import traceback
from functools import lru_cache
from signal import SIG_IGN, SIGINT, SIGTERM, default_int_handler, signal
from threading import current_thread, main_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self

import thali
from thali import launcher
from thali.engines.cluster.ranks import Ranks
from thali.engines.cluster.reading import hand_out, read_shared
from thali.errors import EngineUnavailable, ThaliError
from thali.sentences import Setting
from thali.sites import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from thali.bits import PackedTensor
    from thali.data import BinaryTensor

_PATIENCE = 2.0
"""Seconds for which a process with an error waits whether all others have one, too."""

_PAUSE = 0.005


class Job:
    """The processes of an MPI job, as :class:`thali.engines.together.Processes`."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._handlers: list[dict[int, Any]] = []  # of signals, before every context
        self._ending = Ending(
            ranks.another()
        )  # not disturbed by calls that an error has interrupted

    @property
    def is_first(self) -> bool:
        """Whether this is the process that talks and stores."""
        return self.ranks.number == 0

    def of_first(self, thing: Any) -> Any:
        """Return what the first process gives."""
        return self.ranks.of_first(thing)

    def first_does(self, act: Callable[[], Any]) -> Any:
        """Let the first process do something; return its result, or raise its error, in all."""
        result, error = None, None
        if self.is_first:
            try:
                result = act()
            except Exception as raised:  # noqa: BLE001 - raised again in all processes
                error = raised
        error = self.ranks.of_first(error)
        if error is not None:
            raise error
        return result

    def require_same(self, what: str, value: object) -> None:
        """Raise an error in all processes if they differ in something."""
        self.ranks.require_same(what, value)

    def read(self, path: Path, **given: Any) -> BinaryTensor:
        """Read a file; every process holds its own rows."""
        return read_shared(path, self.ranks, **given)

    def hand_out(
        self, tensor: PackedTensor | None, whole: Callable[[], PackedTensor]
    ) -> PackedTensor:
        """Give every process its own rows of a tensor that the first one has."""
        return hand_out(self.ranks, tensor, whole)

    def __enter__(self) -> Self:
        """Let signals stop the first process, which then stops all after the present sweep.

        mpiexec and srun pass signals on to all processes, and at the end of its time a job gets
        SIGTERM.
        """
        before: dict[int, Any] = {}
        if current_thread() is main_thread():
            for number in (SIGINT, SIGTERM):
                handler = default_int_handler if self.is_first else SIG_IGN
                before[number] = signal(number, handler)
        self._handlers.append(before)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        """End all processes if some have an error that others do not have."""
        for number, handler in self._handlers.pop().items():
            signal(number, handler)
        if error is not None and not isinstance(error, SystemExit):
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End all processes, unless all of them have an error: then each ends by itself."""
        if self.ranks.n == 1 or self._ending.join(_PATIENCE):
            return
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, KeyboardInterrupt):
            said = "it was stopped."
        elif isinstance(error, ThaliError | OSError | ValueError):
            said = " ".join(str(error).split())
        else:
            traceback.print_exception(error)
        where = f"process {self.ranks.number} of {self.ranks.n}"
        sys.stderr.write(f"thali: {where} ended the job: {said}\n")
        sys.stderr.flush()
        self.ranks.abort(1)

    def leave(self) -> None:
        """Wait for the others at the end, without keeping a core busy."""
        self._ending.join(None)


class Ending:
    """A place at which the processes meet when they end or fail."""

    def __init__(self, communicator: Any) -> None:
        self._all = communicator

    def join(self, seconds: float | None) -> bool:
        """Return whether all processes have come here, after so many seconds at most."""
        request = self._all.Ibarrier()
        end = None if seconds is None else monotonic() + seconds
        while not request.Test():
            if end is not None and monotonic() > end:
                return False
            sleep(_PAUSE)
        return True


@lru_cache(maxsize=1)
def job() -> Job:
    """Return the job that this process was started with."""
    if launcher.place() is None:
        raise EngineUnavailable(
            (Setting("engine", "mpi"), " was given, but this process was started alone"),
            remedy=("start it with `mpiexec -n N`, or use ", Setting("engine", "cpu")),
        )
    found = Job(Ranks())
    n_started = launcher.n_started()
    if n_started is not None and n_started > 1 and found.ranks.n == 1:
        raise EngineUnavailable(
            f"{n_started} processes were started, but {found.ranks.library}, the library that "
            "mpi4py uses, knows of one",
            remedy=(
                "start them with the mpiexec of that library, or let each sample by itself with ",
                Setting("engine", "cpu"),
            ),
        )
    found.require_same("versions of thali", (thali.__version__, VERSION))
    if found.ranks.n > 1:
        atexit.register(found.leave)
        before = sys.excepthook

        def end_all(
            kind: type[BaseException], error: BaseException, where: TracebackType | None
        ) -> None:
            before(kind, error, where)
            found.fail(error)

        sys.excepthook = end_all
    return found
