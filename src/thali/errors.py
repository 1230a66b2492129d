"""Errors and warnings that a caller may want to catch, and the guard for optional modules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from thali.sentences import PYTHON, Setting, say

if TYPE_CHECKING:
    from types import ModuleType

    from thali.sentences import Face, Phrase

__all__ = [
    "EngineUnavailable",
    "InvalidType",
    "InvalidValue",
    "MissingLibrary",
    "NotConverged",
    "NotWritten",
    "RunExists",
    "RunNotFound",
    "StoppedEarly",
    "ThaliError",
    "TraceDamaged",
    "TraceMismatch",
    "not_written",
    "require",
]


class ThaliError(Exception):
    """Base class of errors that say what was given, what is allowed and what to do.

    The Python interface and the command line phrase the sentence differently
    (:meth:`sentence`). Every error of this family is also a built-in one (ValueError, OSError,
    ...).

    Parameters
    ----------
    given, allowed, remedy
        The three clauses of the sentence; the last two may be left out.
    about
        What the sentence is about, such as the name of a file.

    Examples
    --------
    >>> from thali.sentences import Argument, was_given
    >>> error = InvalidValue(
    ...     was_given("draws", 0),
    ...     "allowed are integers from 1 on",
    ...     ("leave ", Argument("draws"), " out"),
    ... )
    >>> str(error)
    'draws=0 was given; allowed are integers from 1 on; leave `draws` out.'
    >>> error.argument
    Setting(name='draws', value=0)
    """

    _fields: tuple[str, ...] = ("given", "allowed", "remedy", "about")

    def __init__(
        self, given: Phrase, allowed: Phrase = "", remedy: Phrase = "", *, about: str = ""
    ) -> None:
        self.given = given
        self.allowed = allowed
        self.remedy = remedy
        self.about = about
        super().__init__(self.sentence())

    @property
    def argument(self) -> Setting | None:
        """The wrong argument and its value; None if the error is not about an argument."""
        parts = self.given if isinstance(self.given, tuple) else (self.given,)
        return next((part for part in parts if isinstance(part, Setting)), None)

    def sentence(self, face: Face = PYTHON) -> str:
        """Return the message as one sentence, phrased for a face."""
        clauses = (say(clause, face) for clause in (self.given, self.allowed, self.remedy))
        text = "; ".join(filter(None, clauses)).rstrip(".")
        return f"{self.about}: {text}." if self.about else f"{text}."

    def __str__(self) -> str:
        return self.sentence()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **{name: getattr(self, name) for name in self._fields}), ()


class InvalidValue(ThaliError, ValueError):  # noqa: N818 - it reads as the state that it reports
    """Raised when the value of an argument, or the content of a file, is not allowed."""


class InvalidType(ThaliError, TypeError):  # noqa: N818 - as above
    """Raised when the type of an argument is not allowed."""


class RunExists(ThaliError, FileExistsError):  # noqa: N818 - as above
    """Raised when the folder for a new run exists already and is not empty."""


class RunNotFound(ThaliError, FileNotFoundError):  # noqa: N818 - as above
    """Raised when a path does not lead to a stored run."""


class MissingLibrary(ThaliError, ImportError):  # noqa: N818 - as above
    """Raised when something needs an optional library that is absent, or another version of it."""

    _fields = (*ThaliError._fields, "name")

    def __init__(
        self,
        given: Phrase,
        allowed: Phrase = "",
        remedy: Phrase = "",
        *,
        about: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(given, allowed, remedy, about=about)
        self.name = name


class EngineUnavailable(MissingLibrary):
    """Raised when an engine needs a device, memory or a library that is absent."""


class TraceMismatch(ThaliError, ValueError):  # noqa: N818 - as above
    """Raised when a stored trace does not belong to the tensor or settings it is used with."""


class TraceDamaged(ThaliError, ValueError):  # noqa: N818 - as above
    """Raised when a file of a stored run is missing, cut off or altered."""


class NotWritten(ThaliError, OSError):  # noqa: N818 - as above
    """Raised when a file of a run could not be written: ``errno`` and ``strerror`` say why."""

    _fields = (*ThaliError._fields, "errno", "strerror")

    def __init__(
        self,
        given: Phrase,
        allowed: Phrase = "",
        remedy: Phrase = "",
        *,
        about: str = "",
        errno: int | None = None,
        strerror: str | None = None,
    ) -> None:
        super().__init__(given, allowed, remedy, about=about)
        self.errno = errno
        self.strerror = strerror


class _NotPermitted(NotWritten, PermissionError):  # noqa: N818 - as above
    """Raised when a file could not be written because permission was denied."""


class NotConverged(UserWarning):
    """Warns that the chains disagree, so that summaries may not describe the posterior.

    Its argument is a :class:`~thali.posterior.verdict.Verdict`, whose ``str`` is the message.
    """


@dataclass(frozen=True)
class StoppedEarly:
    """Message that is logged when the user stopped a run; logs show its ``str``."""

    n_draws: int  # per chain
    asked: int  # per chain

    def __str__(self) -> str:
        draws = "draw" if self.asked == 1 else "draws"
        return f"stopped early, after {self.n_draws} of {self.asked} {draws} per chain."


def not_written(error: OSError, what: str, remedy: Phrase) -> NotWritten:
    """Return an error of the system as NotWritten; denied permission stays a PermissionError."""
    kind = _NotPermitted if isinstance(error, PermissionError) else NotWritten
    reason = error.strerror or str(error)
    return kind(f"{what} ({reason})", remedy=remedy, errno=error.errno, strerror=reason)


def require(
    module: str, extra: str, *, error: type[MissingLibrary] = MissingLibrary
) -> ModuleType:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module
        Dotted name of the module.
    extra
        Name of the extra of this package that installs it.
    error
        Type of the error that is raised if it is missing.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingLibrary
        If the module, or another module that it imports, is missing.
    """
    try:
        return import_module(module)
    except ImportError as reason:
        raise error(
            f"{module} is needed here but cannot be imported ({reason})",
            remedy=f'install it with `pip install "thali[{extra}]"`',
            name=module,
        ) from reason
