"""Names that are safe to show: without characters that reorder text or that start a formula.

Names come from files that somebody else may have written. A character that turns the direction of
text makes a page or a table say something else than it holds, and a spreadsheet program computes
what begins like a formula.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thali.posterior.posterior import Posterior

_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_KEPT = tuple(map(ord, "\t\n\r"))  # a table may have them within quotes
_VISIBLE = {code: f"\\u{code:04x}" for code in (*_DIRECTIONS, *_CONTROLS) if code not in _KEPT}
_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are their wide forms


def visible(text: str) -> str:
    r"""Return a text with characters that turn its direction, or control a device, written out.

    Examples
    --------
    >>> visible("abc\u202edef")
    'abc\\u202edef'
    """
    return text.translate(_VISIBLE)


def in_spreadsheet(value: Any) -> Any:
    r"""Return a value so that no spreadsheet program takes it for a formula.

    A text that could be one gets an apostrophe before it, which such programs do not show.
    Carriage returns become line feeds: before Python 3.13, CSV writers did not put them in
    quotes, so that what follows would begin a line, and could be a formula.

    Examples
    --------
    >>> in_spreadsheet("=1+1"), in_spreadsheet("duck"), in_spreadsheet(-1)
    ("'=1+1", 'duck', -1)
    >>> in_spreadsheet("a\r=1+1")
    'a\n=1+1'
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULAS) else text


def with_visible_names(posterior: Posterior) -> Posterior:
    """Return the same posterior with all names of modes and rows made visible."""
    shown = copy.copy(posterior)
    shown.mode_names = tuple(map(visible, posterior.mode_names))
    shown.row_names = tuple(
        None if names is None else tuple(map(visible, names)) for names in posterior.row_names
    )
    return shown
