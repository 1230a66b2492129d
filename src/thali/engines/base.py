"""The interface of an engine, which separates the sampler from the data.

The sampler never reads the data itself. It asks an engine, which computes where the data are: on
the threads of this machine or on a GPU. All engines compute exactly the same results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Factor, Index, PackedTensor, Totals, Words
    from thali.engines.cpu.arrays import Near, Whole
    from thali.model.births import BirthDeathTables, BirthTables
    from thali.model.weights import Weights
    from thali.streams import Stream

LARGE = 1 << 24
"""Number of entries from which ``"auto"`` uses the GPU. At this size, a sweep on an H200 takes
three quarters of the time that it takes on the 16 cores of the same machine; at 268 million
entries, a third (``benchmarks/gpu.py --crossover``)."""


class RowUpdate(NamedTuple):
    """A work order: draw the entries of some rows of one mode's factor.

    The host makes the scores, which are integers (:mod:`thali.decide`), so that every engine takes
    the same decisions.
    """

    mode: int
    rows: Any  # a block from `partition`, or increasing row numbers; None for all rows
    codes: Factor  # columns of each component, with the components in visiting order
    is_held: NDArray[np.bool_]  # components whose entries are not drawn
    weights: Weights  # gain by covering an entry, as integers
    singles: Any  # number of integrated single-row components per row, as in `Block`; or None
    prior: NDArray[np.int64] | Callable[[], NDArray[np.int64]]  # or what draws it: see `odds`
    stream: Stream
    site: int

    @property
    def odds(self) -> NDArray[np.int64]:
        """Prior log odds of each component, asked for late: devices count meanwhile."""
        return self.prior() if callable(self.prior) else self.prior


class Cover(NamedTuple):
    """Components, and which of them count as covering the rows of one mode."""

    codes: Factor  # columns of each component
    users: Factor  # rows of each component
    is_counted: NDArray[np.bool_]  # components that count; the others are ignored


class Births(NamedTuple):
    """New single-row components of the rows of a work order."""

    lines: tuple[Words, ...]  # one per mode: (n_births, n_words)
    covered: tuple[int, int]  # ones and zeros covered in these rows, also by new components


class BirthDeaths(NamedTuple):
    """Births and deaths of single-row components, at most one per row."""

    births: Births
    density: Index  # number of each birth's density in the table
    has_died: NDArray[np.bool_]  # whether each component has died


class Block(NamedTuple):
    """The components in the order of visits, classified with respect to a block of rows."""

    order: Index
    factors: tuple[Factor, ...]  # with the components in that order
    sizes: Index  # number of users of each component
    is_held: NDArray[np.bool_]  # components without a user outside the block
    is_single: NDArray[np.bool_]  # components with a single user, which is in the block
    singles: Any  # number of single-row components left out per row of the block; None if none


class Nearby(NamedTuple):
    """The data of a matrix as compiled code takes them, for many questions in one call."""

    data: Near  # see :mod:`thali.engines.cpu.arrays`
    is_large: bool  # whether a question about all data is for all threads and processes together
    threads: int  # how many threads this process has
    here: tuple[int, int, int, int]  # first row, end of rows, the same for columns: what is near


class Engine(Protocol):
    """Holds the data and does all computations that read them."""

    totals: Totals  # sums over the loaded data
    can_scan: bool  # whether the engine can update rows one after another (serial schedule)

    @property
    def waited(self) -> float | None:
        """Share of the time spent waiting for other processes; None if there are none."""

    # --- data -------------------------------------------------------------------------------

    def load(self, tensor: PackedTensor) -> Engine:
        """Return an engine like this one with the data loaded; this one is not changed."""

    def on_host(self, rows: Index | None) -> HostEngine:
        """Return an engine of this machine's threads with some rows of the first mode, or all.

        Starts use it: they need more than an engine can be asked for otherwise, but on few rows.
        """

    def serve_chains(self, n_chains: int) -> int:
        """Divide the threads among chains; return how many chains run in parallel."""

    def agree(self, wish: bool) -> bool:  # noqa: FBT001 - the only argument
        """Return whether any process that shares the data wishes so; all get the same answer.

        What depends on the clock or on a signal must be asked here, because all processes that
        share the data have to go the same way.
        """

    def found_by_any(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return what any process that shares the data has found; all get the same answer."""

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""

    def partition(self, stream: Stream, n_blocks: int) -> Sequence[Any]:
        """Divide the rows of the first mode at random into blocks, independent of the state.

        The engine chooses the representation of a block; the sampler only passes it back.
        """

    def rows_of(self, block: Any) -> Index:
        """Return the numbers of the rows of a block, in increasing order, on the host."""

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Any, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them with respect to a block of rows.

        If ``is_integrated``, components of a single row of the block are left out and counted.
        """

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""

    def scan_blocks(
        self, stream: Stream, rows: Sequence[Any], factors: tuple[Factor, ...],
        tables: BirthTables,
    ) -> tuple[tuple[Factor, ...], tuple[int, int]] | None:  # fmt: skip
        """Do all blocks of a partition at once if they are small; None if they are not.

        The result is that of :meth:`order_components` and :meth:`update_with_births` for one block
        after another: the factors and the covered ones and zeros.
        """

    def birth_death(
        self,
        job: RowUpdate,
        factor: Factor,
        is_single: NDArray[np.bool_],
        tables: BirthDeathTables,
    ) -> BirthDeaths:
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
        """Update all rows one after another; return the factors and the covered ones and zeros."""

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count the covered ones and covered zeros per row: ``(n_rows, 2)``."""

    def count_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words,
        of_columns: Index | None = None,
    ) -> Index:  # fmt: skip
        """Count the free ones and zeros per row of a range and per class of columns.

        An entry is free if it is known and not covered. Returns ``(n_rows, n_classes, 2)``. If
        columns have error rates of their own, ``of_columns`` divides every class further; the
        result is then ``(n_rows, n_classes * n_column_classes, 2)``.
        """

    def gains_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, sets: Words, weights: Weights
    ) -> NDArray[np.float64]:
        """Return what every row of a range gains by covering its free entries in sets of columns.

        Rows and columns have classes (eq. 27). Returns ``(n_rows, n_sets)``.
        """

    def score_bits(
        self, mode: int, rows: Index | None, codes: Factor, before: Factor, after: Factor,
        weights: Weights,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the gain in log-likelihood by every bit of some rows of a factor, or of all.

        All other bits are as in a sweep from the factor ``before`` to the factor ``after``:
        earlier components have their bits after, later ones those before. Returns ``(n_rows,
        n_components)``, the same on any engine if the weights are rounded.
        """

    def count_lines(self, mode: int, factors: tuple[Factor, ...], classes: Index) -> LineCounts:
        """Count the entries of all lines of a mode, by class of column and cover."""

    def count_in_window(self, rows: Index, window: slice, cover: Cover, classes: Words) -> Index:
        """Count as :meth:`count_by_class`, for any rows of the first mode and some columns.

        ``window`` is a range of words of columns, as long as the words of the classes.
        """

    def free_in_window(self, rows: Index, window: slice, cover: Cover) -> tuple[Words, Words]:
        """Return the free entries and all ones of a few rows of the first mode, in some columns.

        ``window`` is a range of words of columns. Both results are packed, ``(n_rows, n_words)``.
        """

    def near(self, weights: Weights, n_components: int) -> Nearby | None:
        """Return the data of a matrix as compiled code takes them; None if they are elsewhere.

        Moves then read them within one call, instead of asking again and again.
        """

    def whole(self, mode: int, codes: Words) -> Whole | None:
        """Return the data of a mode of a matrix as one call takes them that updates all rows.

        None if the data are elsewhere, or so large that nobody could interrupt the call.
        """

    def row_sets(self, factors: tuple[Factor, ...]) -> RowSets | None:
        """Return sets of rows where the data are, with which moves look ahead; or None.

        None if there are none, or if they would not save time.
        """

    # --- work that needs no data ------------------------------------------------------------

    def over_rows(
        self, kernel: Callable[..., Any], n_rows: int, *arguments: Any, step: int,
        made: Made = (),
    ) -> None:  # fmt: skip
        """Run a compiled function whose first two arguments are a range of rows, on threads.

        A range has a multiple of ``step`` rows. Engines whose processes share the rows must know
        which arrays are ``made``.
        """


Made: TypeAlias = "Sequence[tuple[NDArray[Any], int]]"
"""Arrays that a compiled function makes, and for how many rows an element of each stands: 64 for
words, 1 for numbers of rows, and more for sums."""


class RowSets(Protocol):
    """Sets of rows of a matrix, where the data are: users of components, and sets made of them.

    The engine chooses the representation of a set; the sampler only passes it back. A question is
    answered later, together with others (:meth:`answer`), so that the engine waits only once.
    """

    n_components: int
    sizes: Index  # number of users of every component

    def answer(self, questions: Sequence[Any]) -> list[NDArray[Any]]:
        """Wait for the answers to some questions."""

    def users(self, component: int) -> Any:
        """Return the users of a component."""

    def combined(self, sets: Sequence[Any], *, is_union: bool) -> Any:
        """Return the union or the intersection of sets."""

    def joined(
        self, stream: Stream, site: int, number: int, sets: Sequence[Any],
        rates: NDArray[np.float64],
    ) -> Any:  # fmt: skip
        """Draw which rows join, at the rate of rows in neither, one or both of two sets."""

    def divided(
        self, stream: Stream, site: int, number: int, users: Any, shares: tuple[float, float]
    ) -> tuple[Any, Any]:
        """Assign every user to the first part, the second or both.

        A user is in the first part only if its random number is below the first share, and in the
        second only if it is below the second share.
        """

    def settled(
        self, stream: Stream, site: int, number: int, users: Any, window: slice, marks: Words,
        is_counted: NDArray[np.bool_], weights: tuple[float, float],
    ) -> tuple[tuple[Any, Any], Any]:  # fmt: skip
        """Assign every user to the part whose marks fit it, or to both.

        The marks are in a window of words of columns; entries that the counted components cover
        say nothing. Returns the parts, and the question how many users' parts rounding could
        change.
        """

    def overlaps(self, rows: Any) -> Any:
        """Ask how many members a set shares with the users of every component, and has itself."""

    def gains_of_columns(
        self, columns: tuple[int, int], is_counted: NDArray[np.bool_], sets: Sequence[Any],
        weights: Weights,
    ) -> Any:  # fmt: skip
        """Ask what columns gain by covering their free entries in classes of rows.

        Rows in the same sets are a class. Entries that the counted components cover are not free.
        All questions that are answered together are about as many columns. The answer has the
        shape ``(n_columns, n_classes)``.
        """

    def gains_of_rows(
        self, code: Words, cover: Cover, weights: Weights, rows: Any, least: float, most: int
    ) -> Any:
        """Ask what rows gain by covering their free entries in the columns of a code.

        The answer is the sum over a set of rows (None for no rows) times ``GAIN_SCALE``, the sum
        of absolute values, the number of rows that gain more than ``least``, then as many as
        ``most`` of these rows, and the bits of their gains as real numbers.
        """


GAIN_SCALE = 1 << 20
"""What gains are multiplied by before they are rounded and added up."""


class Hidden(NamedTuple):
    """Known entries that an engine does not know."""

    positions: Index  # (n_hidden, n_modes)
    values: NDArray[np.bool_]


class LineCounts(NamedTuple):
    """Entries by line of a mode and class of column, from which levels are drawn."""

    uncovered: NDArray[np.uint32]  # (n_lines, n_classes): known entries that nothing covers
    known: NDArray[np.uint32]  # all known entries; one row for all lines if all are known
    n_ones: Index  # (2, n_lines): uncovered and covered ones


class FreeEntries(Protocol):
    """The known entries of a matrix that no component covers, while components are added."""

    def count(self, mode: int, classes: Words) -> Index:
        """Count free ones and zeros per row of a mode and class, ``(n_rows, n_classes, 2)``."""

    def gains(self, mode: int, sets: Words, weights: Weights) -> NDArray[np.float64]:
        """Return what every row of a mode gains by covering its free entries in sets of columns.

        Rows and columns have classes. Returns ``(n_rows, n_sets)``.
        """

    def of_row(self, row: int) -> Words:
        """Return the free ones and the free zeros of a row of the first mode, packed."""

    def cover(self, lines: Sequence[Words]) -> None:
        """Remove the entries of a further component, given by one line per mode."""


class HostEngine(Engine, Protocol):
    """An engine of this machine's threads, which also answers the questions of a start."""

    def hide(self, stream: Stream, share: float) -> tuple[HostEngine, Hidden]:
        """Return an engine that does not know a random share of the entries, and these entries."""

    def of_lines(self, lines: Sequence[Index]) -> HostEngine:
        """Return an engine with some lines of every mode of a tensor."""

    def as_matrix(self) -> HostEngine:
        """Return an engine with a tensor unfolded to a matrix.

        Columns are the combinations of lines of all modes but the first, with padding.
        """

    def uncovered(self, factors: Sequence[Factor]) -> FreeEntries:
        """Return the entries that no component covers."""
