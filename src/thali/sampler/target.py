"""The target of a chain: data on an engine, a model, and a schedule."""

from __future__ import annotations

import logging
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import Counts, Factor, PackedTensor, khatri_rao
from thali.data import BinaryTensor
from thali.data.entries import every_column
from thali.engines.base import Cover
from thali.engines.choose import choose
from thali.errors import EngineUnavailable
from thali.model import Effects, Levels, Model, PerComponent
from thali.model.simulate import Simulated
from thali.sampler.level_counts import add_by_class
from thali.sampler.schedule import MANY, Schedule
from thali.sampler.state import State
from thali.sites import Site, site_of
from thali.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from thali.bits import Totals
    from thali.engines.base import Engine
    from thali.model import Noise
    from thali.model.model import Priors
    from thali.model.priors import DensityPrior

log = logging.getLogger(__name__)

_LARGE = 1 << 20
"""Number of entries above which a chain grows two starts at most."""


class Target(NamedTuple):
    """Everything that stays fixed during a chain."""

    engine: Engine  # holds the data
    model: Model
    priors: Priors
    schedule: Schedule

    @classmethod
    def prepare(  # noqa: C901, PLR0912 - every part is checked against every other
        cls,
        tensor: Any,
        model: Model | None = None,
        schedule: Schedule | str | None = None,
        engine: str | Engine = "auto",
        threads: int | None = None,
    ) -> Target:
        """Check that the parts fit together, pack the data and load them on an engine.

        Parameters
        ----------
        tensor
            Anything that :meth:`thali.data.BinaryTensor.from_any` accepts, or packed data.
        model, schedule
            What is sampled and how; a schedule may be given by its kind.
        engine, threads
            Engine to run on; ``threads`` applies only to an engine given by name.
        """
        if isinstance(tensor, Simulated):
            msg = "simulated data with their truth were given; pass their `.tensor` alone."
            raise TypeError(msg)
        model = Model() if model is None else model
        if schedule is None or isinstance(schedule, str):
            schedule = Schedule(schedule or "parallel")
        for name, value, kind in (("model", model, Model), ("schedule", schedule, Schedule)):
            if not isinstance(value, kind):
                msg = f"{name}={value!r} was given; a {kind.__name__} is needed; make one."
                raise TypeError(msg)
        if not isinstance(tensor, PackedTensor):
            labelled = BinaryTensor.from_any(tensor, threads=threads)
            tensor = PackedTensor.from_tensor(labelled, threads)
        arity = len(tensor.shape)
        priors = model.priors(arity)
        is_buffet = not model.is_finite and arity > 2
        if is_buffet and schedule.kind != "parallel":
            msg = (
                f"schedule={schedule.kind!r} was given for a tensor of {arity} modes; its rows "
                "are updated in blocks only; use schedule='parallel'."
            )
            raise NotImplementedError(msg)
        if is_buffet and any(isinstance(prior, PerComponent) for prior in priors.densities):
            msg = (
                f"a density per component was given for a tensor of {arity} modes whose number "
                "of components is inferred; this is implemented for matrices only; choose one "
                "density per mode."
            )
            raise NotImplementedError(msg)
        is_serial = not model.is_finite and schedule.kind != "parallel"
        if is_serial and any(isinstance(prior, PerComponent) for prior in priors.densities):
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
                f"engine={engine!r} with threads={threads!r} was given; give the name of an "
                "engine and the threads, or an engine object, which has its own threads."
            )
            raise TypeError(msg)
        if is_serial and not engine.can_scan:
            msg = (
                f"schedule={schedule.kind!r} was given with an engine that cannot speed up one "
                "row after another; use schedule='parallel' or engine='cpu'."
            )
            raise ValueError(msg)
        try:
            engine = engine.load(tensor)
        except EngineUnavailable as error:
            if not is_chosen:
                raise
            log.info("engine: the data do not fit (%s); using the CPU", error)
            engine = choose("cpu", threads).load(tensor)
        return cls(engine, model, priors, schedule)

    def with_density(self, density: DensityPrior) -> Target:
        """Return the same target with another prior of the density."""
        model = replace(self.model, density=density)
        return self._replace(model=model, priors=model.priors(len(self.shape)))

    @property
    def totals(self) -> Totals:
        """Shape of the data, and counts over all entries."""
        return self.engine.totals

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every mode."""
        return self.engine.totals.shape

    @property
    def is_grown(self) -> bool:
        """Whether the components that a chain starts from are grown on the data."""
        is_possible = self.priors.buffet is not None or len(self.shape) > 2
        return is_possible and self.schedule.starts > 0

    @property
    def n_first(self) -> int:
        """Number of rows that a chain starts on (:mod:`thali.sampler.start`)."""
        n_rows, n_first = self.shape[0], self.schedule.first_rows
        return n_first if 0 < n_first <= n_rows // MANY else n_rows

    @property
    def n_starts(self) -> int:
        """Number of starts that a chain grows: two at most if the data are large."""
        n_starts = self.schedule.starts
        return min(n_starts, 2) if self.is_large else n_starts

    @property
    def is_large(self) -> bool:
        """Whether a start takes so long that it ends as soon as it finds the same again."""
        return prod(self.shape) > _LARGE

    def on_host(self, rows: Any) -> Target:
        """Return the target of some rows of the first mode (None for all) on the host."""
        return self._replace(engine=self.engine.on_host(rows))

    def initial(self, key: np.uint64, factors: Sequence[NDArray[np.bool_]] | None = None) -> State:
        """Return an initial state.

        Without ``factors``, an inferred number of components starts at zero, and a fixed number of
        components is drawn from the prior. Dense ``factors``, one per mode, start the chain from
        these. A chain whose components are grown begins with these instead
        (:func:`thali.sampler.start.first_state`).
        """
        priors = self.priors
        if factors is not None:
            packed = self._from_dense(factors)
        elif priors.buffet is not None:
            packed = tuple(Factor.empty(n) for n in self.shape)
        else:
            packed = self._from_prior(key)
        densities = tuple(
            np.array(0.0) if prior is None else prior.initial(packed[0].n_components)
            for prior in priors.densities
        )
        alpha = priors.buffet.initial() if priors.buffet else 0.0
        noise: Noise | Levels
        if isinstance(priors.noise, Effects):
            noise = priors.noise.flat(self.shape, *self.totals.first_guess())
        else:
            noise = priors.noise.initial()
        return self.recount(State(packed, noise, alpha, densities, (0, 0), 0))

    def counts(self, state: State) -> Counts:
        """Return the counts of known entries by class, prediction and observed value."""
        total = self.totals.confusion(*state.covered)
        if not isinstance(state.noise, Levels) or not state.noise.weights().has_classes:
            return Counts(total)
        levels, of_rows = state.noise.row_classes
        of_columns = state.noise.across(0).classes
        every, lines = every_column(self.shape)[None], (0, self.shape[0])
        users, codes = state.factors[0], khatri_rao(state.factors, 0)
        table = np.empty((2, len(levels), int(of_columns.max()) + 1, 2), np.int64)
        for k, is_counted in enumerate((np.True_, np.False_)):  # free and known entries
            cover = Cover(codes, users, np.full(state.n_components, is_counted))
            found = self.engine.count_by_class(0, lines, cover, every, of_columns)
            table[k] = add_by_class(found, of_rows, len(levels))
        table[1] -= table[0]
        (fn, tn), (tp, fp) = np.moveaxis(table, 3, 1)
        return Counts(total, np.stack([tp, fp, tn, fn], axis=-1))

    def recount(self, state: State) -> State:
        """Return the state with its covered entries counted from the data."""
        counts = self.engine.count(0, None, khatri_rao(state.factors, 0), state.factors[0])
        tp, fp = counts.sum(axis=0)
        return state._replace(covered=(int(tp), int(fp)))

    def _from_dense(self, factors: Sequence[NDArray[np.bool_]]) -> tuple[Factor, ...]:
        """Check and pack the factors of an initial state."""
        shape = self.shape
        if len(factors) != len(shape):
            msg = f"{len(factors)} factors were given for {len(shape)} modes; give one per mode."
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
                    f"a factor of shape {np.shape(factor)} was given to start from, but "
                    f"{(n_rows, n_components)} was expected; rows come first, then components."
                )
                raise ValueError(msg)
            if not np.isin(factor, (0, 1)).all():
                msg = "a factor to start from holds values other than 0 and 1; threshold it."
                raise ValueError(msg)
        if self.priors.buffet is not None and not np.any(factors[0], axis=0).all():
            msg = "a component that no row uses was given to start from; drop it."
            raise ValueError(msg)
        return tuple(Factor.from_dense(np.asarray(f, np.bool_)) for f in factors)

    def _from_prior(self, key: np.uint64) -> tuple[Factor, ...]:
        """Draw every entry from its prior at the initial densities."""
        n_components = self.model.n_components or 0
        stream = Stream(key, np.uint64(0))
        factors = []
        for mode, n_rows in enumerate(self.shape):
            prior = self.priors.densities[mode]
            assert prior is not None
            uniforms = stream.uniforms(site_of(Site.START, mode), n_rows * n_components)
            dense = uniforms.reshape(n_rows, n_components) < prior.initial(n_components)
            factors.append(Factor.from_dense(dense))
        return tuple(factors)
