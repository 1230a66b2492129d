"""How long whole calls take: ``./dev python benchmarks/sample.py``.

Each case is ``thali.sample`` on simulated data with 10% flips, from nothing to the posterior,
after a short call that loads or compiles the kernels: the paper's size with one chain of 200
sweeps in all, with row and column effects (the default) and without, in memory and in a run on
disk; and the default call, four chains, on a table of 15 million entries.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import thali
from thali.errors import NotConverged
from thali.sampler import levels
from thali.sampler.moves import at_once

ONE = {"chains": 1, "warmup": 100, "draws": 100}
CASES = {
    "301 x 21,000, 200 sweeps": ((301, 21_000), 10, ONE),
    "301 x 21,000, 200 sweeps, two rates": ((301, 21_000), 10, {**ONE, "noise": "unequal"}),
    "3,000 x 5,000, default call": ((3000, 5000), 15, {}),
}


def seconds(data, **settings):
    """Return how long a call takes, and the most probable number of components."""
    began = perf_counter()
    posterior = thali.sample(data, progress=False, **settings)
    return perf_counter() - began, posterior.n_components_table().idxmax()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)))
    options = parser.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    for part in (at_once, levels):  # as in a process that has compiled everything
        part.PATIENCE = at_once.Patience(0)
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {options.threads} threads, load {load:.1f}", flush=True)
    for number in options.cases:
        name, (shape, n_components, settings) = list(CASES.items())[number]
        data = thali.simulate(shape, n_components, spurious=0.1, dropped=0.1, seed=0).tensor
        settings = {**settings, "threads": options.threads}
        seconds(data[:, : shape[1] // 7], **{**settings, **ONE, "seed": 9})
        for seed in range(options.rounds):
            wall, n = seconds(data, seed=seed, **settings)
            with tempfile.TemporaryDirectory() as folder:
                stored, _ = seconds(data, seed=seed, out=Path(folder) / "run", **settings)
            print(f"{name}: {wall:.2f} s, on disk {stored:.2f} s; {n} components", flush=True)


if __name__ == "__main__":
    main()
