"""Moves of whole components: one file for each."""

from thali.sampler.moves.tries import try_moves

__all__ = ["try_moves"]
