"""Sweeps of tensors on one thread of the CPU: ``python benchmarks/tensors.py [--lom FOLDER]``.

A chain goes on while it is measured, so that nothing is reused from one sweep to the next. Times
are those of the processor, which other work on the machine disturbs less than those of a clock.
With ``--lom``, a folder that holds a copy of the paper's authors' package `lom` that runs with the
installed NumPy and Numba, its three-way sampler takes turns with ours on the same data.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from time import process_time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numba
import numpy as np

import thali
from thali.model import Model
from thali.sampler import Schedule, Target, step
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

SHAPE, N_COMPONENTS = (100, 100, 100), 5
KEY = chain_key(0)
STILL = Schedule(**dict.fromkeys(MOVES, 0))
TURN = 10  # sweeps at a time, as a chain does them: one alone would find cold caches
GOAL = 50


def going_on(tensor, model, schedule, factors):
    """Return a function that does the next sweep of a chain, which begins at given factors."""
    target = Target.prepare(tensor, model, schedule, threads=1)
    state = target.initial(KEY, factors)

    def sweep():
        nonlocal state
        state, _ = step(KEY, state, target)

    return sweep


def of_lom(folder, tensor):
    """Return the same for lom, which begins at random; two sweeps compile its functions."""
    sys.path.insert(0, folder)
    import lom  # noqa: PLC0415 - it takes half a minute to import

    machine = lom.Machine()
    data = machine.add_matrix(2 * tensor.astype(np.int8) - 1, fixed=True)
    machine.add_layer(latent_size=N_COMPONENTS, child=data, model="OR-AND")
    machine.infer(burn_in_min=2, burn_in_max=2, no_samples=1)
    parts = [mat for mat in machine.members if not mat.fixed]
    parts += [rate for rate in machine.lbdas if not rate.fixed]

    def sweep():
        for part in parts:
            part.sampling_fct(part)

    return sweep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lom", metavar="FOLDER", help="folder that holds the package lom")
    given = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Numba {numba.__version__}, thali {thali.__version__}"
    )
    data = thali.simulate(SHAPE, N_COMPONENTS, spurious=0.1, seed=0)
    jobs = {
        "finite sweep": going_on(data.tensor, Model(N_COMPONENTS), STILL, data.factors),
        "buffet sweep": going_on(data.tensor, Model(), STILL, data.factors),
        "buffet sweep with moves": going_on(data.tensor, Model(), Schedule(), data.factors),
    }
    if given.lom:
        jobs["finite sweep of lom"] = of_lom(given.lom, data.tensor)
    times = {name: [] for name in jobs}
    for job in jobs.values():
        for _ in range(10):
            job()
    for _ in range(given.rounds):
        for name, job in jobs.items():
            start = process_time()
            for _ in range(TURN):
                job()
            times[name].append(1e3 * (process_time() - start) / TURN)
    print(f"\n{' x '.join(map(str, SHAPE))}, {N_COMPONENTS} components, one thread, milliseconds")
    for name, found in times.items():
        print(f"  {name:26} best {min(found):8.3f}, median {np.median(found):8.3f}")
    if given.lom:
        for kind, of in (("best", min), ("median", np.median)):
            ratio = of(times["finite sweep of lom"]) / of(times["finite sweep"])
            print(f"  finite sweep, lom / thali, {kind}: {ratio:.1f} (at least {GOAL})")


if __name__ == "__main__":
    main()
