"""The engine of many processes: each holds some rows of every mode, and all have all factors.

The sampler runs in every process alike. What an engine is asked, each process computes for its
own rows; then all tell each other the results, so that every process goes on with the same state.
Decisions depend on integers and on random numbers that are read by address
(:mod:`thali.streams`): the chain is that of one process, bit for bit.
"""

from __future__ import annotations

import logging
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import Factor, PackedTensor, Totals, Unfolding
from thali.bits.words import count_ones
from thali.engines.base import LARGE, BirthDeaths, Births, LineCounts
from thali.engines.bit_by_bit import score_bits
from thali.engines.cluster.cpu_part import CpuPart
from thali.engines.cluster.devices import own_device
from thali.engines.cluster.gpu_part import GpuPart
from thali.engines.cluster.parts import identity, own_rows, share
from thali.engines.cluster.put_together import only_bits, put_together
from thali.engines.cluster.rows import share_rows
from thali.engines.cluster.windows import Classes, count_in_columns
from thali.engines.cpu.engine import CpuEngine
from thali.engines.host import lines_of_births
from thali.errors import EngineUnavailable, InvalidValue
from thali.model.gains import sum_gains
from thali.sentences import n_of

log = logging.getLogger("thali")

MANY_ROWS = 1 << 13
"""Number of rows from which on it takes less time to share work on them than to repeat it."""

