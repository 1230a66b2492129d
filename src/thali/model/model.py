"""The whole model in one value: the priors whose posterior a chain samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from thali.checks import count, probability
from thali.model.effects import Effects, effects_for
from thali.model.noise import AsPublished, EqualRates, FixedRates, NoisePrior, UnequalRates
from thali.model.per_component import PerComponent
from thali.model.priors import Beta, Buffet, DensityPrior, Fixed, Gamma
from thali.sentences import n_of

Density: TypeAlias = float | DensityPrior

_NOISE: dict[str, type[UnequalRates | EqualRates | AsPublished | Effects]] = {
    "unequal": UnequalRates,
    "equal": EqualRates,
    "as-published": AsPublished,
    "effects": Effects,
}


class Priors(NamedTuple):
    """The prior of every unknown, for a tensor of given arity."""

    noise: NoisePrior | Effects
    buffet: Buffet | None  # None if the number of components is fixed
    densities: tuple[DensityPrior | None, ...]  # one per mode; None for the mode of the buffet


@dataclass(frozen=True)
class Model:
    """Priors of everything unknown.

    Parameters
    ----------
    n_components
        None infers the number by an Indian buffet process on the first mode; an integer fixes the
        number, and all factors then have independent entries.
    noise
        Error rates: ``"unequal"`` (default), ``"equal"``, ``"effects"`` (rows and columns have
        levels of their own) or ``"as-published"`` (no sampling from the posterior, only for
        comparison with the paper). To choose the prior, give a
        :class:`~thali.model.UnequalRates`, :class:`~thali.model.EqualRates`,
        :class:`~thali.model.Effects` or :class:`~thali.model.AsPublished`; to fix the rates, a
        :class:`~thali.model.FixedRates`.
    alpha
        Concentration of the Indian buffet process: a number, or a :class:`~thali.model.Gamma`
        prior.
    density
        Prior of the entries of the other factors: a number (a fixed density), a
        :class:`~thali.model.Beta` (one unknown density per factor) or a
        :class:`~thali.model.PerComponent` (one unknown density per component); or a tuple with
        one of those per mode that has a density (all modes if ``n_components`` is given, else all
        but the first).

    Examples
    --------
    >>> from thali.model import Beta, FixedRates, Model
    >>> Model().is_finite
    False
    >>> model = Model(n_components=3, noise=FixedRates(0.1, 0.05), density=Beta(1.0, 4.0))
    >>> model.is_finite
    True
    """

    n_components: int | None = None
    noise: str | NoisePrior | Effects = "unequal"
    alpha: float | Gamma = field(default_factory=Gamma)
    density: Density | tuple[Density, ...] = field(default_factory=Beta)

    def __post_init__(self) -> None:
        if self.n_components is not None:
            count("n_components", self.n_components)
        n_given = len(self.density) if isinstance(self.density, tuple) else 1
        self.priors(n_given if self.is_finite else n_given + 1)

    @property
    def is_finite(self) -> bool:
        """Whether the number of components is fixed."""
        return self.n_components is not None

    def priors(self, arity: int) -> Priors:
        """Return the prior of every unknown, for a tensor of that arity."""
        n = arity if self.is_finite else arity - 1
        given = self.density if isinstance(self.density, tuple) else (self.density,) * n
        if len(given) != n:
            msg = (
                f"density has {n_of(len(given), 'entry')}; this model of {arity} modes has "
                f"{n_of(n, 'factor')} with a density; give {n}, or one for all."
            )
            raise ValueError(msg)
        densities = tuple(_density_prior(part) for part in given)
        noise = noise_prior(self.noise)
        if isinstance(noise, Effects) and arity > 2:  # its lines have levels, but no jumps
            noise = replace(noise, jumps=False)
        if self.is_finite:
            return Priors(noise, None, densities)
        return Priors(noise, Buffet(self.alpha), (None, *densities))


def usual_noise(n_components: int | None) -> str:
    """Return the noise of data about which nothing is said (``noise="auto"``).

    The components of real tables stand in for full rows and columns if the model has no effects.
    If the number of components is fixed, no start decides whether effects or components explain
    the data.

    Examples
    --------
    >>> usual_noise(None), usual_noise(5)
    ('effects', 'unequal')
    """
    return "effects" if n_components is None else "unequal"


def noise_for(noise: Any, shape: tuple[int, ...], n_components: int | None) -> Any:
    """Return the noise of data of a shape, given what was said about it.

    ``"auto"`` becomes a name. Effects of long rows, and of tensors, get a fine grid
    (:func:`thali.model.effects.effects_for`).

    Examples
    --------
    >>> noise_for("auto", (300, 500), None), noise_for("auto", (300, 500), 5)
    ('effects', 'unequal')
    >>> type(noise_for("auto", (300, 5000), None)).__name__
    'Effects'
    """
    if isinstance(noise, str) and noise == "auto":
        noise = usual_noise(n_components)
    if isinstance(noise, str) and noise == "effects" and effects_for(shape) != Effects():
        return effects_for(shape)
    return noise


def noise_prior(noise: str | NoisePrior | Effects) -> NoisePrior | Effects:
    """Return a prior of the noise, given by its name or as it is."""
    if isinstance(noise, UnequalRates | EqualRates | FixedRates | AsPublished | Effects):
        return noise
    if not isinstance(noise, str) or noise not in _NOISE:
        msg = (
            f"noise={noise!r} was given; allowed are {', '.join(map(repr, _NOISE))} or a noise "
            "prior such as FixedRates(0.1, 0.1); choose one of those."
        )
        raise ValueError(msg)
    return _NOISE[noise]()


def _density_prior(density: Density) -> DensityPrior:
    if isinstance(density, Beta | Fixed | PerComponent):
        return density
    return Fixed(probability("density", density))
