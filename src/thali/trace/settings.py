"""The settings that, with the data, determine the chains; they can be stored as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from thali.checks import count, is_integer
from thali.data.layout import to_front
from thali.errors import InvalidValue
from thali.model import (
    AsPublished,
    Beta,
    Effects,
    EqualRates,
    Fixed,
    FixedRates,
    Gamma,
    Model,
    PerComponent,
    UnequalRates,
)
from thali.sampler import Schedule
from thali.sentences import was_given

_CLASSES = {
    part.__name__: part
    for part in (
        *(Model, Schedule, Gamma, Beta, Fixed, PerComponent),
        *(UnequalRates, EqualRates, FixedRates, AsPublished, Effects),
    )
}

MOST_CHAINS = 10_000
"""A run has a folder for every chain; a header that asks for more is refused at once."""

_BEFORE: dict[str, dict[str, Any]] = {
    "Schedule": {"first_rows": 0, "starts": 0, "toggle": 0, "seeded": 0, "trade": 0},
    "PerComponent": {"tied": None},
}
"""Settings of runs that were drawn before these settings existed, and whose headers therefore
lack them. Such a run can be loaded, but not resumed: its random stream differs."""

_GONE = {"Schedule": {"first_sweeps"}}
"""Settings of earlier versions that no longer exist."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run: the chains are a function of the settings and the data.

    Parameters
    ----------
    shape
        Shape of the data.
    model, schedule
        What is sampled and how; the schedule contains the number of warm-up sweeps.
    seed
        Seed of all chains.
    chains, draws, thin
        Number of chains, draws per chain, and sweeps per draw.
    mode
        The mode that has the buffet. The sampler and the draws of a run have this mode first;
        the data of a run and its posterior have their modes in the order of the user.
    """

    shape: tuple[int, ...]
    model: Model
    schedule: Schedule
    seed: int
    chains: int
    draws: int
    thin: int = 1
    mode: int = 0

    def __post_init__(self) -> None:
        if count("mode", self.mode) >= len(self.shape):
            raise InvalidValue(
                was_given("mode", self.mode),
                f"the data have {len(self.shape)} modes, numbered from 0",
                "choose one",
            )
        if self.mode and self.model.is_finite:
            raise InvalidValue(
                was_given("mode", self.mode),
                "it says which mode has the buffet, which a fixed number of components does not "
                "have",
                "leave it out",
            )
        if count("chains", self.chains, least=1) > MOST_CHAINS:
            raise InvalidValue(
                was_given("chains", self.chains),
                f"allowed are at most {MOST_CHAINS}",
                "take fewer",
            )
        count("draws", self.draws, least=1)
        count("thin", self.thin, least=1)
        if not is_integer(self.seed) or not 0 <= self.seed < 2**64:
            raise InvalidValue(
                was_given("seed", self.seed),
                "allowed are integers from 0 to 2**64 - 1",
                "choose one",
            )

    @property
    def sampled_shape(self) -> tuple[int, ...]:
        """Shape of the data as the sampler has them: the mode of the buffet is the first."""
        return to_front(self.shape, self.mode)

    @property
    def warmup(self) -> int:
        """Number of warm-up sweeps per chain."""
        return self.schedule.warmup

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps per chain, warm-up included."""
        return self.warmup + self.draws * self.thin

    def is_draw(self, sweep: int) -> bool:
        """Whether the state after this many sweeps is kept as a draw."""
        return sweep > self.warmup and (sweep - self.warmup) % self.thin == 0

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, strings and numbers."""
        return {f.name: _encode(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Settings:
        """Undo :meth:`to_json`; raise an error if no settings read so."""
        settings = cls(**{name: _decode(value) for name, value in plain.items()})
        shape = settings.shape
        is_shape = isinstance(shape, tuple) and len(shape) >= 2
        if not is_shape or not all(is_integer(n) and 0 < n < 2**48 for n in shape):
            msg = f"no data have the shape {str(shape)[:40]}"
            raise ValueError(msg)
        if not isinstance(settings.model, Model) or not isinstance(settings.schedule, Schedule):
            msg = "it has no model or no schedule"
            raise ValueError(msg)  # noqa: TRY004 - the file is wrong, not the argument
        settings.model.priors(len(shape))  # raises an error if they are not for such data
        return settings


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [_encode(part) for part in value]
    if is_integer(value):
        return int(value)
    return value if value is None or isinstance(value, str) else float(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        name = value["class"]
        ignored = {"class"} | _GONE.get(name, set())
        fields = {key: _decode(part) for key, part in value.items() if key not in ignored}
        return _CLASSES[name](**_BEFORE.get(name, {}) | fields)
    return tuple(map(_decode, value)) if isinstance(value, list) else value
