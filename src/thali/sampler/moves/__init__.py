"""Metropolis-Hastings moves of whole components, one file per move."""

from thali.sampler.moves.tries import try_moves

__all__ = ["try_moves"]
