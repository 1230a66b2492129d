"""How counting is laid out on the GPU: rows, slots of records, and the kernels that count."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.engines.gpu.device_memory import NULL, i64, u32
from thali.engines.gpu.slots import divide
from thali.engines.gpu.visits import EIGHT, RECORD, Visits, components_of, first_records
from thali.threads import parallel_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.base import Cover
    from thali.engines.gpu.classes import Classes
    from thali.engines.gpu.device_memory import DeviceMemory, Lines

VECTOR, PART_PLANES, SLOT_PLANES, SHORT_PLANES, SUM_PLANES, LONG_PLANES = 4, 8, 10, 13, 20, 31
COUNT_WARPS, TILE_WARPS, TILE_PLANES, FEW = 4, 3, 14, 8
"""The same constants as in ``kernels/``; a test compares them."""

_MOST_A_PART = ((1 << PART_PLANES) - 1) // EIGHT
"""Records that a warp can count before its counters are full."""

_LEAST_A_PART = 8
"""Records of a class that a warp should count at least, if there are as many."""

_START = 3
"""The start and the end of a block take as long as this number of records per warp."""

_TRIED = 16
"""How many numbers of slots are compared to find the fastest."""

_BLOCKS = 3
"""Blocks that count on a multiprocessor at the same time."""

_MOST_SHARED = 72 << 10
"""Bytes of shared memory per block, so that several blocks fit on a processor."""

_TOGETHER = 4
"""Blocks on a multiprocessor at the same time that draw all components in one launch."""

_MOST_TOGETHER, _RESERVED = 56 << 10, 1 << 10
"""Bytes of shared memory of such a block, so that four fit; and those that the device takes."""

_MOST_WAITING = 16
"""Most blocks that wait for each other: their counts must fit into ``TILE_PLANES``."""

_MEETINGS = 5
"""Two meetings of such blocks and a draw take as long as this number of records per warp."""

_ROWS = 1 << 14
"""Least number of rows of counts that pays for a thread."""


class Rows(NamedTuple):
    """Rows whose entries are counted, on the device."""

    ones: Any  # the data, transposed: one line per column
    known: Any  # None if all entries are known
    bits: Any  # their bits of all components, one line each, then a line of zeros and one of ones
    n: int

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.bits) - 2

    @property
    def n_words(self) -> int:
        """Number of words per line of bits."""
        return int(self.bits.shape[1])


def tiles_of(engine: DeviceMemory, n_rows: int) -> int:
    """Return the number of tiles, each of as many rows as a warp counts at once."""
    return -(-n_rows // (32 * engine.device.lanes * VECTOR))


def warps_of(engine: DeviceMemory) -> int:
    """Return the number of warps of a block that counts."""
    return int(min(COUNT_WARPS, engine.device.warps))


def count(
    engine: DeviceMemory, name: str, rows: Rows, n_slots: int, component: int, visits: Visits,
    records: Any, n_records: int, counters: Any, *more: Any,
) -> None:  # fmt: skip
    """Launch a kernel that counts the free entries of one component in all rows."""
    device, warps, tiles = engine.device, warps_of(engine), tiles_of(engine, rows.n)
    tile = 4 * device.lanes * VECTOR  # bytes of a line
    own, ending = 4 * 2 * RECORD * warps, "_of_many"
    if own + len(rows.bits) * tile <= min(_MOST_SHARED, device.shared):
        ending = "" if rows.known is None else "_known"
        own += len(rows.bits) * tile
    shared = max(own, warps * PART_PLANES * tile)  # room for the sums over warps
    device.launch(
        name + ending, (tiles * n_slots, 1), device.lanes * warps,
        [rows.ones, NULL if rows.known is None else rows.known, i64(rows.ones.strides[0] // 4),
         rows.bits, i64(rows.n_words), u32(tiles), u32(component), u32(rows.n_components),
         records, u32(n_records), u32(visits.room), visits.masks, u32(visits.n_masks), counters,
         *more],
        shared,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def plan_slots(n_tiles: int, n_records: int, warps: int, n_processors: int) -> int:
    """Return the number of slots that keeps all processors busy with blocks that are long enough.

    A slot is a share of a component's records; each has counters of its own.
    """
    if n_records == 0:
        return 0
    least = -(-n_records // (_MOST_A_PART * warps))

    def cost(slots: int) -> float:
        rounds = -(-n_tiles * slots // n_processors)
        return rounds * (-(-n_records // (warps * slots)) + _START) + 0.1 * slots

    return min(range(least, least + _TRIED), key=cost)


class OneLaunch(NamedTuple):
    """How all components are drawn in one launch (``kernels/draw_components.cu``)."""

    tiles: int
    slots: int  # blocks that count for the same tile, and wait for each other
    warps: int  # of a block
    shared: int  # bytes of shared memory per block

    @classmethod
    def plan(cls, engine: DeviceMemory, rows: Rows, n_records: Index) -> OneLaunch | None:
        """Divide the records of components; None if there are too many tiles or records."""
        device, tiles = engine.device, tiles_of(engine, rows.n)
        warps = int(min(TILE_WARPS, device.warps))
        line = 4 * device.lanes * VECTOR  # bytes
        staged = max(warps * PART_PLANES, 2 * TILE_PLANES)
        shared = 4 * 2 * RECORD * warps + (staged + len(rows.bits)) * line
        at_once = device.n_processors * min(_TOGETHER, device.shared // (shared + _RESERVED))
        most = _MOST_WAITING if device.runs_together else 1
        least = -(-int(n_records.max(initial=0)) // (_MOST_A_PART * warps))
        if at_once == 0 or shared > _MOST_TOGETHER or least > most:
            return None
        mean = float(n_records.mean())

        def cost(slots: int) -> float:
            n_records = -(-mean // (warps * slots))  # per warp
            return -(-tiles * slots // at_once) * (n_records + _MEETINGS) + 0.1 * slots

        slots = min(range(max(1, least), most + 1), key=cost)
        if device.runs_together and tiles * slots > at_once:
            return None  # what is gained within a tile is lost where the last tiles run alone
        return cls(tiles, slots, warps, shared)


class Slots(NamedTuple):
    """How the records of some components are divided among warps, class by class."""

    team: int  # warps that count a slot together
    ranges: Any  # (n_slots, 3), on the device: first record, end and number of every slot
    firsts: Index  # the first range of every component, and the end of the last one
    of_classes: Any  # (n_components, n_classes + 1), on the device: first slot of every class
    most: int  # largest number of slots of a component

    @classmethod
    def plan(cls, engine: DeviceMemory, starts: Index, n_components: int, n_rows: int) -> Slots:
        """Divide the records of all lists, which begin at ``starts``.

        Slots are as long as counters and the number of processors allow, so that there are few.
        Where most classes are short, every warp counts a slot of its own. The longest slots of a
        component come first: others fill in where they end.
        """
        n_records = np.diff(starts).reshape(n_components, -1)
        total = int(n_records.sum()) / max(1, n_components)
        warps = warps_of(engine)
        at_once = _BLOCKS * engine.device.n_processors * warps
        part = int(tiles_of(engine, n_rows) * total / at_once)
        part = min(_MOST_A_PART, max(_LEAST_A_PART, part))
        n_used = max(1.0, np.count_nonzero(n_records) / max(1, n_components))
        team = warps if total / n_used >= part * warps else 1
        ranges, of_classes, firsts = divide(starts, n_components, part * team)
        sent = engine.sent(ranges, of_classes)
        most = int(of_classes[:, -1].max(initial=1))
        return cls(team, sent[0].reshape(-1, 3), firsts, sent[1].reshape(of_classes.shape), most)

    @staticmethod
    def largest(starts: Index, n_components: int) -> int:
        """Return about how many slots a component has at most if there are many rows."""
        n_records = np.diff(starts).reshape(n_components, -1)
        return int(n_records.sum(axis=1).max()) // _MOST_A_PART + n_records.shape[1]

    def counters(self, engine: DeviceMemory, n_words: int) -> Any:
        """Return room for the counters of one component."""
        return engine.xp.empty((max(1, self.most) * 2 * SLOT_PLANES, n_words), u32)

    def fill(
        self, engine: DeviceMemory, rows: Rows, number: int, component: int, visits: Visits,
        counters: Any,
    ) -> None:  # fmt: skip
        """Count the free entries of all rows by class, for the component of that number.

        ``component`` is the same number, or NONE if the lists are those of no component.
        """
        lo, hi = self.firsts[number : number + 2].tolist()
        if lo == hi:
            return
        n_blocks = -(-(hi - lo) * self.team // warps_of(engine))
        count(
            engine, "count_component_by_class", rows, n_blocks, component, visits, visits.records,
            0, counters, self.ranges[lo:hi], u32(hi - lo), u32(self.team),
        )  # fmt: skip


NONE = 0xFFFFFFFF
"""Stands for no component, as in ``kernels/``."""


def planes_of(largest: int) -> tuple[str, int]:
    """Return the name and number of the planes that hold counts up to the largest."""
    for name, planes in (("short_", SLOT_PLANES), ("", SUM_PLANES)):
        if largest >> planes == 0:
            return name, planes
    return "long_", LONG_PLANES


def staged_bytes(engine: DeviceMemory, planes: int) -> int:
    """Return the shared memory in which a block adds up the counters of some classes."""
    warps = int(engine.device.warps)
    n_classes = (warps + 1) // 2 if planes > SUM_PLANES else warps
    width = (-(-2 * planes // VECTOR) | 1) * VECTOR
    return int(4 * n_classes * engine.device.lanes * width)


class FreeCounts:
    """Counts the free entries of rows in sets of columns, by class of column.

    The sets are given with their columns in the order of the classes, with their sizes by class.
    Their visits are listed when they are first needed.
    """

    def __init__(
        self, engine: DeviceMemory, in_order: Lines, sizes: Index, covering: Lines,
        classes: Classes, n_others: float, masks: Any,
    ) -> None:  # fmt: skip
        self.engine = engine
        self._starts = first_records(sizes)
        self._largest = int(sizes.max(initial=0))
        self.n_lists = sizes.size
        self._given = in_order, masks, covering.n_lines, n_others, classes

    @cached_property
    def _visits(self) -> Visits:
        in_order, masks, n_components, n_others, classes = self._given
        return Visits(
            self.engine, in_order, masks, n_components,
            self.engine.xp.asarray(EIGHT * self._starts), EIGHT * int(self._starts[-1]), n_others,
            classes, is_own=False,
        )  # fmt: skip

    @property
    def bits_per_row(self) -> int:
        """Memory that counting takes, in bits per row."""
        return 2 * SLOT_PLANES * Slots.largest(self._starts, 1) + 64 * self.n_lists

    def count(self, rows: Rows, first: int = 0) -> Any:
        """Return the free ones and zeros, ``(n_sets * n_classes, 2, n_rows)``.

        Rows before the first are left out.
        """
        engine, n = self.engine, rows.n - first
        slots = Slots.plan(engine, self._starts, 1, rows.n)
        counters = slots.counters(engine, rows.n_words)
        slots.fill(engine, rows, 0, NONE, self._visits, counters)
        out = engine.xp.empty((self.n_lists, 2, n), u32)
        name, planes = planes_of(self._largest)
        lanes = engine.device.lanes
        engine.device.launch(
            f"unpack_{name}counts", (-(-rows.n // (32 * lanes)), 1), lanes * engine.device.warps,
            [counters, slots.of_classes, u32(self.n_lists), i64(rows.n_words), i64(first), i64(n),
             out],
            staged_bytes(engine, planes),
        )  # fmt: skip
        return out


def count_in_parts(
    engine: DeviceMemory, mode: int, rows: tuple[int, int], sets: Lines, users: Lines,
    codes: Lines, classes: Classes,
) -> Iterator[tuple[int, int, Any]]:  # fmt: skip
    """Count the free entries of a range of rows, so many rows at a time as there is room for.

    Yields a first row, an end, and the free ones and zeros, ``(n_sets * n_classes, 2, n_rows)``.
    Users and codes are those of the components that cover.
    """
    n_others = float(engine.sizes(codes)[:, 0].sum()) / (32 * codes.n_words)
    masks = components_of(engine, codes)
    classes = classes.rearranged(engine, masks)
    in_order = classes.in_order(engine, sets)
    sizes = classes.sizes(engine, in_order)
    counting = FreeCounts(engine, in_order, sizes, codes, classes, n_others, masks)
    lo, hi = rows
    first = lo // 128 * 128  # whole vectors of words
    step = engine.rows_to_count(counting.bits_per_row, max(1, hi - first))
    if len(engine.totals.shape) > 2:
        step = min(step, engine.rows_at_once(mode, hi - first))
    step = -(-step // 128) * 128
    for start in range(first, hi if lo < hi else first, step):
        stop = min(start + step, hi)
        bits = engine.with_room(users.words[:, start // 32 : -(-stop // 128) * 4])
        here = Rows(*engine.transposed_range(mode, start, stop), bits, stop - start)
        yield max(lo, start), stop, counting.count(here, max(0, lo - start))


def count_by_column(
    engine: DeviceMemory, mode: int, rows: tuple[int, int], cover: Cover, sets: Words,
    classes: Classes,
) -> Index:  # fmt: skip
    """Count the free entries of a range of rows by set and class, in the vertical form."""
    index = engine.xp.asarray(np.flatnonzero(cover.is_counted))
    users, codes = (
        lines._replace(words=lines.words[index])
        for lines in (engine.lines(cover.users), engine.lines(cover.codes))
    )
    lo, hi = rows
    sets_here = engine.upload(sets)
    counts = np.empty((hi - lo, len(sets) * classes.n, 2), np.int64)
    for start, stop, found in count_in_parts(engine, mode, rows, sets_here, users, codes, classes):
        into = counts[start - lo : stop - lo]
        parallel_for(
            _take, len(into), engine.threads, into,
            engine.device.to_host(found.transpose(2, 0, 1)), step=_ROWS,
        )  # fmt: skip
    return counts


def _take(lo: int, hi: int, into: Index, counts: NDArray[Any]) -> None:
    """Copy some rows of counts, which are made longer integers."""
    into[lo:hi] = counts[lo:hi]
