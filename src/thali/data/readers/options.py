"""The options with which a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from thali.data.binarize import check_threshold
from thali.data.long_tables import check_modes, check_unlisted
from thali.errors import InvalidType, InvalidValue, ThaliError
from thali.sentences import Argument, was_given
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.sentences import Phrase

KINDS = ("table", "matrix", "pairs", "baskets")


class Options(NamedTuple):
    """The user's options; :func:`thali.read` explains each of them."""

    binarize: float | None = None
    missing: tuple[str, ...] = ()
    layer: str | None = None
    kind: str | None = None
    threads: int | None = None
    sep: str | None = None
    array: str | None = None
    sheet: str | None = None
    modes: Sequence[str] | None = None
    unlisted: str = "zero"

    def check(self) -> None:
        """Refuse options whose values make no sense, whatever the file is."""
        n_threads(self.threads)
        check_threshold(self.binarize)
        for name in ("layer", "array", "sheet"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidType(was_given(name, value), "its name is needed", "give a text")
        if self.modes is not None:
            check_modes(self.modes)
            if not all(isinstance(name, str) for name in self.modes):
                raise InvalidType(
                    was_given("modes", self.modes), "names of columns are needed", "give texts"
                )
            if self.kind is not None:
                raise InvalidValue(
                    (*was_given("kind", self.kind), " with ", Argument("modes")),
                    "these say that the file lists entries",
                    "leave one of both out",
                )
        check_unlisted(self.unlisted)
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

    def refuse_unlisted(self) -> None:
        """Refuse what is said about entries that are not listed, for a file that holds all."""
        if self.unlisted != "zero":
            raise InvalidValue(
                was_given("unlisted", self.unlisted),
                "it is for pairs and other lists of entries",
                "leave it out",
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
    """Return the message for a file that a library could not read, with its first line."""
    lines = str(error).splitlines()
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    return f"the file could not be read ({reason}); check that it is what its name says"
