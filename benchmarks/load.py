"""Loading 1,300,000 x 28,000 with 7% ones on a GPU: seconds of each step, from lists and packed.

    python benchmarks/load.py                # on a machine with a CUDA device and 64 GB of memory
    python benchmarks/load.py --rows 130000  # smaller

The matrix is made fresh: a row has half to one and a half times the mean number of ones, each at
random in a stretch of its own. Nothing is timed before it ran once on a small matrix.
"""

from __future__ import annotations

import argparse
import platform
import resource
from time import perf_counter

import cupy as cp
import numba
import numpy as np
from scipy import sparse

import thali
from thali.bits import PackedTensor, Unfolding
from thali.bits.tensor import Unfoldings
from thali.bits.words import n_words
from thali.data import BinaryTensor
from thali.engines.gpu.device_memory import stride_of
from thali.engines.gpu.engine import GpuEngine
from thali.engines.gpu.loading import fetch_rows
from thali.sampler import Target
from thali.threads import available_cores, parallel_for

POOL = cp.get_default_memory_pool()


@numba.njit(nogil=True)
def fill(lo, hi, indptr, n_columns, indices):
    """Write the columns of some rows, ascending."""
    state = np.uint64(lo + 1) * np.uint64(0x9E3779B97F4A7C15)
    for row in range(lo, hi):
        n = indptr[row + 1] - indptr[row]
        for j in range(n):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            first = j * n_columns // n
            width = (j + 1) * n_columns // n - first
            indices[indptr[row] + j] = first + np.int64(
                (state >> np.uint64(32)) % np.uint64(width)
            )


