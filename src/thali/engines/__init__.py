"""Stage 3b: the machines that hold the data and answer the sampler."""

from thali.engines.base import Births, Cover, Engine, RowUpdate

__all__ = ["Births", "Cover", "Engine", "RowUpdate"]
