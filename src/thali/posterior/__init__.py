"""Stage 5: what was drawn means: alignment, summaries, predictions, diagnostics."""

from thali.posterior.posterior import Posterior

__all__ = ["Posterior"]
