"""Birth and death of a tensor's components that resemble two others (eq. 20 and 21, by mode).

In every mode but the longest, the lines of the new component depend on those of two others: a
line joins at a rate that depends on which of the two has it. The lines of the longest mode are
summed out, for all three.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from thali.bits import Factor, khatri_rao
from thali.bits.words import pack
from thali.sampler.moves.move import SumOut, summed_mode
from thali.sampler.moves.proposal import NOTHING, Proposal, atoms, log_rate, pick
from thali.sites import GuidedIndex, Site, site_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sampler.moves.move import Attempt

_N = GuidedIndex.DECISION + 3


class GuidedBoxes(SumOut):
    """Add a component that resembles two others, or delete a component."""

    name: ClassVar = "guided"
    codes: ClassVar = Site.GUIDED_CODES
    density: ClassVar = None

    def propose(self, attempt: Attempt) -> Proposal:
        """Let the lines of every mode join at rates that depend on two components."""
        stream, number, state, target = attempt
        n, summed = state.n_components, summed_mode(target.shape)
        uniforms = stream.uniforms(Site.GUIDED, _N, row=int(number)).tolist()
        is_birth = uniforms[GuidedIndex.IS_BIRTH] < 0.5
        n_small = n if is_birth else n - 1
        if n_small < 1:
            return NOTHING
        gone = n if is_birth else pick(uniforms[GuidedIndex.VICTIM], n)
        guides = [pick(uniforms[i], n_small) for i in (GuidedIndex.FIRST, GuidedIndex.SECOND)]
        guides = sorted({guide + (guide >= gone) for guide in guides})
        ratio = log(state.alpha) - log(n_small + 1)
        heads = []
        for mode, factor in enumerate(state.factors):
            if mode == summed:
                continue
            lines = factor.take(np.array(guides)).dense()
            quarters = lines[:, 0] + 2 * lines[:, -1]
            if is_birth:
                site = site_of(Site.GUIDED_ROWS, mode)
                drawn = stream.uniforms(site, 4 + len(lines), row=int(number))
                new = drawn[4:] < drawn[:4][quarters]
            else:
                new = factor.take(np.array([gone])).dense()[:, 0]
            ratio -= _log_guess(quarters, new)
            size = int(new.sum())
            if mode:
                density = float(state.densities[mode])
                ratio += size * log(density) + (len(new) - size) * log1p(-density)
            elif size == 0:
                return NOTHING
            else:
                ratio += log_rate(size, len(new))
            heads.append(np.column_stack([lines, new]))
        factors = [Factor.from_dense(part) for part in heads]
        factors.insert(summed, state.factors[summed].take(np.zeros(len(guides) + 1, np.int64)))
        classes, members = atoms(khatri_rao(factors, summed).words)
        few = members[:-1]
        lines_of = [pack(part.T if is_birth else part.T[:-1]) for part in heads]
        decision = tuple(uniforms[GuidedIndex.DECISION :])
        old = np.array(guides if is_birth else [*guides, gone])
        if is_birth:
            return Proposal(True, old, tuple(lines_of), ratio, decision, classes, few, members)
        return Proposal(True, old, tuple(lines_of), -ratio, decision, classes, members, few)


GUIDED_BOXES = GuidedBoxes()


def _log_guess(quarters: NDArray[np.int64], new: NDArray[np.bool_]) -> float:
    """Return the log probability of the lines, with a uniform rate for every class (eq. 20)."""
    sizes = np.bincount(quarters, minlength=4)
    joined = np.bincount(quarters[new], minlength=4)
    return float(
        (gammaln(joined + 1.0) + gammaln(sizes - joined + 1.0) - gammaln(sizes + 2.0)).sum()
    )
