"""The GPU engine: CUDA kernels, and the device they run on."""
