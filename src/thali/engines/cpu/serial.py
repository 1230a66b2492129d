# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, FBT001, PLR0912, PLR0915
"""The serial schedule: one scan over the rows of the factor with the buffet prior.

This is Algorithm 1 of Rukat & Yau (2018) with corrections. Every row visits the components in a
new random order. The components of this row alone are removed only after the shared components
were updated (or are integrated out from the start). The codes of new components are drawn jointly.
Nothing here is parallel, because the prior odds of a row depend on all other rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import copy_line
from thali.decide import gibbs_bit, multiply_high
from thali.engines.cpu.births import draw_codes, draw_count
from thali.engines.cpu.by_class import fill_free, gain_by_class, list_runs, spread_weights
from thali.engines.cpu.horizontal import (
    add_code,
    count_covered,
    count_free,
    count_known,
    cover_row,
)
from thali.model.rule import log_odds
from thali.sites import Site
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Data

Tables: TypeAlias = Any  # a tuple of arrays

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ROW_BITS = np.uint64(Site.ROW_BITS)
_ORDER = np.uint64(Site.ORDER)


@inner
def shuffle(order: Index, n: int, key: np.uint64, sweep: np.uint64, row: np.uint64) -> None:
    """Fill ``order`` with a uniformly random order of ``0 … n-1``."""
    for i in range(n):
        order[i] = i
    for i in range(n - 1, 0, -1):
        r = uniform64(key, sweep, _ORDER, row, np.uint64(i))
        j = np.int64(multiply_high(r, np.uint64(i + 1)))
        order[i], order[j] = order[j], order[i]


@inner
def drop_components(
    keep: NDArray[np.bool_], n: int, factor: Words, codes: Words, sizes: Index
) -> int:
    """Move the kept components among the first ``n`` to the front; return their number."""
    to = 0
    for component in range(n):
        if keep[component]:
            if to != component:
                copy_line(factor[component], factor[to])
                copy_line(codes[component], codes[to])
                sizes[to] = sizes[component]
            to += 1
    for component in range(to, n):
        factor[component] = _ZERO
        codes[component] = _ZERO
    return to


@jit
def scan_rows(
    data: Data, factor: Words, codes: Words, sizes: Index, n_components: int, row: int,
    pending: int, is_integrated: bool, tables: Tables, stream: tuple[np.uint64, np.uint64],
    covered: Index,
) -> tuple[int, int, int]:  # fmt: skip
    """Update rows from ``row`` on, up to the last or until there is no room for new components.

    Parameters
    ----------
    factor, codes, sizes
        Factor with the buffet prior, the other factor, and the number of users of each component.
        The first ``n_components`` lines are in use; the others are room for new components.
    row, pending
        First row to update. If ``pending`` > 0, the number of new components of that row was
        drawn already, and only their codes are still to be drawn.
    is_integrated
        Whether the components of the row alone are integrated out (else: held) while its shared
        entries are drawn.
    tables
        ``odds, weights, classes, of_columns, segments, prior, factors, ceiling, cover, first,
        plain``: ``odds[m]`` are the prior log odds of a component with m other users; classes of
        rows, classes of columns, which ascend, and segments are empty if there is one class; the
        others are those of :class:`thali.model.births.BirthTables`, for one density.
    covered
        Totals of covered ones and covered zeros, to which those of the updated rows are added.

    Returns
    -------
    n_components, row, pending
        The new values of these arguments; ``row`` is the number of rows if the scan is finished.
    """
    all_ones, known, n_columns = data
    odds, weights, classes, of_columns, segments = tables[:5]
    prior_of, factors, ceiling, cover, first, plain = tables[5:]
    in_words, masks, of_segments = segments
    key, sweep = stream
    n_rows, width = all_ones.shape
    room = factor.shape[0]
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    order = np.empty(room, np.int64)
    active = np.zeros(room, np.bool_)
    keep = np.empty(room, np.bool_)
    scores = np.empty(prior_of.shape[0], np.int64)
    free_of = np.empty((factors.shape[1], 2), np.int64)
    has_classes = classes.shape[0] > 0
    starts = list_runs(of_segments)
    one, zero = np.empty((2, starts.shape[0]), np.int64)
    while row < n_rows:
        ones = all_ones[row]
        address = np.uint64(row)
        w = row >> 6
        bit = _ONE << np.uint64(row & 63)
        g = classes[row] if has_classes else 0
        n_new = pending
        if pending == 0:
            n_single = 0
            for component in range(n_components):
                active[component] = factor[component, w] & bit != _ZERO
                keep[component] = not (active[component] and sizes[component] == 1)
                n_single += not keep[component]
            if is_integrated and n_single > 0:
                n_components = drop_components(keep, n_components, factor, codes, sizes)
                for component in range(n_components):
                    active[component] = factor[component, w] & bit != _ZERO
                keep[:n_components] = True
            n_integrated = n_single if is_integrated else 0
            one_weight, zero_weight = weights[g, 0, n_integrated]
            spread_weights(weights[g], of_segments, starts, n_integrated, one, zero)
            shuffle(order, n_components, key, sweep, address)
            used = codes[:n_components]
            cover_row(known, row, used, active, once, twice)
            for i in range(n_components):
                component = order[i]
                if not keep[component]:
                    continue
                was_on = active[component]
                code = codes[component]
                prior = odds[sizes[component] - was_on]
                if has_classes:
                    cover_of = twice if was_on else once
                    gain, _, _ = gain_by_class(
                        code, cover_of, ones, in_words, masks, starts, one, zero
                    )
                    score = prior + gain
                else:
                    if was_on:
                        free, free_ones = count_free(code, twice, ones)
                    else:
                        free, free_ones = count_free(code, once, ones)
                    c1 = np.int64(free_ones)
                    c0 = np.int64(free) - c1
                    score = log_odds(prior, one_weight, zero_weight, c1, c0)
                is_on = gibbs_bit(score, key, sweep, _ROW_BITS, address, np.uint64(i))
                if is_on == was_on:
                    continue
                active[component] = is_on
                factor[component, w] ^= bit
                if is_on:
                    sizes[component] += 1
                    add_code(code, once, twice)
                else:
                    sizes[component] -= 1
                    cover_row(known, row, used, active, once, twice)
            if not is_integrated:
                n_components = drop_components(keep, n_components, factor, codes, sizes)
        for component in range(n_components):
            active[component] = factor[component, w] & bit != _ZERO
        base = cover_row(known, row, codes[:n_components], active, once, twice)
        tp, fp = count_covered(once, ones, base)
        if pending == 0:
            n_ones, n_zeros = count_known(ones, n_columns, known.shape[0] > 0, base)
            free_of[0, 0] = n_ones - tp
            free_of[0, 1] = n_zeros - fp
            if has_classes:
                fill_free(ones, once, segments, free_of)
            n_new = draw_count(
                free_of, prior_of, factors[g], ceiling[g], scores, key, sweep, address
            )
            if n_components + n_new > room:
                return n_components, row, n_new
        if n_new > 0:
            new = codes[n_components : n_components + n_new]
            tp_new, fp_new = draw_codes(
                ones, once, n_columns, n_new, of_columns, cover[g], first, plain, key, sweep,
                address, new,
            )  # fmt: skip
            tp += tp_new
            fp += fp_new
            for component in range(n_components, n_components + n_new):
                factor[component, w] |= bit
                sizes[component] = 1
            n_components += n_new
        covered[0] += tp
        covered[1] += fp
        pending = 0
        row += 1
    return n_components, row, 0
