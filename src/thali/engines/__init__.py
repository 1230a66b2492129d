"""Stage 3b: the one row kernel, placed where the machine is."""

from thali.engines.base import Births, Engine, RowUpdate, choose

__all__ = ["Births", "Engine", "RowUpdate", "choose"]
