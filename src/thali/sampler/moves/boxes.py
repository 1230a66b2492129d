"""Add or delete a component of a tensor: a box around an entry that nothing covers (eq. 16).

A birth begins with an entry, the seed, and with the lines that cross it. The lines of one mode
after another are then improved, given those of the others, and drawn by what each of them gains;
those of the longest mode are summed out. All of this follows from the seed and from what the other
components leave uncovered. So the death of a component, with a seed in a row that uses it, goes
the same way and finds the probability with which its lines would have been drawn. One move adds
components of any number of rows, and another one those of a single row, the row of the seed.
"""

from __future__ import annotations

from functools import reduce
from math import log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logit

from thali.bits import khatri_rao
from thali.bits.codes import inner_mode, outer_modes
from thali.bits.words import WORD, list_bits, pack
from thali.engines.base import Cover
from thali.sampler.gains import gains_by_set
from thali.sampler.moves.move import SumOut, summed_mode
from thali.sampler.moves.proposal import NOTHING, Proposal, log_rate, pick
from thali.sites import BoxIndex, Site, site_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.sampler.moves.move import Attempt

    Lines = list[NDArray[np.bool_]]

_N = BoxIndex.DECISION + 3
_NOTHING = np.uint64(0)
_ROUNDS = 2
"""How often the lines of all modes are improved."""

_ONE, _NONE = np.array([1]), np.zeros(0, np.int64)
"""Classes of entries of the component, which is the only one, and classes of no component."""


class Box(SumOut):
    """Add a component around a seed entry, or delete one."""

    name: ClassVar = "seeded"
    site: ClassVar = Site.BOX
    rows: ClassVar = Site.BOX_ROWS
    codes: ClassVar = Site.BOX_CODES
    density: ClassVar = None
    is_own: ClassVar = False  # whether the component has a single row, that of the seed

    def propose(self, attempt: Attempt) -> Proposal:
        """Draw the lines of a new component, or choose a component to delete."""
        stream, number, state, target = attempt
        n, (n_rows, *_) = state.n_components, target.shape
        uniforms = stream.uniforms(self.site, _N, row=int(number)).tolist()
        is_birth = uniforms[BoxIndex.IS_BIRTH] < 0.5
        is_rest = np.ones(n, np.bool_)
        lines: Lines = []
        row, gone = pick(uniforms[BoxIndex.ROW], n_rows), 0
        if not is_birth:
            if n == 0:
                return NOTHING
            gone = pick(uniforms[BoxIndex.VICTIM], n)
            is_rest[gone] = False
            lines = [factor.take(np.array([gone])).dense()[:, 0] for factor in state.factors]
            users = np.flatnonzero(lines[0])
            if self.is_own and len(users) > 1:
                return NOTHING
            row = int(users[pick(uniforms[BoxIndex.ROW], len(users))])
        launch = _Launch(attempt, is_rest, summed_mode(target.shape), is_own=self.is_own)
        odds = launch.odds(row, uniforms[BoxIndex.ENTRY])
        if is_birth:
            lines = [
                stream.uniforms(site_of(self.rows, mode), len(of_mode), row=int(number))
                < expit(of_mode)
                for mode, of_mode in enumerate(odds)
            ]
        ratio = log(state.alpha) + self._log_ratio(attempt, launch.summed, lines, odds)
        # The row of the seed is any row of a birth, and any user of a death.
        n_users = int(lines[0].sum())
        ratio += log_rate(n_users, n_rows) + log(n_rows) - log(n_users) - log(n + is_birth)
        decision = tuple(uniforms[BoxIndex.DECISION :])
        classes = cells_of(lines, launch.summed)
        heads = tuple(pack(own[None]) for m, own in enumerate(lines) if m != launch.summed)
        if is_birth:
            return Proposal(True, _NONE, heads, ratio, decision, classes, _NONE, _ONE)
        none = tuple(words[:0] for words in heads)
        return Proposal(True, np.array([gone]), none, -ratio, decision, classes, _ONE, _NONE)

    @staticmethod
    def _log_ratio(
        attempt: Attempt, summed: int, lines: Lines, odds: list[NDArray[np.float64]]
    ) -> float:
        """Return the log prior of the lines of all modes but two, less that of drawing them."""
        total = 0.0
        for mode, (own, of_mode) in enumerate(zip(lines, odds, strict=True)):
            if mode == summed:
                continue
            total -= float(log_expit(np.where(own, of_mode, -of_mode)).sum())
            if mode:
                density, n = float(attempt.state.densities[mode]), int(own.sum())
                total += n * log(density) + (len(own) - n) * log1p(-density)
        return total


