"""Where tests compute: engines by name; what this machine cannot do is skipped, and says why."""

import pytest

from support.host_device import HostDevice, compiler
from thali.engines.cpu.draw_rows import FORMS
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu.device import n_devices
from thali.engines.gpu.engine import GpuEngine

GPU = [pytest.param("gpu", marks=pytest.mark.gpu), "gpu kernels on the host"]

needs_compiler = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler to build the kernels for the host"
)


def place(name):
    """Return an engine: a number of threads, a form of the CPU's kernels, or one of ``GPU``."""
    if name == "gpu":
        if n_devices() == 0:
            pytest.skip("no CUDA device, or no CuPy to reach it")
        return GpuEngine()
    if name == GPU[1]:
        if compiler() is None:
            pytest.skip("no C++ compiler to build the kernels for the host")
        return GpuEngine(HostDevice())
    return CpuEngine(1, name) if name in FORMS else CpuEngine(int(name[0]))
