"""Where the time of a sweep with all moves goes on the GPU: by move, by call and by kernel.

    python benchmarks/gpu_moves.py                # 1,300,000 x 28,000, 32 components
    python benchmarks/gpu_moves.py --effects      # the same with row and column effects

A chain runs from the truth on, so that most tries are rejected, as they are in a chain that has
converged. Times are those of the host (every call to the engine waits for its answer), except for
the kernels, which lie between device events.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
from collections import defaultdict
from itertools import pairwise
from time import perf_counter

import cupy as cp
import numpy as np
from gpu import (
    KEY,
    QUIET,
    by_kernel,
    kernel_events,
    levels_of,
    made_on_device,
    start_of,
    target_of,
)

from thali.model import Model
from thali.sampler import Schedule, step
from thali.sampler.moves.tries import BUFFET

CALLS = (
    "over_rows", "count_by_class", "gains_by_class", "count_in_window", "free_in_window", "upload",
    "count", "partition", "order_components", "update_with_births", "update",
)  # fmt: skip
"""Methods of the engine that are timed."""


class Clock:
    """Adds up the times of calls by name."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    def timed(self, name, call):
        def run(*arguments, **named):
            began = perf_counter()
            out = call(*arguments, **named)
            label = name
            if name in ("count_by_class", "gains_by_class"):
                lo, hi = arguments[1]
                label += f" mode {arguments[0]} {'all' if hi - lo > 128 else 'block'}"
            self.times[label].append(1e3 * (perf_counter() - began))
            return out

        return run

    def show(self, n_sweeps: int) -> None:
        for name, times in sorted(self.times.items(), key=lambda item: -sum(item[1])):
            print(f"    {name:34} {sum(times) / n_sweeps:8.2f} ms a sweep, "
                  f"{len(times) / n_sweeps:6.1f} calls of {np.median(times):.2f} (largest "
                  f"{max(times):.2f})")  # fmt: skip


def gaps(engine, job, rounds=3):
    """Print how long the device does none of the kernels, by the kernels before and after."""
    found = defaultdict(list)
    for (before, _, end), (after, start, _) in pairwise(kernel_events(engine, job, rounds)):
        found[before, after].append(cp.cuda.get_elapsed_time(end, start))
    total = sum(sum(times) for times in found.values()) / rounds
    print(f"  between kernels: {total:.2f} ms a sweep")
    for pair, times in sorted(found.items(), key=lambda item: -sum(item[1]))[:16]:
        print(f"    {pair[0]:20} {pair[1]:20} {sum(times) / rounds:6.3f} ms in "
              f"{len(times) / rounds:.1f}")  # fmt: skip


def profile(target, sweep, rounds):
    """Print where the time of sweeps goes."""
    engine = target.engine
    gaps(engine, sweep)
    by_kernel(engine, sweep)
    clock, put = Clock(), []
    for call in CALLS:
        setattr(engine, call, clock.timed(call, getattr(engine, call)))
    for move in BUFFET.values():
        for part in ("propose", "decide"):
            setattr(move, part, clock.timed(f"{move.name}: {part}", getattr(move, part)))
            put.append((move, part))
    began = perf_counter()
    for _ in range(rounds):
        sweep()
    print(f"  timed {1e3 * (perf_counter() - began) / rounds:.2f} ms a sweep")
    clock.show(rounds)
    for move, part in put:
        delattr(move, part)
    for call in CALLS:
        delattr(engine, call)
    with cProfile.Profile() as found:
        for _ in range(5):
            sweep()
    pstats.Stats(found).sort_stats("tottime").print_stats(26)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_300_000)
    parser.add_argument("--columns", type=int, default=28_000)
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--effects", action="store_true", help="with row and column effects")
    parser.add_argument("--profile", action="store_true", help="say more")
    options = parser.parse_args()
    shape = (options.rows, options.columns)
    began = perf_counter()
    levels = levels_of(shape) if options.effects else None
    engine, tensor, factors = made_on_device(
        shape, options.components, on_host=True, levels=levels
    )
    model = Model() if levels is None else Model(noise=levels.prior)
    print(f"data {perf_counter() - began:.1f} s", flush=True)
    for name, schedule in (("no moves", QUIET), ("all moves", Schedule(hold=0))):
        target = target_of(engine, tensor, model, schedule)
        now = [start_of(target, factors, levels)]

        def sweep(now=now, target=target):
            now[0], info = step(KEY, now[0], target)
            return info

        began = perf_counter()
        for _ in range(6):
            sweep()
        print(f"{name}: first sweeps {perf_counter() - began:.1f} s", flush=True)
        times, moves = [], defaultdict(lambda: [0, 0])
        for _ in range(options.rounds):
            cp.cuda.Device().synchronize()
            began = perf_counter()
            info = sweep()
            times.append(1e3 * (perf_counter() - began))
            for move, (tried, accepted) in info.moves.items():
                moves[move][0] += tried
                moves[move][1] += accepted
        found = {name: f"{accepted}/{tried}" for name, (tried, accepted) in moves.items()}
        print(f"{name}: {np.median(times):.2f} ms a sweep (mean {np.mean(times):.2f}, from "
              f"{min(times):.2f} to {max(times):.2f}); {now[0].n_components} components; "
              f"{pool_bytes() / 1e9:.2f} GB; accepted {found}", flush=True)  # fmt: skip
        if options.profile:
            profile(target, sweep, options.rounds)
        last = target, now[0]
        if schedule is QUIET:  # its engine keeps turned rows of its own
            del target, sweep, now, last, info
            gc.collect()
            cp.get_default_memory_pool().free_all_blocks()
    same_without_looking(*last)


def same_without_looking(target, begun, n_sweeps=4):
    """Say whether a chain is the same if no try is rejected ahead."""
    ends = []
    for is_looking in (True, False):
        if not is_looking:
            target.engine.row_sets = lambda _factors: None
        state = begun
        for _ in range(n_sweeps):
            state, _ = step(KEY, state, target)
        ends.append([*(factor.words for factor in state.factors), state.covered])
    is_same = all(np.array_equal(a, b) for a, b in zip(*ends, strict=True))
    print(f"the same after {n_sweeps} sweeps in which every try is done by its move: {is_same}")


def pool_bytes():
    """Return the device memory that was taken."""
    return cp.get_default_memory_pool().total_bytes()


if __name__ == "__main__":
    main()
