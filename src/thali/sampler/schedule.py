"""The schedule of a chain: how rows are updated, how often moves are tried, and the warm-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thali.checks import count

SCHEDULES = ("parallel", "serial", "serial-integrated")
MOVES = (
    "split_merge", "anchored", "guided", "compound", "reseat", "residual", "toggle", "seeded",
    "trade",
)  # fmt: skip
"""Names of the moves, in the order in which they are tried."""

MANY = 4
"""A chain starts on a subset of its rows if there are at least this many times as many rows."""


@dataclass(frozen=True)
class Schedule:
    """How rows are updated, how often moves are tried, and how a chain warms up.

    Parameters
    ----------
    kind
        ``"parallel"``: rows are updated in random blocks, all rows of a block at once, with
        single-row components integrated out. ``"serial"``: one row after another, the paper's
        algorithm with corrections. ``"serial-integrated"``: the same with single-row components
        integrated out. Ignored when the number of components is fixed.
    warmup
        Number of warm-up sweeps, which precede the draws. With row and column effects, components
        are cheap in the first of them (:mod:`thali.sampler.warming`).
    blocks
        Number of blocks of the parallel schedule. At least 2, because a block of all rows could
        not update shared components.
    hold
        Number of first sweeps, within the warm-up, in which error rates, concentration and
        densities keep their initial values. Otherwise, as long as there are no components, these
        would adapt as if everything were noise, or as if every row had components of its own, and
        a chain takes long to leave such states. Applies only to chains whose components are not
        grown: with a fixed number of components, or without ``starts``.
    split_merge, anchored, guided, compound, reseat, residual, toggle, seeded
        How often each move of whole components is tried per sweep (:mod:`thali.sampler.moves`).
        If more than ten components are expected, the moves are tried proportionally more often;
        with more than 16,384 columns, half as often. With more than a million known entries,
        ``seeded`` is tried in fewer sweeps, with more than 16 million in none.
    trade
        How often, in every second draw of the levels of a matrix, rows or columns are offered
        another level together with the components that fit it (:mod:`thali.sampler.trades`), and
        in the other draws, columns another level in the place of a component of their own, or the
        other way round (:mod:`thali.sampler.single_columns`). With more than eight million known
        entries, never: these determine the level of a line.
    starts
        Number of starts that a chain grows before its first sweep and pools
        (:mod:`thali.sampler.start`); with more than a million entries, two at most. Where rows
        have 1,000 entries or more and starts without effects have no hope, twice this number is
        grown with effects, if that takes no more than about a minute; where those with effects
        have none, the search goes on with two error rates. With more than 67 million entries, one
        is grown with effects. Every chain has its own starts. 0 starts without components. Applies
        to an inferred number of components.
    regrow
        Number of rounds, at most, in which a few components at a time are then removed and others
        grown in their place; twice as many where there are twice the starts. The rounds end when
        one of them brings nothing; with more than a million entries in rows of fewer than 1,000,
        also when one leaves the components as they were.
    first_rows
        Size of the random subset of rows on which components are grown if there are at least four
        times as many rows. Every chain has its own subset. 0 grows them on all rows.
    """

    kind: str = "parallel"
    warmup: int = 0
    blocks: int = 4
    hold: int = 20
    split_merge: int = 5
    anchored: int = 2
    guided: int = 5
    compound: int = 3
    reseat: int = 2
    residual: int = 1
    toggle: int = 2
    seeded: int = 2
    trade: int = 1
    starts: int = 4
    regrow: int = 6
    first_rows: int = 4096

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            allowed = ", ".join(map(repr, SCHEDULES))
            msg = f"schedule={self.kind!r} was given; allowed are {allowed}; choose one of those."
            raise ValueError(msg)
        for name in ("warmup", "hold", *MOVES, "starts", "regrow", "first_rows"):
            count(name, getattr(self, name))
        count("blocks", self.blocks, least=2)


def make_schedule(schedule: str | Schedule, warmup: int) -> Schedule:
    """Return a schedule, given by its kind or as an object, with this many warm-up sweeps."""
    if isinstance(schedule, Schedule):
        return replace(schedule, warmup=warmup)
    return Schedule(schedule, warmup=warmup)
