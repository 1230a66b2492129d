"""What compiled code gets: data and work orders as plain arrays, several in one argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words


class Data(NamedTuple):
    """The unfolding of a mode."""

    ones: Words
    known: Words  # no rows if all entries are known
    n_columns: int  # without padding


class Order(NamedTuple):
    """A work order (:class:`thali.engines.base.RowUpdate`)."""

    rows: Index  # row numbers
    codes: Words
    is_held: NDArray[np.bool_]
    weights: NDArray[np.int64]  # (n_integrated + 1, 2): of a one, of a zero
    singles: Index  # for every row: its integrated single-row components
    prior: NDArray[np.int64]
    key: np.uint64
    sweep: np.uint64
    site: np.uint64


class Born(NamedTuple):
    """Births of the rows of a work order, filled in."""

    n_new: Index  # of every row
    density: Index  # of every row: which of the tabulated densities its new components have
    covered: Index  # (n_rows, 2): ones and zeros that a row covers
