"""The shape of a move: what it proposes, and how that is decided.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. A move proposes who uses a
component for all rows at once. Every move is a Metropolis-Hastings kernel that leaves the
posterior as it is.

A move has a file of its own, with one object of the shape :class:`Move`. Its random numbers have
their sites and indices in :mod:`thali.sites`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from thali.engines.base import Cover
from thali.model import PerComponent
from thali.model.marginals import Marginal
from thali.sampler.moves.proposal import pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sampler.moves.proposal import Proposal
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.sites import Site
    from thali.streams import Stream

_BLOCK = 128
"""Columns that may rule a move out before all are looked at."""


class Attempt(NamedTuple):
    """One try of a move."""

    stream: Stream
    number: np.uint64  # of the try, in its sweep: the row of its random numbers
    state: State
    target: Target


class Move(ABC):
    """A step from some components to others."""

    name: ClassVar[str]  # in Schedule, in summaries and reports

    @abstractmethod
    def propose(self, attempt: Attempt) -> Proposal:
        """Draw what is tried, and how likely that was."""

    @abstractmethod
    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Return the state after the move, or None if it is not accepted."""

    def __call__(self, attempt: Attempt) -> State | None:
        """Propose and decide; ``covered`` is not updated."""
        proposal = self.propose(attempt)
        return self.decide(attempt, proposal) if proposal.is_possible else None


class SumOut(Move):
    """A move that proposes users, with the codes of the components concerned summed out.

    The codes are then drawn anew, given the users (eq. 17 to 21).
    """

    codes: ClassVar[Site]  # random numbers of the codes
    density: ClassVar[tuple[Site, int] | None]  # of the density of a component that is new

    def decide(self, attempt: Attempt, proposal: Proposal) -> State | None:
        """Decide by a block of columns first, then by all (delayed acceptance).

        A step that a block rules out, as most are on large data, costs no more than the block.
        Both decisions are taken with their own ratio, whose product is the whole: exact (Christen
        & Fox 2005). The block does not depend on the state.
        """
        stream, number, state, target = attempt
        users, codes = state.factors
        n_columns = codes.n_rows
        weights = state.noise.rounded_weights()
        is_rest = np.ones(state.n_components, np.bool_)
        is_rest[proposal.concerned] = False
        cover = Cover(users, codes, is_rest)  # the columns are the rows here
        old, new = self._densities(attempt, proposal)

        def marginals(start: int, stop: int) -> tuple[Marginal, Marginal]:
            counts = target.engine.count_by_class(1, (start, stop), cover, proposal.classes)
            return (
                Marginal(counts, proposal.before, old, weights),
                Marginal(counts, proposal.after, new, weights),
            )

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
        lines = (*proposal.lines, bits)
        if len(old) == len(new):
            return state.put(proposal.concerned, lines)
        return state.take(is_rest).append(lines, new)

    def _densities(
        self, attempt: Attempt, proposal: Proposal
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return those of the components concerned and of those after.

        Components that stay come first and keep theirs; that of a new one is drawn from the
        prior (a grid of equal weights), which therefore cancels.
        """
        stream, number, state, _ = attempt
        (density,) = state.densities[1:]
        n_before, n_after = len(proposal.before), len(proposal.after)
        if density.ndim == 0:
            shared = np.full(max(n_before, n_after), density)
            return shared[:n_before], shared[:n_after]
        old = density[proposal.concerned]
        if n_after <= n_before:
            return old, old[:n_after]
        assert self.density is not None
        site, index = self.density
        uniform = stream.uniforms(site, index + 1, row=int(number))[index]
        return old, np.append(old, new_density(attempt, uniform))


def new_density(attempt: Attempt, uniform: float) -> float:
    """Return the density of all codes, or draw one for the code of a new component."""
    (prior,) = attempt.target.priors.densities[1:]
    if isinstance(prior, PerComponent):
        return float(prior.grid[pick(uniform, len(prior.grid))])
    (density,) = attempt.state.densities[1:]
    return float(density)
