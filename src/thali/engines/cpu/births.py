# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# ruff: noqa: C901, PLR0912, PLR0915
"""Draws of single-row components, by counts and tables (:mod:`thali.model.births`).

Parallel decomposition: rows are independent; a call does a range of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit, lean
from thali.decide import (
    LIMIT,
    SUM_SHIFT,
    categorical,
    exp_neg,
    is_accepted,
    is_inverse_accepted,
    multiply_high,
)
from thali.engines.cpu.by_class import fill_free
from thali.engines.cpu.horizontal import count_covered, count_known, cover_row, read_row
from thali.model.rule import log_odds
from thali.sites import BirthDeathIndex, Site
from thali.streams import uniform64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits.words import Index, Words
    from thali.engines.cpu.arrays import Born, Data, Order, Segments

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_COUNT = np.uint64(Site.BIRTH_COUNT)
_COVER = np.uint64(Site.BIRTH_COVER)
_BITS = np.uint64(Site.BIRTH_BITS)
_SITE = np.uint64(Site.BIRTH_DEATH)
_IS_BIRTH = np.uint64(BirthDeathIndex.IS_BIRTH)
_VICTIM = np.uint64(BirthDeathIndex.VICTIM)
_DECISION = np.uint64(BirthDeathIndex.DECISION)
_DENSITY = np.uint64(BirthDeathIndex.DENSITY)
_TOP_BIT = np.uint64(63)
_COMPONENT_SHIFT = np.uint64(16)  # the number of a new component, above the site's own bits


@lean
def draw_count(
    free: Index,
    prior: NDArray[np.int64],
    factors: NDArray[np.int64],
    ceiling: NDArray[np.int64],
    scores: NDArray[np.int64],
    key: np.uint64,
    sweep: np.uint64,
    row: np.uint64,
) -> int:
    """Draw the number of single-row components of a row, given its uncovered entries (eq. 8).

    ``free`` are the numbers of uncovered ones and zeros by class of column; ``factors`` and
    ``ceiling`` are those of the row's class. The tables are long enough for every row; for most
    rows their tail is negligible and is not read.
    """
    most = np.int64(0)  # what the ones gain with infinitely many components
    for c in range(free.shape[0]):
        most = log_odds(most, ceiling[c], 0, free[c, 0], 0)
    best = np.int64(0)
    n = 0
    while n < prior.shape[0]:
        of_ones = np.int64(0)
        rest = prior[n]
        for c in range(free.shape[0]):
            of_ones = log_odds(of_ones, factors[c, n, 0], 0, free[c, 0], 0)
            rest = log_odds(rest, 0, factors[c, n, 1], 0, free[c, 1])
        if n > 0 and most + rest < best - LIMIT and prior[n] < prior[n - 1]:
            break
        scores[n] = of_ones + rest
        best = max(best, scores[n])
        n += 1
    if n == 1:
        return 0
    return categorical(scores, n, uniform64(key, sweep, _COUNT, row, _ZERO))


@lean
def _draw_plain_count(
    n_ones: np.int64, n_zeros: np.int64, prior: NDArray[np.int64], factors: NDArray[np.int64],
    ceiling: np.int64, scores: NDArray[np.int64], key: np.uint64, sweep: np.uint64,
    row: np.uint64,
) -> int:  # fmt: skip
    """Draw the same if there is one class of columns, which takes a third less time."""
    best = np.int64(0)
    n = 0
    while n < prior.shape[0]:
        rest = log_odds(prior[n], ceiling, factors[n, 1], n_ones, n_zeros)
        if n > 0 and rest < best - LIMIT and prior[n] < prior[n - 1]:
            break
        scores[n] = log_odds(prior[n], factors[n, 0], factors[n, 1], n_ones, n_zeros)
        best = max(best, scores[n])
        n += 1
    if n == 1:
        return 0
    return categorical(scores, n, uniform64(key, sweep, _COUNT, row, _ZERO))


@jit
def draw_codes(
    ones: Words,
    covered: Words,
    n_columns: int,
    n_new: int,
    of_columns: Index,
    cover: NDArray[np.uint64],
    first: NDArray[np.uint64],
    plain: np.uint64,
    key: np.uint64,
    sweep: np.uint64,
    row: np.uint64,
    codes: Words,
) -> tuple[int, int]:
    """Draw the codes of all new components of a row jointly.

    Columns are independent. In a column that is covered or unknown, the bits are drawn from the
    prior. In any other column, one draw decides whether any of the new components has the column;
    if so, the bits are drawn one after another, given that at least one of them is on.

    Parameters
    ----------
    ones, covered
        The row's data, and its covered or unknown columns.
    of_columns, cover
        Classes of the columns (empty if there is one), and thresholds of the row's class.
    codes
        ``(n_new, n_words)``, zeros on entry; the bits are written here.

    Returns
    -------
    gained
        Number of ones and of zeros newly covered.
    """
    tp = 0
    fp = 0
    for column in range(n_columns):
        w = column >> 6
        bit = _ONE << np.uint64(column & 63)
        index = np.uint64(column)
        is_free = covered[w] & bit == _ZERO
        is_one = ones[w] & bit != _ZERO
        if is_free:
            c = of_columns[column] if of_columns.shape[0] else 0
            limit = cover[c, n_new, 0] if is_one else cover[c, n_new, 1]
            if uniform64(key, sweep, _COVER, row, index) >= limit:
                continue
            if is_one:
                tp += 1
            else:
                fp += 1
        must = is_free  # one of the remaining components has to be on
        for j in range(n_new):
            if must and j == n_new - 1:
                is_on = True
            else:
                site = _BITS | (np.uint64(j) << _COMPONENT_SHIFT)
                limit = first[n_new - j] if must else plain
                is_on = uniform64(key, sweep, site, row, index) < limit
            if is_on:
                codes[j, w] |= bit
                must = False
    return tp, fp


@jit
def draw_births(
    lo: int, hi: int, data: Data, order: Order, factor: Words, classes: Index,
    segments: Segments, prior: NDArray[np.int64], factors: NDArray[np.int64],
    ceiling: NDArray[np.int64], born: Born,
) -> tuple[int, int, int]:  # fmt: skip
    """Count what some rows cover, and draw the number of single-row components of each row.

    ``classes`` of rows and ``segments`` are empty if there is one class of rows and of columns.
    Returns the sums over these rows: new components, covered ones and covered zeros.
    """
    n_components, width = order[1].shape
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(n_components, np.bool_)
    scores = np.empty(prior.shape[0], np.int64)
    free = np.empty((factors.shape[1], 2), np.int64)
    room = once, twice, active, scores, free
    return _draw_births(
        lo, hi, data, order, factor, classes, segments, prior, factors, ceiling, born, room
    )


@lean
def _draw_births(
    lo: int, hi: int, data: Data, order: Order, factor: Words, classes: Index,
    segments: Segments, prior: NDArray[np.int64], factors: NDArray[np.int64],
    ceiling: NDArray[np.int64], born: Born,
    room: tuple[Words, Words, NDArray[np.bool_], Index, Index],
) -> tuple[int, int, int]:  # fmt: skip
    """Do the work of :func:`draw_births`, with memory for one row."""
    all_ones, known, n_columns = data
    rows, codes, _, _, _, _, key, sweep, _ = order
    n_new, _, covered = born
    once, twice, active, scores, free = room
    n_born = 0
    all_tp = 0
    all_fp = 0
    plain, highest = factors[0, 0], ceiling[0, 0]
    for i in range(lo, hi):
        row = rows[i]
        ones = all_ones[row]
        read_row(factor, i, active)
        base = cover_row(known, row, codes, active, once, twice)
        tp, fp = count_covered(once, ones, base)
        n_ones, n_zeros = count_known(ones, n_columns, known.shape[0] > 0, base)
        if classes.shape[0] == 0:
            n_new[i] = _draw_plain_count(
                n_ones - tp, n_zeros - fp, prior, plain, highest, scores, key, sweep,
                np.uint64(row),
            )  # fmt: skip
        else:
            fill_free(ones, once, segments, free)
            g = classes[i]
            n_new[i] = draw_count(
                free, prior, factors[g], ceiling[g], scores, key, sweep, np.uint64(row)
            )
        covered[i, 0] = tp
        covered[i, 1] = fp
        n_born += n_new[i]
        all_tp += tp
        all_fp += fp
    return n_born, all_tp, all_fp


@jit
def draw_birth_codes(
    lo: int, hi: int, data: Data, rows: Index, codes: Words, key: np.uint64, sweep: np.uint64,
    factor: Words, classes: Index, of_columns: Index, cover: Words, first: Words, plain: Words,
    born: Born, offsets: Index, new_codes: Words,
) -> None:  # fmt: skip
    """Draw the codes of the new single-row components of some rows.

    The columns are in their own order here, and ``of_columns`` are their classes.
    """
    all_ones, known, n_columns = data
    n_new, density, covered = born
    width = codes.shape[1]
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(codes.shape[0], np.bool_)
    for i in range(lo, hi):
        if n_new[i] == 0:
            continue
        row = rows[i]
        read_row(factor, i, active)
        cover_row(known, row, codes, active, once, twice)
        q, g = density[i], classes[i] if classes.shape[0] else 0
        tp, fp = draw_codes(
            all_ones[row], once, n_columns, n_new[i], of_columns, cover[q, g], first[q], plain[q],
            key, sweep, np.uint64(row),
            new_codes[offsets[i] : offsets[i] + n_new[i]],
        )  # fmt: skip
        covered[i, 0] += tp
        covered[i, 1] += fp


@jit
def birth_death(
    lo: int, hi: int, data: Data, order: Order, factor: Words, is_single: NDArray[np.bool_],
    classes: Index, segments: Segments, prior: NDArray[np.int64], factors: NDArray[np.int64],
    odds: NDArray[np.int64], born: Born, has_died: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Try the birth or the death of one single-row component in some rows (eq. 13).

    The component's code and density are summed out. With M the sum over the tabulated densities
    and ``odds[j]`` the log of rate / j, a birth is accepted with probability min(1, M rate/(j+1)),
    a death with min(1, j/(M rate)), where j counts the row's own components.

    Parameters
    ----------
    is_single
        Which components have a single user.
    classes, segments
        Classes of rows, and segments of sorted columns; empty if there is one class of each.
    prior, factors
        Log prior of every density; log factors of an uncovered one and zero,
        ``(n_densities, n_row_classes, n_column_classes, 2)``.
    born, has_died
        Results: births (0 or 1) and their density per row, what the row covers (without a new
        component), and deaths per component.
    """
    all_ones, known, n_columns = data
    rows, codes, _, _, _, _, key, sweep, _ = order
    n_new, density, covered = born
    n_components, width = codes.shape
    once = np.empty(width, np.uint64)
    twice = np.empty(width, np.uint64)
    active = np.empty(n_components, np.bool_)
    own = np.empty(n_components, np.int64)
    scores = np.empty(prior.shape[0], np.int64)
    free = np.empty((factors.shape[2], 2), np.int64)
    for i in range(lo, hi):
        row = rows[i]
        g = classes[i] if classes.shape[0] else 0
        ones = all_ones[row]
        address = np.uint64(row)
        read_row(factor, i, active)
        n_own = 0
        for component in range(n_components):
            if active[component] and is_single[component]:
                own[n_own] = component
                n_own += 1
        is_birth = uniform64(key, sweep, _SITE, address, _IS_BIRTH) >> _TOP_BIT == _ONE
        victim = -1
        if not is_birth and n_own > 0:
            r = uniform64(key, sweep, _SITE, address, _VICTIM)
            victim = own[np.int64(multiply_high(r, np.uint64(n_own)))]
            active[victim] = False
        base = cover_row(known, row, codes, active, once, twice)
        tp, fp = count_covered(once, ones, base)
        if is_birth or victim >= 0:
            n_ones, n_zeros = count_known(ones, n_columns, known.shape[0] > 0, base)
            if classes.shape[0]:
                fill_free(ones, once, segments, free)
            else:
                free[0, 0] = n_ones - tp
                free[0, 1] = n_zeros - fp
            best = np.int64(-(2**62))
            for q in range(prior.shape[0]):
                score = prior[q]
                for c in range(free.shape[0]):
                    one, zero = factors[q, g, c]
                    score = log_odds(score, one, zero, free[c, 0], free[c, 1])
                scores[q] = score
                best = max(best, score)
            total = _ZERO
            for q in range(prior.shape[0]):
                total += exp_neg(best - scores[q]) >> SUM_SHIFT
            log_ratio = best + odds[n_own + is_birth]
            r = uniform64(key, sweep, _SITE, address, _DECISION)
            if is_birth:
                if is_accepted(log_ratio, total, r):
                    n_new[i] = 1
                    r = uniform64(key, sweep, _SITE, address, _DENSITY)
                    density[i] = categorical(scores, prior.shape[0], r)
            elif is_inverse_accepted(log_ratio, total, r):
                has_died[victim] = True
            else:
                active[victim] = True
                base = cover_row(known, row, codes, active, once, twice)
                tp, fp = count_covered(once, ones, base)
        covered[i, 0] = tp
        covered[i, 1] = fp
