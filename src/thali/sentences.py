"""Messages that every face, such as Python or the command line, phrases in its own words.

A phrase is a text, or a tuple of texts and parts. A part is something that faces phrase
differently: an argument (``draws=3`` or ``--draws 3``), or an action (``thali.resume('run')`` or
``thali resume run``). The code that raises an error names the parts; the code that shows the error
chooses the face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Face:
    """The wording of the Python interface; other faces override what they phrase differently.

    A method returns an empty text if the face does not offer the action.
    """

    def argument(self, name: str) -> str:
        """Return the words for an argument, given its name in Python."""
        return f"`{name}`"

    def setting(self, name: str, value: Any) -> str:
        """Return the words for an argument with its value."""
        return f"{name}={value!r}"

    def resume(self, run: Path | None) -> str:
        """Return how to resume a run."""
        return "resume(…)" if run is None else f"thali.resume({str(run)!r})"

    def load(self, run: Path | None) -> str:
        """Return how to read a run."""
        return "load(…)" if run is None else f"thali.load({str(run)!r})"

    def load_partially(self) -> str:
        """Return how to read the intact draws of a damaged run."""
        return "load(…, partial=True)"

    def replace(self) -> str:
        """Return how a new run takes the place of one that exists."""
        return "remove it"

    def sample(self, *, is_kept: bool) -> str:
        """Return how to start a run; with ``is_kept``, one that is stored in a folder."""
        return "sample(out=…)" if is_kept else "sample()"

    def export_tree(self) -> str:
        """Return how to export the draws for tensors of any number of modes."""
        return "to_datatree()"

    def take_draws(self, draws: int) -> str:
        """Return a clause that says how to get more draws per chain."""
        return f"take more draws (draws={draws}, or resume(…, draws={draws}) for a stored run)"

    def one_chain(self, chain: int) -> str:
        """Return how to look at one chain, given its index (from 0)."""
        return f"posterior.chain({chain})"


PYTHON = Face()


class Part(Protocol):
    """A part of a phrase that faces phrase differently."""

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""


Phrase: TypeAlias = "str | Part | tuple[str | Part, ...]"


@dataclass(frozen=True)
class Argument:
    """An argument, given by its name in Python."""

    name: str

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.argument(self.name)


@dataclass(frozen=True)
class Setting:
    """An argument, given by its name in Python, with its value."""

    name: str
    value: Any

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.setting(self.name, self.value)


@dataclass(frozen=True)
class Resume:
    """Resume a run; None stands for the run that the message is about."""

    run: Path | None = None

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.resume(self.run)


@dataclass(frozen=True)
class Load:
    """Read a run; None stands for the run that the message is about."""

    run: Path | None = None

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.load(self.run)


@dataclass(frozen=True)
class LoadPartially:
    """Read the intact draws of a damaged run."""

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.load_partially()


@dataclass(frozen=True)
class Replace:
    """Let a new run take the place of one that exists."""

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.replace()


@dataclass(frozen=True)
class Sample:
    """Start a run."""

    is_kept: bool = False

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.sample(is_kept=self.is_kept)


@dataclass(frozen=True)
class ExportTree:
    """Export draws in a format that holds tensors of any number of modes."""

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.export_tree()


@dataclass(frozen=True)
class TakeDraws:
    """Get more draws: ``draws`` per chain in total."""

    draws: int

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.take_draws(self.draws)


@dataclass(frozen=True)
class OneChain:
    """Look at one chain by itself, given its index (from 0)."""

    chain: int

    def on(self, face: Face) -> str:
        """Return the part in the words of a face."""
        return face.one_chain(self.chain)


class AnyOf:
    """Several clauses; a face shows those whose actions it offers.

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
        """Return the part in the words of a face."""
        return self.joint.join(filter(None, (say(clause, face) for clause in self.clauses)))


def was_given(name: str, value: Any) -> tuple[str | Part, ...]:
    """Return the clause that says which value an argument was given.

    Examples
    --------
    >>> say(was_given("draws", 0))
    'draws=0 was given'
    """
    return Setting(name, value), " was given"


def say(phrase: Phrase, face: Face = PYTHON) -> str:
    """Return a phrase in the words of a face; empty if the face does not offer a part of it."""
    parts = phrase if isinstance(phrase, tuple) else (phrase,)
    words = [part if isinstance(part, str) else part.on(face) for part in parts]
    is_said = all(word or isinstance(part, str) for word, part in zip(words, parts, strict=True))
    return "".join(words) if is_said else ""


def capitalized(clause: str) -> str:
    """Return a clause with its first letter in upper case."""
    return f"{clause[:1].upper()}{clause[1:]}"


# --- numbers and nouns ---------------------------------------------------------------------


def numbered(index: int) -> int:
    """Return the number of a chain or component as every face shows it: counted from 1.

    Indices in Python, of arrays and of arguments, are counted from 0.
    """
    return index + 1


def n_of(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or plural.

    Examples
    --------
    >>> n_of(1, "component"), n_of(12000, "entry")
    ('1 component', '12,000 entries')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun; nouns that end in "s" are taken for plurals.

    Examples
    --------
    >>> [plural(noun) for noun in ("row", "obs", "var", "genes", "entry", "day", "box")]
    ['rows', 'obs', 'vars', 'genes', 'entries', 'days', 'boxes']
    """
    if noun.endswith("s") or not noun[-1:].isalpha():
        return noun
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("x", "z", "ch", "sh")) else f"{noun}s"


def mode_words(mode_names: Sequence[str]) -> list[str]:
    """Return the word for one row of each mode: its name, or row, column, layer without one.

    Examples
    --------
    >>> mode_words(["user", "mode_1"]), mode_words(["mode_0", "mode_1", "mode_2", "mode_3"])[2:]
    (['user', 'column'], ['layer', 'mode-3 row'])
    """
    return [
        name if name != f"mode_{mode}" else _WORDS[mode] if mode < 3 else f"mode-{mode} row"
        for mode, name in enumerate(mode_names)
    ]


def listed(parts: Sequence[str]) -> str:
    """Join parts of a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_WORDS = ("row", "column", "layer")  # words for one row of a mode without a name
