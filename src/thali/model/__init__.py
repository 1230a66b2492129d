"""Stage 3a: the model as formulas on counts. It depends on no engine and no chain."""

from thali.model.effects import Effects
from thali.model.levels import Levels
from thali.model.model import Model
from thali.model.noise import AsPublished, EqualRates, FixedRates, Noise, UnequalRates
from thali.model.per_component import PerComponent
from thali.model.priors import Beta, Buffet, Fixed, Gamma
from thali.model.weights import Weights

__all__ = [
    "AsPublished",
    "Beta",
    "Buffet",
    "Effects",
    "EqualRates",
    "Fixed",
    "FixedRates",
    "Gamma",
    "Levels",
    "Model",
    "Noise",
    "PerComponent",
    "UnequalRates",
    "Weights",
]
