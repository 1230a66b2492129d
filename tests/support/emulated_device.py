"""The GPU engine's kernels with warps and blocks as on a device, each thread a thread of the host.

:class:`support.host_device.HostDevice` has one thread per block, so it cannot see mistakes in how
threads share their work. Here they wait for each other as on a GPU: much slower, for small data.
"""

import ctypes
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from support.host_device import HostDevice, compiler
from thali.engines.gpu.device import KERNELS

PLATFORM = r"""
#include <cmath>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>
#define KERNEL static void
#define BOUNDED(threads, blocks)
#define DEVICE static inline
#define DEVICE_MEMBER
#define SHARED static
#define SHARED_ARRAY(name) u32* name = all_shared
#define BARRIER() pthread_barrier_wait(&of_block)
#define UNROLL
#define UNROLL_BY(n)
#define UNROLL_NOT
#define LANES 32
#define MOST_WARPS 8
#define COUNT_WARPS 4
#define TILE_WARPS 3
#define STAGES 4
#define FULL 0xffffffffu
#define NONE FULL
struct Place { unsigned x, y, z; };
static thread_local Place threadIdx, blockIdx;
static Place gridDim, blockDim;
static pthread_barrier_t of_block, of_warps[32];
static u32 all_shared[1 << 16] __attribute__((aligned(64)));
static u64 exchanged[1024];
DEVICE u32 lane_of() { return threadIdx.x % LANES; }
DEVICE u32 warp_of() { return threadIdx.x / LANES; }
DEVICE u32 n_warps() { return blockDim.x / LANES; }
DEVICE u64 multiply_high(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEVICE u32 popcount(u32 word) { return __builtin_popcount(word); }
DEVICE u32 lowest(u32 word) { return __builtin_ctz(word); }
DEVICE void warp_barrier() { pthread_barrier_wait(&of_warps[warp_of()]); }
DEVICE u32 or_lanes(u32 word) {
    exchanged[threadIdx.x] = word;
    warp_barrier();
    u32 all = 0;
    for (u32 k = 0; k < LANES; k++) all |= (u32)exchanged[LANES * warp_of() + k];
    warp_barrier();
    return all;
}
DEVICE u32 from_lane(u32 word, u32 lane) {
    exchanged[threadIdx.x] = word;
    warp_barrier();
    const u32 found = (u32)exchanged[LANES * warp_of() + lane];
    warp_barrier();
    return found;
}
DEVICE u32 lanes_with(bool is_in) { return or_lanes((u32)is_in << lane_of()); }
DEVICE i64 add_lanes(i64 value) {
    exchanged[threadIdx.x] = (u64)value;
    warp_barrier();
    i64 all = 0;
    for (u32 k = 0; k < LANES; k++) all += (i64)exchanged[LANES * warp_of() + k];
    warp_barrier();
    return all;
}
DEVICE void add_to(u64* total, u64 value) { __atomic_fetch_add(total, value, 5); }
DEVICE void add_to(u32* total, u32 value) { __atomic_fetch_add(total, value, 5); }
DEVICE void or_to(u32* word, u32 bits) { __atomic_fetch_or(word, bits, 5); }
DEVICE void flip(u32* word, u32 bits) { __atomic_fetch_xor(word, bits, 5); }
DEVICE u32 take(u32* next) { return __atomic_fetch_add(next, 1u, 5); }
DEVICE u64 take(u64* next) { return __atomic_fetch_add(next, 1ull, 5); }
DEVICE void show_all() {}
DEVICE u32 fresh(const u32* word) { return *word; }
DEVICE u32 newest(const u32* word) { return __atomic_load_n(word, 5); }
"""

CALLS = r"""
extern "C" void set_threads(unsigned n) { blockDim = {n, 1, 1}; }
template <class... Types, unsigned long... I>
static void call(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
    kernel(*(Types*)arguments[I]...);
}
template <class... Types>
static void run(void (*kernel)(Types...), unsigned x, unsigned y, void** arguments) {
    gridDim = {x, y, 1};
    pthread_barrier_t next_block;
    pthread_barrier_init(&next_block, 0, blockDim.x);
    pthread_barrier_init(&of_block, 0, blockDim.x);
    for (auto& barrier : of_warps) pthread_barrier_init(&barrier, 0, LANES);
    auto work = [&](unsigned thread) {
        threadIdx = {thread, 0, 0};
        for (unsigned j = 0; j < y; j++)
            for (unsigned i = 0; i < x; i++) {
                blockIdx = {i, j, 0};
                call(kernel, arguments, std::index_sequence_for<Types...>{});
                pthread_barrier_wait(&next_block);
            }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < blockDim.x; t++) threads.emplace_back(work, t);
    for (auto& thread : threads) thread.join();
}
"""


@cache
def library():
    """Compile the kernels, with the types and the block sum of ``platform.cu``."""
    folder = files("thali.engines.gpu").joinpath("kernels")
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in KERNELS}
    own, calls = texts.pop("platform.cu"), texts.pop("host.cu")
    types = own[: own.index("#ifdef __CUDACC__")]
    sums = own[own.index("// Return the sum over all threads of a block") :]
    reduction = (
        "#ifdef __CUDACC__\n    u32 n_used"  # sums over warps, which the host does not need
    )
    assert "".join(texts.values()).count(reduction) == 1
    kernels = "".join(texts.values()).replace(reduction, "#if 1\n    u32 n_used")
    exported = calls[calls.index("#define ON_HOST") : calls.index("#endif")]
    made = Path(mkdtemp(prefix="thali-"))
    text = types + PLATFORM + sums + kernels + CALLS + exported
    (made / "kernels.cpp").write_text(text, encoding="utf-8")
    command = [compiler(), "-O1", "-std=c++17", "-fPIC", "-shared", "-pthread"]
    command += ["-o", str(made / "kernels.so"), str(made / "kernels.cpp")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(made / "kernels.so"))


class EmulatedDevice(HostDevice):
    """NumPy, and kernels whose threads are threads of the host."""

    lanes = 32
    warps = 8
    shared = 200 << 10
    name = "emulated"

    def launch(self, name, grid, threads, arguments, shared=0):
        assert threads % self.lanes == 0
        assert threads <= 1024
        assert grid[1] < 1 << 16
        assert shared <= self.shared
        cells = [
            np.array(a.ctypes.data if isinstance(a, np.ndarray) else a, order="C")
            for a in arguments
        ]
        pointers = (ctypes.c_void_p * len(cells))(*(c.ctypes.data for c in cells))
        library().set_threads(ctypes.c_uint(threads))
        getattr(library(), f"host_{name}")(*map(ctypes.c_uint, grid), pointers)
