# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The layout of the vertical form's working storage, and the list of what to visit in it.

The storage is one array ``s`` of lines of ``TILE`` words; a word holds one bit for each of 64
rows. Lines are addressed by unsigned offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import count_ones, popcount
from thali.engines.cpu.counters import TILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words

_T = np.uint64(TILE)
_N_PLANES = np.uint64(16)

FREE = np.uint64(0)  # eight lines of free rows, one per column of a group
ONES = np.uint64(8) * _T  # eight lines of free rows whose datum is one
FREE_SUM = np.uint64(16) * _T  # bit-sliced counter of FREE
ONES_SUM = FREE_SUM + _N_PLANES * _T  # bit-sliced counter of ONES
NONE = ONES_SUM + _N_PLANES * _T  # a line of zeros
BITS = NONE + _T  # the factor, one line per component; then the data, one line per column

_0, _1 = np.uint64(0), np.uint64(1)


@inner
def list_columns(codes: Words) -> tuple[Index, Index]:
    """List the columns of every component (compressed sparse rows)."""
    indptr = np.zeros(codes.shape[0] + 1, np.int64)
    sizes = count_ones(codes)
    for component in range(codes.shape[0]):
        indptr[component + 1] = indptr[component] + sizes[component]
    columns = np.empty(indptr[-1], np.int64)
    k = 0
    for component in range(codes.shape[0]):
        for w in range(codes.shape[1]):
            word = codes[component, w]
            while word != _0:
                lowest = word & (~word + _1)
                columns[k] = w * 64 + np.int64(popcount(lowest - _1))
                k += 1
                word ^= lowest
    return indptr, columns


@jit
def list_visits(codes: Words, is_held: NDArray[np.bool_], places: Index) -> tuple[Words, Words]:
    """List the columns of every component, and the other components of each column.

    If the columns of the codes are sorted, ``places`` has the column at every place; otherwise it
    is empty.

    Returns
    -------
    visits
        For each visit: the number of triples, the offset of the column's data, and the offsets of
        the other components in triples; the last triple is padded with the offset of a line of
        zeros.
    starts
        ``(n_components, 2)``: position of a component's first visit, and number of its visits.
    """
    n_components, width = codes.shape
    indptr, columns = list_columns(codes)
    first = np.zeros(width * 64 + 1, np.int64)  # where the components of each column begin
    for column in columns:
        first[column + 1] += 1
    length = 0
    for column in columns:
        length += 2 + 3 * max(1, (first[column + 1] + 1) // 3)
    first = np.cumsum(first)
    users = np.empty(columns.shape[0], np.int64)
    fill = first.copy()
    for component in range(n_components):
        for k in range(indptr[component], indptr[component + 1]):
            users[fill[columns[k]]] = component
            fill[columns[k]] += 1
    data = BITS + np.uint64(n_components) * _T
    visits = np.full(length, NONE, np.uint64)
    starts = np.zeros((n_components, 2), np.uint64)
    at = 0
    for component in range(n_components):
        if is_held[component]:
            continue
        starts[component, 0] = at
        starts[component, 1] = indptr[component + 1] - indptr[component]
        for column in columns[indptr[component] : indptr[component + 1]]:
            n_triples = max(1, (first[column + 1] - first[column] + 1) // 3)
            visits[at] = n_triples
            place = places[column] if places.shape[0] else column
            visits[at + 1] = data + np.uint64(place) * _T
            other = at + 2
            for k in range(first[column], first[column + 1]):
                if users[k] != component:
                    visits[other] = BITS + np.uint64(users[k]) * _T
                    other += 1
            at += 2 + 3 * n_triples
    return visits, starts