MANY_RANKS = 8
"""Number of processes from which on all count in a window of columns that one of them holds: to
transpose the window of own rows takes longer than to count in it."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Block, Cover, Made, Nearby, RowUpdate
    from thali.engines.cluster.parts import Part, Ranges
    from thali.engines.cluster.ranks import Ranks
    from thali.model.births import BirthDeathTables, BirthTables
    from thali.model.weights import Weights
    from thali.streams import Stream


class ClusterEngine:
    """Computes on the rows of this process, and tells the others."""

    can_scan = False
    totals: Totals
    _inner: CpuPart | GpuPart
    _host: CpuEngine
    _parts: list[Part]
    _ranges: list[Ranges]

    def __init__(
        self, ranks: Ranks, threads: int | None = None, kind: str = "auto", device: Any = None
    ) -> None:
        """Use the processes of a job, with so many threads each.

        ``kind`` says where this process computes: ``"cpu"``, ``"gpu"``, or ``"auto"`` for a GPU if
        there is one and its rows are many. Tests pass a device.
        """
        self.ranks = ranks
        self.threads = ranks.threads(threads)
        self.kind, self._device = kind, device
        self._began = perf_counter(), ranks.seconds

    @property
    def waited(self) -> float:
        """Share of the time since the data were loaded spent waiting for other processes."""
        began, before = self._began
        return (self.ranks.seconds - before) / max(1e-9, perf_counter() - began)

    def load(self, tensor: PackedTensor) -> ClusterEngine:
        """Return an engine like this one with the rows of this process."""
        n = tensor.shape[0]
        if self.ranks.n > n:
            raise InvalidValue(
                f"{self.ranks.n} processes were started for data of {n_of(n, 'row')}",
                remedy=f"start at most {n}",
            )
        self.ranks.require_same("data", identity(tensor))
        engine = ClusterEngine(self.ranks, self.threads, self.kind, self._device)
        engine._take(tensor)
        return engine

    def _take(self, tensor: PackedTensor) -> None:
        self._classes: Classes | None = None  # of the rows of this process
        self._parts, self._ranges = share(tensor, self.ranks)
        own = self._parts[0].ones
        most_ones = self.ranks.largest(int(count_ones(own).max()) if len(own) else 0)
        self.totals = Totals(tensor.shape, tensor.n_known, tensor.n_ones, most_ones)
        self._inner = self._made()
        # A GPU counts faster in whole columns, and the processes must do the same.
        is_on_gpu = isinstance(self._inner, GpuPart)
        self._are_windows_shared = len(tensor.shape) == 2 and not self.agree(is_on_gpu)
        self._host = CpuEngine(self.threads)  # for what needs no data
        self._host.totals = self.totals

    def _made(self) -> CpuPart | GpuPart:
        """Return an engine with the rows of this process."""
        n_entries = sum(64 * part.ones.size for part in self._parts) // len(self._parts)
        if self.kind == "gpu" or (self.kind == "auto" and n_entries >= LARGE):
            try:
                gpu = GpuPart(self._device or own_device(self.ranks), self.threads)
                gpu.hold_parts(self._parts, self.totals)
            except EngineUnavailable as error:
                if self.kind == "gpu":
                    raise
                log.debug("engine: the GPU is not available (%s); using the CPU", error)
            else:
                return gpu
        cpu = CpuPart(self.threads)
        cpu.hold_parts(self._parts, self.totals)
        return cpu

    def on_host(self, rows: Index | None) -> CpuEngine:
        """Return an engine with some rows of the first mode, which every process gets whole."""
        lo, hi, ones, known = self._parts[0]
        chosen = np.arange(lo, hi) if rows is None else rows[own_rows(rows, lo, hi)]
        n_rows = self.totals.shape[0] if rows is None else len(rows)

        def gathered(words: Words) -> Words:
            return self.ranks.gather(words[chosen - lo]).reshape(n_rows, words.shape[1])

        first = Unfolding(gathered(ones), None if known is None else gathered(known))
        shape = (n_rows, *self.totals.shape[1:])
        tensor = PackedTensor.from_unfolding(shape, first, self.threads)
        return CpuEngine(self.threads).load(tensor)

    def serve_chains(self, n_chains: int) -> int:  # noqa: ARG002 - the number does not matter
        """Run one chain after another: all processes must do the same."""
        return 1

    def agree(self, wish: bool) -> bool:  # noqa: FBT001 - the only argument
        """Return whether any process wishes so; all get the same answer."""
        return bool(self.ranks.largest(int(wish)))

    def found_by_any(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return what any process has found; all get the same answer."""
        return self.ranks.add(found.astype(np.int32)) > 0

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""
        if factor.n_components == 0:
            return factor, (0, 0)
        here, gained = self._inner.update(self._own(job), factor)
        after, (tp, fp) = put_together(self.ranks, self._ranges[job.mode], job, here, gained)
        return after, (tp, fp)

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""
        here, born = self._inner.update_with_births(self._own(job), factor, tables)
        users, numbers = put_together(
            self.ranks, self._ranges[0], job, here, (*born.covered, len(born.lines[0]))
        )
        births = self._all_births(born, numbers)
        return users, births

    def birth_death(
        self,
        job: RowUpdate,
        factor: Factor,
        is_single: NDArray[np.bool_],
        tables: BirthDeathTables,
    ) -> BirthDeaths:
        """Try the birth or death of one single-row component in the rows of a work order."""
        own = self._own(job)
        born, density, has_died = self._inner.birth_death(own, factor, is_single, tables)
        numbers = self.ranks.add(
            np.concatenate([[*born.covered, len(born.lines[0])], has_died]).astype(np.int64)
        )
        births = self._all_births(born, tuple(numbers[:3].tolist()))
        densities = self.ranks.gather(density) if numbers[2] else density
        return BirthDeaths(births, densities, numbers[3:] > 0)

    def partition(self, stream: Stream, n_blocks: int) -> list[Index]:
        """Divide the rows of the first mode at random; the rows of each block are increasing."""
        return self._host.partition(stream, n_blocks)

    def rows_of(self, block: Index) -> Index:
        """Return the numbers of the rows of a block."""
        return block

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Index, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them with respect to a block of rows."""
        return self._host.order_components(
            stream, number, factors, rows, is_integrated=is_integrated
        )

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""
        return self._host.reorder(factors, order)

    def scan_blocks(self, *_: Any) -> None:
        """Return None: blocks of rows are updated one by one."""
        return

    def near(self, weights: Weights, n_components: int) -> Nearby | None:
        """Return what this process has; None if it is on a GPU, here or in another process."""
        if not self._are_windows_shared:
            return None
        assert isinstance(self._inner, CpuPart)
        found = self._inner.near(weights, n_components)
        # All processes must go the same way, also if one of them has all there is.
        return found and found._replace(is_large=found.is_large or self.ranks.n > 1)

    def whole(self, *_: Any) -> None:
        """Return None: no process has all the data."""
        return

    row_sets = whole

    def scan(self, *_: Any, **__: Any) -> Any:
        """Raise an error: with ``can_scan`` off, nobody updates one row after another here."""
        raise NotImplementedError

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count the covered ones and covered zeros per row: ``(n_rows, 2)``."""
        lo, hi, _, _ = self._parts[mode]
        if rows is None:
            counts = self._inner.count(mode, np.arange(lo, hi), codes, factor)
            return self._rows_of_all(counts, mode)
        total = np.zeros((len(rows), 2), np.int64)
        is_own = (rows >= lo) & (rows < hi)
        total[is_own] = self._inner.count(mode, rows[is_own], codes, factor)
        return self.ranks.add(total)

    def count_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words,
        of_columns: Index | None = None,
    ) -> Index:  # fmt: skip
        """Count the free ones and zeros per row of a range and per class of columns."""
        if self._is_window(mode, rows):
            return self._added_up(rows, cover, classes, of_columns)
        own = self._own_range(mode, rows)
        found = self._inner.count_by_class(mode, own, cover, classes, of_columns)
        return self._rows_of_all(found.astype(self._short(mode)), mode, rows).astype(np.int64)

    def gains_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, sets: Words, weights: Weights
    ) -> NDArray[np.float64]:
        """Return what every row of a range gains by covering its free entries in sets."""
        if self._is_window(mode, rows):
            weights = weights.of_mode(mode)
            counts = self._added_up(rows, cover, sets, weights.columns)
            assert weights.rows is not None
            of_lines = weights.rows[slice(*rows)]
            gains: NDArray[np.float64] = sum_gains(counts, weights.table[:, :, 0], of_lines)
            return gains
        own = self._own_range(mode, rows)
        found = self._inner.gains_by_class(mode, own, cover, sets, weights)
        return self._rows_of_all(found, mode, rows)

    def score_bits(
        self, mode: int, rows: Index | None, codes: Factor, before: Factor, after: Factor,
        weights: Weights,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the gain in log-likelihood by every bit of some rows of a factor, or of all."""
        return score_bits(self, mode, rows, codes, before, after, weights)

    def count_lines(self, mode: int, factors: tuple[Factor, ...], classes: Index) -> LineCounts:
        """Count the entries of all lines of a mode, by class of column and cover."""
        uncovered, known, n_ones = self._inner.count_lines(mode, factors, classes)
        if self._parts[mode].known is not None:
            known = self._rows_of_all(known, mode)
        ones = np.ascontiguousarray(self._rows_of_all(n_ones.T, mode).T)
        return LineCounts(self._rows_of_all(uncovered, mode), known, ones)

    def count_in_window(self, rows: Index, window: slice, cover: Cover, classes: Words) -> Index:
        """Count the free ones and zeros per row and class of columns in a window of columns."""
        is_own = self._is_own(rows)
        counts = np.zeros((len(rows), len(classes), 2), self._short(0))
        counts[is_own] = self._inner.count_in_window(rows[is_own], window, cover, classes)
        return self.ranks.add(counts).astype(np.int64)

    def free_in_window(self, rows: Index, window: slice, cover: Cover) -> tuple[Words, Words]:
        """Return the free entries and all ones of a few rows in a window of columns."""
        is_own = self._is_own(rows)
        start, stop, _ = window.indices(cover.codes.words.shape[1])
        both = np.zeros((2, len(rows), stop - start), np.uint64)
        both[:, is_own] = self._inner.free_in_window(rows[is_own], window, cover)
        free, has = self.ranks.add(both)  # one process alone has other than zeros
        return free, has

    # --- work that needs no data ------------------------------------------------------------

    def over_rows(
        self, kernel: Callable[..., Any], n_rows: int, *arguments: Any, step: int,
        made: Made = (),
    ) -> None:  # fmt: skip
        """Run a compiled function over rows, which the processes share if they are many."""
        if self.ranks.n == 1 or not made or n_rows < MANY_ROWS:
            self._host.over_rows(kernel, n_rows, *arguments, step=step)
        else:
            share_rows(self.ranks, self._host, kernel, n_rows, arguments, step, made)

    # --- parts and wholes -------------------------------------------------------------------

    def _own(self, job: RowUpdate) -> RowUpdate:
        """Return a work order for the rows that are here."""
        lo, hi, _, _ = self._parts[job.mode]
        if job.rows is None:
            return job._replace(rows=np.arange(lo, hi))
        own = own_rows(job.rows, lo, hi)
        singles = None if job.singles is None else job.singles[own]
        return job._replace(rows=job.rows[own], singles=singles)

    def _own_range(self, mode: int, rows: tuple[int, int]) -> tuple[int, int]:
        """Return the rows of a range that are here."""
        first, end = self._ranges[mode].within(*rows)
        return int(first[self.ranks.number]), int(end[self.ranks.number])

    def _is_window(self, mode: int, columns: tuple[int, int]) -> bool:
        """Return whether all processes count in these lines, of which few processes have any."""
        n_lines, n = self.totals.shape[mode], self.ranks.n
        is_narrow = mode == 1 and n >= MANY_RANKS and n * (columns[1] - columns[0]) < n_lines
        return is_narrow and self._are_windows_shared

    def _added_up(
        self, columns: tuple[int, int], cover: Cover, sets: Words, of_rows: Index | None
    ) -> Index:
        """Count in a window of columns, with the rows of all processes."""
        lo, hi, _, _ = part = self._parts[0]
        if of_rows is not None and (self._classes is None or self._classes.given is not of_rows):
            self._classes = Classes.of(of_rows, lo, hi)
        classes = None if of_rows is None else self._classes
        counts = count_in_columns(part, columns, cover, sets, classes)
        return self.ranks.add(counts.astype(self._short(1))).astype(np.int64)

    def _short(self, mode: int) -> type[np.unsignedinteger[Any]]:
        """Return a type for the counts of a row that takes little time to send."""
        return np.uint16 if self.totals.n_columns(mode) < 1 << 16 else np.uint32

    def _is_own(self, rows: Index) -> NDArray[np.bool_]:
        lo, hi, _, _ = self._parts[0]
        return (rows >= lo) & (rows < hi)

    def _rows_of_all(
        self, found: NDArray[Any], mode: int, rows: tuple[int, int] | None = None
    ) -> NDArray[Any]:
        """Put the rows of all processes one after another, of a range or all rows of a mode."""
        rows = (0, self.totals.shape[mode]) if rows is None else rows
        first, end = self._ranges[mode].within(*rows)
        sizes = ((end - first) * prod(found.shape[1:])).tolist()
        return self.ranks.gather(found, sizes).reshape(rows[1] - rows[0], *found.shape[1:])

    def _all_births(self, born: Births, numbers: tuple[int, ...]) -> Births:
        """Return the new components of all processes, in the order of their rows."""
        tp, fp, n_born = numbers
        if n_born == 0:
            return Births(born.lines, (tp, fp))
        users, codes = born.lines
        owners = self.ranks.gather(only_bits(users))
        words = self.ranks.gather(codes).reshape(n_born, codes.shape[1])
        return Births(lines_of_births(owners, words, self.totals.shape[0]), (tp, fp))
