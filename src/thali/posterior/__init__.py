"""Stage 5: the meaning of the draws: alignment, summaries, predictions and diagnostics."""

from thali.posterior.posterior import Posterior

__all__ = ["Posterior"]
