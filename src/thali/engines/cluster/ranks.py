"""The processes of an MPI job: who there is, and what they tell each other.

Everything that is sent is packed bits or integers, or floating-point numbers that one process
alone has computed. So the result does not depend on the order in which messages arrive.
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from thali.errors import EngineUnavailable, InvalidValue, require
from thali.sentences import Setting
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    T = TypeVar("T", bound=np.generic)


class Ranks:
    """The processes that share the data, and this one's number among them.

    ``seconds`` and ``n_bytes`` say how long this process has waited for messages, and how much it
    has received.
    """

    def __init__(self, communicator: Any = None) -> None:
        self._mpi = require("mpi4py.MPI", "mpi", error=EngineUnavailable)
        self._all = self._mpi.COMM_WORLD.Dup() if communicator is None else communicator
        self.number: int = self._all.Get_rank()
        self.n: int = self._all.Get_size()
        self.seconds = 0.0
        self.n_bytes = 0
        self.n_messages = 0

    @property
    def library(self) -> str:
        """The MPI library that mpi4py uses, and its version."""
        return " ".join(self._mpi.Get_library_version().splitlines()[0].split(",")[0].split())

    def threads(self, asked: int | None) -> int:
        """Return the number of threads: the processes of a machine share its cores."""
        if asked is not None:
            return n_threads(asked)
        here = self._all.Split_type(self._mpi.COMM_TYPE_SHARED)
        try:
            cores = here.allgather(_cores())
        finally:
            here.Free()
        own = _cores()
        share = sum(1.0 / sum(core in others for others in cores) for core in own)
        return max(1, round(share))

    def place_on_machine(self) -> int:
        """Return the number of this process among those on its machine."""
        here = self._all.Split_type(self._mpi.COMM_TYPE_SHARED)
        try:
            return int(here.Get_rank())
        finally:
            here.Free()

    # --- messages ---------------------------------------------------------------------------

    def gather(self, part: NDArray[T], sizes: Sequence[int] | None = None) -> NDArray[T]:
        """Return the parts of all processes, one after another; all get all of them.

        ``sizes`` are the numbers of elements of the parts, if they are known.
        """
        began = perf_counter()
        send = np.ascontiguousarray(part).reshape(-1)
        if sizes is None:
            sizes = self._all.allgather(send.size)
        n_bytes = [size * send.itemsize for size in sizes]
        together = np.empty_like(send, shape=sum(sizes))
        byte = self._mpi.BYTE
        self._all.Allgatherv([send.view(np.uint8), byte], [together.view(np.uint8), n_bytes, byte])
        self._told(began, together.nbytes - send.nbytes)
        return together

    def exchange(
        self,
        make: Callable[[int], NDArray[T]],
        take: Callable[[int, NDArray[T]], None],
        size: Callable[[int], int],
    ) -> None:
        """Send what ``make`` makes for every process, and ``take`` what it has for this one.

        Parts go from one process to another in turn, so that few are in memory at a time.
        ``size`` says how many elements come from a process.
        """
        take(self.number, make(self.number))
        byte = self._mpi.BYTE
        for step in range(1, self.n):
            to, source = (self.number + step) % self.n, (self.number - step) % self.n
            part = np.ascontiguousarray(make(to)).reshape(-1)
            began = perf_counter()
            found = np.empty_like(part, shape=size(source))
            self._all.Sendrecv(
                [part.view(np.uint8), byte], to, 0, [found.view(np.uint8), byte], source, 0
            )
            self._told(began, found.nbytes)
            take(source, found)

    def add(self, numbers: NDArray[T]) -> NDArray[T]:
        """Return the sum over all processes; the numbers must be integers or one-sided floats."""
        began = perf_counter()
        total = np.empty_like(numbers)
        self._all.Allreduce(np.ascontiguousarray(numbers), total)
        self._told(began, total.nbytes if self.n > 1 else 0)
        return total

    def largest(self, number: int) -> int:
        """Return the largest of the processes' numbers."""
        began = perf_counter()
        most = np.empty(1, np.int64)
        self._all.Allreduce(np.array([number], np.int64), most, self._mpi.MAX)
        self._told(began, most.nbytes if self.n > 1 else 0)
        return int(most[0])

    def objects(self, thing: Any) -> list[Any]:
        """Return what every process gives, any object."""
        return list(self._all.allgather(thing))

    def to_first(self, thing: Any) -> list[Any] | None:
        """Return what every process gives, in the first process, and None in the others."""
        everything: list[Any] | None = self._all.gather(thing)
        return everything

    def all_do(self, act: Callable[[], Any]) -> Any:
        """Let every process do something; return its result, or raise the first error in all."""
        result, error = None, None
        try:
            result = act()
        except Exception as raised:  # noqa: BLE001 - raised again in all processes
            error = raised
        for found in self.objects(error):
            if found is not None:
                raise found
        return result

    def require_same(self, what: str, value: object) -> None:
        """Raise an error in all processes if they differ in something."""
        values = self.objects(value)
        other = [number for number, found in enumerate(values) if found != values[0]]
        if other:
            raise InvalidValue(
                f"process {other[0]} of {self.n} has other {what} than process 0",
                remedy=(
                    f"give all processes the same {what}, or let each sample by itself with ",
                    Setting("engine", "cpu"),
                ),
            )

    def of_first(self, thing: Any) -> Any:
        """Return what the first process gives."""
        return self._all.bcast(thing)

    def another(self) -> Any:
        """Return a communicator of the same processes."""
        return self._all.Dup()

    def abort(self, status: int) -> None:
        """End all processes of the job at once."""
        self._all.Abort(status)

    def _told(self, began: float, n_bytes: int) -> None:
        self.seconds += perf_counter() - began
        self.n_bytes += n_bytes
        self.n_messages += 1


def _cores() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
