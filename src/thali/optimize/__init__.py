"""Fewest errors: the factorization of a given size with the fewest wrong entries."""
