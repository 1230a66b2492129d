"""What a sweep samples: in most of the warm-up, a target under which components are cheaper.

Where rows and columns have levels, starts mostly have fewer components than the posterior, and a
chain is slow to add them: a component has to be born nearly whole to be worth its price. It is
fast to lose them. So the warm-up lowers the price (the concentration is drawn larger), and raises
it again before it ends; the chain comes to the posterior from above. On small real tables, hidden
entries are then predicted better at no cost (experiments/NOTES-mixing.md). A chain is left alone
while it has no component: tables in which there is nothing beyond rows and columns would otherwise
end with one.

Draws are not touched: the sampler is exact from any state, and the last sweeps of the warm-up have
the model itself as their target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from thali.model import Levels
from thali.model.priors import Gamma

if TYPE_CHECKING:
    from thali.sampler.state import State
    from thali.sampler.target import Target

_CHEAP, _DEAR = 0.6, 0.85
"""Components are cheap up to the first share of the warm-up, and cost their price from the
second on."""

_RATE = 1.0
"""Rate of the prior of the concentration while they are cheap, unless its own is lower: with 200
rows, each further component then divides the prior probability by 1.2, and by 18 with the rate
that is the default."""


def target_of(state: State, target: Target) -> Target:
    """Return what the next sweep of a chain samples.

    A function of the state and the target alone, as everything in a sweep: a chain that was
    stopped continues in the same way.
    """
    warmup, buffet = target.schedule.warmup, target.priors.buffet
    dear = int(_DEAR * warmup)
    if (
        state.sweep >= dear
        or state.n_components == 0
        or len(state.factors) > 2
        or buffet is None
        or not isinstance(buffet.concentration, Gamma)
        or buffet.concentration.rate <= _RATE
        or not isinstance(state.noise, Levels)
        or not state.noise.weights().has_classes
    ):
        return target
    cheap = int(_CHEAP * warmup)
    left = 1.0 if state.sweep < cheap else (dear - state.sweep) / (dear - cheap)
    prior = buffet.concentration
    prior = replace(prior, rate=prior.rate * (_RATE / prior.rate) ** left)
    priors = target.priors._replace(buffet=replace(buffet, concentration=prior))
    return target._replace(priors=priors)
