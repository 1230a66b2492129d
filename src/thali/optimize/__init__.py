"""Fewest errors: the factorization of a given size with the fewest wrong entries."""

from thali.optimize.factorization import Factorization
from thali.optimize.fewest import SearchProgress, minimize

__all__ = ["Factorization", "SearchProgress", "minimize"]
