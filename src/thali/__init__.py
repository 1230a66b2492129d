"""Bayesian Boolean factorization of binary data, with the number of components inferred."""

__version__ = "0.1.0.dev0"
