"""The interface of moves: what a move proposes, and how the proposal is accepted.

Row-by-row Gibbs sampling gets stuck in states in which a component is split in two, or one
component stands for a union of others: to leave such a state, hundreds of bits would have to
change together. A move proposes the users of a component for all rows at once. Every move is a
Metropolis-Hastings kernel that leaves the posterior invariant.

Every move has a file of its own with one object of class :class:`Move`. The sites and indices of
its random numbers are in :mod:`thali.sites`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from thali.bits import khatri_rao
from thali.bits.codes import inner_mode
from thali.engines.base import Cover
from thali.model import PerComponent
from thali.model.marginals import Marginal
from thali.sampler.gains import gains_by_set
from thali.sampler.moves.proposal import pick

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from thali.engines.base import RowSets
    from thali.sampler.moves.proposal import Proposal
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.sites import Site
    from thali.streams import Stream

_BLOCK = 128
"""Number of columns of a first decision, which may reject a move before all are examined."""

_NO_RATES = np.zeros(0)


Look: TypeAlias = "Generator[Any, NDArray[Any], bool]"
"""Asks questions of sets of rows, and says whether a try is surely rejected."""


class Attempt(NamedTuple):
    """One try of a move."""

    stream: Stream
    number: np.uint64  # number of the try in its sweep; the row address of its random numbers
    state: State
    target: Target


class Move(ABC):
    """A Metropolis-Hastings step that replaces some components by others."""

    name: ClassVar[str]  # as in Schedule, summaries and reports

    @abstractmethod
    def propose(self, attempt: Attempt) -> Proposal:
        """Draw a proposal, and compute its part of the acceptance ratio."""

    @abstractmethod
    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Return the state after the move, or None if it is not accepted."""

    def look(self, attempt: Attempt, rows: RowSets) -> Look:  # noqa: ARG002 - here nobody looks
        """Say whether the try is surely rejected, by questions that need no rows on the host.

        Every question is a ``yield``, so that those of many tries are answered together
        (:mod:`thali.sampler.moves.ahead`). "No" may also mean that this is not known.
        """
        yield from ()
        return False

    def __call__(self, attempt: Attempt) -> State | None:
        """Propose and decide; ``covered`` is not updated."""
        proposal = self.propose(attempt)
        return self.decide(attempt, proposal) if proposal.is_possible else None


class SumOut(Move):
    """A move that proposes users, with the codes of the affected components summed out.

    After acceptance, the codes are redrawn given the users (eq. 17 to 21).
    """

    codes: ClassVar[Site]  # site of the random numbers for the codes
    density: ClassVar[tuple[Site, int] | None]  # the same for the density of a new component

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Decide by a block of columns first, then by all columns (delayed acceptance).

        On large data, the block rejects most proposals, which then cost no more than the block.
        Each of the two decisions has its own ratio, and their product is the full acceptance
        ratio, so that the kernel is exact (Christen & Fox 2005). The choice of the block does not
        depend on the state.
        """
        stream, number, state, target = attempt
        mode = summed_mode(target.shape)
        codes = state.factors[mode]
        n_columns = codes.n_rows
        weights = state.noise.rounded_weights()
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[proposal.concerned] = False
        # With the roles of rows and columns exchanged.
        cover = Cover(khatri_rao(state.factors, mode), codes, is_rest)
        old, new = self._densities(attempt, proposal)

        def marginals(start: int, stop: int) -> tuple[Marginal, Marginal]:
            gains = gains_by_set(target, weights, mode, (start, stop), cover, proposal.classes)
            return Marginal(gains, proposal.before, old), Marginal(gains, proposal.after, new)

        to_block, by_block, by_all = proposal.uniforms
        part = 0.0
        if n_columns > 2 * _BLOCK:
            start = pick(to_block, n_columns - _BLOCK + 1)
            before, after = marginals(start, start + _BLOCK)
            part = after.gain(before)
            if not log(by_block) < part:
                return None
        before, after = marginals(0, n_columns)
        if not log(by_all) < proposal.log_ratio + after.gain(before) - part:
            return None
        bits = after.draw(stream.uniforms(self.codes, n_columns, row=int(number)))
        lines = (*proposal.lines[:mode], bits, *proposal.lines[mode:])
        if len(old) == len(new):
            return state.put(proposal.concerned, lines)
        return state.take(is_rest).append(lines, new)

    def rejects(
        self, attempt: Attempt, rows: RowSets, proposal: Proposal, sets: Sequence[Any]
    ) -> Look:
        """Say whether the block of columns rejects a proposal, whose classes are those of sets."""
        state = attempt.state
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[proposal.concerned] = False
        weights = state.noise.rounded_weights()
        to_block, by_block, _ = proposal.uniforms
        _, codes = state.factors
        start = pick(to_block, codes.n_rows - _BLOCK + 1)
        gains = yield rows.gains_of_columns((start, start + _BLOCK), is_rest, sets, weights)
        old, new = self._densities(attempt, proposal)
        after, before = Marginal(gains, proposal.after, new), Marginal(gains, proposal.before, old)
        return not log(by_block) < after.gain(before)

    def _densities(
        self, attempt: Attempt, proposal: Proposal
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the densities of the affected components before and after the move.

        Components that stay come first and keep their densities. The density of a new component
        is drawn from its prior, given the weights of the sweep, which therefore cancels.
        """
        stream, number, state, target = attempt
        density = state.densities[summed_mode(target.shape)]
        n_before, n_after = len(proposal.before), len(proposal.after)
        if density.ndim == 0:
            common = float(density)
            return repeated(common, n_before), repeated(common, n_after)
        old = density[proposal.concerned]
        if n_after <= n_before:
            return old, old[:n_after]
        assert self.density is not None
        site, index = self.density
        uniform = stream.uniforms(site, index + 1, row=int(number))[index]
        return old, np.append(old, new_density(attempt, uniform))


def can_look(target: Target) -> bool:
    """Whether a block of columns decides first, so that it pays to look ahead."""
    return len(target.shape) == 2 and target.shape[1] > 2 * _BLOCK


def rates_of(state: State, target: Target) -> NDArray[np.float64]:
    """Return the prior probability that a row uses each component.

    The buffet has no such rates; the result is empty then.
    """
    if target.priors.buffet is not None:
        return _NO_RATES
    density = state.densities[0]
    return repeated(float(density), state.n_components) if density.ndim == 0 else density


def summed_mode(shape: tuple[int, ...]) -> int:
    """Return the mode whose lines are summed out: the columns, or the longest mode beside rows."""
    return inner_mode(shape, 0)


@lru_cache(maxsize=64)
def repeated(density: float, n: int) -> NDArray[np.float64]:
    """Return the same density for n components; all tries of a sweep ask for the same few."""
    return np.full(n, density)


def new_density(attempt: Attempt, uniform: float) -> float:
    """Return the density that all codes share, or draw one for a new component."""
    (prior,) = attempt.target.priors.densities[1:]
    if isinstance(prior, PerComponent):
        return float(prior.choose(np.array([uniform]))[0])
    (density,) = attempt.state.densities[1:]
    return float(density)
