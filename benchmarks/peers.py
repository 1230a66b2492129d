# ruff: noqa: E402 - the number of threads is set before anything reads it
"""A sweep side by side with other programs, as ratios: ``./dev python benchmarks/peers.py``.

    ./dev python benchmarks/peers.py [--lom FOLDER] [--cubool BINARY] [--shapes 200x500x5 ...]

All get the same simulated tables (ROWSxCOLUMNSxCOMPONENTS, 10% flips) and one thread, and take
turns. FOLDER holds the package ``lom`` (github.com/TammoR/LogicalFactorisationMachines), patched
for today's NumPy and Numba; BINARY is cuBool's CPU build (github.com/Funatiq/cuBool). A peer that
is not given is left out.

Each figure is the time of one pass of the peer over both factors divided by the time of one of
our sweeps, in processor time, the best of several rounds: above one, we are faster. A pass of
scikit-learn's NMF is one iteration, and one of cuBool proposes as many lines as the table has rows
and columns. Only lom draws from a posterior distribution as we do; the other two are yardsticks.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import sys
import tempfile
from pathlib import Path
from time import process_time

for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import thali
from thali.model import Model
from thali.sampler import Schedule, Target, levels, small, step
from thali.sampler.moves import at_once
from thali.sampler.schedule import MOVES
from thali.streams import chain_key

# As in a long run, which compiles everything.
for part in (at_once, small, levels):
    part.PATIENCE = at_once.Patience(0)

KEY = chain_key(0)
SETTLED = 20  # sweeps before any time is taken
STILL = Schedule(**dict.fromkeys(MOVES, 0))
OURS = {
    "finite": (Model, STILL, "unequal"),
    "finite with moves": (Model, Schedule(), "unequal"),
    "buffet": (None, STILL, "unequal"),
    "buffet with moves": (None, Schedule(), "unequal"),
    "buffet with moves, effects": (None, Schedule(), "effects"),
}


def our_sweeps(data, k):
    """Return, by name, a function that does a number of our sweeps."""
    jobs = {}
    for name, (finite, schedule, noise) in OURS.items():
        model = Model(k if finite else None, noise=noise)
        target = Target.prepare(data.tensor, model, schedule, threads=1)
        state = target.initial(KEY, data.factors)

        def job(n, target=target, state=state):
            for _ in range(n):
                state, _ = step(KEY, state, target)

        jobs[name] = job
    return jobs


def peers_of_lom(table, k):
    """Return functions that do a number of sweeps of lom, with a fixed and an inferred number."""
    import lom  # noqa: PLC0415 - given by its folder

    signed = (2 * table - 1).astype(np.int8)

    def job(n, model):
        with contextlib.redirect_stdout(io.StringIO()):
            machine = lom.Machine()
            data = machine.add_matrix(signed, fixed=True)
            machine.add_layer(latent_size=k, child=data, model=model)
            machine.infer(burn_in_min=n, burn_in_max=n, no_samples=1)

    return {
        "lom, finite": lambda n: job(n, "OR-AND"),
        "lom, buffet": lambda n: job(n, "OR-AND-IBP"),
    }


def peer_of_nmf(table, k):
    """Return a function that does a number of iterations of scikit-learn's NMF."""
    from sklearn.decomposition import NMF  # noqa: PLC0415 - as the others, only where it is used

    dense = table.astype(float)
    return lambda n: NMF(k, init="random", tol=0.0, max_iter=n, random_state=0).fit(dense)


def time_of(job, n):
    """Return the processor time of a number of sweeps."""
    start = process_time()
    job(n)
    return process_time() - start


def time_of_cubool(binary, table, k):
    """Return the time of as many proposals of cuBool as the table has lines."""
    sys.path.insert(0, str(Path(__file__).parent))
    from fewest import pace, write  # noqa: PLC0415 - only for this peer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.in"
        write(path, table)
        # An iteration proposes as many lines of either side as the shorter one has.
        return sum(table.shape) / (2 * min(table.shape)) / pace(binary, path, table, k)


def row_of(shape, options):
    """Return the times of all programs for one table."""
    n_rows, n_columns, k = shape
    data = thali.simulate((n_rows, n_columns), k, spurious=0.1, dropped=0.1, seed=0)
    table = np.asarray(data.tensor, np.int8)
    jobs = our_sweeps(data, k)
    if options.lom:
        sys.path.insert(0, str(options.lom))
        jobs |= peers_of_lom(table, k)
    jobs["NMF"] = peer_of_nmf(table, k)
    few = max(2, int(1e7 / table.size))
    for job in jobs.values():
        job(SETTLED)  # also compiles
    times = {(name, n): np.inf for name in jobs for n in (few, 3 * few)}
    for _ in range(options.rounds):
        for (name, n), least in times.items():
            times[name, n] = min(least, time_of(jobs[name], n))
    # The difference leaves out what a run costs before its first sweep.
    best = {name: (times[name, 3 * few] - times[name, few]) / (2 * few) for name in jobs}
    if options.cubool:
        best["cuBool"] = time_of_cubool(options.cubool, table, k)
    return best


def shape_of(text):
    """Read a shape and a number of components."""
    return tuple(map(int, text.split("x")))


def main():
    """Measure, and print one table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lom", type=Path)
    parser.add_argument("--cubool", type=Path)
    parser.add_argument("--shapes", type=shape_of, nargs="+", default=[(200, 500, 5)])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, thali {thali.__version__}")
    for shape in options.shapes:
        times = row_of(shape, options)
        peers = [name for name in times if name not in OURS]
        print(f"\n{shape[0]} x {shape[1]}, {shape[2]} components: peer / thali, one thread\n")
        print(f"| our sweep | ms | {' | '.join(peers)} |")
        print("|---|---|" + "---|" * len(peers))
        for name in OURS:
            ratios = " | ".join(f"{times[peer] / times[name]:.1f}" for peer in peers)
            print(f"| {name} | {1e3 * times[name]:.2f} | {ratios} |")


if __name__ == "__main__":
    main()
