"""Where the GPU engine's arrays are and its kernels run: a CUDA device, through CuPy.

The engine knows an array module (``xp``), how kernels are laid out (``lanes``, ``warps``) and
``launch``; tests put NumPy and the kernels built for the host in their place.
"""

from __future__ import annotations

from ctypes import c_void_p
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import EngineUnavailable, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

OPTIONS = ("-std=c++17",)


KERNELS = (
    "platform.cu",  # types, and what CUDA and a host's compiler name differently
    "conditional.cu",  # the rule of every conditional: free entries, log odds
    "decisions.cu",  # random numbers by address, decisions in integers
    "vectors.cu",  # four words at once
    "counters.cu",  # counts of 32 rows in the bits of a few words
    "layout.cu",  # rows gathered, counted, flipped, transposed
    "visits.cu",  # which columns each component visits
    "count_component.cu",  # one component, all rows: counts
    "draw_component.cu",  # one component, all rows: bits
    "whole_rows.cu",  # one row, all components: counts
    "births.cu",  # single-row components
    "count_by_class.cu",  # free entries by class of columns
    "host.cu",  # how a host calls the kernels, for tests without a GPU
)
"""Files in ``kernels/``, each after those that it needs."""


def source() -> str:
    """Return the kernels as one translation unit, in which compilers name each file and line."""
    folder = files("thali.engines.gpu").joinpath("kernels")
    parts = [(name, folder.joinpath(name).read_text(encoding="utf-8")) for name in KERNELS]
    return "".join(f'#line 1 "kernels/{name}"\n{text}' for name, text in parts)


@cache
def n_devices() -> int:
    """Return how many CUDA devices CuPy finds; none where there is no CuPy or no driver."""
    try:
        cupy = require("cupy", extra="cuda13")
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # noqa: BLE001 - a driver can fail in many ways: each means no device
        return 0


class CudaDevice:
    """The first CUDA device."""

    lanes = 32
    warps = 8

    def __init__(self) -> None:
        cupy = require("cupy", extra="cuda13")
        if n_devices() == 0:
            msg = (
                "engine='gpu' was given, but no CUDA device was found; check `nvidia-smi`, or use "
                "engine='cpu'."
            )
            raise EngineUnavailable(msg)
        device = cupy.cuda.Device()
        if device.id:  # chains run on threads of their own, where the first is current again
            msg = (
                f"the current CUDA device is number {device.id}; thali computes on number 0; "
                f"start Python with CUDA_VISIBLE_DEVICES={device.id}."
            )
            raise EngineUnavailable(msg)
        self.xp: Any = cupy
        self._module = cupy.RawModule(code=source(), options=OPTIONS)
        self._kernels: dict[str, Any] = {}
        self.n_processors = int(device.attributes["MultiProcessorCount"])
        self.shared = int(device.attributes["MaxSharedMemoryPerBlockOptin"]) - (1 << 10)
        names = cupy.cuda.runtime.getDeviceProperties(device.id)["name"]
        self.name = names.decode()

    def free_bytes(self) -> int:
        """Return how much memory is to be had."""
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def launch(
        self, name: str, grid: tuple[int, int], threads: int, arguments: Sequence[Any],
        shared: int = 0,
    ) -> None:  # fmt: skip
        """Start a kernel; CuPy raises what the driver says of the launch."""
        if name not in self._kernels:
            self._kernels[name] = self._module.get_function(name)
            if name.startswith("count_component"):
                self._kernels[name].max_dynamic_shared_size_bytes = self.shared
        self._kernels[name](grid, (threads,), tuple(arguments), shared_mem=shared)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Copy an array to memory that the device writes directly, four times as fast."""
        from cupyx import empty_pinned  # noqa: PLC0415

        array = self.xp.ascontiguousarray(array)
        if array.size == 0:
            return np.empty(array.shape, array.dtype)
        out: NDArray[Any] = empty_pinned(array.shape, array.dtype)
        array.get(out=out)
        return out

    def pinned(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return memory of the host that the device reads and writes directly."""
        from cupyx import empty_pinned  # noqa: PLC0415

        return empty_pinned(n_bytes, np.uint8)  # type: ignore[no-any-return]

    def send(self, pinned: NDArray[Any], array: Any) -> None:
        """Start to copy to the device; both lie in one piece."""
        array.data.copy_from_host_async(c_void_p(pinned.ctypes.data), pinned.nbytes)

    def fetch(self, array: Any, pinned: NDArray[Any]) -> None:
        """Start to copy from the device; both lie in one piece."""
        array.data.copy_to_host_async(c_void_p(pinned.ctypes.data), pinned.nbytes)

    def event(self) -> Any:
        """Return a mark among the device's work: ``record`` sets it, ``synchronize`` waits."""
        return self.xp.cuda.Event(disable_timing=True)
