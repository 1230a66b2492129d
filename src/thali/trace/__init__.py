"""Stage 4: what was drawn, kept in memory or safely on disk, and where to go on."""

from thali.trace.draws import Draw, MemoryStore, Store
from thali.trace.run import Run
from thali.trace.settings import Settings

__all__ = ["Draw", "MemoryStore", "Run", "Settings", "Store"]
