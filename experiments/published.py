"""Wrong entries at a fixed number of components, against published methods.

    ./dev python experiments/published.py FOLDER [--seconds 60] [--threads 2] [--jobs N]

FOLDER has the matrices as npz files: ``shape``, ``bits`` (packed entries) and possibly ``mask``
(packed: which are known). The published figures, with their sources, are in published.csv.

Every row gets the same search (``thali.minimize``, seed 0) of so many seconds on so many threads;
jobs times threads should not be more than there are cores. Besides, chains of the finite model on
one thread get a fifth of these seconds: the draw with the fewest wrong known entries, and the
point estimate. Rows done at the same budget are not done again.
"""

from __future__ import annotations

import argparse
import csv
import json
from contextlib import closing
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from _runs import results_of

import thali
from thali.model import Model
from thali.posterior.estimate import point_estimate
from thali.sampler import Target, chain
from thali.sentences import n_of
from thali.streams import chain_key
from thali.trace import Draw

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "experiments" / "published.csv"
CHAINS, SHARE = 4, 0.2  # chains of the finite model, and their seconds relative to the search
MOST_SWEEPS = 1 << 40  # the clock ends a chain
THIN = 10  # sweeps a draw for the point estimate, from the second half of a chain


def read(path):
    """Return a matrix of 0, 1 and NaN (unknown)."""
    with np.load(path) as stored:
        shape = tuple(stored["shape"])
        parts = [
            np.unpackbits(stored[name], count=int(np.prod(shape))).reshape(shape)
            for name in ("bits", "mask")
            if name in stored
        ]
    return np.where(parts[1], parts[0], np.nan) if len(parts) == 2 else parts[0].astype(float)


def n_wrong(state, target):
    """Count the wrong known entries of a state."""
    tp, fp = state.covered
    return target.totals.n_ones - tp + fp


