"""What ``thali.sample`` costs beyond its kernels: ``./dev python benchmarks/sample.py``.

The paper's size: 301 x 21,000, 10 components, 10% of the entries flipped, one chain, 200 sweeps in
all. Kernel time is the wall time during which compiled code of rows, columns and moves runs (on
both threads where two are used); all else is overhead: packing, host draws, bookkeeping, hand-offs
between threads, storage, diagnostics.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import thali
from thali.engines.cpu import draw_rows
from thali.engines.cpu import engine as cpu
from thali.engines.host import HostRows
from thali.errors import NotConverged
from thali.model import marginals
from thali.sampler.moves import own_component, residual, tries
from thali.sampler.moves.move import SumOut

SHAPE, N_COMPONENTS, FLIPS = (301, 21_000), 10, 0.1


COMPILED = {
    HostRows: ["share_work", "free_in_window", "over_rows"],
    draw_rows: ["list_visits"],
    marginals: ["_gain", "_draw"],
    cpu: ["order_components"],
    residual: ["code_like"],
    own_component: ["choose_row", "weigh_entries", "draw_codes"],
}
"""What the sampler calls, by where it looks it up."""


class Clock:
    """Adds up the time spent in a function."""

    def __init__(self, function):
        self.function = function
        self.seconds = 0.0

    def __get__(self, instance, owner):
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        start = perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += perf_counter() - start


def main():
    """Measure, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    data = thali.simulate(SHAPE, N_COMPONENTS, spurious=FLIPS, seed=0).tensor
    settings = {"chains": 1, "warmup": 100, "draws": 100, "threads": options.threads}
    thali.sample(data[:, :3000], **settings, seed=0)  # compile
    clocks = []
    for module, names in COMPILED.items():
        for name in names:
            clocks.append(Clock(getattr(module, name)))
            setattr(module, name, clocks[-1])
    for move in tries.BUFFET.values():
        if isinstance(move, SumOut):
            clocks.append(Clock(type(move).propose))
            type(move).propose = clocks[-1]
    print(f"{platform.machine()}, {options.threads} threads, {SHAPE}, 200 sweeps")
    for seed in range(options.rounds):
        for clock in clocks:
            clock.seconds = 0.0
        start = perf_counter()
        posterior = thali.sample(data, **settings, seed=seed)
        wall = perf_counter() - start
        inside = sum(clock.seconds for clock in clocks)
        with tempfile.TemporaryDirectory() as folder:
            start = perf_counter()
            thali.sample(data, **settings, seed=seed, out=Path(folder) / "run")
            stored = perf_counter() - start
        print(
            f"wall {wall:.2f} s, kernels {inside:.2f} s, wall / kernels {wall / inside:.2f}; "
            f"stored on disk {stored:.2f} s; "
            f"{posterior.n_components_table().idxmax()} components"
        )


if __name__ == "__main__":
    main()
