// The kernels of the GPU engine (engine.py), in CUDA C++ without headers.
//
// The files of this folder are joined into one text, in the order of the list in device.py.
//
// Rows are updated in the vertical form: a word holds 32 rows, and the components are taken one
// after another. A thread visits the columns that the component uses and adds up, in bit-sliced
// counters and without population counts, the rows in which no other component covers the column.
// Then the bits of many rows are drawn together. Kernels that need whole rows (births, counts) take
// the horizontal form: one block per row.
//
// Updates use no floating point: scores and random numbers are the integers of decide.py and
// streams.py, so every bit that is drawn equals that of the CPU engine. (row_sets.cu says how real
// numbers are used where moves look ahead.)
//
// A plain C++ compiler builds the same text with one thread per block, for tests without a GPU.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define BOUNDED(threads, blocks) __launch_bounds__(threads, blocks)
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define SHARED __shared__
#define SHARED_ARRAY(name) extern __shared__ u32 name[]
#define BARRIER() __syncthreads()
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) _Pragma("unroll 4")
#define UNROLL_NOT _Pragma("unroll 1")
#define LANES 32
#define MOST_WARPS 8
#define COUNT_WARPS 4
#define TILE_WARPS 3
#define STAGES 4  // half of the warps, which add what the other half hands over
#else
#include <cmath>
#include <utility>
#define KERNEL static void
#define BOUNDED(threads, blocks)
#define DEVICE static inline
#define DEVICE_MEMBER
#define SHARED static
#define SHARED_ARRAY(name) static u32 name[1 << 16]
#define BARRIER()
#define UNROLL
#define UNROLL_BY(n)
#define UNROLL_NOT
#define LANES 1
#define MOST_WARPS 1
#define COUNT_WARPS 1
#define TILE_WARPS 1
#define STAGES 1
struct Place { unsigned x, y, z; };
static Place threadIdx, blockIdx, gridDim, blockDim = {1, 1, 1};
#endif

#define FULL 0xffffffffu
#define NONE FULL

// --- threads that work together ------------------------------------------------------------------

DEVICE u32 lane_of() { return threadIdx.x % LANES; }
DEVICE u32 warp_of() { return threadIdx.x / LANES; }
DEVICE u32 n_warps() { return (blockDim.x + LANES - 1) / LANES; }

#ifdef __CUDACC__
DEVICE u64 multiply_high(u64 a, u64 b) { return __umul64hi(a, b); }
DEVICE u32 popcount(u32 word) { return __popc(word); }
DEVICE u32 lowest(u32 word) { return __ffs(word) - 1; }
DEVICE u32 or_lanes(u32 word) {
    for (int step = 16; step; step >>= 1) word |= __shfl_xor_sync(FULL, word, step);
    return word;
}
DEVICE u32 from_lane(u32 word, u32 lane) { return __shfl_sync(FULL, word, lane); }
DEVICE u32 lanes_with(bool is_in) { return __ballot_sync(FULL, is_in); }
DEVICE i64 add_lanes(i64 value) {
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(FULL, value, step);
    return value;
}
DEVICE void add_to(u64* total, u64 value) { atomicAdd(total, value); }
DEVICE void add_to(u32* total, u32 value) { atomicAdd(total, value); }
DEVICE void or_to(u32* word, u32 bits) { atomicOr(word, bits); }
DEVICE void flip(u32* word, u32 bits) { atomicXor(word, bits); }
DEVICE u32 take(u32* next) { return atomicAdd(next, 1u); }
DEVICE u64 take(u64* next) { return atomicAdd(next, 1ull); }
DEVICE void warp_barrier() { __syncwarp(); }
DEVICE void show_all() { __threadfence(); }
DEVICE u32 fresh(const u32* word) { return __ldcg(word); }
DEVICE u32 newest(const u32* word) { return *(const volatile u32*)word; }
#else
DEVICE u64 multiply_high(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEVICE u32 popcount(u32 word) { return __builtin_popcount(word); }
DEVICE u32 lowest(u32 word) { return __builtin_ctz(word); }
DEVICE u32 or_lanes(u32 word) { return word; }
DEVICE u32 from_lane(u32 word, u32) { return word; }
DEVICE u32 lanes_with(bool is_in) { return is_in; }
DEVICE i64 add_lanes(i64 value) { return value; }
DEVICE void add_to(u64* total, u64 value) { *total += value; }
DEVICE void add_to(u32* total, u32 value) { *total += value; }
DEVICE void or_to(u32* word, u32 bits) { *word |= bits; }
DEVICE void flip(u32* word, u32 bits) { *word ^= bits; }
DEVICE u32 take(u32* next) { return (*next)++; }
DEVICE u64 take(u64* next) { return (*next)++; }
DEVICE void warp_barrier() {}
DEVICE void show_all() {}
DEVICE u32 fresh(const u32* word) { return *word; }
DEVICE u32 newest(const u32* word) { return *word; }
#endif

// Return the sum over all threads of a block to each of them.
DEVICE i64 add_block(i64 value) {
    value = add_lanes(value);
    if (n_warps() == 1) return value;
    SHARED i64 parts[32];
    BARRIER();
    if (lane_of() == 0) parts[warp_of()] = value;
    BARRIER();
    value = 0;
    for (u32 k = 0; k < n_warps(); k++) value += parts[k];
    return value;
}
