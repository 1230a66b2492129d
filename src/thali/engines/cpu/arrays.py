"""The arguments of compiled code: data and work orders as plain tuples of arrays.

Plain tuples are as fast as single arguments, while named tuples cost three microseconds per call.
Also, Numba's cache on disk becomes unreadable when the class of a named tuple is removed or
renamed. Kernels unpack the tuples under the names given here.

``Data``
    ``ones, known, n_columns``: the unfolding of a mode, whose ``known`` has no rows if all entries
    are known; and the number of its columns without padding.
``Order``
    ``rows, codes, is_held, weights, singles, prior, key, sweep, site``: a work order
    (:class:`thali.engines.base.RowUpdate`). The weights of a one and of a zero are
    ``(n_row_classes, n_column_classes, n_integrated + 1, 2)``; ``singles`` is the number of
    single-row components that are integrated out, per row.
``Segments``
    ``words, masks, of_segments``: word, bits and class of every segment, which is a set of bits of
    one word that belong to columns of one class, if columns are sorted by class
    (:mod:`thali.engines.cpu.by_class`); empty if there is one class.
``Parts``
    ``of_parts, at, masks, classes, words``: set, number of the word, bits and class of every part,
    which is a set of bits of one word that belong to one set of columns and to one class; and the
    words that have any (:func:`thali.engines.cpu.gain_by_class.list_parts`).
``Kinds``
    ``kinds, weights, is_even``: what rows with the same weights have in common
    (:func:`thali.engines.cpu.vertical_by_class.number_kinds`).
``Opened``
    ``users, codes, sizes, is_held, singles``: the components in the order of visits and their
    roles in a block of rows (:class:`thali.engines.base.Block`), without those of single rows.
``Side``
    ``ones, known, places, segments, classes, weights``: the unfolding of a mode with its columns
    sorted by class, the column at every place, the segments, the class of every row, and the
    gains by covering a one and a zero, ``(n_row_classes, n_column_classes, 2)``. With one class,
    columns are as they are, and ``places``, ``segments`` and ``classes`` are empty.
``Near``
    ``data, rows, columns``: the data of a matrix as they are, and the sides of both modes.
``Whole``
    ``data, across, rows, singles, is_vertical, threads, n_parts``: the unfoldings of a mode of a
    matrix and of the other mode, the numbers of all rows, zeros for all rows, whether the vertical
    form of the row kernel is faster, and how many threads share the rows in how many parts.
``Born``
    ``n_new, density, covered``: results per row, which are the number of its new components, the
    number of their density in the table, and the ones and zeros that the row covers.
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
    Segments: TypeAlias = tuple[Words, Words, Index]
    Parts: TypeAlias = tuple[Index, Index, Words, Index, Index]
    Kinds: TypeAlias = tuple[Index, NDArray[np.int64], bool]
    Opened: TypeAlias = tuple[Words, Words, Index, NDArray[np.bool_], Index]
    Side: TypeAlias = tuple[Words, Words, Index, Segments, Index, NDArray[np.float64]]
    Near: TypeAlias = tuple[Data, Side, Side]
    Whole: TypeAlias = tuple[Data, Data, Index, Index, bool, int, int]
    Born: TypeAlias = tuple[Index, Index, Index]
