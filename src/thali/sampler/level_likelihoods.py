"""The likelihood of the levels of every line, sums over levels, and draws of levels (eq. 28, 30).

Sums and draws are shared among threads in chunks of lines, whose number does not depend on the
threads: the results are the same on any number of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.model.level_grids import NO_LATTICE
from thali.sampler.level_tables import transposed
from thali.sampler.level_weights import BLOCK, merge_lines, number_odds, tables_of_terms
from thali.sampler.level_windows import (
    CHUNK,
    KEPT,
    add_parts,
    sum_all_levels,
    sum_levels,
    sum_windows,
)
from thali.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.engines.base import Engine, LineCounts
    from thali.model.level_grids import Lattice

_FIRST = np.zeros(1, np.int64)
"""Says that all lines have the first table."""

_NO_LEVELS = np.zeros(0, np.int64)
_NO_STREAM = Stream(np.uint64(0), np.uint64(0))


class Likelihoods(NamedTuple):
    """All that the likelihoods of the levels of lines depend on (eq. 28)."""

    uncovered: NDArray[np.uint32]  # (n_lines, n_classes): entries without cover
    known: NDArray[np.uint32]  # all known entries; no row if these are the same in all lines
    n_ones: Index  # (n_lines,): the ones whose log odds depend on the level
    which: Index  # (n_lines,): which of the tables is the line's; or (1,)
    near: Index  # (n_lines,): the level from which the search for the likeliest starts
    # Tables of levels have room for a block that begins at the last level.
    covered: NDArray[np.float64]  # (n_tables, n_classes, n_levels): softplus of the log odds
    change: NDArray[np.float64]  # by how much it differs without cover
    common: NDArray[np.float64]  # (n_tables, n_levels): sum over known entries, if common to all
    grid: NDArray[np.float64]
    n_levels: int
    # What is known already, if there are not too many lines to keep it.
    windows: Index  # (n_lines, 2): first level of the window and its end, zero if not known yet
    largest: NDArray[np.float64]  # (n_lines,): log likelihood of the likeliest level
    relative: NDArray[np.float64]  # (n_lines, n_levels): likelihoods in relation to the largest

    @classmethod
    def of(
        cls, counts: LineCounts, n_ones: Index, odds: NDArray[np.float64],
        grid: NDArray[np.float64], near: NDArray[np.integer], which: Index | None = None,
        lattice: Lattice = NO_LATTICE,
    ) -> Likelihoods:  # fmt: skip
        """Put together the counts of an engine and log odds without the level.

        The log odds are ``(n_tables, n_classes, 2)``, by cover
        (:mod:`thali.sampler.level_weights`).
        """
        known, n_levels = counts.known, len(grid)
        covered, change, common, with_room = tables_of_terms(odds, grid, known, tuple(lattice))
        n_kept = len(n_ones) if len(n_ones) * len(with_room) <= KEPT else 0
        return cls(
            counts.uncovered, known if len(known) > 1 else known[:0], n_ones,
            _FIRST if which is None else which, np.asarray(near, np.int64), covered, change,
            common, with_room, n_levels, np.zeros((n_kept, 2), np.int64), np.empty(n_kept),
            np.empty((n_kept, n_levels + BLOCK)),
        )  # fmt: skip

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return len(self.n_ones)


def merge(
    engine: Engine, counts: LineCounts, odds: NDArray[np.float64], lattice: Lattice
) -> tuple[LineCounts, NDArray[np.float64]]:
    """Count entries by log odds instead of class and cover, if these are fewer.

    All entries count as uncovered then, each with the log odds that it has.
    """
    numbers, odds = number_odds(odds, tuple(lattice))
    if len(numbers) == 0:
        return counts, odds
    n_lines, n = len(counts.uncovered), odds.shape[1]
    merged, nothing = np.empty((n_lines, n), np.uint32), np.zeros((1, n), np.uint32)
    engine.over_rows(merge_lines, n_lines, *counts[:2], numbers, merged, step=CHUNK)
    return counts._replace(uncovered=merged, known=nothing), odds


def sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log probability of every prior, with the levels of all lines summed out (eq. 30).

    ``log_prior`` is ``(n_priors, n_levels)``. What is negligible is minus infinity.
    """
    return _sum_out(engine, given, log_prior, _NO_STREAM, 0, given.grid, _NO_LEVELS)


