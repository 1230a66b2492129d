"""Gains by the bits of a factor, one component after another, on any engine.

On the threads of this machine, one kernel does the same
(:mod:`thali.engines.cpu.score_bits`). Here every component is a question of its own about all
rows, wherever the data are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali.bits import Factor
from thali.engines.base import Cover
from thali.model.gains import plain_gains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine
    from thali.model import Weights


def score_bits(
    engine: Engine, mode: int, rows: Index | None, codes: Factor, before: Factor, after: Factor,
    weights: Weights,
) -> NDArray[np.float64]:  # fmt: skip
    """Return what :meth:`thali.engines.base.Engine.score_bits` does."""
    n, n_rows = codes.n_components, before.n_rows
    scores = np.empty((n_rows, n))
    lines, is_counted = before.words.copy(), np.ones(n, np.bool_)
    for component in range(n):
        is_counted[component] = False
        cover = Cover(codes, Factor(lines.copy(), n_rows), is_counted.copy())
        own = codes.words[component : component + 1]
        if weights.has_classes:
            gains = engine.gains_by_class(mode, (0, n_rows), cover, own, weights)
        else:
            counts = engine.count_by_class(mode, (0, n_rows), cover, own)
            gains = plain_gains(counts, *weights.pair())
        scores[:, component] = gains[:, 0]
        is_counted[component] = True
        lines[component] = after.words[component]
    return scores if rows is None else scores[rows]
