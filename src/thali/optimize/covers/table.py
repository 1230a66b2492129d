"""The table that components have to cover, with every row and every column only once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thali.bits.words import (
    Index,
    Words,
    count_ones,
    gather_bits,
    pack,
    set_bits,
    transpose,
    unpack,
)


class Table(NamedTuple):
    """Entries that components may cover, and those that they must cover.

    A component is a rectangle: some rows times some columns. It may cover ones and unknown
    entries. Two entries fit into a common rectangle if the other two corners may be covered, too,
    and a set of entries fits into one if any two of them do. So components are cliques of a graph
    of entries, and compiled functions read this graph from the packed rows and columns.
    """

    rows: Words
    """``(n_rows, words)``: entries that may be covered."""
    columns: Words
    """The same transposed: ``(n_columns, words)``."""
    row_of: Index
    """Row of every entry that must be covered, in increasing order."""
    column_of: Index
    """Its column, in increasing order within a row."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.shape[0], self.columns.shape[0]

    def required(self) -> Words:
        """Return the entries that must be covered as packed rows."""
        words = np.zeros_like(self.rows)
        set_bits(words, 0, self.starts(), self.column_of)
        return words

    def firsts(self) -> Index:
        """Return the number of the first entry of every word of :meth:`required`."""
        sizes = np.bitwise_count(self.required()).astype(np.int64)
        return (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)

    def starts(self) -> Index:
        """Return the number of the first entry of every row, and the number of all entries."""
        return np.searchsorted(self.row_of, np.arange(self.shape[0] + 1)).astype(np.int64)

    def shortest_first(self) -> Index:
        """Return the entries in an order that begins with those in short rows and columns."""
        in_row, in_column = count_ones(self.rows), count_ones(self.columns)
        return np.argsort(in_row[self.row_of] * in_column[self.column_of], kind="stable")

    def part(self, entries: Index) -> Table:
        """Return the table of some entries, with no other rows and columns."""
        rows, row_of = np.unique(self.row_of[entries], return_inverse=True)
        columns, column_of = np.unique(self.column_of[entries], return_inverse=True)
        words = gather_bits(self.rows[rows], columns)
        return Table(words, transpose(words, len(columns)), row_of, column_of)


class Merged(NamedTuple):
    """A table without repetitions, and where its rows and columns are in the original."""

    table: Table
    row_of: Index
    """For every original row, its number in the table; -1 if nothing of it must be covered."""
    column_of: Index
    """The same for columns."""


def merge_repeated(ones: Words, known: Words | None, n_columns: int) -> Merged:
    """Drop rows and columns without ones, and keep one of those that are equal."""
    allowed = ones
    if known is not None:
        allowed = ones | (pack(np.ones(n_columns, np.bool_)) & ~known)
    first_row, row_of = _first_of_equal(ones, allowed)
    ones, allowed = (transpose(words[first_row], n_columns) for words in (ones, allowed))
    first_column, column_of = _first_of_equal(ones, allowed)
    columns = allowed[first_column]
    required, rows = (transpose(w, len(first_row)) for w in (ones[first_column], columns))
    # NumPy returns places that are not contiguous, for which functions would be compiled again.
    places = map(np.ascontiguousarray, np.nonzero(unpack(required, len(first_column))))
    return Merged(Table(rows, columns, *places), row_of, column_of)


def _first_of_equal(ones: Words, allowed: Words) -> tuple[Index, Index]:
    """Return the first line of every kind that has ones, and the kind of every line."""
    used, kind_of = np.flatnonzero(ones.any(axis=1)), np.full(len(ones), -1)
    if len(used) == 0:
        return used, kind_of
    both = np.ascontiguousarray(np.concatenate([ones[used], allowed[used]], axis=1))
    keys = both.view(np.dtype((np.void, both.shape[1] * both.itemsize)))[:, 0]
    _, first, kinds = np.unique(keys, return_index=True, return_inverse=True)
    # Kinds are numbered in the order of their first lines, which does not depend on bytes.
    order = np.argsort(first)
    kind_of[used] = np.argsort(order)[kinds]
    return used[first[order]], kind_of
