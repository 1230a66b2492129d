"""What an engine does: the border between the sampler and the data.

The sampler never looks at data. It asks an engine, which computes where the data lie: on the
threads of this machine or on a GPU. Engines differ in where they compute, never in what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from thali.bits import Factor, Index, PackedTensor, Totals, Words
    from thali.model.births import BirthDeathTables, BirthTables
    from thali.model.weights import Weights
    from thali.streams import Stream


class RowUpdate(NamedTuple):
    """A work order: draw entries of some rows of one mode's factor.

    Scores are integers (:mod:`thali.decide`), made on the host, so that every engine takes the
    same decisions.
    """

    mode: int
    rows: Any  # a part of `partition`, or row numbers in increasing order; None for all rows
    codes: Factor  # what a component of the other modes covers, components in visiting order
    is_held: NDArray[np.bool_]  # components that keep their value
    weights: Weights  # what covering an entry gains, as integers
    singles: Any  # of `order_components`: each row's integrated single-row components, or None
    prior: NDArray[np.int64]  # prior log odds of each component
    stream: Stream
    site: int


class Cover(NamedTuple):
    """Some of the components, as far as they cover the rows of one mode."""

    codes: Factor  # columns of every component
    users: Factor  # its rows
    is_counted: NDArray[np.bool_]  # which components cover; the others are left out


class Births(NamedTuple):
    """New single-row components of the rows of a work order."""

    lines: tuple[Words, ...]  # one per mode: (n_births, n_words)
    covered: tuple[int, int]  # ones and zeros that these rows now cover, new components included


class BirthDeaths(NamedTuple):
    """Births and deaths of single-row components, at most one per row."""

    births: Births
    density: Index  # which of the tabulated densities each birth has
    has_died: NDArray[np.bool_]  # for every component


class Block(NamedTuple):
    """The components in the order they are visited, as a block of rows sees them."""

    order: Index
    factors: tuple[Factor, ...]
    sizes: Index  # users of each component
    is_held: NDArray[np.bool_]  # nobody outside the block uses it
    is_single: NDArray[np.bool_]  # it has one user, who is in the block
    singles: Any  # for every row of the block: how many components of its own were left out


class Engine(Protocol):
    """Where the data are, and all that looks at them."""

    totals: Totals  # of the data that are loaded
    can_scan: bool  # whether it can update one row after another, as serial schedules do

    # --- data -------------------------------------------------------------------------------

    def load(self, tensor: PackedTensor) -> Engine:
        """Return an engine like this one that has the data; this one is not changed."""

    def of_rows(self, rows: Index) -> Engine:
        """Return an engine with some rows of the first mode of the data."""

    def serve_chains(self, n_chains: int) -> int:
        """Divide the threads among chains; return how many chains run side by side."""

    # --- updates of a factor ----------------------------------------------------------------

    def update(self, job: RowUpdate, factor: Factor) -> tuple[Factor, tuple[int, int]]:
        """Carry out a work order; return the factor and the ones and zeros newly covered."""

    def partition(self, stream: Stream, n_blocks: int) -> Sequence[Any]:
        """Divide the rows of the first mode at random into blocks, whatever the state.

        The engine decides how it represents a block: the sampler only hands it back.
        """

    def order_components(
        self, stream: Stream, number: int, factors: tuple[Factor, ...], rows: Any, *,
        is_integrated: bool,
    ) -> Block:  # fmt: skip
        """Order the components at random and classify them as a block of rows sees them.

        Components of a single row are left out, and counted for each row, if integrated.
        """

    def reorder(self, factors: tuple[Factor, ...], order: Index) -> tuple[Factor, ...]:
        """Return the factors with their components in another order."""

    def update_with_births(
        self, job: RowUpdate, factor: Factor, tables: BirthTables
    ) -> tuple[Factor, Births]:
        """Carry out a work order, then draw all single-row components of its rows anew."""

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
        """Do the serial schedule's pass over the rows; return what they cover."""

    # --- questions about the data -----------------------------------------------------------

    def count(self, mode: int, rows: Index | None, codes: Factor, factor: Factor) -> Index:
        """Count covered ones and covered zeros of rows: ``(n_rows, 2)``."""

    def count_by_class(
        self, mode: int, rows: tuple[int, int], cover: Cover, classes: Words
    ) -> Index:
        """Count free ones and zeros of a range of rows by class of columns.

        Free is what is known and not covered. Returns ``(n_rows, n_classes, 2)``.
        """

    def count_in_window(self, rows: Index, window: slice, cover: Cover, classes: Words) -> Index:
        """Count as :meth:`count_by_class`, any rows of the first mode, in a window of columns.

        ``window`` are words of columns, as many as the classes have.
        """

    def free_in_window(self, rows: Index, window: slice, cover: Cover) -> tuple[Words, Words]:
        """Return the free entries of a few rows of the first mode, and all their ones.

        ``window`` are words of columns. Both results are ``(n_rows, n_words)``, packed.
        """

    # --- work that needs no data ------------------------------------------------------------

    def over_rows(
        self, kernel: Callable[..., Any], n_rows: int, *arguments: Any, step: int
    ) -> list[Any]:
        """Run a compiled function over ranges of rows, its first two arguments."""
