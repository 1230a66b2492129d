"""The options with which a file is read."""

from __future__ import annotations

from typing import NamedTuple

from thali.data.binarize import check_threshold
from thali.threads import n_threads

KINDS = ("table", "matrix", "pairs", "baskets")


class Options(NamedTuple):
    """The user's options; :func:`thali.read` explains each of them."""

    binarize: float | None = None
    missing: tuple[str, ...] = ()
    layer: str | None = None
    kind: str | None = None
    threads: int | None = None

    def check(self) -> None:
        """Refuse options whose values make no sense, whatever the file is."""
        n_threads(self.threads)
        check_threshold(self.binarize)
        if self.kind not in (None, *KINDS):
            msg = (
                f"kind={self.kind!r} was given; allowed are {', '.join(map(repr, KINDS))}, or "
                "none for what the name of the file says; choose one."
            )
            raise ValueError(msg)
        if not all(isinstance(text, str) for text in self.missing):
            msg = f"missing={self.missing!r} was given; a list of strings is needed; quote them."
            raise TypeError(msg)


def reason(error: Exception) -> str:
    """Return why a file was not read: our own message, or that a library could not read it."""
    return str(error) if type(error) in (ValueError, TypeError) else damaged(error)


def damaged(error: Exception) -> str:
    """Return the message for a file that a library could not read, with its first line."""
    lines = str(error).splitlines()
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    return f"the file could not be read ({reason}); check that it is what its name says"
