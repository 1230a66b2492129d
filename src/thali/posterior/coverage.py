# Compiled: Numba's types count, calls cost, keywords do not exist (settings of lint and types).
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""The entries that draws cover, counted and summed in compiled code.

Draws come in batches of packed codes, members and starts
(:class:`thali.posterior.batches.Batch`). A kernel passes over the rows and combines the codes of
the components that a row has in each draw. The results of eight draws are handled together: as
eight one-bit numbers that are counted, or as the bits of a byte, by which a table gives the sum of
eight numbers.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import WORD, popcount
from thali.engines.cpu.counters import TILE, add_eight, read_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words

GROUP = 8
"""Draws handled together: whether each covers an entry is a bit of a byte."""

SEGMENT = 8 * TILE
"""Words of a row for which the components of a draw are looked up once."""

_ZERO, _ONE, _BYTE = np.uint64(0), np.uint64(1), np.uint64(255)
_EIGHT = np.uint64(GROUP)
_FIRST, _APART = np.int64(0), np.int64(TILE)  # plain integers would be types of their own
_PLANES = np.uint64(GROUP * TILE)


@inner
def _cover_row(
    codes: Words,
    members: Words,
    first: int,
    last: int,
    row: int,
    at: int,
    n: int,
    s: Words,
    line: int,
    stride: int,
) -> None:
    """Combine the codes of the components ``first:last`` that have a row.

    ``n`` words from ``at`` on are written to ``s``, one line per tile; lines are ``stride`` words
    apart.
    """
    word = row >> 6
    shift = np.uint64(row & 63)
    n_tiles = (n + TILE - 1) // TILE
    for tile in range(n_tiles):
        out = s[line + tile * stride : line + tile * stride + TILE]
        for t in range(TILE):
            out[t] = _ZERO
    for component in range(first, last):
        if (members[component, word] >> shift) & _ONE != _ZERO:
            for tile in range(n_tiles):
                start = tile * TILE
                out = s[line + tile * stride : line + tile * stride + TILE]
                code = codes[component, at + start : at + min(start + TILE, n)]
                for t in range(code.shape[0]):
                    out[t] |= code[t]


@inner
def _cover_group(
    codes: Words,
    members: Words,
    starts: Index,
    first: int,
    row: int,
    at: int,
    n: int,
    s: Words,
    stride: int,
) -> None:
    """Cover a row by eight draws, one line per draw and tile; missing draws cover nothing."""
    n_draws = starts.shape[0] - 1
    for j in range(GROUP):
        begin = starts[min(first + j, n_draws)]
        end = starts[min(first + j + 1, n_draws)]
        _cover_row(codes, members, begin, end, row, at, n, s, j * TILE, stride)


