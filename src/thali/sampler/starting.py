"""What a start of a chain has reached so far."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from thali.sampler.grow.trial import Tried
    from thali.sampler.state import State


class Keys(IntEnum):
    """Numbers of the keys of what comes beside the starts themselves, which have small numbers."""

    HIDING = 101
    NONE = 102
    LAST = 103
    RATES = 104
    AFTER = 105
    BARE = 106
    PLAIN = 107  # up to three
    TRIALS = 110  # one for every candidate
    ASIDE = 120


class Attempted(NamedTuple):
    """One stage of a start, and what it reached."""

    stage: str  # "grown", "pooled", "regrown", "tried" or "chosen"
    n_components: int
    evidence: float  # log joint density of data and one side of the components; if tried or
    # chosen, before the sweeps of the trial
    kind: str = ""  # with effects: "none" (no component), "fitted", "flat" or "plain" (no effects)
    tried: Tried | None = None  # how it predicted hidden entries, if tried or chosen


class Starting(NamedTuple):
    """The progress of a start."""

    state: State  # a state of the target only at the end
    history: tuple[Attempted, ...]
    stage: str
