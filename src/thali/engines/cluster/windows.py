"""Counts in a window of a few columns of a matrix, to which every process adds those of its rows.

Most moves are rejected by a window of columns (:mod:`thali.sampler.moves.move`). The columns of a
window are in one or two processes, for which all others would wait. So every process transposes
the window of its own rows instead, and all add their counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import WORD, gather_bits, n_words, transpose
from thali.engines.cpu.by_class import list_segments
from thali.engines.cpu.count_by_class import count_free_rows, count_sorted_rows
from thali.engines.host import NOTHING

if TYPE_CHECKING:
    from thali.bits import Index, Words
    from thali.engines.base import Cover
    from thali.engines.cluster.parts import Part
    from thali.engines.cpu.arrays import Segments


class Classes(NamedTuple):
    """The rows of this process in the order of their classes."""

    given: Index  # the classes of all rows, by which this is found again
    places: Index  # the row at every place, counted from the first row of this process
    segments: Segments
    n: int

    @classmethod
    def of(cls, given: Index, lo: int, hi: int) -> Classes:
        """Sort the rows ``lo … hi-1``, given the classes of all rows."""
        places = np.argsort(given[lo:hi], kind="stable")
        return cls(given, places, list_segments(given[lo:hi][places]), int(given.max()) + 1)


def count_in_columns(
    part: Part, columns: tuple[int, int], cover: Cover, sets: Words, classes: Classes | None = None
) -> Index:
    """Count the free ones and zeros per column of a range, in sets of rows of this process.

    ``cover.codes`` and the sets are packed rows, and ``cover.users`` packed columns. Returns
    ``(n_columns, n_sets, 2)``, or ``(n_columns, n_sets * n_classes, 2)`` with classes of rows.
    """
    lo, hi, ones, known = part
    here = slice(lo // WORD, lo // WORD + n_words(hi - lo))
    window = slice(columns[0] // WORD, n_words(columns[1]))
    users = np.ascontiguousarray(cover.users.words[:, window])
    first, n_columns = columns[0] - WORD * window.start, columns[1] - columns[0]

    def lines(words: Words) -> Words:
        """Return packed sets of rows of this process."""
        own = np.ascontiguousarray(words[:, here])
        in_order: Words = own if classes is None else gather_bits(own, classes.places)
        return in_order

    def across(words: Words) -> Words:
        """Return the columns of the window."""
        rows = words[:, window]
        rows = np.ascontiguousarray(rows) if classes is None else rows[classes.places]
        return transpose(rows, WORD * rows.shape[1])  # type: ignore[no-any-return]

    data = across(ones), NOTHING if known is None else across(known)
    order = lines(cover.codes.words), users, cover.is_counted, lines(sets)
    if classes is None:
        counts = np.empty((n_columns, len(sets), 2), np.int64)
        count_free_rows(0, n_columns, first, *data, *order, counts)
        return counts
    by_class = np.empty((n_columns, len(sets), classes.n, 2), np.int64)
    count_sorted_rows(0, n_columns, first, *data, *order, classes.segments, by_class)
    return by_class.reshape(n_columns, len(sets) * classes.n, 2)
