"""The state of a start while it grows, and sweeps that make no single-row components."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from thali.bits import Confusion, Counts
from thali.model import Beta, Effects, Levels, PerComponent
from thali.model.priors import stick_odds
from thali.sampler.grow.sides import choose_side, densities_without_codes
from thali.sampler.levels import draw_levels
from thali.sampler.step import update_memberships, update_mode
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.engines.base import HostEngine
    from thali.model import Noise
    from thali.sampler.state import State
    from thali.sampler.target import Target

_FIRST_DENSITY = 0.2
"""Density of the codes as long as there are no components to learn it from."""

_STRICT = 0.1
"""Largest first guess of the rate of dropped ones in a strict start."""

FIRST_JUMP = 1.5
"""Jump as long as there are no components to learn it from, if levels are fitted."""

FITS = 4
"""How often levels of rows and columns are drawn when they are fitted for the first time."""

_HALF = np.full(2, 0.5)
_MANY = 10_000


class Growth:
    """A start while it grows: its state, and its own sequence of random numbers.

    Parameters
    ----------
    key
        Key of the random numbers.
    target
        Target on the host.
    is_strict
        Whether the first components may contain few zeros. If many zeros are tolerated, a union of
        two components can be taken for one; if few, a component with many dropped ones falls
        apart. The data decide which start is better.
    is_flat
        Whether components are grown before rows and columns have effects, or effects are fitted
        before components are grown. Either can explain what the other does.
    """

    def __init__(
        self, key: np.uint64, target: Target, *, is_strict: bool = True, is_flat: bool = True
    ) -> None:
        self.key = key
        self.target = target
        self.clock = 0
        self.n_drawn = 0  # draws of levels
        self.is_flat = is_flat
        self.side = choose_side(target.shape)
        state = target.initial(key)
        densities = tuple(
            np.array(_FIRST_DENSITY) if isinstance(prior, Beta) else density
            for density, prior in zip(state.densities, target.priors.densities, strict=True)
        )
        noise = self._first_guess(state.noise, is_strict=is_strict)
        self.state: State = state._replace(noise=noise, densities=densities)
        if isinstance(noise, Levels) and not is_flat:
            self.state = self.state._replace(noise=noise.with_jump(FIRST_JUMP))
            for _ in range(FITS):
                self._settle_levels()

    @property
    def engine(self) -> HostEngine:
        """The engine, which answers the questions of a start."""
        engine: HostEngine = self.target.engine  # type: ignore[assignment]
        return engine

    @property
    def odds(self) -> NDArray[np.float64]:
        """Log odds of the density of every code."""
        (density,) = self.state.densities[1:]
        # An array of its own: kernels would be compiled again for a view that cannot be written.
        return np.full(self.state.n_components, logit(density))

    def stream(self) -> Stream:
        """Return random numbers that were not used before."""
        self.clock += 1
        return Stream(self.key, np.uint64(self.clock))

    def settle(self) -> None:
        """Set rates, densities and concentration to the medians of their conditionals.

        Medians rather than draws, so that two states are compared at their best. Without
        components, the first guesses stay.
        """
        state, priors = self.state, self.target.priors
        n = state.n_components
        if n == 0:
            if not self.is_flat:
                self._settle_levels()
            return
        assert priors.buffet is not None
        (_, prior), (of_users, density) = priors.densities, state.densities
        (_, codes) = state.factors
        assert prior is not None
        if isinstance(prior, PerComponent):
            density = densities_without_codes(self, prior)
        else:
            density = prior.draw(codes.sizes(), codes.n_rows, _HALF, density)
        densities = (of_users, density)
        alpha = priors.buffet.draw(n, self.target.shape[0], 0.5)
        self.state = state._replace(densities=densities, alpha=alpha)
        if isinstance(priors.noise, Effects):
            self._settle_levels()
        else:
            noise = priors.noise.draw(self.target.counts(state), _HALF, state.noise)
            self.state = self.state._replace(noise=noise)

    def _settle_levels(self) -> None:
        """Draw the levels of rows and columns, if there are effects."""
        prior = self.target.priors.noise
        if not isinstance(prior, Effects):
            return
        if self.is_flat:
            prior = replace(prior, rows=False, columns=False, jumps=False)
        noise = draw_levels(
            self.stream(), self.state, self.target, prior, number=self.n_drawn,
            is_jump_held=self.state.n_components == 0,
        )  # fmt: skip
        self.n_drawn += 1
        self.state = self.state._replace(noise=noise)

    def release(self) -> None:
        """Let rows and columns have effects from now on, if the model has any."""
        if self.is_flat and isinstance(self.state.noise, Levels):
            self.is_flat = False
            for _ in range(FITS):
                self.settle()
                self.sweep()

    def sweep(self) -> None:
        """Draw the memberships of all rows, then the codes; drop components without users."""
        state = self.state
        if state.n_components == 0:
            return
        stream = self.stream()
        order = stream.permutation(Site.ORDER, state.n_components)
        state = state.take(order)
        sizes = state.factors[0].sizes()
        odds = stick_odds(sizes, self.target.shape[0], stream.uniforms(Site.STICKS, len(sizes)))
        state = update_memberships(stream, state, self.target, odds)
        state = state.take(state.factors[0].sizes() > 0)
        for mode in range(1, len(state.factors)):
            state = update_mode(stream, state, self.target, mode)
        self.state = state

    def result(self) -> State:
        """Return the state, with rates that fit the data even if there are no components."""
        self.settle()
        state = self.state
        prior = self.target.priors.noise
        if state.n_components == 0 and not isinstance(prior, Effects):
            noise = prior.draw(self.target.counts(state), _HALF, state.noise)
            initial = self.target.initial(self.key)
            state = initial._replace(noise=noise)
        return state._replace(sweep=0)

    def _first_guess(self, noise: Noise, *, is_strict: bool) -> Noise | Levels:
        """Guess rates from the share of ones, as if half of the entries were covered."""
        spurious, dropped = self.target.totals.first_guess()
        if is_strict:
            dropped = min(dropped, _STRICT)
        prior = self.target.priors.noise
        if isinstance(prior, Effects):
            return prior.flat(self.target.shape, spurious, dropped)
        fn, fp = round(_MANY * spurious), round(_MANY * dropped)
        guess = Counts(Confusion(_MANY - fp, fp, _MANY - fn, fn))
        for _ in range(2):  # the second time, no rate is limited by the initial value of another
            noise = prior.draw(guess, _HALF, noise)
        return noise
