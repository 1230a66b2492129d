"""What compiled code gets: data and work orders as plain tuples of arrays.

Plain, because Numba takes them as fast as single arguments, while named tuples cost three
microseconds per call; and its cache on disk could not be read any more once such a name is gone.
Kernels unpack them under the names given here.

``Data``
    ``ones, known, n_columns``: the unfolding of a mode, whose ``known`` has no rows if all entries
    are known; and its columns without padding.
``Order``
    ``rows, codes, is_held, weights, singles, prior, key, sweep, site``: a work order
    (:class:`thali.engines.base.RowUpdate`); weights are ``(n_integrated + 1, 2)``, of a one and of
    a zero, and singles say for every row how many single-row components are integrated out.
``Born``
    ``n_new, density, covered``: filled in for every row: its new components, which of the
    tabulated densities they have, and the ones and zeros that the row covers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words

    Data: TypeAlias = tuple[Words, Words, int]
    Order: TypeAlias = tuple[
        Index, Words, NDArray[np.bool_], NDArray[np.int64], Index, NDArray[np.int64],
        np.uint64, np.uint64, np.uint64,
    ]  # fmt: skip
    Born: TypeAlias = tuple[Index, Index, Index]
