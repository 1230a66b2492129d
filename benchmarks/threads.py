"""Sweeps by number of threads, as times one thread: ``./dev python benchmarks/threads.py``.

    python benchmarks/threads.py --threads 1,2,4,8,16
    python benchmarks/threads.py --shapes 301,21000 --threads 1,2 --noise effects
    python benchmarks/threads.py --chains 4                 # chains side by side, 200 x 500

Chains with different numbers of threads take turns, a few sweeps each, so that a busy machine
disturbs all alike; times are medians over the sweeps, without the first of a turn, which wakes the
threads. The chains must end in the same state.
"""

import argparse
import os
import warnings
from statistics import median
from time import perf_counter

import numpy as np
from made import make

import thali
from thali.engines.cpu.engine import CpuEngine
from thali.errors import NotConverged
from thali.model import Model
from thali.sampler import Schedule, Target, levels, step
from thali.sampler.moves import at_once
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

SHAPES = "301,21000 2000,20000 20000,20000"
STILL = dict.fromkeys(MOVES, 0)


class Chain:
    """A chain from the true factors, and how long its sweeps have taken."""

    def __init__(self, tensor, factors, noise, threads, moves):
        self.key = chain_key(1)
        schedule = Schedule(starts=0) if moves else Schedule(starts=0, **STILL)
        self.target = Target.prepare(tensor, Model(noise=noise), schedule, CpuEngine(threads))
        self.state = self.target.initial(self.key, factors)
        self.seconds = []

    def sweep(self, n):
        for number in range(n + 1):
            began = perf_counter()
            self.state, _ = step(self.key, self.state, self.target)
            if number:
                self.seconds.append(perf_counter() - began)

    def words(self):
        return [factor.words.tobytes() for factor in self.state.factors]


def by_threads(shape, options, numbers):
    """Show the time of a sweep with so many threads."""
    tensor, factors = make(shape, options.components)
    for moves in (False, True):
        chains = [Chain(tensor, factors, options.noise, n, moves) for n in numbers]
        for chain in chains:
            chain.sweep(4)  # compiles
            chain.seconds.clear()
        for _ in range(options.rounds):
            for chain in chains:
                chain.sweep(4)
        assert all(chain.words() == chains[0].words() for chain in chains)
        times = [median(chain.seconds) for chain in chains]
        told = "with moves" if moves else "no moves"
        print(f"{shape[0]:,} x {shape[1]:,}, {told}:".ljust(34) + "  ".join(
            f"{n}: {t * 1e3:.2f} ms ({times[0] / t:.2f})"
            for n, t in zip(numbers, times, strict=True)
        ), flush=True)  # fmt: skip


def side_by_side(n_chains, lengths=(3000, 9000)):
    """Show the rate of chains of a small table side by side, as times that of one on one thread.

    Rates are differences of a long run and a short one, so that starts do not count.
    """
    data = thali.simulate((200, 500), 5, spurious=0.1, dropped=0.1, seed=0).tensor
    settings = {"warmup": 50, "seed": 0, "progress": False, "noise": "unequal"}
    kinds = {"one chain, one thread": (1, 1), "one chain": (1, None),
             f"{n_chains} chains": (n_chains, None)}  # fmt: skip
    first = None
    for name, (n, threads) in kinds.items():
        taken = {}
        for length in (100, *lengths):  # the first compiles
            began = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)
                thali.sample(data, chains=n, threads=threads, draws=length, **settings)
            taken[length] = perf_counter() - began
        short, long = lengths
        rate = n * (long - short) / (taken[long] - taken[short])
        first = first or rate
        whole = ", ".join(f"{length:,} draws in {taken[length]:.1f} s" for length in lengths)
        print(f"200 x 500, {name}: {rate:,.0f} sweeps/s ({rate / first:.2f} times one); {whole}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", default=SHAPES.split())
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--noise", default="unequal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chains", type=int)
    options = parser.parse_args()
    for part in (at_once, levels):  # as in a process that has compiled everything
        part.PATIENCE = at_once.Patience(0)
    print(f"{options.components} components, noise {options.noise}, load {os.getloadavg()[0]:.1f}")
    if options.chains:
        side_by_side(options.chains)
        return
    with np.errstate(all="ignore"):
        for shape in options.shapes:
            numbers = list(map(int, options.threads.split(",")))
            by_threads(tuple(map(int, shape.split(","))), options, numbers)


if __name__ == "__main__":
    main()
