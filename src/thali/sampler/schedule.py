"""The schedule of a chain: how rows are updated, how often moves are tried, and the warm-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thali.checks import count

SCHEDULES = ("parallel", "serial", "serial-integrated")
MOVES = ("split_merge", "anchored", "guided", "compound", "reseat", "residual")
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
        Number of warm-up sweeps, which precede the draws.
    blocks
        Number of blocks of the parallel schedule. At least 2, because a block of all rows could
        not update shared components.
    hold
        Number of first sweeps, within the warm-up, in which error rates, concentration and
        densities keep their initial values. Otherwise, as long as there are no components, these
        would adapt as if everything were noise, or as if every row had components of its own, and
        a chain takes long to leave such states. A chain that starts on a subset of the rows holds
        the values found there.
    split_merge, anchored, guided, compound, reseat, residual
        How often each move of whole components is tried per sweep (:mod:`thali.sampler.moves`).
        If more than ten components are expected, the moves are tried proportionally more often;
        with more than 16,384 columns, half as often.
    first_rows
        Size of the random subset of rows on which a chain starts if there are at least four times
        as many rows. All rows begin with the components found there (:mod:`thali.sampler.start`).
        Every chain has its own subset. 0 starts with all rows. Applies to the parallel schedule
        with an inferred number of components.
    first_sweeps
        Number of sweeps on that subset. A subset of 4,096 rows or more itself starts on a quarter
        of its rows: these take all ``first_sweeps``, and the subset then takes a quarter as many.
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
    first_rows: int = 4096
    first_sweeps: int = 200

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            allowed = ", ".join(map(repr, SCHEDULES))
            msg = f"schedule={self.kind!r} was given; allowed are {allowed}; choose one of those."
            raise ValueError(msg)
        for name in ("warmup", "hold", *MOVES, "first_rows", "first_sweeps"):
            count(name, getattr(self, name))
        count("blocks", self.blocks, least=2)


def make_schedule(schedule: str | Schedule, warmup: int) -> Schedule:
    """Return a schedule, given by its kind or as an object, with this many warm-up sweeps."""
    if isinstance(schedule, Schedule):
        return replace(schedule, warmup=warmup)
    return Schedule(schedule, warmup=warmup)
