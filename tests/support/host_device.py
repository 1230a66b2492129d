"""The GPU engine's kernels built for the host, in place of a CUDA device."""

import ctypes
import fcntl
import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from thali.engines.gpu.device import source


def compiler():
    return shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


@cache
def library(edit=None):
    """Compile the kernels with one thread per block; an edit, (old, new), breaks them.

    They are kept beside Numba's, so that the processes of one run of the tests compile them once.
    """
    text = source()
    if edit is not None:
        assert text.count(edit[0]) == 1, f"{text.count(edit[0])} places read {edit[0]!r}"
        text = text.replace(*edit)
    root = Path(os.environ.get("NUMBA_CACHE_DIR", gettempdir()))
    folder = root / f"thali-kernels-{sha256(text.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others wait until it is there
        if not (folder / "kernels.so").exists():
            (folder / "kernels.cpp").write_text(text)
            # A mistake is seen after few launches: building it fast takes longer than they do.
            level = "-O1" if edit is None else "-O0"
            command = [compiler(), level, "-std=c++17", "-Wall", "-Werror", "-fPIC", "-shared"]
            command += ["-o", str(folder / "new.so"), str(folder / "kernels.cpp")]
            subprocess.run(command, check=True, capture_output=True, text=True)
            (folder / "new.so").rename(folder / "kernels.so")
    return ctypes.CDLL(str(folder / "kernels.so"))


class HostDevice:
    """NumPy and the host's build of the kernels."""

    lanes = 1
    warps = 1
    runs_together = False
    n_processors = 2
    shared = 48 << 10
    name = "host"
    xp = np
    room = 1 << 40
    edit = None

    def free_bytes(self):
        return self.room

    def launch(self, name, grid, threads, arguments, shared=0):
        assert threads == 1
        assert all(n > 0 for n in grid)
        assert grid[1] < 1 << 16
        assert shared <= 48 << 10
        cells = [
            np.array(a.ctypes.data if isinstance(a, np.ndarray) else a, order="C")
            for a in arguments
        ]
        pointers = (ctypes.c_void_p * len(cells))(*(c.ctypes.data for c in cells))
        getattr(library(self.edit), f"host_{name}")(*map(ctypes.c_uint, grid), pointers)

    def to_host(self, array):
        return np.array(array, order="C")

    def pinned(self, n_bytes):
        return np.full(n_bytes, 0xA5, np.uint8)  # whoever forgets to fill it is found out

    def send(self, pinned, array):
        assert array.flags.c_contiguous
        assert array.shape == pinned.shape
        array[...] = pinned

    def fetch(self, array, pinned):
        self.send(array, pinned)

    def event(self):
        return Mark()


class Mark:
    """Work on the host is done at once."""

    def record(self):
        pass

    def synchronize(self):
        pass
