"""Pictures of a posterior under the name that scanpy uses: ``import thali.pl``."""

from thali.plots import (
    components,
    effects,
    membership,
    n_components,
    overlap,
    reconstruction,
    traces,
)

__all__ = [
    "components",
    "effects",
    "membership",
    "n_components",
    "overlap",
    "reconstruction",
    "traces",
]
