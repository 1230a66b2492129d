"""Processes side by side compile every kernel once: one compiles it, the others wait for it.

Two workers with an empty cache would otherwise compile the same kernels at the same time.
"""

from functools import wraps
from pathlib import Path

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None


def compile_once():
    """Make this process one of them."""
    if fcntl is None:
        return
    compile_anyway = Dispatcher.compile

    @wraps(compile_anyway)
    def compile_alone(self, sig):
        index = getattr(getattr(self._cache, "_cache_file", None), "_index_path", None)
        if index is None:  # not cached: nobody else could use it
            return compile_anyway(self, sig)
        # Numba's own lock comes first: of two threads that each have one, both would wait forever.
        # Two processes cannot, because kernels do not call each other in circles.
        with global_compiler_lock, Path(f"{index}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            return compile_anyway(self, sig)

    Dispatcher.compile = compile_alone
