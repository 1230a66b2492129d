"""The CPU engine: compiled kernels on threads."""

from thali.engines.cpu.engine import CpuEngine

__all__ = ["CpuEngine"]
