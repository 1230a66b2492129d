"""What is known after a sweep."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from thali.model.priors import log_bernoulli, log_buffet, log_repeats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from thali.bits import Confusion
    from thali.sampler.state import State
    from thali.sampler.target import Target


class _Weighed(NamedTuple):
    log_joint: float
    log_likelihood: float
    confusion: Confusion


class Info:
    """What is known after a sweep; later sweeps do not need it.

    Log densities are computed when asked for: of most sweeps of the warm-up they never are.
    """

    def __init__(
        self,
        state: State,
        target: Target,
        is_warmup: bool,  # noqa: FBT001 - a field
        moves: Mapping[str, tuple[int, int]],
    ) -> None:
        self.n_components = state.n_components
        self.is_warmup = is_warmup
        self.moves = moves  # tries and acceptances by the name of the move
        self._state = state
        self._target = target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Info) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._weighed)

    def _values(self) -> tuple[object, ...]:
        return self.n_components, self._weighed, self.is_warmup, self.moves

    @property
    def log_joint(self) -> float:
        """Log density of data, factors (as a multiset of components) and parameters."""
        return self._weighed.log_joint

    @property
    def log_likelihood(self) -> float:
        """Log probability of the known entries."""
        return self._weighed.log_likelihood

    @property
    def confusion(self) -> Confusion:
        """Counts of known entries by prediction and observed value."""
        return self._weighed.confusion

    @cached_property
    def _weighed(self) -> _Weighed:
        return _weigh(self._state, self._target)


def _weigh(state: State, target: Target) -> _Weighed:
    """Compute the log joint density of a state.

    Components of the Indian buffet process have no labels, so that the density is that of a
    multiset (eq. 5).
    """
    priors = target.priors
    counts = target.counts(state)
    log_likelihood = state.noise.log_likelihood(counts)
    log_joint = log_likelihood + priors.noise.log_prior(state.noise)
    for factor, density, prior in zip(
        state.factors, state.densities, priors.densities, strict=True
    ):
        if prior is not None:
            log_joint += prior.log_prior(density)
            log_joint += log_bernoulli(factor.sizes(), factor.n_rows, density)
    if priors.buffet is not None:
        users = state.factors[0]
        log_joint += priors.buffet.log_prior(state.alpha)
        log_joint += log_buffet(users.sizes(), users.n_rows, state.alpha)
        log_joint -= log_repeats(state.factors, state.densities)
    return _Weighed(float(log_joint), float(log_likelihood), counts.total)
