# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""By how much the log likelihood of a line changes with its level, its components staying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.sampler.level_weights import place, softplus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.sampler.level_weights import Points


@jit
def level_changes(
    uncovered: NDArray[np.uint32], known: NDArray[np.uint32], n_ones: Index,
    values: NDArray[np.float64], jumps: NDArray[np.float64], before: NDArray[np.float64],
    after: NDArray[np.float64], points: Points, lines: Index,
) -> NDArray[np.float64]:  # fmt: skip
    """Return what some lines gain by other levels, and by other jumps.

    Parameters
    ----------
    uncovered, known, n_ones
        Counts of entries of all lines (:class:`thali.engines.base.LineCounts`).
    values, jumps
        Log odds of the classes of columns without cover, and their jumps, or one for all.
    before, after
        ``(2, n_lines)``: the levels of all lines, and their jumps beside those of the classes.
    points
        The lattice of all log odds, as a plain tuple.
    lines
        The lines in question.
    """
    gains = np.empty(lines.shape[0])
    for i in range(lines.shape[0]):
        line = lines[i]
        old, new = before[0, line], after[0, line]
        old_jump, new_jump = before[1, line], after[1, line]
        of_known = known[line] if known.shape[0] > 1 else known[0]
        gain = (new - old) * n_ones[0, line]
        gain += (new + new_jump - old - old_jump) * n_ones[1, line]
        for c in range(values.shape[0]):
            if of_known[c] == 0:
                continue
            jump = jumps[c] if jumps.shape[0] > 1 else jumps[0]
            n_uncovered = np.float64(uncovered[line, c])
            n_covered = np.float64(of_known[c]) - n_uncovered
            if n_uncovered > 0.0:
                x = values[c]
                gain -= n_uncovered * (term(x + new, points) - term(x + old, points))
            if n_covered > 0.0:
                x = values[c] + jump
                gain -= n_covered * (
                    term(x + new + new_jump, points) - term(x + old + old_jump, points)
                )
        gains[i] = gain
    return gains


@inner
def term(x: float, points: Points) -> float:
    """Return log(1 + exp(x)), from the lattice if there is one."""
    if points[0].shape[0]:
        return points[0][place(x, points)]
    return softplus(x)
