"""What an engine does: the contract between the sampler and the machines it runs on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Factor, Index, PackedTensor, Words
    from thali.engines.cpu.order_components import Block
    from thali.model.births import BirthTables, MoveTables
    from thali.streams import Stream

log = logging.getLogger("thali")

ENGINES = ("auto", "cpu", "gpu")

LARGE = 1 << 24
"""Entries from which ``"auto"`` takes the GPU. Here a sweep on an H200 takes three quarters of the
time of the 16 cores beside it, at 268 million a third (``benchmarks/gpu.py --crossover``)."""


class RowUpdate(NamedTuple):
    """A work order: draw entries of some rows of one mode's factor.

    Scores are integers (:mod:`thali.decide`), made on the host, so that every engine takes the
    same decisions.
    """

    mode: int
    rows: Any  # a part of `partition`, or row numbers in increasing order; None for all rows
    codes: Words  # (n_components, n_words), in visiting order
    is_held: NDArray[np.bool_]  # components that keep their value
    weights: NDArray[np.int64]  # (n_singles + 1, 2): score of a one, a zero newly covered
    singles: Any  # of `arrange`: integrated single-row components of each row; None for none
    prior: NDArray[np.int64]  # prior log odds of each component
    stream: Stream
    site: int


class Births(NamedTuple):
    """New single-row components of the rows of a work order."""

    owners: Index  # the row of each
    codes: Words  # (n_births, n_words)
    covered: tuple[int, int]  # ones and zeros that these rows now cover, new components included


class Moves(NamedTuple):
    """Births and deaths of single-row components, at most one a row."""

    births: Births
    density: Index  # which density each birth has
    has_died: NDArray[np.bool_]  # by component


class Engine(Protocol):
    """Where rows are updated. Engines differ in where they compute, never in what."""

    name: str
    threads: int  # of the host

    def load(self, tensor: PackedTensor) -> Engine:
        """Return an engine like this one that has the data; this one is not changed."""

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""

    def count(
        self, mode: int, rows: Index | None, codes: Words, factor: Factor
    ) -> NDArray[np.int64]:
        """Count covered ones and covered zeros of rows: ``(n_rows, 2)``."""

    def tally(
        self,
        mode: int,
        rows: tuple[int, int],
        codes: Words,
        factor: Factor,
        is_counted: NDArray[np.bool_],
        classes: Words,
    ) -> Index:
        """Count free ones and zeros of a range of rows by class of columns.

        Free is what is known and covered by none of the components that count. Returns
        ``(n_rows, n_classes, 2)``.
        """

    def partition(self, stream: Stream, n_blocks: int) -> Sequence[Any]:
        """Divide the rows of the first mode at random into blocks, whatever the state.

        What a block is, is up to the engine: the sampler only hands it back.
        """

    def arrange(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Any, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them as a block of rows sees them.

        Components of a single row are left out, and counted for each row, if integrated.
        """

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""

    def renew(self, job: RowUpdate, factor: Factor, tables: BirthTables) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""

    def moves(
        self, job: RowUpdate, factor: Factor, is_single: NDArray[np.bool_], tables: MoveTables
    ) -> Moves:
        """Try the birth or death of one single-row component in the rows of a work order."""

    def scan(
        self,
        stream: Stream,
        factors: tuple[Factor, ...],
        odds: NDArray[np.int64],
        tables: BirthTables,
        *,
        is_integrated: bool,
    ) -> tuple[tuple[Factor, ...], tuple[int, int]]:
        """Do the serial schedule's pass over the rows; return what they cover."""


def choose(
    name: str = "auto", threads: int | None = None, n_entries: int = 0, *, is_serial: bool = False
) -> Engine:
    """Return the engine of that name; "auto" chooses once and logs its choice.

    A GPU is chosen if there is one and the data are large enough to gain from it.
    """
    from thali.engines.cpu.engine import CpuEngine  # noqa: PLC0415 - engines import this file

    if name not in ENGINES:
        allowed = ", ".join(map(repr, ENGINES))
        msg = f"engine={name!r} was given; allowed are {allowed}; choose one of those."
        raise EngineUnavailable(msg)
    if name == "gpu" or (name == "auto" and n_entries >= LARGE and not is_serial):
        from thali.engines.gpu.device import n_devices  # noqa: PLC0415
        from thali.engines.gpu.engine import GpuEngine  # noqa: PLC0415

        try:
            if name == "gpu" or n_devices():
                gpu = GpuEngine(threads=threads)
                log.info("engine: gpu, %s", gpu.device.name)
                return gpu
        except EngineUnavailable as error:
            if name == "gpu":
                raise
            log.info("engine: not gpu (%s)", error)
    engine = CpuEngine(threads)
    if name == "auto":
        log.info("engine: cpu, %d threads", engine.threads)
    return engine
