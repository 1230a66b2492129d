"""How functions are compiled: they release the GIL, and their cache on disk is never stale."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    # Numba checks the types of a call itself when it compiles the function.
    Kernel: TypeAlias = Callable[..., Any]

KERNEL_FILES = (
    "_jit.py",
    "sites.py",
    "streams.py",
    "decide.py",
    "bits/words.py",
    "bits/codes.py",
    "bits/refold.py",
    "model/births.py",
    "model/classes.py",
    "model/gains.py",
    "model/marginals.py",
    "model/priors.py",
    "model/rule.py",
    "engines/cpu/arrays.py",
    "engines/cpu/births.py",
    "engines/cpu/blocks.py",
    "engines/cpu/by_class.py",
    "engines/cpu/count_by_class.py",
    "engines/cpu/counters.py",
    "engines/cpu/gain_by_class.py",
    "engines/cpu/horizontal.py",
    "engines/cpu/order_components.py",
    "engines/cpu/score_bits.py",
    "engines/cpu/serial.py",
    "engines/cpu/vertical.py",
    "engines/cpu/vertical_by_class.py",
    "engines/cpu/visits.py",
    "sampler/level_counts.py",
    "sampler/level_shifts.py",
    "sampler/level_weights.py",
    "sampler/level_windows.py",
    "sampler/grow/trial.py",
    "sampler/grow/values.py",
    "sampler/moves/anchored.py",
    "sampler/moves/compound.py",
    "sampler/moves/exchange.py",
    "sampler/moves/guided.py",
    "sampler/moves/own_component.py",
    "sampler/moves/proposal.py",
    "sampler/moves/residual_kernels.py",
    "sampler/moves/split_merge.py",
    "posterior/coverage.py",
    "posterior/matter.py",
    "posterior/new_row_chain.py",
    "posterior/new_row_enumeration.py",
    "posterior/new_row_level_chain.py",
    "posterior/new_row_level_enumeration.py",
)
"""Every file whose text goes into compiled code; tests/test_layers.py checks the list."""


def _stamp() -> tuple[int, str]:
    """Return an identifier of the content of all files with compiled code."""
    digest = blake2b(digest_size=16)
    for name in KERNEL_FILES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return len(KERNEL_FILES), digest.hexdigest()


_STAMP = _stamp()


def jit(function: Kernel) -> Kernel:
    """Compile a function at its first call, to run without the GIL, and cache it on disk."""
    compiled: Any = numba.njit(nogil=True)(function)
    if not hasattr(compiled, "enable_caching"):  # NUMBA_DISABLE_JIT=1: a plain function
        return function
    try:
        compiled.enable_caching()
        # Numba notices an edit only in the file that a kernel is in, not in other files whose
        # functions the kernel calls. It also compares file times, which container images and
        # archives do not keep. Our stamp is the content of all files with compiled code instead.
        compiled._cache._cache_file._source_stamp = _STAMP  # noqa: SLF001
    except (RuntimeError, AttributeError):
        # No folder can be written to (as in containers with a random user), or this version of
        # Numba has no such attribute: compile without a cache.
        compiled = numba.njit(nogil=True)(function)
    return compiled  # type: ignore[no-any-return]


def inlined(function: Kernel) -> Kernel:
    """Compile a function into its callers, which can then move constant work out of loops."""
    return numba.njit(nogil=True, inline="always")(function)
