"""The fewest components that cover every one and no zero."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import n_words, unpack
from thali.optimize.covers.reduced import Clock, Reduced
from thali.optimize.covers.table import Table, merge_repeated

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits.words import Index, Words

DEFAULT_SWEEPS = 100
"""Sweeps of each search if neither these nor seconds are given."""


class Cover(NamedTuple):
    """Components that cover every known one and no known zero."""

    users: NDArray[np.bool_]
    """``(n_rows, n_components)``"""
    codes: NDArray[np.bool_]
    """``(n_columns, n_components)``"""
    lower_bound: int
    """Number of components that any cover needs."""
    is_optimal: bool
    """Whether it is proven that no cover has fewer components."""
    trace: list[tuple[float, int]]
    """Seconds from the start, and the number of components that was reached then."""
    is_stopped: bool
    """Whether Ctrl-C has ended the search early."""


def fewest_components(
    ones: Words,
    known: Words | None,
    *,
    n_rows: int,
    n_columns: int,
    seconds: float | None = None,
    sweeps: int | None = None,
    seed: int,
    threads: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> Cover:
    """Find the fewest components that cover every known one and no known zero.

    Entries that are covered whenever another one is are dropped first. This alone solves most
    tables of users and permissions. The rest falls into independent parts. A search for covers
    and a search for a lower bound run on each; a small part is also given to an integer program.

    Parameters
    ----------
    ones
        Packed rows of the known ones: ``(n_rows, words)``; padding is zero.
    known
        Packed rows of the known entries; None if all are known. Components may cover unknown
        entries or not.
    n_rows, n_columns
        Shape of the table.
    seconds
        When to stop at the latest.
    sweeps
        Number of sweeps of each search instead: the answer then depends on the seed, but not on
        the number of threads or on the machine. By default 100, if no seconds are given.
    seed
        Seed of the random numbers.
    threads
        Number of threads.
    on_progress
        Called with the number of components and the lower bound, at first and after each sweep.

    Notes
    -----
    Ctrl-C ends the search; the best cover so far is returned.
    """
    expected = n_rows, n_words(n_columns)
    if ones.shape != expected or (known is not None and known.shape != expected):
        msg = f"ones and known must be packed rows, arrays of words of shape {expected}."
        raise ValueError(msg)
    clock = Clock(seconds)
    if sweeps is None and seconds is None:
        sweeps = DEFAULT_SWEEPS
    table, row_of, column_of = merge_repeated(ones, known, n_columns)
    reduced = Reduced(table, seed, clock)
    trace = [(clock.now(), reduced.n_components)]

    def tell() -> None:
        if reduced.n_components < trace[-1][1]:
            trace.append((clock.now(), reduced.n_components))
        if on_progress is not None:
            on_progress(reduced.n_components, reduced.lower_bound)

    is_stopped = True
    with suppress(KeyboardInterrupt):
        tell()
        for _ in count() if sweeps is None else range(sweeps):
            for part in reduced.open_parts():
                if not clock.is_up():
                    left = clock.left()
                    part.sweep(threads, None if left is None else 0.5 * left)
                    tell()
            if clock.is_up() or not reduced.open_parts():
                break
        is_stopped = False

    users, codes = _maximal(table, reduced.components())
    bound = reduced.lower_bound
    lines = _of_originals(users, row_of), _of_originals(codes, column_of)
    return Cover(*lines, bound, bound == reduced.n_components, trace, is_stopped)


def _maximal(table: Table, component: Index) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the components of given entries, as large as possible.

    Rows and columns of which a component covers no known one are left out.
    """
    n = int(component.max(initial=-1)) + 1
    users = np.zeros((table.shape[0], n), np.bool_)
    codes = np.zeros((table.shape[1], n), np.bool_)
    users[table.row_of, component] = codes[table.column_of, component] = True
    required = table.required()
    for k in range(n):
        code = np.bitwise_and.reduce(table.rows[users[:, k]])
        columns = table.columns[unpack(code, table.shape[1])]
        who = unpack(np.bitwise_and.reduce(columns), table.shape[0])
        inside = required[who] & code
        users[who, k] = inside.any(axis=1)
        codes[:, k] = unpack(np.bitwise_or.reduce(inside), table.shape[1])
    return users, codes


def _of_originals(lines: NDArray[np.bool_], number_of: Index) -> NDArray[np.bool_]:
    """Return the lines of a table for every original line; those that are not in it are empty."""
    with_empty = np.append(lines, np.zeros((1, lines.shape[1]), np.bool_), axis=0)
    return with_empty[number_of]  # -1 is the last
