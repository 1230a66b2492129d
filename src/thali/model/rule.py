"""The one rule behind every conditional, for compiled code.

Both functions are compiled into their callers. The GPU's kernels have the same two
(``engines/gpu/kernels``), and so has the oracle of the tests; nothing else writes them out.
"""

from __future__ import annotations

from typing import Any

from thali._jit import inlined


@inlined
def log_odds(prior: Any, one_weight: Any, zero_weight: Any, n_ones: Any, n_zeros: Any) -> Any:
    """Return the log odds of an entry, ``prior + w1 c1 + w0 c0`` (eq. 10).

    Counted are the entries that it alone decides. In the integers of :mod:`thali.decide` or in
    floating point; with a prior of zero it is what covering these entries gains.
    """
    return prior + one_weight * n_ones + zero_weight * n_zeros


@inlined
def free_word(candidates: Any, covered: Any) -> Any:
    """Return the candidates (known entries, or columns of a component) that nothing covers."""
    return candidates & ~covered
