"""The CPU engine: compiled kernels on the threads of this machine."""
