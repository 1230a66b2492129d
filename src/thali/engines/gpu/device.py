"""The CUDA device that holds the arrays of the GPU engine and runs its kernels, through CuPy.

The engine uses only the array module of a device (``xp``), the layout of its kernels (``lanes``,
``warps``) and its methods. Tests replace it by NumPy and kernels that are compiled for the host.
"""

from __future__ import annotations

from ctypes import c_void_p
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import EngineUnavailable, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

OPTIONS = ("-std=c++17",)


KERNELS = (
    "platform.cu",  # types, and names that differ between CUDA and a compiler for the host
    "conditional.cu",  # the rule of every conditional: free entries, log odds
    "decisions.cu",  # random numbers by address, and decisions in integers
    "vectors.cu",  # four words at once
    "counters.cu",  # bit-sliced counters of 32 rows
    "layout.cu",  # gathers, counts, flips and transposes rows
    "visits.cu",  # which columns each component visits
    "reading.cu",  # records of visits, and their data
    "count_component.cu",  # counts for one component in all rows
    "draw_component.cu",  # draws the bits of one component in all rows
    "draw_components.cu",  # counts and draws for all components in one launch
    "by_class.cu",  # counts and draws if columns are of several classes
    "whole_rows.cu",  # counts for one row with all components
    "count_by_class.cu",  # free entries of one row by class of columns
    "row_sets.cu",  # sets of rows that moves propose
    "count_columns.cu",  # free entries of a few columns by class of rows
    "births.cu",  # single-row components
    "birth_death.cu",  # single-row components with densities of their own
    "host.cu",  # calls of the kernels on the host, for tests without a GPU
)
"""Files in ``kernels/``, each after the files that it needs."""


def source() -> str:
    """Return all kernels as one source text; compiler messages name the file and line."""
    folder = files("thali.engines.gpu").joinpath("kernels")
    parts = [(name, folder.joinpath(name).read_text(encoding="utf-8")) for name in KERNELS]
    return "".join(f'#line 1 "kernels/{name}"\n{text}' for name, text in parts)


@cache
def n_devices() -> int:
    """Return the number of CUDA devices; zero without CuPy or without a driver."""
    try:
        cupy = require("cupy", extra="cuda13", error=EngineUnavailable)
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # noqa: BLE001 - any failure of the driver means that there is no device
        return 0


def fetch_later(device: Any, array: Any) -> Callable[[], NDArray[Any]]:
    """Start to copy an array to the host; the result waits for the copy and returns it.

    What the device is asked to do in the meantime does not delay the copy.
    """
    if array.size == 0:
        return lambda: np.empty(array.shape, array.dtype)
    out = device.pinned(array.nbytes).view(array.dtype).reshape(array.shape)
    device.fetch(array, out)
    event = device.event()
    event.record()

    def wait() -> NDArray[Any]:
        event.synchronize()
        return out  # type: ignore[no-any-return]

    return wait


class CudaDevice:
    """The first CUDA device."""

    lanes = 32
    warps = 8
    runs_together = True  # blocks of a launch run at the same time, and may wait for each other

    def __init__(self) -> None:
        cupy = require("cupy", extra="cuda13", error=EngineUnavailable)
        if n_devices() == 0:
            msg = (
                "engine='gpu' was given, but no CUDA device was found; check `nvidia-smi`, or use "
                "engine='cpu'."
            )
            raise EngineUnavailable(msg)
        device = cupy.cuda.Device()
        if device.id:  # chains run on new threads, where device 0 is the current one
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
        """Return the number of bytes of free memory."""
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def launch(
        self, name: str, grid: tuple[int, int], threads: int, arguments: Sequence[Any],
        shared: int = 0,
    ) -> None:  # fmt: skip
        """Start a kernel; if the driver reports an error of the launch, CuPy raises it."""
        if name not in self._kernels:
            self._kernels[name] = self._module.get_function(name)
            if name.startswith(("count_component", "count_columns", "draw_components")):
                self._kernels[name].max_dynamic_shared_size_bytes = self.shared
        self._kernels[name](grid, (threads,), tuple(arguments), shared_mem=shared)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Copy an array to page-locked memory of the host, which is four times as fast."""
        from cupyx import empty_pinned  # noqa: PLC0415

        array = self.xp.ascontiguousarray(array)
        if array.size == 0:
            return np.empty(array.shape, array.dtype)
        out: NDArray[Any] = empty_pinned(array.shape, array.dtype)
        array.get(out=out)
        return out

    def pinned(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return page-locked memory of the host, which the device reads and writes directly."""
        from cupyx import empty_pinned  # noqa: PLC0415

        return empty_pinned(n_bytes, np.uint8)  # type: ignore[no-any-return]

    def send(self, pinned: NDArray[Any], array: Any) -> None:
        """Start to copy to the device; both arrays are contiguous."""
        array.data.copy_from_host_async(c_void_p(pinned.ctypes.data), pinned.nbytes)

    def fetch(self, array: Any, pinned: NDArray[Any]) -> None:
        """Start to copy from the device; both arrays are contiguous."""
        array.data.copy_to_host_async(c_void_p(pinned.ctypes.data), pinned.nbytes)

    def event(self) -> Any:
        """Return an event of the device: ``record`` sets it, ``synchronize`` waits for it."""
        return self.xp.cuda.Event(disable_timing=True)