@jit
def add_level_values(
    lo: int, hi: int, codes: Words, members: Words, of_rows: Index, of_columns: Index,
    probabilities: NDArray[np.float64], ones: Words, sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Add the probabilities of data in a draw with levels of rows and columns to the sums.

    Parameters
    ----------
    codes, members
        Columns and rows of the components of the draw.
    of_rows, of_columns
        Classes of the rows and columns.
    probabilities
        ``(n_row_classes, n_column_classes, 2, 2)``: P(datum | covered), by datum and cover.
    ones
        The data; without rows, probabilities of a one are added.
    sums
        ``(n_rows, n_columns)``, padding included.
    """
    width = codes.shape[1]
    covered = np.empty(width, np.uint64)
    for row in range(lo, hi):
        covered[:] = _ZERO
        word, shift = row >> 6, np.uint64(row & 63)
        for component in range(codes.shape[0]):
            if (members[component, word] >> shift) & _ONE != _ZERO:
                for w in range(width):
                    covered[w] |= codes[component, w]
        of_row = probabilities[of_rows[row]]
        for column in range(of_columns.shape[0]):
            w, bit = column >> 6, np.uint64(column & 63)
            f = np.int64((covered[w] >> bit) & _ONE)
            x = np.int64((ones[row, w] >> bit) & _ONE) if ones.shape[0] else 1
            sums[row, column] += of_row[of_columns[column], x, f]


@jit
def count_covers(
    lo: int, hi: int, codes: Words, members: Words, starts: Index, planes: Words
) -> None:
    """Count the draws that cover each entry in bit-sliced counters.

    One thread per range of rows. Each handles a segment of words at a time, whose counters stay
    in the cache for all draws. ``planes`` is ``(n_rows, n_planes, n_words)``.
    """
    width, n_planes = codes.shape[1], planes.shape[1]
    stride = (GROUP + n_planes) * TILE
    s = np.zeros(SEGMENT // TILE * stride, np.uint64)
    for row in range(lo, hi):
        for at in range(0, width, SEGMENT):
            n = min(SEGMENT, width - at)
            for plane in range(n_planes):
                for t in range(n):
                    s[t // TILE * stride + (GROUP + plane) * TILE + t % TILE] = planes[
                        row, plane, at + t
                    ]
            for first in range(0, starts.shape[0] - 1, GROUP):
                _cover_group(codes, members, starts, first, row, at, n, s, stride)
                for start in range(0, n, TILE):
                    group = np.uint64(start // TILE * stride)
                    length = np.uint64(min(TILE, n - start))
                    add_eight(s, group, group + _PLANES, length, np.uint64(n_planes))
            for plane in range(n_planes):
                for t in range(n):
                    planes[row, plane, at + t] = s[
                        t // TILE * stride + (GROUP + plane) * TILE + t % TILE
                    ]


@jit
def sum_counts(
    lo: int, hi: int, codes: Words, members: Words, starts: Index, planes: Words
) -> Index:
    """Return how many entries each draw covers in some rows, and the sum of their counts.

    One thread per range of rows. The result is ``(n_draws, 2)``.
    """
    sums = np.zeros((starts.shape[0] - 1, 2), np.int64)
    width, n_planes = codes.shape[1], planes.shape[1]
    s = np.zeros(SEGMENT, np.uint64)
    for row in range(lo, hi):
        for at in range(0, width, SEGMENT):
            n = min(SEGMENT, width - at)
            for draw in range(starts.shape[0] - 1):
                begin, end = starts[draw], starts[draw + 1]
                _cover_row(codes, members, begin, end, row, at, n, s, _FIRST, _APART)
                covered = _ZERO
                for t in range(n):
                    covered += popcount(s[t])
                counted = _ZERO
                for plane in range(n_planes):
                    line = planes[row, plane, at : at + n]
                    common = _ZERO
                    for t in range(n):
                        common += popcount(s[t] & line[t])
                    counted += common << np.uint64(plane)
                sums[draw, 0] += np.int64(covered)
                sums[draw, 1] += np.int64(counted)
    return sums


@jit
def add_values(
    lo: int,
    hi: int,
    codes: Words,
    members: Words,
    starts: Index,
    tables: NDArray[np.float64],
    ones: Words,
    sums: NDArray[np.float64],
) -> None:
    """Add the value that each draw gives to every entry of some rows.

    One thread per range of rows. A byte holds whether each of eight draws covers an entry.

    Parameters
    ----------
    lo, hi
        Range of the rows.
    codes, members, starts
        Batch of draws.
    tables
        ``(n_groups, 2, 256)``: the sum over eight draws by datum and byte.
    ones
        Packed data, one line per row; if there are no lines, every datum is taken to be one.
    sums
        Sums to add to, ``(n_rows, 64 * n_words)``, with padding.
    """
    width = codes.shape[1]
    has_data = ones.shape[0] > 0
    stride = GROUP * TILE
    s = np.zeros(GROUP * SEGMENT, np.uint64)
    octets = np.zeros(2 * GROUP, np.uint64)
    for row in range(lo, hi):
        for at in range(0, width, SEGMENT):
            n = min(SEGMENT, width - at)
            for group in range(tables.shape[0]):
                _cover_group(codes, members, starts, group * GROUP, row, at, n, s, stride)
                for t in range(n):
                    tile = np.uint64(t // TILE * stride)
                    read_out(s, tile, np.uint64(t % TILE), _EIGHT, octets)
                    out = sums[row, (at + t) * WORD : (at + t + 1) * WORD]
                    if has_data:
                        data = ones[row, at + t]
                        for i in range(WORD):
                            byte = (octets[i & 7] >> np.uint64(i & 56)) & _BYTE
                            out[i] += tables[group, (data >> np.uint64(i)) & _ONE, byte]
                    else:
                        table = tables[group, 1]
                        for i in range(WORD):
                            out[i] += table[(octets[i & 7] >> np.uint64(i & 56)) & _BYTE]


@jit
def add_entry_values(
    lo: int,
    hi: int,
    lines: Words,
    firsts: Index,
    positions: Index,
    table: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add the value that each of eight draws gives to listed entries.

    One thread per range of entries. The components of a row in eight draws are adjacent.

    Parameters
    ----------
    lo, hi
        Range of the entries.
    lines
        ``(n_rows of all modes, n_words, 8)``: the components of a row in eight draws.
    firsts
        First line of each mode.
    positions
        ``(n_entries, arity)`` row numbers.
    table
        ``(256,)``: the sum over the draws by byte.
    sums
        Sums to add to, ``(n_entries,)``.
    """
    shared = np.zeros(GROUP, np.uint64)
    for entry in range(lo, hi):
        byte = 0
        for w in range(lines.shape[1]):
            first = lines[positions[entry, 0], w]
            for j in range(GROUP):
                shared[j] = first[j]
            for mode in range(1, firsts.shape[0]):
                line = lines[firsts[mode] + positions[entry, mode], w]
                for j in range(GROUP):
                    shared[j] &= line[j]
            for j in range(GROUP):
                byte |= np.int64(shared[j] != _ZERO) << j
        sums[entry] += table[byte]


@jit
def sum_logs(
    lo: int,
    hi: int,
    sums: NDArray[np.float64],
    known: Words,
    n_draws: int,
    out: NDArray[np.float64],
) -> None:
    """Sum the logarithm of the mean over draws, over the known entries of each row."""
    for row in range(lo, hi):
        total = 0.0
        for w in range(known.shape[1]):
            word = known[row, w]
            if word == _ZERO:
                continue
            for i in range(WORD):
                if (word >> np.uint64(i)) & _ONE != _ZERO:
                    total += log(sums[row, w * WORD + i] / n_draws)
        out[row] = total


@jit
def add_bits(words: Words, line: int, counts: Index) -> None:
    """Add each bit of a line of words to its own count."""
    for w in range(words.shape[1]):
        word = words[line, w]
        for i in range(WORD):
            counts[w * WORD + i] += np.int64((word >> np.uint64(i)) & _ONE)
