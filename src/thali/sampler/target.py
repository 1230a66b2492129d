"""What a chain samples: data on an engine, a model, and a schedule."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import Factor, PackedTensor, khatri_rao
from thali.checks import count
from thali.data import BinaryTensor
from thali.engines.base import choose
from thali.errors import EngineUnavailable
from thali.model import Model, PerComponent
from thali.model.simulate import Simulated
from thali.sampler.state import State
from thali.streams import Site, Stream, site_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from thali.engines.base import Engine
    from thali.model.model import Priors

log = logging.getLogger(__name__)

SCHEDULES = ("parallel", "serial", "serial-integrated")
MOVES = ("split_merge", "anchored", "guided", "compound", "reseat", "residual")

MANY = 4
"""Times as many rows as start with them: with fewer, that saves little."""


@dataclass(frozen=True)
class Schedule:
    """How the rows of the buffet factor are updated, and what is special in warm-up.

    Parameters
    ----------
    kind
        ``"parallel"``: rows in random blocks, all rows of a block at once, single-row components
        integrated out. ``"serial"``: one row after another, as in the paper, corrected.
        ``"serial-integrated"``: the same with single-row components integrated out.
        Ignored when the number of components is fixed.
    warmup
        Sweeps before draws count.
    blocks
        Blocks of the parallel schedule. At least 2: a block of all rows could not update shared
        components.
    hold
        First sweeps (of the warm-up) in which error rates, concentration and densities stay where
        they start. Otherwise, with no component yet, they would say that everything is noise, or
        that every row has components of its own, and it takes long to leave such states. A chain
        that starts with some of the rows starts with what these say, and holds that.
    split_merge, anchored, guided, compound, reseat, residual
        How often each move that changes whole components is tried in a sweep
        (:mod:`thali.sampler.moves`); in proportion more often where more than ten are expected,
        half as often with more than 16,384 columns.
    first_rows
        Rows that a chain of at least four times as many starts with: what they find is given to
        all rows before the first sweep (:mod:`thali.sampler.start`). Every chain has its own. 0
        starts with all. For the parallel schedule and an inferred number of components.
    first_sweeps
        Sweeps of those rows; from 4,096 rows on, of a quarter of them, and then a quarter as many
        of all of them.
    """

    kind: str = "parallel"
    warmup: int = 0
    blocks: int = 4
    hold: int = 20
    split_merge: int = 5
    anchored: int = 2
    guided: int = 5
    compound: int = 3
    reseat: int = 2
    residual: int = 1
    first_rows: int = 4096
    first_sweeps: int = 200

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            allowed = ", ".join(map(repr, SCHEDULES))
            msg = f"schedule={self.kind!r} was given; allowed are {allowed}; choose one of those."
            raise ValueError(msg)
        for name in ("warmup", "hold", *MOVES, "first_rows", "first_sweeps"):
            count(name, getattr(self, name))
        count("blocks", self.blocks, least=2)


class Target(NamedTuple):
    """Everything about a chain that does not change."""

    tensor: PackedTensor
    engine: Engine
    model: Model
    priors: Priors
    schedule: Schedule
    most_ones: int  # in any row of the first mode

    @classmethod
    def prepare(  # noqa: C901 - every part is checked against every other
        cls,
        tensor: Any,
        model: Model | None = None,
        schedule: Schedule | str | None = None,
        engine: str | Engine = "auto",
        threads: int | None = None,
    ) -> Target:
        """Check that the parts fit, pack the data and load it on an engine.

        Parameters
        ----------
        tensor
            Anything :meth:`thali.data.BinaryTensor.from_any` takes, or packed data.
        model, schedule
            What is sampled and how; a schedule may be given by its kind.
        engine, threads
            Where; threads belong to an engine given by name.
        """
        if isinstance(tensor, Simulated):
            msg = "simulated data with their truth were given; pass their `.tensor` alone."
            raise TypeError(msg)
        model = Model() if model is None else model
        if schedule is None or isinstance(schedule, str):
            schedule = Schedule(schedule or "parallel")
        for name, value, kind in (("model", model, Model), ("schedule", schedule, Schedule)):
            if not isinstance(value, kind):
                msg = f"{name}={value!r} was given; a {kind.__name__} is needed; make one of it."
                raise TypeError(msg)
        if not isinstance(tensor, PackedTensor):
            tensor = PackedTensor.from_tensor(BinaryTensor.from_any(tensor))
        arity = len(tensor.shape)
        priors = model.priors(arity)
        if not model.is_finite and arity > 2:
            msg = (
                f"a tensor of {arity} modes with an inferred number of components was given; "
                "inferring it needs births without closed form beyond matrices and is not "
                "implemented yet; give n_components, or unfold the tensor to a matrix."
            )
            raise NotImplementedError(msg)
        is_serial = not model.is_finite and schedule.kind != "parallel"
        if is_serial and isinstance(priors.densities[1], PerComponent):
            msg = (
                f"schedule={schedule.kind!r} with a density per component was given; single-row "
                "components then cannot be drawn at once; use schedule='parallel'."
            )
            raise NotImplementedError(msg)
        is_chosen = engine == "auto"
        if isinstance(engine, str):
            engine = choose(engine, threads, prod(tensor.shape), is_serial=is_serial)
        elif not hasattr(engine, "load") or threads is not None:
            msg = (
                f"engine={engine!r} with threads={threads!r} was given; name an engine and the "
                "threads, or pass an engine, which has its own."
            )
            raise TypeError(msg)
        if is_serial and engine.name == "gpu":
            msg = (
                f"schedule={schedule.kind!r} was given with engine='gpu', which cannot speed up "
                "one row after another; use schedule='parallel' or engine='cpu'."
            )
            raise ValueError(msg)
        try:
            engine = engine.load(tensor)
        except EngineUnavailable as error:
            if not is_chosen:
                raise
            log.info("engine: not that one (%s)", error)
            engine = choose("cpu", threads).load(tensor)
        return cls(tensor, engine, model, priors, schedule, tensor.most_ones)

    @property
    def n_first(self) -> int:
        """Rows that a chain starts with (:mod:`thali.sampler.start`); 0 if with all."""
        schedule, n_rows = self.schedule, self.tensor.shape[0]
        is_parallel = self.priors.buffet is not None and schedule.kind == "parallel"
        is_many = n_rows >= MANY * schedule.first_rows and schedule.first_sweeps > 0
        return schedule.first_rows if is_parallel and is_many else 0

    def initial(self, key: np.uint64, factors: Sequence[NDArray[np.bool_]] | None = None) -> State:
        """Return the state before the first sweep.

        The buffet starts empty, or, of many rows, with what some of them found; a fixed number of
        components starts from the prior. Dense ``factors``, one a mode, start the chain elsewhere.
        """
        if factors is None and self.n_first:
            from thali.sampler.start import start  # noqa: PLC0415 - it runs a chain of its own

            for state, _ in start(key, self):
                last = state
            return last
        shape, priors = self.tensor.shape, self.priors
        if factors is not None:
            packed = self._from_dense(factors)
        elif priors.buffet is not None:
            packed = tuple(Factor.empty(n) for n in shape)
        else:
            packed = self._from_prior(key)
        densities = tuple(
            np.array(0.0) if prior is None else prior.initial(packed[0].n_components)
            for prior in priors.densities
        )
        alpha = priors.buffet.initial() if priors.buffet else 0.0
        return self.recount(State(packed, priors.noise.initial(), alpha, densities, (0, 0), 0))

    def recount(self, state: State) -> State:
        """Return the state with its covered entries counted from the data."""
        counts = self.engine.count(0, None, khatri_rao(state.factors, 0), state.factors[0])
        tp, fp = counts.sum(axis=0)
        return state._replace(covered=(int(tp), int(fp)))

    def _from_dense(self, factors: Sequence[NDArray[np.bool_]]) -> tuple[Factor, ...]:
        """Check and pack factors to start from."""
        shape = self.tensor.shape
        if len(factors) != len(shape):
            msg = f"{len(factors)} factors were given for {len(shape)} modes; give one a mode."
            raise ValueError(msg)
        n_components = np.shape(factors[0])[-1] if np.ndim(factors[0]) else 0
        if self.model.n_components not in (None, n_components):
            msg = (
                f"factors of {n_components} components were given to start from, for a model of "
                f"{self.model.n_components}; make them agree."
            )
            raise ValueError(msg)
        for factor, n_rows in zip(factors, shape, strict=True):
            if np.shape(factor) != (n_rows, n_components):
                msg = (
                    f"a factor of shape {np.shape(factor)} was given to start from, where "
                    f"{(n_rows, n_components)} was expected; rows come first, then components."
                )
                raise ValueError(msg)
            if not np.isin(factor, (0, 1)).all():
                msg = "a factor to start from holds something else than 0 and 1; threshold it."
                raise ValueError(msg)
        if self.priors.buffet is not None and not np.any(factors[0], axis=0).all():
            msg = "a component that no row uses was given to start from; drop it."
            raise ValueError(msg)
        return tuple(Factor.from_dense(np.asarray(f, np.bool_)) for f in factors)

    def _from_prior(self, key: np.uint64) -> tuple[Factor, ...]:
        """Draw every entry from its prior at the densities a chain starts from."""
        n_components = self.model.n_components or 0
        stream = Stream(key, np.uint64(0))
        factors = []
        for mode, n_rows in enumerate(self.tensor.shape):
            prior = self.priors.densities[mode]
            assert prior is not None
            uniforms = stream.uniforms(site_of(Site.START, mode), n_rows * n_components)
            dense = uniforms.reshape(n_rows, n_components) < prior.initial(n_components)
            factors.append(Factor.from_dense(dense))
        return tuple(factors)
