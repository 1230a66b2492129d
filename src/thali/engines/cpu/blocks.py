# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Blocks of rows of a matrix in one call, because calls cost more than some of what they do.

All is done by the kernels that do the same one by one. A team of threads shares the rows of a
block (:mod:`thali.team_kernels`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali import team_kernels
from thali._jit import inner, jit
from thali.bits.words import copy_line, gather_bits, take_lines
from thali.decide import to_units
from thali.engines.cpu import births, by_class, horizontal, in_parts
from thali.engines.cpu.order_components import order_components
from thali.model.priors import odds_of_sticks, stick_tails
from thali.model.special import ADDRESSES, invert_some
from thali.sites import Site
from thali.streams import read_uniforms
from thali.team import PARTS_PER_THREAD
from thali.team_kernels import N_RESULTS, set_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.engines.cpu.arrays import Born, Data, Opened, Order, Segments
    from thali.model.births import BirthTables
    from thali.model.special import Addresses
    from thali.streams import Stream

_ZERO, _ONE = np.uint64(0), np.uint64(1)
# Plain numbers would be types of their own, and functions compiled twice.
_FIRST, _STEP = np.int64(0), np.int64(1)
_STICKS = np.uint64(Site.STICKS)
_ROW_BITS = np.uint64(Site.ROW_BITS)


def scan_all(
    memory: Words, n_threads: int, stream: Stream, rows: Sequence[Index], users: Words,
    codes: Words, tables: BirthTables, n_rows: int, plain: Data, of_columns: Index, data: Data,
    places: Index, segments: Segments, of_rows: Index, *, is_quick: bool,
) -> tuple[Words, Words, tuple[int, int]]:  # fmt: skip
    """Update blocks of rows; return users and codes, and the ones and zeros that these cover.

    ``plain`` are the data with columns in their own order, whose classes are ``of_columns``. What
    is not quick takes a call for every block, so that it can be interrupted.
    """
    longest = max(map(len, rows))
    born = (*np.zeros((2, longest), np.int64), np.zeros((longest, 2), np.int64))
    n_parts = 1 if n_threads == 1 else PARTS_PER_THREAD * n_threads
    rest = (
        np.concatenate(rows), np.cumsum([0, *map(len, rows)]), n_rows, ADDRESSES, data, places,
        segments, of_rows, tables.weights.table, tables.prior, tables.factors, tables.ceiling,
        born,
    )  # fmt: skip
    tp = fp = number = 0
    while number < len(rows):
        stop = len(rows) if is_quick else number + 1
        users, codes, number, n_born, *covered = scan(
            memory, n_parts, *stream, number, stop, users, codes, *rest
        )
        tp, fp = tp + covered[0], fp + covered[1]
        if n_born:
            users, codes, *covered = append_births(
                memory, n_parts, *stream, rows[number - 1], users, codes, plain, of_rows,
                of_columns, *tables.code, born,
            )  # fmt: skip
            tp, fp = tp + covered[0], fp + covered[1]
    return users, codes, (tp, fp)


@jit
def scan(
    memory: Words, n_parts: int, key: np.uint64, sweep: np.uint64, number: int, stop: int,
    users: Words, codes: Words, rows: Index, edges: Index, n_rows: int, addresses: Addresses,
    data: Data, places: Index, segments: Segments, of_rows: Index, weights: NDArray[np.int64],
    prior: NDArray[np.int64], factors: NDArray[np.int64], ceiling: NDArray[np.int64], born: Born,
) -> tuple[Words, Words, int, int, int, int]:  # fmt: skip
    """Update blocks ``number … stop-1``, up to the first that has new components.

    Parameters
    ----------
    memory, n_parts
        Memory of the team that shares the rows of a block, and in how many parts at most.
    rows, edges
        The rows of all blocks, and where each of them begins, with the number of rows at the end.
    addresses
        Those of SciPy's functions (:mod:`thali.model.special`).
    places, segments, of_rows
        If there are classes, the data are sorted by class of column, and ``of_rows`` has the class
        of every row; empty if there are none.
    prior, factors, ceiling, born
        Those of :func:`thali.engines.cpu.births.draw_births`.

    Returns
    -------
    users, codes
        All components.
    number, n_born
        The number of the block after the last, and how many new components that has. These are
        appended by :func:`append_births`.
    covered
        Ones and zeros that the rows of all these blocks cover, without those of a block with new
        components.
    """
    tp = 0
    fp = 0
    while number < stop:
        block = rows[edges[number] : edges[number + 1]]
        opened, odds = _open_block(
            memory, n_parts, key, sweep, number, users, codes, block, n_rows, addresses
        )
        users, n_born, tp_of_block, fp_of_block = _close_block(
            memory, n_parts, key, sweep, block, opened, odds, data, places, segments, of_rows,
            weights, prior, factors, ceiling, born,
        )  # fmt: skip
        codes = opened[1]
        number += 1
        if n_born > 0:
            return users, codes, number, n_born, tp, fp
        tp += tp_of_block
        fp += fp_of_block
    return users, codes, number, 0, tp, fp


@inner
def _open_block(
    memory: Words, n_parts: int, key: np.uint64, sweep: np.uint64, number: int, users: Words,
    codes: Words, rows: Index, n_rows: int, addresses: Addresses,
) -> tuple[Opened, NDArray[np.float64]]:  # fmt: skip
    """Order the components, leave out those of single rows, and draw the weights of the others.

    ``number`` is that of the block. Returns an ``Opened`` (:mod:`thali.engines.cpu.arrays`) and
    the log odds of the weights.
    """
    block = np.uint64(number)
    order, sizes, is_held, _, singles = order_components(key, sweep, block, users, rows, True)
    uniforms = read_uniforms(key, sweep, _STICKS, block, sizes.shape[0])
    opened = take_lines(users, order), take_lines(codes, order), sizes, is_held, singles
    tails = stick_tails(sizes, n_rows, uniforms)
    found = np.empty(sizes.shape[0])
    results = np.empty((min(n_parts, sizes.shape[0]), N_RESULTS), np.int64)
    _invert_in_parts(
        memory, _FIRST, sizes.shape[0], results.shape[0], _STEP, results, addresses, tails, found
    )
    return opened, odds_of_sticks(sizes, n_rows, found)


_invert_in_parts = team_kernels.in_parts(invert_some, inner)


@inner
def _close_block(
    memory: Words, n_parts: int, key: np.uint64, sweep: np.uint64, rows: Index, opened: Opened,
    odds: NDArray[np.float64], data: Data, places: Index, segments: Segments, of_rows: Index,
    weights: NDArray[np.int64], prior: NDArray[np.int64], factors: NDArray[np.int64],
    ceiling: NDArray[np.int64], born: Born,
) -> tuple[Words, int, int, int]:  # fmt: skip
    """Draw the entries of a block, and the number of single-row components of each of its rows.

    Returns the users of all components, and the sums over the rows of the block: new components,
    covered ones and covered zeros.
    """
    users, codes, sizes, is_held, singles = opened
    scores = np.empty(sizes.shape[0], np.int64)
    for component in range(sizes.shape[0]):
        scores[component] = to_units(odds[component])
    classes = of_rows
    if of_rows.shape[0]:
        codes = gather_bits(codes, places)
        classes = _classes_of(rows, of_rows)
    order = rows, codes, is_held, weights, singles, scores, key, sweep, _ROW_BITS
    after = _without(users, rows)
    results = np.zeros((min(n_parts, rows.shape[0]), N_RESULTS), np.int64)
    _draw_in_parts(
        memory, _FIRST, rows.shape[0], results.shape[0], _STEP, results, data, segments, classes,
        order, users, after, prior, factors, ceiling, born,
    )  # fmt: skip
    n_born = 0
    tp = 0
    fp = 0
    for part in range(results.shape[0]):
        n_born += results[part, 0]
        tp += results[part, 1]
        fp += results[part, 2]
    return after, n_born, tp, fp


@inner
def _without(users: Words, rows: Index) -> Words:
    """Return the users that are not among some rows."""
    others = np.full(users.shape[1], ~_ZERO)
    for row in rows:
        others[row >> 6] ^= _ONE << np.uint64(row & 63)
    out = np.empty(users.shape, np.uint64)
    for component in range(users.shape[0]):
        for w in range(users.shape[1]):
            out[component, w] = users[component, w] & others[w]
    return out


@inner
def _draw(
    lo: int, hi: int, data: Data, segments: Segments, all_classes: Index, all_rows: Order,
    users: Words, after: Words, prior: NDArray[np.int64], factors: NDArray[np.int64],
    ceiling: NDArray[np.int64], born: Born,
) -> tuple[int, int, int]:  # fmt: skip
    """Draw the entries of some rows of a block, and the number of their single-row components.

    ``after`` has no users among the rows of the block; other threads set other bits of it.
    """
    n, order, classes = hi - lo, in_parts.some_of(all_rows, lo, hi), all_classes[lo:hi]
    before = gather_bits(users, order[0])
    drawn = np.zeros(before.shape, np.uint64)
    if classes.shape[0]:
        by_class.update_rows(_FIRST, n, data, segments, classes, order, before, drawn)
    else:
        horizontal.update_rows(_FIRST, n, data, order, before, drawn)
    _join(drawn, order[0], after)
    n_new, density, covered = born
    own = n_new[lo:hi], density[lo:hi], covered[lo:hi]
    return births.draw_births(
        _FIRST, n, data, order, drawn, classes, segments, prior, factors, ceiling, own
    )


@inner
def _join(drawn: Words, rows: Index, after: Words) -> None:
    """Set the bits that were drawn for some rows, which are increasing, in the factor of all."""
    for component in range(drawn.shape[0]):
        word = _ZERO
        for i in range(rows.shape[0]):
            bit = (drawn[component, i >> 6] >> np.uint64(i & 63)) & _ONE
            word |= bit << np.uint64(rows[i] & 63)
            if i + 1 == rows.shape[0] or rows[i + 1] >> 6 != rows[i] >> 6:
                if word != _ZERO:
                    set_bits(after, component, rows[i] >> 6, word)
                word = _ZERO


_draw_in_parts = team_kernels.in_parts(_draw, inner)


_codes_in_parts = team_kernels.in_parts(births.draw_birth_codes, inner)


@inner
def _classes_of(rows: Index, of_rows: Index) -> Index:
    """Return the classes of the rows of a block, given those of all rows."""
    classes = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        classes[i] = of_rows[rows[i]]
    return classes


@jit
def append_births(
    memory: Words, n_parts: int, key: np.uint64, sweep: np.uint64, rows: Index, users: Words,
    codes: Words, data: Data, of_rows: Index, of_columns: Index, cover: Words, first: Words,
    plain: Words, born: Born,
) -> tuple[Words, Words, int, int]:  # fmt: skip
    """Draw the codes of a block's new components, and put these behind all others.

    The columns are in their own order here. The arguments are those of :func:`scan` and of
    :func:`thali.engines.cpu.births.draw_birth_codes`. Returns users and codes of all components,
    and the ones and zeros that the rows of the block cover.
    """
    n_new, _, covered = born
    n, n_old = rows.shape[0], users.shape[0]
    offsets = np.empty(n, np.int64)
    n_all = 0
    for i in range(n):
        offsets[i] = n_all
        n_all += n_new[i]
    all_users = np.zeros((n_old + n_all, users.shape[1]), np.uint64)
    all_codes = np.zeros((n_old + n_all, codes.shape[1]), np.uint64)
    for component in range(n_old):
        copy_line(users[component], all_users[component])
        copy_line(codes[component], all_codes[component])
    classes = _classes_of(rows, of_rows) if of_rows.shape[0] else of_rows
    results = np.empty((min(n_parts, n), N_RESULTS), np.int64)
    _codes_in_parts(
        memory, _FIRST, n, results.shape[0], _STEP, results, data, rows, codes, key, sweep,
        gather_bits(users, rows), classes, of_columns, cover, first, plain, born, offsets,
        all_codes[n_old:],
    )  # fmt: skip
    tp = 0
    fp = 0
    for i in range(n):
        for j in range(n_new[i]):
            bit = _ONE << np.uint64(rows[i] & 63)
            all_users[n_old + offsets[i] + j, rows[i] >> 6] = bit
        tp += covered[i, 0]
        fp += covered[i, 1]
    return all_users, all_codes, tp, fp