def draw_with_prior(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64],
    present: int, pick: Callable[[NDArray[np.float64]], int],
) -> tuple[int, Index]:  # fmt: skip
    """Draw one of some priors with the levels of all lines summed out, and the levels given it.

    ``pick`` draws a prior given their log probabilities. Levels are drawn under the present prior
    while lines are summed out, since many lines hardly ever leave it; if another one is drawn,
    these levels are forgotten, and others are drawn under that.
    """
    is_sure = _is_sure(log_prior[present])  # as if not drawn
    levels = _NO_LEVELS if is_sure else np.empty(given.n_lines, np.int64)
    chosen = pick(_sum_out(engine, given, log_prior, stream, site, log_prior[present], levels))
    if chosen != present or is_sure:
        levels = draw_lines(engine, stream, site, given, log_prior[chosen])
    return chosen, levels


def draw_lines(
    engine: Engine, stream: Stream, site: int, given: Likelihoods, log_prior: NDArray[np.float64]
) -> Index:
    """Draw the level of every line (eq. 28 and 29)."""
    if _is_sure(log_prior):  # no spread: all lines have one level
        return np.full(given.n_lines, log_prior.argmax())
    levels = np.empty(given.n_lines, np.int64)
    nothing = np.empty((len(log_prior) + BLOCK, 0))  # no prior under which lines are summed out
    parts = np.empty((-(-given.n_lines // CHUNK), 0))
    engine.over_rows(
        sum_windows, given.n_lines, *stream, np.uint64(site), tuple(given), nothing, parts, parts,
        log_prior, np.exp(log_prior), levels, step=CHUNK, made=((levels, 1), (parts, CHUNK)),
    )  # fmt: skip
    return levels


def log_likelihood(engine: Engine, given: Likelihoods, levels: NDArray[np.integer]) -> float:
    """Return the sum of the log likelihoods of these levels, one for every line."""
    parts = np.zeros(-(-given.n_lines // CHUNK))
    engine.over_rows(
        sum_levels, given.n_lines, tuple(given), np.asarray(levels, np.int64), parts, step=CHUNK,
        made=((parts, CHUNK),),
    )  # fmt: skip
    return float(parts.sum())


def _is_sure(log_prior: NDArray[np.float64]) -> bool:
    """Whether only one level is possible."""
    return int(np.count_nonzero(log_prior > -np.inf)) == 1


def _sum_out(
    engine: Engine, given: Likelihoods, log_prior: NDArray[np.float64], stream: Stream, site: int,
    present: NDArray[np.float64], levels: Index,
) -> NDArray[np.float64]:  # fmt: skip
    """Sum out, and write levels drawn under the present prior if there is room for them."""
    n, prior = len(log_prior), transposed(log_prior)
    n_parts = -(-given.n_lines // CHUNK)  # whatever the number of threads
    parts, least = np.zeros((n_parts, n)), np.ones((n_parts, n))
    engine.over_rows(
        sum_windows, given.n_lines, *stream, np.uint64(site), tuple(given), prior, parts, least,
        present, np.exp(present) if len(levels) else present, levels, step=CHUNK,
        made=((parts, CHUNK), (least, CHUNK), (levels, 1)),
    )  # fmt: skip
    sums, is_unsure = add_parts(parts, least)
    unsure = np.flatnonzero(is_unsure)
    if len(unsure):
        parts = np.zeros((n_parts, len(unsure)))
        engine.over_rows(
            sum_all_levels, given.n_lines, tuple(given), log_prior[unsure], parts, step=CHUNK,
            made=((parts, CHUNK),),
        )  # fmt: skip
        sums[unsure] = parts.sum(axis=0)
    return sums  # type: ignore[no-any-return]
