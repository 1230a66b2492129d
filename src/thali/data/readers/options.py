"""How a file is to be read, beyond what its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from thali.data.binarize import check_threshold
from thali.errors import InvalidType, InvalidValue, ThaliError
from thali.sentences import was_given

if TYPE_CHECKING:
    from thali.sentences import Phrase

KINDS = ("table", "matrix", "pairs", "baskets")


class Options(NamedTuple):
    """What the user said about a file."""

    binarize: float | None = None
    missing: tuple[str, ...] = ()
    layer: str | None = None
    kind: str | None = None

    def check(self) -> None:
        """Refuse a threshold, a kind or strings that cannot be."""
        check_threshold(self.binarize)
        if self.kind not in (None, *KINDS):
            raise InvalidValue(
                was_given("kind", self.kind),
                f"allowed are {', '.join(map(repr, KINDS))}",
                "choose one, or none if the name of the file says it",
            )
        if not all(isinstance(text, str) for text in self.missing):
            raise InvalidType(
                was_given("missing", self.missing), "a list of strings is needed", "quote them"
            )


def unreadable(name: str, error: Exception, remedy: Phrase = "") -> InvalidValue:
    """Say of a file why it was not read: in our own words, or that a library could not read it.

    Parameters
    ----------
    name
        Of the file.
    error
        What was raised.
    remedy
        What to do, if not what the error says.
    """
    if isinstance(error, ThaliError):
        name = f"{name}: {error.about}" if error.about else name
        return InvalidValue(error.given, error.allowed, remedy or error.remedy, about=name)
    is_ours = type(error) in (ValueError, TypeError)
    return InvalidValue(" ".join((str(error) if is_ours else damaged(error)).split()), about=name)


def damaged(error: Exception) -> str:
    """Say that a library could not read a file, in the first line of its words."""
    lines = str(error).splitlines()
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    return f"the file could not be read ({reason}); check that it is what its name says"