def sampled(target, seconds):
    """Run chains; return the best draw by error, and the error of the point estimate.

    They start from random factors as dense as the data ask for: many components of density 1/2,
    the prior's, cover everything, and no chain finds the way back.
    """
    best, kept = None, []
    tensor, k = target.engine.tensor, target.model.n_components
    density = (1.0 - (1.0 - tensor.n_ones / tensor.n_known) ** (1.0 / k)) ** 0.5
    for number in range(CHAINS):
        key, rng = chain_key(0, number), np.random.default_rng(number)
        first = target.initial(key, [rng.random((n, k)) < density for n in tensor.shape])
        start, draws = process_time(), []
        for sweep, (state, info) in enumerate(chain(key, target, MOST_SWEEPS, first)):
            if best is None or n_wrong(state, target) < n_wrong(best, target):
                best = state
            if sweep % THIN == 0:
                draws.append(Draw(state, info.log_joint, info.log_likelihood))
            if process_time() - start > seconds / CHAINS:
                break
        kept += draws[len(draws) // 2 :]
    confusion = point_estimate(kept, target.engine.tensor, threads=1).confusion
    return best, confusion.fp + confusion.fn


def work(task):
    """Return the line of results of one row."""
    path, k, seconds, threads = task
    tensor = read(path)
    found = thali.minimize(tensor, k, seconds=seconds, seed=0, threads=threads, progress=False)
    target = Target.prepare(tensor, Model(k, "equal"), threads=1)
    drawn, estimate = sampled(target, SHARE * seconds)
    line = {"file": path.stem, "k": k, "budget": seconds, "threads": threads}
    line |= {"draw": n_wrong(drawn, target), "estimate": estimate, "fewest": found.errors}
    line["trace"] = [[round(at, 3), inside + outside] for at, inside, outside in found.trace]
    return line | {"bound": found.lower_bound, "seconds": round(found.seconds, 1)}


def compile_kernels():
    """Use everything once, so that no row's seconds go to the compiler."""
    tensor = np.random.default_rng(0).random((300, 20)) < 0.5
    for part in (tensor, np.where(tensor, tensor, np.nan), tensor.T[:, :9]):
        thali.minimize(part, 2, sweeps=2, seed=0, progress=False)
        sampled(Target.prepare(part, Model(2, "equal"), threads=1), 0.1)


# --- the table -------------------------------------------------------------------------------

HEAD = """# Errors at a fixed number of components

The figures are numbers of known entries that contradict the components. Lower is better; unknown
entries are not counted. They were made by `experiments/published.py`, with {budget:g} seconds per
row on {on}. *Draw* is the draw of the finite model with the fewest errors, *estimate*
its point estimate, both of a run of a fifth of that time on one thread; *fewest* is the answer of
`thali.minimize`, the same search with the same seed in every row. Methods without false positives
(undercovers) solve a narrower problem and have a column of their own. The rank is that of *fewest*
among all methods of a row, ours included, and *seconds to best* is how long the search took to
reach the lowest published error.

"""


def fewest(methods, kind):
    """Return the lowest published error of a kind of method, and whose it is."""
    of_kind = [(error, name) for name, (its, error) in methods.items() if its == kind]
    return min(of_kind, default=None)


def tell(row, methods):
    """Return a row of the table."""
    best = [fewest(methods, kind) for kind in ("free", "undercover")]
    cells = [f"{part[0]} ({part[1]})" if part else "" for part in best]
    rank = 1 + sum(error < row["fewest"] for _, error in methods.values())
    own = [f"`{row['file']}`", row["k"], row["draw"], row["estimate"], f"**{row['fewest']}**"]
    seconds = seconds_to_best(row, methods)
    soon = "" if seconds is None else seconds
    return [*own, *cells, f"{rank} of {len(methods) + 1}", soon]


def seconds_to_best(row, methods):
    """Return how long the search took to reach the lowest published error; None if it did not."""
    least = min(error for _, error in methods.values())
    return next((round(at, 1) for at, error in row["trace"] if error <= least), None)


def summarize(rows, published):
    """Return sentences: in how many rows lowest, how soon, and where not."""
    text = []
    times = [seconds_to_best(row, published[row["file"], row["k"]]) for row in rows]
    reached = [at for at in times if at is not None]
    if reached:
        text.append(
            f"- The lowest published error was reached in {len(reached)} of {len(rows)} rows, "
            f"after {median(reached):.1f} seconds in the median."
        )
    for what in ("draw", "fewest"):
        for kinds in (("free",), ("free", "undercover")):
            least = [
                min(error for kind, error in methods.values() if kind in kinds)
                for methods in (published[row["file"], row["k"]] for row in rows)
            ]
            below = sum(r[what] < other for r, other in zip(rows, least, strict=True))
            ties = sum(r[what] == other for r, other in zip(rows, least, strict=True))
            text.append(
                f"- *{what}* against {' and '.join(kinds)} methods: lowest in {below + ties} of "
                f"{len(rows)} rows ({below} alone, {ties} with others)."
            )
    for row in rows:
        methods = published[row["file"], row["k"]]
        error, name = min((error, name) for name, (_, error) in methods.items())
        if row["fewest"] > error:
            text.append(
                f"- Behind in `{row['file']}` at k = {row['k']}: {row['fewest']} against "
                f"{error} ({name}, {methods[name][0]})."
            )
    return "\n".join(text)


def table(rows, published, sources):
    """Return the page."""
    names = ["file", "k", "draw", "estimate", "fewest", "best free", "best undercover"]
    lines = [[*names, "rank", "seconds to best"], ["---"] * 9]
    lines += [tell(row, published[row["file"], row["k"]]) for row in rows]
    grid = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    cited = "\n".join(f"- {source}" for source in sources)
    head = HEAD.format(on=n_of(rows[0]["threads"], "thread"), **rows[0])
    return f"{head}{summarize(rows, published)}\n\n{grid}\n\nSources of the figures:\n\n{cited}\n"


def main():
    """Measure what is not measured yet; write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", help="names without .npz; default: all published")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the search, a row")
    parser.add_argument("--threads", type=int, default=2, help="of the search, a row")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    options = parser.parse_args()
    published, sources = {}, {}
    with PUBLISHED.open(newline="") as file:
        for line in csv.DictReader(file):
            methods = published.setdefault((line["file"], int(line["k"])), {})
            methods[line["method"]] = line["kind"], int(line["error"])
            sources[line["source"]] = True
    wanted = [row for row in published if options.files is None or row[0] in options.files]
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "published.jsonl"
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    budget = {"budget": options.seconds, "threads": options.threads}
    done = {(r["file"], r["k"]): r for r in lines if budget.items() <= r.items()}
    for name in dict.fromkeys(name for name, _ in wanted):
        if not (options.folder / f"{name}.npz").exists():
            print(f"{name}.npz is not in {options.folder}; its rows are left out.")
            wanted = [row for row in wanted if row[0] != name]
    tasks = [
        (options.folder / f"{name}.npz", k, options.seconds, options.threads)
        for name, k in wanted
        if (name, k) not in done
    ]
    rows = results_of(work, tasks, options.jobs, compile_kernels)
    with log.open("a") as file, closing(rows):
        for _, row in rows:
            print(json.dumps(row), file=file, flush=True)
            print(json.dumps(row), flush=True)
            done[row["file"], row["k"]] = row
    rows = [done[row] for row in published if row in done]
    if rows:
        (options.out / "published.md").write_text(table(rows, published, sources))


if __name__ == "__main__":
    main()
