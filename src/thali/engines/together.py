"""The processes that draw the same chains: this one alone, or all of an MPI job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from thali.data.readers.files import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from thali.bits import PackedTensor
    from thali.data import BinaryTensor


class Processes(Protocol):
    """The processes that draw the same chains; all of them must make the same calls.

    As a context, they end together: an error in one of them ends all.
    """

    @property
    def is_first(self) -> bool:
        """Whether this is the process that talks and stores."""

    def of_first(self, thing: Any) -> Any:
        """Return what the first process gives."""

    def first_does(self, act: Callable[[], Any]) -> Any:
        """Let the first process do something; return its result, or raise its error, in all."""

    def require_same(self, what: str, value: object) -> None:
        """Raise an error in all processes if they differ in something."""

    def read(self, path: Path, **given: Any) -> BinaryTensor:
        """Read a file as :func:`thali.read` does; every process holds its own rows."""

    def hand_out(
        self, tensor: PackedTensor | None, whole: Callable[[], PackedTensor]
    ) -> PackedTensor:
        """Give every process its own rows of a tensor that the first one has.

        ``whole`` reads the tensor in another process, should it need all rows.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None: ...


class Alone:
    """One process, which need not ask anybody."""

    is_first = True

    def of_first(self, thing: Any) -> Any:
        """Return the same thing."""
        return thing

    def first_does(self, act: Callable[[], Any]) -> Any:
        """Do it."""
        return act()

    def require_same(self, what: str, value: object) -> None:
        """Do nothing."""

    def read(self, path: Path, **given: Any) -> BinaryTensor:
        """Read a file."""
        return read(path, **given)

    def hand_out(
        self, tensor: PackedTensor | None, whole: Callable[[], PackedTensor]
    ) -> PackedTensor:
        """Return the tensor."""
        return whole() if tensor is None else tensor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""
