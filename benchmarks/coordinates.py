"""Packing a sparse tensor from coordinates into every unfolding: seconds, and peak memory.

    python benchmarks/coordinates.py                              # 10,000 x 10,000 x 100, 4 GB
    python benchmarks/coordinates.py --shape 1000x1000x500 --density 0.01

Ones are at random places. Memory is that of the process beyond the coordinates themselves, at its
peak, in bits per entry and mode. Nothing is timed before it ran once on a small tensor.
"""

from __future__ import annotations

import argparse
import resource
from math import prod
from time import perf_counter

import numpy as np

import thali
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.threads import n_threads

BLOCK = 1 << 16


def made(shape, density):
    """Return random coordinates, made in blocks so that only they are in memory."""
    rng = np.random.default_rng(1)
    coords = np.empty((int(density * prod(shape)), len(shape)), np.int64)
    for start in range(0, len(coords), BLOCK):
        part = coords[start : start + BLOCK]
        part[:] = rng.integers(0, shape, part.shape)
    return coords


def peak():
    """Return the most bytes that the process has had so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="10000x10000x100")
    parser.add_argument("--density", type=float, default=0.001)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    shape, threads = tuple(map(int, options.shape.split("x"))), n_threads(options.threads)
    for small in ((70, 9, 8), (9, 70, 8)):  # compiles everything
        tensor = BinaryTensor.from_any((made(small, 0.1), small))
        list(PackedTensor.from_tensor(tensor, threads).unfoldings)

    coords = made(shape, options.density)
    before, began = peak(), perf_counter()
    tensor = BinaryTensor.from_any((coords, shape))
    packed = PackedTensor.from_tensor(tensor, threads)
    seconds = [perf_counter() - began]
    for mode in range(1, len(shape)):
        start = perf_counter()
        packed.unfoldings[mode]
        seconds.append(perf_counter() - start)
    total, unit = perf_counter() - began, 8 / prod(shape) / len(shape)
    print(f"thali {thali.__version__}, {threads} threads: {options.shape}, {len(coords)} ones")
    print(f"  by mode {', '.join(f'{s:.2f}' for s in seconds)} s; {total:.2f} s in all")
    print(f"  {unit * (peak() - before):.3f} bits per entry and mode at the peak; the unfoldings "
          f"take {unit * packed.nbytes:.3f} of them")  # fmt: skip


if __name__ == "__main__":
    main()
