"""A store of a process that draws a chain with others and leaves it to the first to keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.trace.draws import MemoryStore

if TYPE_CHECKING:
    from thali.sampler import Info, State


class Witness(MemoryStore):
    """Computes all that a store computes, since processes must do the same, but keeps no draw."""

    def record(self, state: State, info: Info) -> None:
        """Record a sweep; forget its draw."""
        super().record(state, info)
        self.draws.clear()
