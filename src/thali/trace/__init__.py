"""Stage 4: posterior draws, kept in memory or on disk, and the state to continue from."""

from thali.trace.draws import Draw, MemoryStore, Store
from thali.trace.run import Run
from thali.trace.settings import Settings

__all__ = ["Draw", "MemoryStore", "Run", "Settings", "Store"]
