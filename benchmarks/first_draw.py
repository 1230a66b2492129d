"""How long a new process takes to its first draws: ``./dev python benchmarks/first_draw.py``.

Each row is a process of its own: with an empty cache it compiles what it needs, then it finds that
in the cache. The last row is the import alone. Processor time is that of all threads, the better
of two runs (one if something is compiled).
"""

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

SAMPLE = """
import warnings, thali
data = thali.simulate(({shape}), 5, spurious=0.1, dropped=0.1, seed=0).tensor
warnings.simplefilter("ignore")
thali.sample(data, chains=1, warmup=20, draws=5, seed=0, progress=False, threads={threads}{more})
"""
TELL = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)
"""
CASES = {
    "200 x 500, default": ("200, 500", 1, ""),
    "200 x 500, two rates": ("200, 500", 1, ', noise="unequal"'),
    "2,000 x 500, default, two threads": ("2000, 500", 2, ""),
}


def seconds(program, cache):
    """Return wall time, processor time and memory of a process."""
    told = "import time; began = time.perf_counter()\n" + program + TELL
    told += "print(time.perf_counter() - began)\n"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    processor, memory, wall = map(float, done.stdout.split())
    return wall, processor, memory


def show(name, found):
    wall, processor, memory = found
    print(
        f"{name:48s} {wall:6.1f} s, {processor:6.1f} s of processor, {memory:4.0f} MB", flush=True
    )


def main():
    for name, (shape, threads, more) in CASES.items():
        program = SAMPLE.format(shape=shape, threads=threads, more=more)
        with TemporaryDirectory() as cache:
            show(f"{name}: nothing compiled", seconds(program, cache))
            show(f"{name}: compiled before", min(seconds(program, cache) for _ in range(2)))
    with TemporaryDirectory() as cache:
        show("import thali", min(seconds("import thali\n", cache) for _ in range(2)))


if __name__ == "__main__":
    main()
