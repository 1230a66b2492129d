"""Compare settings that the user gives again with those of a stored run."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from thali.errors import InvalidType, TraceMismatch
from thali.model import Model
from thali.model.model import noise_for
from thali.sampler.grow.densities import OWN, is_looked_at
from thali.sampler.schedule import make_schedule
from thali.sentences import Sample, was_given

if TYPE_CHECKING:
    from thali.trace.settings import Settings


def require_same(settings: Settings, given: dict[str, Any]) -> None:
    """Raise an error if a setting given to :func:`thali.resume` is not that of the run."""
    of_model = {f.name for f in fields(Model)}
    own = {"seed": settings.seed, "chains": settings.chains, "thin": settings.thin}
    own |= {"warmup": settings.warmup, "mode": settings.mode}
    allowed = [*own, "schedule", *sorted(of_model)]
    arity = len(settings.shape)
    for name, value in given.items():
        if value is None and name in ("alpha", "density"):  # the default of `sample`
            value = getattr(Model(), name)
            is_open = is_looked_at(settings.model, settings.sampled_shape, settings.schedule)
            if name == "density" and is_open and settings.model.density == OWN:
                value = OWN
        if name == "noise":
            value = noise_for(value, settings.sampled_shape, settings.model.n_components)
        if name in of_model:
            other = replace(settings.model, **{name: value})
            is_same = other.priors(arity) == settings.model.priors(arity)
            is_same &= other.n_components == settings.model.n_components
        elif name == "schedule":
            is_same = make_schedule(value, settings.warmup) == settings.schedule
        elif name in own:
            is_same = value == own[name]
        else:
            raise InvalidType(
                was_given(name, value), f"allowed are {', '.join(allowed)}", "leave it out"
            )
        if not is_same:
            raise TraceMismatch(
                was_given(name, value),
                "the run has another value",
                ("leave it out to go on, or start a new run with ", Sample()),
            )
