"""Stage 3c: the Markov chain."""

from thali.sampler.chain import chain
from thali.sampler.grow.trial import Tried
from thali.sampler.info import Info
from thali.sampler.schedule import Schedule
from thali.sampler.start import start
from thali.sampler.starting import Attempted
from thali.sampler.state import State
from thali.sampler.step import step
from thali.sampler.target import Target

__all__ = [
    "Attempted",
    "Info",
    "Schedule",
    "State",
    "Target",
    "Tried",
    "chain",
    "start",
    "step",
]
