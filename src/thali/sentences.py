"""Sentences whose parts every face says in its own words: Python, the command line, a page.

A phrase is a text, or a tuple of texts and parts. A part is what faces say differently: an
argument (``draws=3`` or ``--draws 3``), or an action (``thali.resume('run')`` or ``thali resume
run``). Whoever raises an error names the parts; whoever shows it chooses the face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path


class Face:
    """How Python says things; other faces override what they say differently.

    A method returns an empty text for what cannot be done on a face.
    """

    def argument(self, name: str) -> str:
        """Name an argument, by the name that it has in Python."""
        return f"`{name}`"

    def setting(self, name: str, value: Any) -> str:
        """Write an argument with its value."""
        return f"{name}={value!r}"

    def resume(self, run: Path | None) -> str:
        """Write how to go on with a run."""
        return "resume(…)" if run is None else f"thali.resume({str(run)!r})"

    def load(self, run: Path | None) -> str:
        """Write how to read a run."""
        return "load(…)" if run is None else f"thali.load({str(run)!r})"

    def load_partially(self) -> str:
        """Write how to read what is whole of a damaged run."""
        return "load(…, partial=True)"

    def sample(self, *, is_kept: bool) -> str:
        """Write how to start a run, which may be kept in a folder."""
        return "sample(out=…)" if is_kept else "sample()"

    def export_tree(self) -> str:
        """Write how to export the draws of tensors of any arity."""
        return "to_datatree()"

    def take_draws(self, draws: int) -> str:
        """Say in a clause how to get more draws per chain."""
        return f"take more draws (draws={draws}, or resume(…, draws={draws}) for a stored run)"


PYTHON = Face()


class Part(Protocol):
    """What faces say differently."""

    def on(self, face: Face) -> str:
        """Return the words of a face."""


Phrase: TypeAlias = "str | Part | tuple[str | Part, ...]"


@dataclass(frozen=True)
class Argument:
    """An argument, by its name in Python."""

    name: str

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.argument(self.name)


@dataclass(frozen=True)
class Setting:
    """An argument, by its name in Python, with a value."""

    name: str
    value: Any

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.setting(self.name, self.value)


@dataclass(frozen=True)
class Resume:
    """Go on with a run: this one, or the one that is spoken of."""

    run: Path | None = None

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.resume(self.run)


@dataclass(frozen=True)
class Load:
    """Read a run: this one, or the one that is spoken of."""

    run: Path | None = None

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.load(self.run)


@dataclass(frozen=True)
class LoadPartially:
    """Read what is whole of a damaged run."""

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.load_partially()


@dataclass(frozen=True)
class Sample:
    """Start a run."""

    is_kept: bool = False

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.sample(is_kept=self.is_kept)


@dataclass(frozen=True)
class ExportTree:
    """Export draws in the form that holds tensors of any arity."""

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.export_tree()


@dataclass(frozen=True)
class TakeDraws:
    """Get more draws, so many per chain."""

    draws: int

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return face.take_draws(self.draws)


class AnyOf:
    """Several clauses, of which a face says those that can be done there.

    Examples
    --------
    >>> damaged = AnyOf((LoadPartially(), " reads them"), (Resume(), " repairs"), joint=" and ")
    >>> say(("3 draws are whole: ", damaged))
    '3 draws are whole: load(…, partial=True) reads them and resume(…) repairs'
    """

    def __init__(self, *clauses: Phrase, joint: str = ", or ") -> None:
        self.clauses = clauses
        self.joint = joint

    def on(self, face: Face) -> str:
        """Return the words of a face."""
        return self.joint.join(filter(None, (say(clause, face) for clause in self.clauses)))


def was_given(name: str, value: Any) -> tuple[str | Part, ...]:
    """Return the clause that says what an argument was.

    Examples
    --------
    >>> say(was_given("draws", 0))
    'draws=0 was given'
    """
    return Setting(name, value), " was given"


def say(phrase: Phrase, face: Face = PYTHON) -> str:
    """Return a phrase in the words of a face; nothing if a part cannot be said on it."""
    parts = phrase if isinstance(phrase, tuple) else (phrase,)
    words = [part if isinstance(part, str) else part.on(face) for part in parts]
    is_said = all(word or isinstance(part, str) for word, part in zip(words, parts, strict=True))
    return "".join(words) if is_said else ""


def capitalized(clause: str) -> str:
    """Begin a sentence with a clause."""
    return f"{clause[:1].upper()}{clause[1:]}"
