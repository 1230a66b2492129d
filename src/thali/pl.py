"""Pictures of a posterior under the name that scanpy uses: ``import thali.pl``."""

from thali import plots
from thali.plots import *  # noqa: F403 - the same names, which plots lists

__all__ = plots.__all__
