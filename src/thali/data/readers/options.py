"""The options with which a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from thali.checks import count
from thali.data.binarize import check_threshold
from thali.data.binary import BinaryTensor, check_names
from thali.data.long_tables import check_modes, check_unlisted
from thali.data.readers.open import TextFile
from thali.data.row_part import RowPart
from thali.errors import InvalidType, InvalidValue, ThaliError
from thali.sentences import Argument, Setting, was_given
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from thali.data.entries import Entries
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
    encoding: str | None = None
    skip: int = 0
    names: str | None = None
    drop: tuple[str, ...] = ()
    ones: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    own: Callable[[int], tuple[int, int]] | None = None
    """Which rows to read, given their number; readers that cannot choose read all."""

    def rows(self, n_rows: int) -> tuple[int, int]:
        """Return the first row to read, and the row after the last."""
        return (0, n_rows) if self.own is None else self.own(n_rows)

    def labelled(
        self,
        ones: Entries,
        unknown: Entries | None,
        mode_names: tuple[str, ...],
        row_names: tuple[tuple[str, ...] | None, ...],
        n_rows: int,
        *,
        has_own_names: bool = False,
    ) -> BinaryTensor | RowPart:
        """Return the tensor, or the rows of it that were to be read.

        The names of its rows are those of all rows, or of the rows that were read.
        """
        if self.own is None:
            return BinaryTensor(ones, unknown, mode_names, row_names)
        (lo, hi), first = self.rows(n_rows), row_names[0]
        if has_own_names:
            check_names(ones.shape, mode_names, row_names)
        else:
            check_names((n_rows, *ones.shape[1:]), mode_names, row_names)
            first = None if first is None else first[lo:hi]
        return RowPart(ones, unknown, mode_names, (first, *row_names[1:]), lo, n_rows)

    def text(self, path: Path) -> TextFile:
        """Return a text file, and how to read it."""
        return TextFile(path, self.encoding, self.skip)

    def check(self) -> None:
        """Refuse options whose values make no sense, whatever the file is."""
        n_threads(self.threads)
        check_threshold(self.binarize)
        count("skip", self.skip)
        self._check_encoding()
        self._check_words()
        for name in ("layer", "array", "sheet", "names"):
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
        for name in ("missing", "ones", "zeros", "drop"):
            value = getattr(self, name)
            if not all(isinstance(text, str) for text in value):
                raise InvalidType(
                    was_given(name, value), "a list of strings is needed", "quote them"
                )

    def _check_encoding(self) -> None:
        if self.encoding is None:
            return
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError):
            raise InvalidValue(
                was_given("encoding", self.encoding),
                "allowed are the encodings of Python, such as 'latin-1', 'cp1252' or 'utf-16'",
                "choose one, or none for UTF-8",
            ) from None

    def _check_words(self) -> None:
        """Refuse words that mean two things, and words where numbers are compared."""
        means: dict[str, str] = {}
        for name in ("ones", "zeros", "missing"):
            for word in getattr(self, name):
                if means.setdefault(word, name) != name:
                    raise InvalidValue(
                        (*was_given(name, word), " and as ", Argument(means[word])),
                        "a word means one of them",
                        "leave one of both out",
                    )
        for name in ("ones", "zeros"):
            if getattr(self, name) and self.binarize is not None:
                raise InvalidValue(
                    (*was_given(name, getattr(self, name)), " with ", Argument("binarize")),
                    "entries are words, or numbers that are compared with a threshold",
                    "leave one of both out",
                )

    def empty(self) -> ValueError:
        """Return the error about a file that has no lines, or none after those to be skipped."""
        if self.skip > 0:
            return ValueError(f"no line is left without the first {self.skip}; skip fewer lines")
        return ValueError("it is empty; check that it was written")

    def refuse_unlisted(self) -> None:
        """Refuse what is said about entries that are not listed, for a file that holds all."""
        if self.unlisted != "zero":
            raise InvalidValue(
                was_given("unlisted", self.unlisted),
                "it is for pairs and other lists of entries",
                "leave it out",
            )

    def refuse_columns(self) -> None:
        """Refuse what is said about columns of entries, for a file that lists entries."""
        name = "names" if self.names is not None else "drop"
        if self.names is not None or self.drop:
            raise InvalidValue(
                was_given(name, getattr(self, name)),
                "it is for tables, which have a column for each column of the data",
                "leave it out",
            )


def columns_named(header: list[str] | None, argument: str, given: Sequence[str]) -> list[int]:
    """Return the places of columns that the user names, or refuse a name that there is not."""
    if header is None:
        raise InvalidValue(
            was_given(argument, _of(given)),
            "the table has no line of column names",
            ("add one, or give ", Setting("kind", "table"), " if its first line is one"),
        )
    for name in given:
        if name not in header:
            some = ", ".join(map(repr, header[:10])) + (", …" if len(header) > 10 else "")
            raise InvalidValue(
                was_given(argument, name), f"its columns are {some}", "choose one of them"
            )
    return [header.index(name) for name in given]


def _of(given: Sequence[str]) -> Any:
    return given[0] if len(given) == 1 else tuple(given)


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
