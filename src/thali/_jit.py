"""The one way a function is compiled: without the GIL, cached, and never stale."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    # Numba's types are what counts in a call, and they are checked when it compiles.
    Kernel: TypeAlias = Callable[..., Any]

KERNEL_FILES = (
    "_jit.py",
    "sites.py",
    "streams.py",
    "decide.py",
    "bits/words.py",
    "bits/codes.py",
    "model/births.py",
    "model/marginals.py",
    "model/priors.py",
    "model/rule.py",
    "engines/cpu/arrays.py",
    "engines/cpu/births.py",
    "engines/cpu/count_by_class.py",
    "engines/cpu/counters.py",
    "engines/cpu/horizontal.py",
    "engines/cpu/order_components.py",
    "engines/cpu/serial.py",
    "engines/cpu/vertical.py",
    "sampler/moves/anchored.py",
    "sampler/moves/compound.py",
    "sampler/moves/exchange.py",
    "sampler/moves/guided.py",
    "sampler/moves/own_component.py",
    "sampler/moves/proposal.py",
    "sampler/moves/residual_kernels.py",
    "sampler/moves/split_merge.py",
    "posterior/coverage.py",
    "posterior/new_row_kernels.py",
)
"""Every file with compiled code; tests/test_layers.py keeps the list complete."""


def _stamp() -> tuple[int, str]:
    """Identify the sources of all kernels by content."""
    digest = blake2b(digest_size=16)
    for name in KERNEL_FILES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return len(KERNEL_FILES), digest.hexdigest()


_STAMP = _stamp()


def jit(function: Kernel) -> Kernel:
    """Compile a function on first call, release the GIL in it, keep the result on disk."""
    compiled: Any = numba.njit(nogil=True)(function)
    if not hasattr(compiled, "enable_caching"):  # NUMBA_DISABLE_JIT=1: a plain function
        return function
    try:
        compiled.enable_caching()
        # Numba notices only edits of the file a kernel is in, not of the helpers it calls
        # from other files, and compares times, which images and archives falsify. Our stamp
        # is the content of all kernel files.
        compiled._cache._cache_file._source_stamp = _STAMP  # noqa: SLF001
    except (RuntimeError, AttributeError):
        # Nowhere to write (containers with a random user), or another Numba: no cache.
        compiled = numba.njit(nogil=True)(function)
    return compiled  # type: ignore[no-any-return]


def inlined(function: Kernel) -> Kernel:
    """Compile a function into its callers, so that they can hoist what does not change."""
    return numba.njit(nogil=True, inline="always")(function)
