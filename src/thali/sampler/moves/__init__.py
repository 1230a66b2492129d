"""Moves of whole components: one file for each."""
