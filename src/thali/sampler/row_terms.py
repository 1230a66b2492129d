# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What the entries of many rows are worth at their levels, in integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@jit
def subtract_terms(
    scores: Index, levels: Index, uncovered: NDArray[np.uint32], known: NDArray[np.uint32],
    of_uncovered: Index, of_covered: Index,
) -> None:  # fmt: skip
    """Subtract from the score of every row one term per known entry.

    ``of_uncovered`` and ``of_covered`` are terms by level of the row and class of column;
    ``known`` has one row if it is the same for all.
    """
    for row in range(scores.shape[0]):
        of_known = known[row] if known.shape[0] > 1 else known[0]
        level, total = levels[row], np.int64(0)
        for c in range(uncovered.shape[1]):
            n = np.int64(uncovered[row, c])
            total += n * of_uncovered[level, c]
            total += (np.int64(of_known[c]) - n) * of_covered[level, c]
        scores[row] -= total
