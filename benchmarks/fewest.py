"""Fewest errors side by side with cuBool's CPU build: ``./dev python benchmarks/fewest.py``.

    ./dev python benchmarks/fewest.py PEER FOLDER NAME:K ... [--seconds 20] [--large]

PEER is the binary (github.com/Funatiq/cuBool, ``make cuBool_cpu``), FOLDER has matrices as npz
files as for ``experiments/published.py``; names come with a number of components, at most 32, as
the peer keeps them in one word. ``--large`` adds a simulated matrix of 301 x 21,000 entries with
10 components and 10% flips.

Both get the same data, the same seconds and one thread, one after the other. The peer anneals. It
is run once for each of several first temperatures, with all seconds each time, and its best run
counts. Its errors are counted by itself, ours from the factors by NumPy. Unknown entries are left
out of the comparison: matrices with any are refused.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import thali

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))

HEATS = (0.0, 0.01, 0.1, 1.0)  # first temperatures of the peer; 0: no annealing
FALL, FACTOR = 1e-3, 0.98  # the last temperature, in first ones, and the factor of a step
SHOWN = 200  # times that the peer tells its error
TRIAL = 1.0  # seconds to find how many iterations the peer does in a second
LARGE = (301, 21_000), 10, 0.1, 0.35  # shape, components, flips, density without flips


def write(path, table):
    """Write a matrix as the peer reads it: sizes, then the places of ones."""
    places = np.argwhere(table)
    head = f"{table.shape[0]} {table.shape[1]} {len(places)}"
    np.savetxt(path, places, fmt="%d", header=head, comments="")


def run_peer(binary, path, table, k, heat, iterations, seed=1, limit=None):
    """Run the peer; return its moments, (seconds, errors), since its first line on errors."""
    n_steps = math.log(FALL) / math.log(FACTOR)
    command = [
        binary, path, "-d", k, "-l", min(table.shape), "-i", iterations, "--seed", seed,
        "--show", max(1, iterations // SHOWN),
    ]  # fmt: skip
    if heat > 0:
        command += ["--ts", heat, "--te", heat * FALL, "--factor", FACTOR]
        command += ["--move", max(1, int(iterations / n_steps))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment
    )
    begun, moments = None, []
    for line in process.stdout:
        now = perf_counter()
        if "Start distance" in line:
            begun = now
        found = re.search(r"(?:hamming|Final distance\tabs_err): *([0-9.e+]+)", line)
        if found and begun is not None:
            moments.append((now - begun, int(float(found[1]))))
        if begun is not None and limit is not None and now - begun > limit:
            process.kill()
            break
    process.stdout.close()
    process.wait()
    return moments


def pace(binary, path, table, k):
    """Return how many iterations the peer does in a second."""
    iterations = 64
    while True:
        moments = run_peer(binary, path, table, k, 0.0, iterations)
        if moments[-1][0] >= TRIAL:
            return iterations / moments[-1][0]
        iterations *= 4


def best_of_peer(binary, table, k, seconds, heats):
    """Return the peer's fewest errors, when they were reached, and how it was heated."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.in"
        write(path, table)
        iterations = int(seconds * pace(binary, path, table, k))
        runs = []
        for heat in heats:
            moments = run_peer(binary, path, table, k, heat, iterations, limit=1.5 * seconds)
            least = min(errors for _, errors in moments)
            at = next(at for at, errors in moments if errors == least)
            runs.append((least, at, heat))
    return min(runs)


def ours(table, k, seconds):
    """Return a factorization whose errors are recounted."""
    found = thali.minimize(table, k, seconds=seconds, seed=1, threads=1, progress=False)
    users, codes = (np.asarray(factor).astype(np.float32) for factor in found.factors)
    assert ((users @ codes.T > 0) != (table == 1)).sum() == found.errors
    return found


def simulated():
    """Return the large matrix."""
    shape, k, flips, density = LARGE
    rng = np.random.default_rng(1)
    share = math.sqrt(1.0 - (1.0 - density) ** (1.0 / k))
    users, codes = (rng.random((n, k)) < share for n in shape)
    return ((users @ codes.T) ^ (rng.random(shape) < flips)).astype(float)


def tables(options):
    """Yield the name, the matrix and the number of components of every row."""
    from published import read  # noqa: PLC0415 - it imports what the rest needs not

    for task in options.tables:
        name, k = task.rsplit(":", 1)
        table = read(options.folder / f"{name}.npz")
        if np.isnan(table).any():
            sys.exit(f"{name} has unknown entries, which the peer cannot leave out; drop it.")
        yield name, table, int(k)
    if options.large:
        yield "simulated", simulated(), LARGE[1]


def main():
    """Measure and print a row for every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", metavar="NAME:K")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--heats", type=float, nargs="+", default=HEATS, help="of the peer")
    options = parser.parse_args()
    thali.minimize(np.eye(9), 2, sweeps=1, seed=0, progress=False)  # compiled before the clock
    print("| table | size | k | errors | its errors | ratio | its s | our s to that | ratio |")
    print("| --- " * 9 + "|")
    for name, table, k in tables(options):
        found = ours(table, k, options.seconds)
        least, at, heat = best_of_peer(options.peer, table, k, options.seconds, options.heats)
        reached = next((m[0] for m in found.trace if m[1] + m[2] <= least), None)
        soon = "not reached" if reached is None else f"{reached:.2f} | {at / reached:.1f}"
        size = " x ".join(map(str, table.shape))
        print(
            f"| {name} | {size} | {k} | {found.errors} | {least} (heat {heat:g}) | "
            f"{found.errors / max(1, least):.3f} | {at:.1f} | {soon} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
