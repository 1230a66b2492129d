"""Prove a bound, or find a smaller cover, by an integer program over all maximal rectangles."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from thali.optimize.covers.rectangles import entries_of_rectangles, list_rectangles

if TYPE_CHECKING:
    from thali.bits.words import Words
    from thali.optimize.covers.table import Table

_NODES = 1000
"""Size of the solver's search tree if no time is given."""
_ROUNDING = 1e-6
"""Error of the solver, far below the distance between two numbers of components."""


class Answer(NamedTuple):
    """What the integer program found out."""

    lower_bound: int
    cover: tuple[Words, Words] | None
    """Users and codes of the best cover, if the solver found any."""


def solve_program(table: Table, most: int, seconds: float | None) -> Answer | None:
    """Choose the fewest maximal rectangles that cover all entries; None if there are too many.

    The bound is what the solver has proven in the time given, or in a number of steps that does
    not depend on the machine if no time is given.
    """
    if min(table.shape) == table.shape[1]:
        users, codes, n = list_rectangles(table.rows, table.columns, most)
    else:
        codes, users, n = list_rectangles(table.columns, table.rows, most)
    if n > most:
        return None
    users, codes = users[:n], codes[:n]
    starts, entries = entries_of_rectangles(users, codes, table.row_of, table.column_of)
    shape = (n, len(table.row_of))
    inside = csr_array((np.ones(len(entries)), entries, starts), shape).T.tocsr()
    limit: Any = {"node_limit": _NODES} if seconds is None else {"time_limit": seconds}
    answer = milp(
        np.ones(n),
        integrality=np.ones(n),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(inside, lb=1.0),
        options=limit,
    )
    bound: Any = answer.get("mip_dual_bound")
    is_bound = bound is not None and np.isfinite(bound)
    cover = None
    if answer.x is not None:
        chosen = answer.x > 0.5
        if (inside @ chosen >= 1.0).all():
            cover = users[chosen], codes[chosen]
    return Answer(ceil(bound - _ROUNDING) if is_bound else 0, cover)
