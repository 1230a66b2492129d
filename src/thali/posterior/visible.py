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
    """Return a value so that no spreadsheet program takes it for a formula.

    A text that could be one gets an apostrophe before it, which such programs do not show.

    Examples
    --------
    >>> in_spreadsheet("=1+1"), in_spreadsheet("duck"), in_spreadsheet(-1)
    ("'=1+1", 'duck', -1)
    """
    is_formula = isinstance(value, str) and value.startswith(_FORMULAS)
    return f"'{value}" if is_formula else value


def with_visible_names(posterior: Posterior) -> Posterior:
    """Return the same posterior with all names of modes and rows made visible."""
    shown = copy.copy(posterior)
    shown.mode_names = tuple(map(visible, posterior.mode_names))
    shown.row_names = tuple(
        None if names is None else tuple(map(visible, names)) for names in posterior.row_names
    )
    return shown