def made(n_rows, n_columns, density, index):
    """Return a random matrix in compressed rows, its columns numbered in the type given."""
    rng = np.random.default_rng(1)
    mean = int(density * n_columns)
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(rng.integers(mean // 2, mean + mean // 2, n_rows, endpoint=True), out=indptr[1:])
    indices = np.empty(indptr[-1], index)
    parallel_for(fill, n_rows, available_cores(), indptr, n_columns, indices)
    return compressed(np.ones(len(indices), np.int8), indices, indptr, (n_rows, n_columns))


def compressed(values, indices, indptr, shape):
    """Put arrays together without the conversions of SciPy's constructor."""
    matrix = sparse.csr_matrix(shape, dtype=values.dtype)
    matrix.data, matrix.indices, matrix.indptr = values, indices, indptr
    return matrix


class Clock:
    """Prints what steps take."""

    def __init__(self, n_ones):
        self.n_ones = n_ones

    def __call__(self, name, job, n_bytes=0):
        cp.cuda.Device().synchronize()
        began = perf_counter()
        result = job()
        cp.cuda.Device().synchronize()
        self.took = perf_counter() - began
        rate = f", {n_bytes / self.took / 1e9:.1f} GB/s" if n_bytes else ""
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"  {name:44} {self.took:7.3f} s, {1e9 * self.took / self.n_ones:6.3f} a billion "
              f"ones{rate}; host at most {most:.1f} GB", flush=True)  # fmt: skip
        return result


def from_lists(matrix, engine, title):
    """Time the steps from a matrix in compressed rows to a loaded engine."""
    print(f"{title}: {matrix.nnz / 1e9:.2f} billion ones, columns {matrix.indices.dtype}, values "
          f"{matrix.dtype}, {matrix.indices.nbytes / 1e9:.1f} GB of columns")  # fmt: skip
    clock = Clock(matrix.nnz)
    target = clock(
        "all: Target.prepare(matrix, engine)", lambda: Target.prepare(matrix, engine=engine)
    )
    n_entries = float(np.prod(target.shape))
    print(f"  device memory {POOL.total_bytes() / 1e9:.2f} GB, "
          f"{8 * POOL.total_bytes() / n_entries:.2f} bits an entry")  # fmt: skip
    first = target.engine.tensor.unfoldings[0].ones
    del target
    tensor = clock("checked: BinaryTensor.from_any", lambda: BinaryTensor.from_any(matrix))
    here = GpuEngine(engine.device)
    here.tensor = PackedTensor.from_tensor(tensor)
    ones = tensor.ones
    lines = clock("packed on the device", lambda: here.pack(ones), ones.indices.nbytes)
    width = n_words(matrix.shape[1])
    rows = clock("rows back to the host",
                 lambda: fetch_rows(engine.device, lines.words.view(cp.uint64), width,
                                    here.threads), first.nbytes)  # fmt: skip
    here._unfoldings = [(lines, None)]
    clock("transposed on the device", lambda: here.transpose_matrix(matrix.shape))
    here.tensor.put(Unfolding(rows, None))
    clock("the longest row found", here.tensor.totals)
    return first, tensor


def sent_plainly(words, step=1 << 28):
    """Send packed rows without buffers of our own."""
    out = cp.zeros((len(words), stride_of(64 * words.shape[1])), cp.uint64)
    n = max(1, step // (8 * words.shape[1]))
    for start in range(0, len(words), n):
        out[start : start + n, : words.shape[1]] = cp.asarray(words[start : start + n])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_300_000)
    parser.add_argument("--columns", type=int, default=28_000)
    parser.add_argument("--density", type=float, default=0.07)
    options = parser.parse_args()
    shape = (options.rows, options.columns)
    engine = GpuEngine()
    print(f"{engine.device.name}, {available_cores()} cores, CuPy {cp.__version__}, Python "
          f"{platform.python_version()}, thali {thali.__version__}")  # fmt: skip
    for index in (np.int32, np.int64):  # compiles everything
        small = made(2000, options.columns, options.density, index)
        for place in (engine, "cpu"):
            Target.prepare(small, engine=place)
        from_lists(small, engine, "small")
    POOL.free_all_blocks()

    began = perf_counter()
    matrix = made(*shape, options.density, np.int64)
    print(f"made in {perf_counter() - began:.1f} s", flush=True)
    from_lists(matrix, engine, "as SciPy numbers columns")
    POOL.free_all_blocks()
    matrix.data = np.ones(matrix.nnz, np.float32)
    from_lists(matrix, engine, "values of single precision")
    POOL.free_all_blocks()
    matrix.data = np.ones(matrix.nnz, np.int8)
    short = matrix.indices.astype(np.int32)
    matrix = compressed(matrix.data, short, matrix.indptr, shape)
    first, tensor = from_lists(matrix, engine, "32-bit columns")
    POOL.free_all_blocks()

    print("packed rows")
    clock = Clock(matrix.nnz)
    unfoldings = Unfoldings(shape, Unfolding(first, None))
    packed = PackedTensor(shape, unfoldings, tensor.n_known, tensor.n_ones)
    clock("sent from ordinary memory, as it was", lambda: sent_plainly(first), first.nbytes)
    clock("sent", lambda: engine.upload(first), first.nbytes)
    clock("again", lambda: engine.upload(first), first.nbytes)
    clock("all: engine.load(packed)", lambda: engine.load(packed), first.nbytes)
    POOL.free_all_blocks()

    print("on the host")
    unfoldings = PackedTensor.from_tensor(tensor).unfoldings
    words = clock(f"packed, {available_cores()} threads", lambda: unfoldings[0]).ones
    clock(f"turned, {available_cores()} threads", lambda: unfoldings[1])
    print(f"  the device's bits are the host's: {np.array_equal(words, first)}")

    tenth = matrix[: shape[0] // 10]
    turned = tenth.indices[::-1].copy()  # the last row first, and every row from its end
    counts = np.diff(tenth.indptr)[::-1]
    back = compressed(tenth.data, turned, np.r_[0, np.cumsum(counts)], tenth.shape)
    from_lists(back, engine, "a tenth of the rows, columns descending")


if __name__ == "__main__":
    main()
