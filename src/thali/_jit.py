"""How functions are compiled: they release the GIL, and their cache on disk is never stale."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.registry import CPUDispatcher

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
    "team_kernels.py",
    "bits/counting.py",
    "bits/words.py",
    "bits/codes.py",
    "bits/refold.py",
    "model/births.py",
    "model/bounds.py",
    "model/classes.py",
    "model/draws.py",
    "model/gains.py",
    "model/marginals.py",
    "model/priors.py",
    "model/rule.py",
    "model/special.py",
    "engines/cpu/arrays.py",
    "engines/cpu/births.py",
    "engines/cpu/blocks.py",
    "engines/cpu/by_class.py",
    "engines/cpu/column_gains.py",
    "engines/cpu/count_by_class.py",
    "engines/cpu/counters.py",
    "engines/cpu/gain_by_class.py",
    "engines/cpu/horizontal.py",
    "engines/cpu/in_parts.py",
    "engines/cpu/near.py",
    "engines/cpu/open_rows.py",
    "engines/cpu/order_components.py",
    "engines/cpu/score_bits.py",
    "engines/cpu/serial.py",
    "engines/cpu/vertical.py",
    "engines/cpu/vertical_by_class.py",
    "engines/cpu/visits.py",
    "engines/gpu/slots.py",
    "sampler/level_arrays.py",
    "sampler/level_counts.py",
    "sampler/level_draws.py",
    "sampler/level_pairs.py",
    "sampler/level_shifts.py",
    "sampler/level_weights.py",
    "sampler/level_windows.py",
    "sampler/line_terms.py",
    "sampler/paths.py",
    "sampler/trade_kernels.py",
    "sampler/single_column_kernels.py",
    "sampler/small.py",
    "sampler/grow/values.py",
    "sampler/moves/anchor_marks.py",
    "sampler/moves/anchored.py",
    "sampler/moves/at_once.py",
    "sampler/moves/compound.py",
    "sampler/moves/exchange.py",
    "sampler/moves/fresh.py",
    "sampler/moves/guided.py",
    "sampler/moves/own_component.py",
    "sampler/moves/proposal.py",
    "sampler/moves/residual_kernels.py",
    "sampler/moves/seeded.py",
    "sampler/moves/split_merge.py",
    "sampler/moves/toggle.py",
    "optimize/cover.py",
    "optimize/fit.py",
    "optimize/join.py",
    "optimize/new_rows.py",
    "optimize/swaps.py",
    "optimize/covers/bound.py",
    "optimize/covers/grow.py",
    "optimize/covers/lines.py",
    "optimize/covers/rectangles.py",
    "optimize/covers/reduce.py",
    "optimize/covers/search.py",
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


KERNELS: list[Any] = []
"""The compiled functions that Python calls."""


def jit(function: Kernel) -> Kernel:
    """Compile a function at its first call, to run without the GIL, and cache it on disk."""
    compiled = _cached(function, _Compiler)
    KERNELS.append(compiled)
    return compiled


def is_at_hand(kernel: Kernel) -> bool:
    """Whether a kernel was compiled before, here or by another process, for whatever arguments."""
    if not isinstance(kernel, CPUDispatcher) or kernel.overloads:
        return True
    dispatcher: Any = kernel
    try:
        return bool(dispatcher._cache._cache_file._load_index())  # noqa: SLF001 - no other way
    except AttributeError:  # there is no cache
        return False


def cache_of(kernel: Kernel) -> Path | None:
    """Return the file that lists what is kept of a compiled function; None if nothing is kept."""
    try:
        index: Path | str = kernel._cache._cache_file._index_path  # type: ignore[attr-defined]  # noqa: SLF001
    except AttributeError:
        return None
    return Path(index)


def stamp() -> str:
    """Return an identifier of all code that is compiled."""
    return _STAMP[1]


def is_inner(kernel: Kernel) -> bool:
    """Whether a function is called by compiled functions only."""
    return isinstance(kernel, _Inner)


def inner(function: Kernel) -> Kernel:
    """Compile a function that is called by compiled functions only.

    It has no entry from Python, which would take as long to compile as a small function. It must
    not use Python objects, as ``print`` and errors with values do.
    """
    compiled = _cached(function, _InnerCompiler)
    if isinstance(compiled, CPUDispatcher):
        compiled.__class__ = _Inner
    return compiled


def lean(function: Kernel) -> Kernel:
    """Compile an inner function that makes and returns no arrays, and counts no references.

    Numba counts how many use an array whenever one is passed on or sliced, by an instruction that
    all threads wait for. In a function that works on many short lines, that takes most of the
    time. Arrays live as long as the kernel that calls the function holds them.
    """
    compiled = _cached(function, _LeanCompiler)
    if isinstance(compiled, CPUDispatcher):
        compiled.__class__ = _Inner
    return compiled


def inlined(function: Kernel) -> Kernel:
    """Compile a function into its callers, which can then move constant work out of loops."""
    return numba.njit(inline="always")(function)


class _Compiler(CompilerBase):
    """Numba's compiler, with our options.

    Numba compiles what it needs itself, such as ``np.empty``, once for every set of options with
    which functions are declared. So ours are all declared alike, and options are set here, where
    Numba has noted the declaration already.
    """

    has_entry = True

    def define_pipelines(self) -> list[Any]:
        """Set the options; the passes are Numba's."""
        flags = self.state.flags
        flags.release_gil = True
        flags.no_cfunc_wrapper = True  # no C code calls our functions
        flags.no_cpython_wrapper = not self.has_entry
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]  # type: ignore[no-untyped-call]


class _InnerCompiler(_Compiler):
    has_entry = False

    def define_pipelines(self) -> list[Any]:
        """Keep the code for kernels to link."""
        state = self.state
        library: Any = _Linkable  # without types, as all of Numba
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _LeanCompiler(_InnerCompiler):
    def define_pipelines(self) -> list[Any]:
        """Switch the counting of references off."""
        self.state.flags.nrt = False
        self.state.targetctx = self.state.targetctx.subtarget(enable_nrt=False)
        return super().define_pipelines()


class _Linkable(JITCodeLibrary):
    """The code of an inner function, which is optimized in the kernels that it is linked into.

    Numba would optimize it here, too, and make machine code of it and of all that it calls, again
    at every function on the way to a kernel. Nobody would run that code.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba calls it so
        """Say that there is no machine code."""
        return 0

    def serialize_using_object_code(self) -> Any:
        """Return what the cache keeps."""
        return self.serialize_using_bitcode()  # type: ignore[no-untyped-call]

    @property
    def codegen(self) -> Any:
        """Numba's code generator, in whose memory the function has no globals."""
        return _WithoutGlobals(self._codegen)


class _WithoutGlobals:
    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: Numba keeps there what Python objects a function uses; ours use none."""


class _Inner(CPUDispatcher):
    """A function that Python does not call, except in tests: then it is compiled once more."""

    def __call__(self, *args: Any) -> Any:
        if not hasattr(self, "_entry"):
            self._entry = numba.njit(self.py_func)
        return self._entry(*args)


def _cached(function: Kernel, compiler: type[_Compiler]) -> Kernel:
    compiled: Any = numba.njit(pipeline_class=compiler)(function)
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
        compiled = numba.njit(pipeline_class=compiler)(function)
    return compiled  # type: ignore[no-any-return]
