"""Which GPU of its machine a process takes: the processes of a machine share its GPUs."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from thali.engines.gpu.device import CudaDevice

if TYPE_CHECKING:
    from thali.engines.cluster.ranks import Ranks

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def own_device(ranks: Ranks) -> CudaDevice:
    """Return the device of this process: its number on its machine modulo the devices there.

    CUDA reads the variable that says which devices there are when it is first used, and then this
    process has one device only.
    """
    visible = os.environ.get(_VISIBLE)
    devices = [str(i) for i in range(_n_installed())] if visible is None else visible.split(",")
    if len(devices) > 1:
        os.environ[_VISIBLE] = devices[ranks.place_on_machine() % len(devices)]
    return CudaDevice()


def _n_installed() -> int:
    """Return the number of NVIDIA's devices on this machine, without the use of CUDA."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    n = ctypes.c_uint(0)
    if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(n)):
        return 0
    return n.value
