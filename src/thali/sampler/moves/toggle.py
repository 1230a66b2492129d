"""Let the users of one component join or leave another (eq. 17 with users toggled).

If rows that have a component K always have T or N as well, the components T, "T or K", N and
"N or K" describe them as well as T, N and K. To go from one description to the other, all rows
with "T or K" must join T at once, and the code of "T or K" must lose the columns of T. This move
chooses an ordered pair of components and toggles the membership in the first of all users of the
second: users of both leave the first, users of the second alone join it. It is its own inverse, so
that the proposal cancels, and both codes are summed out.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali.sampler.moves.move import SumOut
from thali.sampler.moves.proposal import NOTHING, Proposal, atoms, log_rate, pick, size_of
from thali.sites import Site, ToggleIndex

if TYPE_CHECKING:
    from thali.sampler.moves.move import Attempt

N_TOGGLE = ToggleIndex.DECISION + 3
_AFTER = np.array([0b011, 0b110])
"""Classes that use each component after the move: users of the first alone, of the second alone,
and of both, as the bits of a number."""


class Toggle(SumOut):
    """Toggle the membership in one component of all users of another."""

    name: ClassVar = "toggle"
    codes: ClassVar = Site.TOGGLE_CODES
    density: ClassVar = None  # no component is new

    def propose(self, attempt: Attempt) -> Proposal:
        """Choose an ordered pair of components, and toggle."""
        stream, number, state, target = attempt
        n, n_rows = state.n_components, target.shape[0]
        if n < 2:
            return NOTHING
        uniforms = stream.uniforms(Site.TOGGLE, N_TOGGLE, row=int(number)).tolist()
        first = pick(uniforms[ToggleIndex.FIRST], n)
        second = pick(uniforms[ToggleIndex.SECOND], n - 1)
        second += second >= first
        before = state.factors[0].words[[first, second]]
        after = np.stack([before[0] ^ before[1], before[1]])
        n_before, n_after = size_of(before[0]), size_of(after[0])
        if target.priors.buffet is None:
            density = state.densities[0]
            rate = float(density if density.ndim == 0 else density[first])
            ratio = (n_after - n_before) * (log(rate) - log1p(-rate))
        elif n_after == 0:
            return NOTHING  # a component without users does not exist
        else:
            ratio = log_rate(n_after, n_rows) - log_rate(n_before, n_rows)
        classes, members = atoms(before)
        decision = tuple(uniforms[ToggleIndex.DECISION :])
        return Proposal(
            True, np.array([first, second]), (after,), ratio, decision, classes, members, _AFTER
        )


TOGGLE = Toggle()
