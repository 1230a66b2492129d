# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""What the entries of lines are worth at their levels, in integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@jit
def subtract_terms(
    scores: Index, of_lines: Index, uncovered: NDArray[np.uint32], known: NDArray[np.uint32],
    of_uncovered: Index, of_covered: Index,
) -> None:  # fmt: skip
    """Subtract from the score of every line one term per known entry.

    ``of_uncovered`` and ``of_covered`` are terms by class of line, ``of_lines``, and class of
    what crosses it; ``known`` has one row if it is the same for all lines.
    """
    for line in range(scores.shape[0]):
        of_known = known[line] if known.shape[0] > 1 else known[0]
        own, total = of_lines[line], np.int64(0)
        for c in range(uncovered.shape[1]):
            n = np.int64(uncovered[line, c])
            total += n * of_uncovered[own, c]
            total += (np.int64(of_known[c]) - n) * of_covered[own, c]
        scores[line] -= total
