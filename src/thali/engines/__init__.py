"""Stage 3b: engines, which hold the data and compute for the sampler."""

from thali.engines.base import Births, Cover, Engine, RowUpdate

__all__ = ["Births", "Cover", "Engine", "RowUpdate"]
