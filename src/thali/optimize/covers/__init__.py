"""Exact covers: the fewest components that cover every one and no zero."""

from thali.optimize.covers.solve import Cover, fewest_components

__all__ = ["Cover", "fewest_components"]
