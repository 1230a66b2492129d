"""The Python call and, if there is one, the command that reproduce the draws of a run."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.model import Beta, Fixed, Model, PerComponent
from thali.model.model import noise_for
from thali.sampler import Schedule
from thali.sampler.grow.densities import is_looked_at

if TYPE_CHECKING:
    from thali.trace import Settings

_COMMAND = {
    "n_components": "--components",
    "noise": "--noise",
    "density": "--density",
    "schedule": "--schedule",
    "mode": "--mode",
    "chains": "--chains",
    "warmup": "--warmup",
    "draws": "--draws",
    "seed": "--seed",
}
"""Arguments of ``thali.sample`` that are also options of ``thali fit``."""


def arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of :func:`thali.sample` that give these settings.

    Arguments with their default values are left out, except for the lengths of the chains and the
    seed, whose defaults may change, and for the density where the data might decide about it.

    Examples
    --------
    >>> from thali.model import Model
    >>> from thali.sampler import Schedule
    >>> from thali.trace import Settings
    >>> settings = Settings((9, 9), Model(noise="equal"), Schedule(warmup=50), 7, 2, 100)
    >>> arguments(settings)
    {'noise': 'equal', 'chains': 2, 'warmup': 50, 'draws': 100, 'seed': 7}
    """
    model, shape = settings.model, settings.sampled_shape
    usual = Model(noise=noise_for("auto", shape, model.n_components))
    given = {
        field.name: getattr(model, field.name)
        for field in fields(Model)
        if getattr(model, field.name) != getattr(usual, field.name)
    }
    if is_looked_at(model, shape, settings.schedule):  # another density might be chosen
        given["density"] = model.density
    if given.get("noise") == noise_for("effects", shape, model.n_components):
        given["noise"] = "effects"
    if settings.mode:
        given["mode"] = settings.mode
    schedule = replace(settings.schedule, warmup=0)
    if schedule != Schedule():
        is_plain = schedule == Schedule(schedule.kind)
        given["schedule"] = schedule.kind if is_plain else schedule
    given |= {"chains": settings.chains, "warmup": settings.warmup, "draws": settings.draws}
    if settings.thin != 1:
        given["thin"] = settings.thin
    return given | {"seed": settings.seed}


def python_call(settings: Settings) -> str:
    """Return the lines of Python that reproduce the draws.

    Examples
    --------
    >>> from thali.model import Gamma, Model
    >>> from thali.sampler import Schedule
    >>> from thali.trace import Settings
    >>> model = Model(noise="effects", alpha=Gamma(2.0, 1.0))
    >>> print(python_call(Settings((9, 9), model, Schedule(warmup=50), 7, 2, 100)))
    import thali
    <BLANKLINE>
    posterior = thali.sample(
        data,
        alpha=thali.model.Gamma(shape=2.0, rate=1.0),
        chains=2,
        warmup=50,
        draws=100,
        seed=7,
    )
    """
    lines = [f"    {name}={_as_python(value)}," for name, value in arguments(settings).items()]
    return "\n".join(["import thali", "", "posterior = thali.sample(", "    data,", *lines, ")"])


def command(settings: Settings) -> str | None:
    """Return the command that reproduces the draws; None if a setting has no option for it.

    Examples
    --------
    >>> from thali.model import Model
    >>> from thali.sampler import Schedule
    >>> from thali.trace import Settings
    >>> settings = Settings((9, 9), Model(noise="effects"), Schedule(warmup=50), 7, 2, 100)
    >>> command(settings)
    'thali fit DATA --chains 2 --warmup 50 --draws 100 --seed 7'
    >>> command(Settings((9, 9), Model(3, density=PerComponent()), Schedule(), 7, 2, 100))
    'thali fit DATA --components 3 --density own --chains 2 --warmup 0 --draws 100 --seed 7'
    >>> command(Settings((9, 9), Model(alpha=1.0), Schedule(), 7, 2, 100)) is None
    True
    """
    given = arguments(settings)
    if "density" in given:
        given["density"] = _density_option(given["density"])
    if any(
        name not in _COMMAND or is_dataclass(value) or isinstance(value, tuple)
        for name, value in given.items()
    ):
        return None
    options = (f"{_COMMAND[name]} {value}" for name, value in given.items())
    return " ".join(["thali fit DATA", *options])


def _density_option(density: Any) -> Any:
    """Return the value of ``--density`` that gives this prior, if there is one."""
    if isinstance(density, tuple) and len(set(density)) == 1:
        density = density[0]
    if isinstance(density, Fixed):
        return density.density
    if isinstance(density, PerComponent) and density == PerComponent(density.a, density.b):
        a, b = (np.format_float_positional(n, trim="-") for n in (density.a, density.b))
        return "own" if density == PerComponent() else f"own:{a},{b}"
    return "shared" if density == Beta() else density


def _as_python(value: Any) -> str:
    """Write a setting as a Python expression that is valid after ``import thali``."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_as_python, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not is_dataclass(value):
        return repr(value)
    home = "sampler" if isinstance(value, Schedule) else "model"
    changed = ", ".join(
        f"{field.name}={_as_python(part)}"
        for field in fields(value)
        if (part := getattr(value, field.name)) != field.default
    )
    return f"thali.{home}.{type(value).__name__}({changed})"
