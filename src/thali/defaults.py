"""How long chains are if nothing is given: one definition for Python and the command line.

Nothing is imported here, so that ``thali --help`` stays fast.
"""

CHAINS = 4
WARMUP = 200
DRAWS = 400
"""Chains, warm-up sweeps and draws per chain (docs/how-sure.md says how they were chosen)."""
