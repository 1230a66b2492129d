"""Names in lists of ones: in which order rows with names come, and what columns are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

VALUES = {"value", "entry", "rating", "count"}
"""What a column is called, in any case and also with id or in the plural, that holds entries."""


def stem(name: str) -> str:
    """Return the name of a column in lower case, without id and without an s at the end.

    Examples
    --------
    >>> stem("User_ID"), stem("ratings")
    ('user', 'rating')
    """
    stem = name.strip().lower()
    if stem not in ("id", "_id"):
        stem = stem.removesuffix("id").rstrip("_ ")
    return stem.removesuffix("s")


def order_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the order of distinct names: as they came, or by value if all are whole numbers.

    Examples
    --------
    >>> order_of(["10", "9"]).tolist(), order_of(["ten", "9"]).tolist()
    ([1, 0], [0, 1])
    """
    if all(name.isascii() and name.isdigit() for name in names):
        return np.array(sorted(range(len(names)), key=lambda i: int(names[i])), np.int64)
    return np.arange(len(names))
