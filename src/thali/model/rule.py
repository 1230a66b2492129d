"""The rule of every conditional distribution, for compiled code.

Both functions are compiled into their callers. The GPU kernels (``engines/gpu/kernels``) and the
oracle of the tests have their own versions of them; no other code states the rule.
"""

from __future__ import annotations

from typing import Any

from thali._jit import inlined


@inlined
def log_odds(prior: Any, one_weight: Any, zero_weight: Any, n_ones: Any, n_zeros: Any) -> Any:
    """Return the log odds of an entry, ``prior + w1 c1 + w0 c0`` (eq. 10).

    The counts are of the data that depend on this entry alone. The arguments are integers of
    :mod:`thali.decide` or floating-point numbers. With a prior of zero, the result is the gain in
    log-likelihood by covering the counted data.
    """
    return prior + one_weight * n_ones + zero_weight * n_zeros


@inlined
def free_word(candidates: Any, covered: Any) -> Any:
    """Return those candidates (known entries, or columns of a component) that are not covered."""
    return candidates & ~covered