class OwnBox(Box):
    """Add a component of a single row around a seed entry, or delete one."""

    name: ClassVar = "residual"
    site: ClassVar = Site.OWN_BOX
    rows: ClassVar = Site.OWN_BOX_ROWS
    codes: ClassVar = Site.OWN_BOX_CODES
    is_own: ClassVar = True


BOX, OWN_BOX = Box(), OwnBox()


class _Launch:
    """What some components leave uncovered, and a component that it suggests."""

    def __init__(
        self, attempt: Attempt, is_rest: NDArray[np.bool_], summed: int, *, is_own: bool
    ) -> None:
        self.attempt = attempt
        self.summed = summed
        self.is_own = is_own
        factors = attempt.state.factors
        self._covers = [
            Cover(khatri_rao(factors, mode), own, is_rest) for mode, own in enumerate(factors)
        ]
        self._weights = attempt.state.noise.rounded_weights()

    def odds(self, row: int, uniform: float) -> list[NDArray[np.float64]]:
        """Return the log odds with which every line of every mode belongs to the component."""
        shape = self.attempt.target.shape
        lines = self._cross(self._seed(row, uniform))
        found = [np.zeros(n) for n in shape]
        # The longest mode first: its lines say most about the others, and are not drawn.
        modes = [self.summed, *(mode for mode in range(len(shape)) if mode != self.summed)]
        for _ in range(_ROUNDS):
            for mode in modes:
                if mode == 0 and self.is_own:
                    continue
                found[mode] = self._gains(lines, mode) + self._prior(lines, mode)
                lines[mode] = found[mode] > 0.0
                if mode == 0:
                    lines[0][row] = True
        for mode, n in enumerate(shape):
            most = log(2.0 * n)  # so that any lines are possible
            found[mode] = np.clip(found[mode], -most, most)
        if self.is_own:
            found[0] = np.full(shape[0], -np.inf)
        found[0][row] = np.inf
        return found

    def _seed(self, row: int, uniform: float) -> tuple[int, ...]:
        """Choose an uncovered one of a row; if there is none, any entry of the row."""
        target = self.attempt.target
        shape, rows = target.shape, np.array([row])
        free, ones = target.engine.free_in_window(rows, slice(None), self._covers[0])
        places = list_bits((free & ones)[0])
        outer = [shape[mode] for mode in outer_modes(shape, 0)]
        n_inner = shape[self.summed]
        if len(places):
            width = -(-n_inner // WORD) * WORD
            block, inner = divmod(int(places[pick(uniform, len(places))]), width)
        else:
            block, inner = divmod(pick(uniform, int(np.prod(outer)) * n_inner), n_inner)
        seed = [row] * len(shape)
        seed[self.summed] = inner
        for mode, at in zip(outer_modes(shape, 0), np.unravel_index(block, outer), strict=True):
            seed[mode] = int(at)
        return tuple(seed)

    def _cross(self, seed: tuple[int, ...]) -> Lines:
        """Return, for every mode, the lines that gain by the entry that differs in this mode."""
        point = [np.zeros(n, np.bool_) for n in self.attempt.target.shape]
        for own, at in zip(point, seed, strict=True):
            own[at] = True
        lines = []
        for mode, own in enumerate(point):
            is_fixed = mode == 0 and self.is_own
            lines.append(own if is_fixed else (self._gains(point, mode) > 0.0) | own)
        return lines

    def _prior(self, lines: Lines, mode: int) -> float:
        """Return the prior log odds of a line."""
        if mode:
            return float(logit(self.attempt.state.densities[mode]))
        n, n_users = len(lines[0]), int(lines[0].sum())
        return log(n_users / (n - n_users + 1.0))

    def _gains(self, lines: Lines, mode: int) -> NDArray[np.float64]:
        """Return what every line gains by covering its uncovered entries in a box."""
        target, cells = self.attempt.target, cells_of(lines, mode)
        every = (0, target.shape[mode])
        gains = gains_by_set(target, self._weights, mode, every, self._covers[mode], cells)
        return gains[:, 0]


def cells_of(lines: Lines, mode: int) -> Words:
    """Return the box of all modes but one, as a set of columns of this mode's unfolding."""
    shape = [len(own) for own in lines]
    inner = pack(lines[inner_mode(shape, mode)])
    outer = reduce(np.logical_and.outer, [lines[m] for m in outer_modes(shape, mode)])
    return np.where(outer.reshape(-1, 1), inner, _NOTHING).reshape(1, -1)
