"""How a chain sweeps: the order of the rows, the moves, and what is special in warm-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thali.checks import count

SCHEDULES = ("parallel", "serial", "serial-integrated")
MOVES = ("split_merge", "anchored", "guided", "compound", "reseat", "residual")
"""Names of the moves, in the order in which they are tried."""

MANY = 4
"""A chain starts with some of its rows if there are at least so many times as many."""


@dataclass(frozen=True)
class Schedule:
    """How the rows of the buffet factor are updated, and what is special in warm-up.

    Parameters
    ----------
    kind
        ``"parallel"``: rows in random blocks, all rows of a block at once, single-row components
        integrated out. ``"serial"``: one row after another, as in the paper, corrected.
        ``"serial-integrated"``: the same with single-row components integrated out.
        Ignored when the number of components is fixed.
    warmup
        Sweeps before draws count.
    blocks
        Blocks of the parallel schedule. At least 2: a block of all rows could not update shared
        components.
    hold
        First sweeps (of the warm-up) in which error rates, concentration and densities stay where
        they start. Otherwise, with no component yet, they would say that everything is noise, or
        that every row has components of its own, and it takes long to leave such states. A chain
        that starts with some of the rows starts with what these say, and holds that.
    split_merge, anchored, guided, compound, reseat, residual
        How often each move that changes whole components is tried in a sweep
        (:mod:`thali.sampler.moves`); in proportion more often where more than ten are expected,
        half as often with more than 16,384 columns.
    first_rows
        Rows that a chain of at least four times as many starts with: what they find is given to
        all rows before the first sweep (:mod:`thali.sampler.start`). Every chain has its own. 0
        starts with all. For the parallel schedule and an inferred number of components.
    first_sweeps
        Sweeps of those rows; from 4,096 rows on, of a quarter of them, and then a quarter as many
        of all of them.
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
