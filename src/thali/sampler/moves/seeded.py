"""Add a component that several rows show together, or delete one (eq. 17, codes summed out).

A birth begins with a row, the seed, and the rows that share most of its uncovered ones. Code and
users are then improved in turn, as in a start (:mod:`thali.sampler.grow.births`), and users are
drawn by what each of them gains. All of this follows from the seed and from what the other
components leave uncovered. So the death of a component, with one of its users as the seed, goes
the same way and finds the probability with which its users would have been drawn (like the launch
state of Jain & Neal 2004).
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from thali.bits.words import list_bits, pack
from thali.engines.base import Cover
from thali.sampler.gains import gains_by_set
from thali.sampler.moves.move import SumOut, new_density
from thali.sampler.moves.proposal import NOTHING, Proposal, log_rate, pick
from thali.sites import SeededIndex, Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sampler.moves.move import Attempt

_N = SeededIndex.DECISION + 3
_SIZES = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of rows with which a component begins; at most a fifth of all rows."""

_ROUNDS = 2
"""How often code and users are improved in turn."""

_ONE, _NONE = np.array([1]), np.zeros(0, np.int64)
"""Classes of rows that use the component, which is the only one, and classes of no component."""


class Seeded(SumOut):
    """Add a component around a seed row, or delete one."""

    name: ClassVar = "seeded"
    codes: ClassVar = Site.SEEDED_CODES
    density: ClassVar = (Site.SEEDED, SeededIndex.DENSITY)

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw the users of a new component, or choose a component to delete."""
        stream, number, state, target = attempt
        n, n_rows = state.n_components, target.shape[0]
        uniforms = stream.uniforms(Site.SEEDED, _N, row=int(number)).tolist()
        sizes = [size for size in _SIZES if size <= max(2, n_rows // 5)]
        size = sizes[pick(uniforms[SeededIndex.SIZE], len(sizes))]
        is_birth = uniforms[SeededIndex.IS_BIRTH] < 0.5
        is_rest = np.ones(n, np.bool_)
        if is_birth:
            density = new_density(attempt, uniforms[SeededIndex.DENSITY])
            seed = pick(uniforms[SeededIndex.SEED], n_rows)
            odds = _Launch(attempt, is_rest, density).odds(seed, size)
            uniform = stream.uniforms(Site.SEEDED_ROWS, n_rows, row=int(number))
            is_user = uniform < expit(odds)
            is_user[seed] = True
        else:
            if n == 0:
                return NOTHING
            gone = pick(uniforms[SeededIndex.VICTIM], n)
            is_rest[gone] = False
            (shared,) = state.densities[1:]
            density = float(np.broadcast_to(shared, n)[gone])
            users = list_bits(state.factors[0].words[gone])
            is_user = np.zeros(n_rows, np.bool_)
            is_user[users] = True
            seed = int(users[pick(uniforms[SeededIndex.SEED], len(users))])
            odds = _Launch(attempt, is_rest, density).odds(seed, size)
        n_users = int(is_user.sum())
        log_how = log_expit(np.where(is_user, odds, -odds))
        log_how[seed] = 0.0
        ratio = log(state.alpha) + log_rate(n_users, n_rows) - float(log_how.sum())
        # The seed is any row of a birth, and any user of a death.
        ratio += log(n_rows) - log(n_users) - log(n + is_birth)
        decision = tuple(uniforms[SeededIndex.DECISION :])
        classes = pack(is_user[None])
        if is_birth:
            return Proposal(True, _NONE, (classes,), ratio, decision, classes, _NONE, _ONE)
        none = classes[:0]
        return Proposal(True, np.array([gone]), (none,), -ratio, decision, classes, _ONE, _NONE)


SEEDED = Seeded()


class _Launch(NamedTuple):
    """What some components leave uncovered, and components that it suggests."""

    attempt: Attempt
    is_rest: NDArray[np.bool_]
    density: float

    def odds(self, seed: int, size: int) -> NDArray[np.float64]:
        """Return the log odds with which every row uses a component around a seed."""
        users, codes = self.attempt.state.factors
        n_rows, prior = users.n_rows, log(self.density) - log1p(-self.density)
        cover = Cover(codes, users, self.is_rest)
        free, ones = self.attempt.target.engine.free_in_window(
            np.array([seed]), slice(None), cover
        )
        gains = self._gains(0, free & ones)
        gains[seed] = np.inf
        is_user = np.zeros(n_rows, np.bool_)
        is_user[np.argsort(-gains, kind="stable")[:size]] = True
        for _ in range(_ROUNDS):
            code = self._gains(1, pack(is_user[None])) + prior > 0.0
            n_users = int(is_user.sum())
            odds = self._gains(0, pack(code[None])) + log(n_users / (n_rows - n_users + 1.0))
            is_user = odds > 0.0
            is_user[seed] = True
        most = log(2.0 * n_rows)  # so that any users are possible
        return np.clip(odds, -most, most)

    def _gains(self, mode: int, of_set: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return what every line gains by covering its uncovered entries in a set."""
        _, _, state, target = self.attempt
        weights = state.noise.rounded_weights()
        cover = Cover(state.factors[1 - mode], state.factors[mode], self.is_rest)
        lines = (0, state.factors[mode].n_rows)
        return gains_by_set(target, weights, mode, lines, cover, of_set)[:, 0]
