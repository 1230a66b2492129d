"""Grids of levels for tests: one with a lattice, and one without."""

import numpy as np

from thali.model import Effects

FINE = Effects(
    row_levels=tuple(np.arange(-6, 7) / 4.0),
    column_levels=tuple(np.arange(-9, 5) / 4.0),
    jump_sizes=tuple(1.0 + np.arange(9) / 4.0),
    jump_stride=2,
    offsets=(-0.25, 0.0, 0.25),
    spreads=(0.0, 0.6, 1.2),
)
UNEVEN = Effects(
    row_levels=(-np.pi / 2, 0.0, 1.0), column_levels=(-2.0, -1.1, 0.3), jump_sizes=(1.0, 1.6, 2.9),
    jump_stride=2, offsets=(-0.2, 0.1), spreads=(0.0, 0.6, 1.2),
)  # fmt: skip
