"""Checks of arguments before anything is computed; each error is one sentence."""

from __future__ import annotations

import operator
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import InvalidValue
from thali.sentences import was_given

if TYPE_CHECKING:
    from collections.abc import Sequence


_MOST = 2**63 - 1
"""Largest count: NumPy's integers end there."""


def positive(name: str, value: Any) -> float:
    """Return a positive finite number; raise an error if the value is none."""
    if not is_number(value) or not float(value) > 0.0:
        raise InvalidValue(
            was_given(name, value), "allowed are finite numbers above 0", "choose one"
        )
    return float(value)


def probability(name: str, value: Any, lower: float = 0.0, upper: float = 1.0) -> float:
    """Return a number strictly between two bounds; raise an error if the value is none."""
    if not is_number(value) or not lower < float(value) < upper:
        raise InvalidValue(
            was_given(name, value),
            f"allowed are numbers strictly between {lower:g} and {upper:g}",
            "choose one of those",
        )
    return float(value)


def shape_parameters(name: str, pair: Any) -> None:
    """Check that a Beta or Gamma prior is given as two positive numbers."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InvalidValue(
            was_given(name, pair),
            "a prior is two positive numbers, such as (1.0, 1.0)",
            "give a pair",
        )
    for value in pair:
        positive(name, value)


def count(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """Return an integer of ``least`` to ``most``; raise an error if the value is none."""
    limit = _MOST if most is None else most
    if not is_integer(value) or not least <= value <= limit:
        is_open = most is None and not (is_integer(value) and value > limit)
        on = "on" if is_open else f"to {limit}"
        raise InvalidValue(
            was_given(name, value), f"allowed are integers from {least} {on}", "choose one"
        )
    return int(value)


def switch(name: str, value: Any) -> None:
    """Raise an error if a value is neither True nor False; stored settings have 1.0 and 0.0."""
    if not (isinstance(value, (bool, np.bool_, int, float)) and value in (0, 1)):
        raise InvalidValue(was_given(name, value), "allowed are True and False", "choose one")


def mode_number(mode: Any, mode_names: Sequence[str]) -> int:
    """Return the number of a mode that is given by its number or its name."""
    if isinstance(mode, str) and mode in mode_names:
        return mode_names.index(mode)
    if is_integer(mode) and 0 <= mode < len(mode_names):
        return int(mode)
    raise InvalidValue(
        was_given("mode", mode),
        f"allowed are 0 to {len(mode_names) - 1}, or the names {', '.join(mode_names)}",
        "choose one",
    )


def is_integer(value: Any) -> bool:
    """Return whether a value is one integer (True and False do not count as numbers)."""
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Return whether a value is a finite real number (True and False do not count)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False
