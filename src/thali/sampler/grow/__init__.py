"""Starts: components that are grown on the data before the first sweep of a chain.

A chain that starts without components lets every row draw components of its own, which on dense
data makes hundreds that never merge again. A start grows from few components instead. It may do
anything, because a Markov chain has the same limit from any initial state.
"""
