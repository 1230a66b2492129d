"""Read zeros, ones and unknown entries from text."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binarize import GIVE_THRESHOLD
from thali.data.readers.text import Fields, group_by_length
from thali.errors import InvalidValue
from thali.sentences import Argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from thali.data.readers.options import Options
    from thali.sentences import Part

log = logging.getLogger("thali")

ZERO, ONE, UNKNOWN, BAD = range(4)
NO_NUMBER = -math.inf  # stands for text; no entry is so small

_UNKNOWN = {"", "na", "nan", "n/a", "#n/a", "<na>", "null", "none"}
_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_INFINITE = {"inf": math.inf, "infinity": math.inf}
_DIGITS = b"0123456789"
_LONGEST = 64  # length of a number in bytes; longer text is not read as a number


class Spelling:
    """The ways to write an entry: 0, 1, true, false, yes, no, and marks of unknown entries.

    Parameters
    ----------
    threshold
        If given, every number is an entry; numbers above the threshold are ones and the others
        zeros.
    missing
        Further strings that mark unknown entries; they must match exactly.
    ones, zeros
        Further strings that are ones and zeros, in the same way.
    """

    def __init__(
        self,
        threshold: float | None = None,
        missing: Sequence[str] = (),
        ones: Sequence[str] = (),
        zeros: Sequence[str] = (),
    ) -> None:
        self.threshold = threshold
        self._given = {
            text.strip(): value
            for texts, value in ((missing, math.nan), (ones, 1.0), (zeros, 0.0))
            for text in texts
        }
        self._octets = [text.encode() for text in self._given]
        self._unseen = dict.fromkeys(self._given)  # a set that keeps its order
        # What every field of one byte means; the zero byte stands for an empty field.
        singles = ["", *map(chr, range(1, 256))]
        self._singles = np.array([self._value(text) for text in singles])
        self._single_codes = self._codes(self._singles)

    @classmethod
    def of(cls, options: Options) -> Spelling:
        """Return how entries are written, as the user says."""
        return cls(options.binarize, options.missing, options.ones, options.zeros)

    def tell_unseen(self) -> None:
        """Say which of the given texts no entry has; these may have a typing error."""
        if self._unseen:
            shown = " or ".join(map(repr, self._unseen))
            log.warning(
                "no entry reads %s, although this was given; check how it is written", shown
            )

    def is_entry(self, text: str) -> bool:
        """Return whether a text is an entry."""
        value = self._value(text)
        if self.threshold is None:
            return value in (0.0, 1.0) or value != value  # noqa: PLR0124 - NaN is unknown
        return value != NO_NUMBER

    def codes(self, fields: Fields) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the code of every field (ZERO, ONE, UNKNOWN or BAD), and whether it is a word."""
        self._note(fields)
        codes = _of_singles(fields, self._single_codes)
        is_word = np.zeros(len(codes), np.bool_)
        for at, values, are_words in self._longer(fields):
            codes[at], is_word[at] = self._codes(values), are_words
        return codes, is_word

    def values(self, fields: Fields) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the number in every field, and whether it is a word, such as true or no.

        The number is NaN if the field is unknown, and NO_NUMBER if it is something else.
        """
        numbers = _of_singles(fields, self._singles)
        is_word = np.zeros(len(numbers), np.bool_)
        for at, values, are_words in self._longer(fields):
            numbers[at], is_word[at] = values, are_words
        return numbers, is_word

    def _note(self, fields: Fields) -> None:
        """Remember which of the given texts were seen."""
        for text, octets in zip(self._given, self._octets, strict=True):
            if text in self._unseen:
                at = fields.starts[fields.ends - fields.starts == len(octets)]
                for place, octet in enumerate(octets):
                    at = at[fields.block.data[at + place] == octet]
                if len(at):
                    del self._unseen[text]

    def _longer(
        self, fields: Fields
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]]:
        """Yield the places, numbers and wordiness of fields of more than one byte."""
        longer = np.flatnonzero(fields.ends - fields.starts > 1)
        rest = fields._replace(starts=fields.starts[longer], ends=fields.ends[longer])
        for which, texts in group_by_length(rest):
            if texts.dtype.itemsize <= _LONGEST:
                yield longer[which], *self._values(texts)
            else:
                no = np.full(len(which), NO_NUMBER)
                yield longer[which], no, np.zeros(len(which), np.bool_)

    def _values(self, texts: NDArray[np.bytes_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Read texts of equal length as :meth:`_value` does; find those that are words."""
        octets = texts.view(np.uint8).reshape(len(texts), -1)
        is_digit = np.isin(octets, np.frombuffer(_DIGITS + b".eE+-", np.uint8))
        is_plain = np.logical_and.reduce(is_digit, axis=1)
        if self._octets:
            is_plain &= ~np.isin(texts, self._octets)
        values = np.empty(len(texts))
        try:
            values[is_plain] = texts[is_plain].astype(np.float64)
        except ValueError:
            is_plain[:] = False
        is_word = np.zeros(len(texts), np.bool_)
        distinct, inverse = np.unique(texts[~is_plain], return_inverse=True)
        spelled = [text.decode("utf-8", "replace") for text in distinct.tolist()]
        values[~is_plain] = np.array([self._value(text) for text in spelled], float)[inverse]
        is_bool = [self._is_word(text) for text in spelled]
        is_word[~is_plain] = np.array(is_bool, bool)[inverse]
        return values, is_word

    def _is_word(self, text: str) -> bool:
        """Return whether a text of several letters is a word for one or zero."""
        value = self._given.get(text)
        if value is None:
            return text.lower() in _WORDS
        return value in (0.0, 1.0) and not text[-1:].isdigit()

    def _value(self, text: str) -> float:
        """Read a text as a number: NaN if it is unknown, NO_NUMBER if it is something else."""
        text = text.strip()
        lower = text.lower()
        if text in self._given:
            return self._given[text]
        if lower in _UNKNOWN:
            return math.nan
        if lower in _WORDS or lower in _INFINITE:
            return (_WORDS | _INFINITE)[lower]
        try:
            value = float(text) if text.isascii() and "_" not in text else NO_NUMBER
        except ValueError:
            value = NO_NUMBER
        return value

    def _codes(self, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Turn numbers from :meth:`values` into codes."""
        is_unknown = np.isnan(values)
        if self.threshold is None:
            codes = np.select([is_unknown, values == 0, values == 1], [UNKNOWN, ZERO, ONE], BAD)
        else:
            is_number = values > NO_NUMBER
            codes = np.where(is_number, values > self.threshold, BAD)
            codes = np.where(is_unknown, UNKNOWN, codes)
        return codes.astype(np.uint8)

    def refusal(self, text: str, where: str, *advice: str | Part) -> InvalidValue:
        """Return the error for a text that is not an entry; it says what to do about it."""
        shown, remedy = text[:40], GIVE_THRESHOLD
        if self._value(text) == NO_NUMBER:
            shown = repr(shown)
            remedy = ("replace it, or give it as ", Argument("missing"), " if it means unknown")
            if self.threshold is None:
                both = Argument("ones"), " or ", Argument("zeros")
                remedy = (*remedy, ", as ", *both, " if it is a word for one or zero")
        own = [text for text, value in self._given.items() if text and value in (0.0, 1.0)]
        words = ", ".join(["0, 1, true, false, yes, no", *own])
        allowed = words if self.threshold is None else "numbers"
        return InvalidValue(
            f"it holds {shown} at {where}",
            f"allowed are {allowed}, and empty or NA for unknown",
            (*remedy, *advice),
        )


def _of_singles(fields: Fields, table: NDArray[Any]) -> NDArray[Any]:
    """Look up what the first byte of every field means if it is the only one."""
    is_full = fields.ends > fields.starts
    return table[fields.block.data[fields.starts] * is_full]


def whole_numbers(fields: Fields) -> NDArray[np.int64]:
    """Read fields of digits; return -1 for other fields and for numbers beyond 18 digits."""
    numbers = np.full(len(fields.starts), -1, np.int64)
    digits = np.frombuffer(_DIGITS, np.uint8)
    for which, texts in group_by_length(fields):
        if texts.dtype.itemsize < 19:
            octets = texts.view(np.uint8).reshape(len(texts), -1)
            value = np.zeros(len(texts), np.int64)
            for column in octets.T:
                value = value * 10 + (column.astype(np.int64) - digits[0])
            is_number = ((octets >= digits[0]) & (octets <= digits[-1])).all(axis=1)
            numbers[which] = np.where(is_number, value, -1)
    return numbers
