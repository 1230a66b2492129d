"""Find out what separates the fields of a text file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.readers.text import Block, blocks, is_quoted
from thali.errors import InvalidValue
from thali.sentences import Argument, was_given

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.data.readers.open import TextFile

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""What separates fields in files with these endings, unless their lines say something else."""

SIGNS = ",;\t|"
"""What may separate fields without being asked for."""

_NAMES = {"tab": "\t", "\\t": "\t", "space": " "}
_OF_NUMBERS_AND_NAMES = "\"'.+-_"
_N_LINES = 100  # that are looked at


def given_separator(given: Any) -> str | None:
    r"""Return the separator that the user names, or None if none is named.

    Examples
    --------
    >>> given_separator(";"), given_separator("tab")
    (';', '\t')
    """
    if given is None:
        return None
    sign = _NAMES.get(given, given) if isinstance(given, str) else ""
    is_sign = len(sign) == 1 and sign.isascii() and (sign.isprintable() or sign == "\t")
    if not is_sign or sign.isalnum() or sign in _OF_NUMBERS_AND_NAMES:
        raise InvalidValue(
            was_given("sep", given),
            "allowed is one sign that is no part of numbers or names, such as ';', or 'tab' or "
            "'space'",
            "choose one, or none if the lines of the file show it",
        )
    return sign


def separator_of(file: TextFile, suffix: str, given: str | None) -> str | None:
    """Return what separates the fields of a table or of pairs; None means any blanks.

    It is what the user says; or else what the name of the file says, if every one of the first
    lines has as many of it; or else the only sign of which every line has as many; or else, if the
    first line has none, one of which all later lines have as many.
    """
    sign = given_separator(given)
    if sign is not None:
        return None if sign == " " else sign
    usual = SEPARATORS.get(suffix)
    block = next(blocks(file, quotes=True), None)
    if block is None:
        return usual
    first: list[str] = []  # signs that the first line has
    even: list[str] = []  # signs of which all lines have as many
    for sign in SIGNS if usual is None else usual + SIGNS.replace(usual, ""):
        counts = _counts(block, sign)
        if len(counts) and counts[0]:
            first.append(sign)
            if (counts == counts[0]).all():
                even.append(sign)
        if sign == usual and even:
            return usual
    if len(even) > 1:
        raise InvalidValue(
            f"its fields may be separated by {' or '.join(map(repr, even))}",
            remedy=("give ", Argument("sep")),
        )
    if not first:
        return _below_title(block, usual)
    if usual in first:
        return usual
    return (even or first)[0]


def _below_title(block: Block, usual: str | None) -> str | None:
    """Return the sign of which all lines have as many that have it, or else the usual one."""
    for sign in SIGNS if usual is None else usual + SIGNS:
        counts = _counts(block, sign)
        if len(counts) > 2 and counts[-1] and (counts[counts > 0] == counts[-1]).all():
            return sign
    return usual


def _counts(block: Block, sign: str) -> NDArray[np.int64]:
    """Return how many of a sign the first lines have that are not empty."""
    data = block.data
    is_free = ~is_quoted(data) if block.has_quotes else None
    is_end = data == ord("\n")
    ends = np.flatnonzero(is_end if is_free is None else is_end & is_free)[: 2 * _N_LINES]
    part = data[: ends[-1] + 1]
    is_sign = part == ord(sign)
    if is_free is not None:
        is_sign &= is_free[: len(part)]
    starts = np.concatenate([[0], ends[:-1] + 1])
    counts = np.add.reduceat(is_sign, starts, dtype=np.int64)
    return counts[ends > starts][:_N_LINES]
