"""Side-by-side measurements of the CPU engine, as ratios: ``./dev bench``.

The yardstick is a bare compiled loop that computes popcount(a & ~b) and popcount(a & ~b & x) over
arrays of the same sizes, with no decisions and no bookkeeping. Times are the best of several
rounds, interleaved, so that a busy machine disturbs both sides alike.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from time import perf_counter

import numba
import numpy as np

import thali
from thali.bits import PackedTensor
from thali.bits.words import popcount
from thali.data import BinaryTensor
from thali.model import Model
from thali.sampler import Schedule, Target, step
from thali.sampler.info import Info
from thali.sampler.schedule import MOVES
from thali.sampler.step import update_hyperparameters, update_mode
from thali.streams import Stream, chain_key

SHAPE, N_COMPONENTS = (301, 21_000), 10
KEY = chain_key(0)
STILL = dict.fromkeys(MOVES, 0)
QUIET = Schedule(**STILL)
BUFFETS = {
    "parallel sweep (8 blocks)": Schedule(blocks=8, **STILL),
    "parallel sweep (4 blocks)": Schedule(blocks=4, **STILL),
    "parallel sweep (2 blocks)": Schedule(blocks=2, **STILL),
    "serial sweep": Schedule("serial", **STILL),
    "parallel sweep with moves": Schedule(),
}


@numba.njit(nogil=True)
def bare_loop(codes, covered, ones):
    """Count over rows x components x words: the least any horizontal update must do."""
    total = np.uint64(0)
    for row in range(ones.shape[0]):
        for component in range(codes.shape[0]):
            n_free = np.uint64(0)
            n_ones = np.uint64(0)
            for w in range(codes.shape[1]):
                free = codes[component, w] & ~covered[row, w]
                n_free += popcount(free)
                n_ones += popcount(free & ones[row, w])
            total += n_free ^ n_ones
    return total


def bare_for(n_rows, width):
    """Return a bare loop over so many words; short rows lie end to end, which favours it."""
    rng = np.random.default_rng(0)
    if width < 64:
        n_rows, width = 1, n_rows * width
    a = rng.integers(0, 2**63, (N_COMPONENTS, width), dtype=np.uint64)
    b, x = (rng.integers(0, 2**63, (n_rows, width), dtype=np.uint64) for _ in range(2))
    return lambda: bare_loop(a, b, x)


def measure(jobs, rounds):
    """Return the best time of each job in milliseconds, taking turns."""
    best = dict.fromkeys(jobs, np.inf)
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            start = perf_counter()
            job()
            best[name] = min(best[name], 1e3 * (perf_counter() - start))
    return best


def settled(tensor, model, schedule, threads, start=None):
    """Return a target and a state some sweeps after a start near the truth."""
    target = Target.prepare(tensor, model, schedule, threads=threads)
    state = target.initial(KEY, start)
    for _ in range(10):
        state, _ = step(KEY, state, target)
    return target, state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}, thali {thali.__version__}"
    )

    data = thali.simulate(SHAPE, N_COMPONENTS, spurious=0.1, seed=0)
    packed = PackedTensor.from_tensor(BinaryTensor.from_any(data.tensor))
    widths = [u.ones.shape[1] for u in packed.unfoldings]
    stream = Stream(KEY, np.uint64(99))
    jobs = {
        "bare long": bare_for(SHAPE[0], widths[0]),
        "bare short": bare_for(SHAPE[1], widths[1]),
    }
    for threads in (1, 2):
        target, state = settled(packed, Model(N_COMPONENTS), QUIET, threads, data.factors)
        jobs |= {
            f"long rows, {threads}": lambda t=target, s=state: update_mode(stream, s, t, 0),
            f"short rows, {threads}": lambda t=target, s=state: update_mode(stream, s, t, 1),
            f"finite sweep, {threads}": lambda t=target, s=state: step(KEY, s, t),
        }
        if threads == 1:
            jobs |= {
                "densities": lambda t=target, s=state: update_hyperparameters(stream, s, t),
                "log joint": lambda t=target, s=state: Info(s, t, False, {}).log_joint,
            }
        for label, schedule in BUFFETS.items():
            target, state = settled(packed, Model(), schedule, threads, data.factors)
            jobs[f"{label}, {threads}"] = lambda t=target, s=state: step(KEY, s, t)
    times = measure(jobs, rounds)
    bare = times["bare long"] + times["bare short"]

    print(f"\n{SHAPE[0]} x {SHAPE[1]}, {N_COMPONENTS} components, milliseconds (best of {rounds})")
    for name, value in times.items():
        print(f"  {name:32} {value:8.3f}")
    sweep = times["finite sweep, 1"]
    ratios = [
        (
            "(a) long-row update: share of the bare rate",
            times["bare long"] / times["long rows, 1"],
            "at least 0.7",
        ),
        ("(b) finite sweep / bare loop of both factors", sweep / bare, "at most 2.5, aim 1.5"),
        (
            "(c) finite sweep: 1 thread / 2 threads",
            sweep / times["finite sweep, 2"],
            "at least 1.7",
        ),
    ]
    print("\nratios")
    for name, value, goal in ratios:
        print(f"  {name:46} {value:5.2f}  ({goal})")

    small = thali.simulate((200, 500), 5, spurious=0.1, seed=0)
    small_jobs = {}
    finite = {"finite sweep": QUIET, "finite sweep with moves": Schedule()}
    for name, schedule in {**finite, **BUFFETS}.items():
        model = Model(5) if name in finite else Model()
        target, state = settled(small.tensor, model, schedule, 1, small.factors)
        small_jobs[name] = lambda t=target, s=state: step(KEY, s, t)
    print("\n200 x 500, 5 components, milliseconds a sweep")
    for name, value in measure(small_jobs, rounds).items():
        print(f"  {name:32} {value:8.3f}")

    entries = int(np.prod(SHAPE))
    print(f"\npacked data: {8 * packed.nbytes / entries:.3f} bits an entry (at most 2.1)")
    print(
        f"packing 8,000 x 80,000 sparse: peak {peak_of_sparse():.0f} MB "
        f"above the input, for {2 * 8_000 * 80_000 / 8e6:.0f} MB of words"
    )
    print(f"a new process, import and first sample of 50 x 40: {first_sample():.2f} s")


SPARSE = """
import resource, numpy as np, thali
from scipy import sparse
from thali.bits import PackedTensor
from thali.data import BinaryTensor

def packed(n_rows, n_columns):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, n_rows, 400_000), rng.integers(0, n_columns, 400_000)
    x = sparse.coo_matrix((np.ones(400_000, bool), (rows, columns)), (n_rows, n_columns)).tocsr()
    now = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    kept = PackedTensor.from_tensor(BinaryTensor.from_any(x))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - now

packed(400, 400)
print(packed(8_000, 80_000) / 1e6)
"""

FIRST = """
import thali
from thali.sampler import Target, chain
from thali.streams import chain_key
target = Target.prepare(thali.simulate((50, 40), 3).tensor)
next(iter(chain(chain_key(0), target, 1)))
"""


def peak_of_sparse():
    out = subprocess.run(
        [sys.executable, "-c", SPARSE], capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def first_sample():
    times = []
    for _ in range(3):
        start = perf_counter()
        subprocess.run([sys.executable, "-c", FIRST], check=True)
        times.append(perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
