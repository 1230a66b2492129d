"""Wrong entries at a fixed number of components, against published methods.

    ./dev python experiments/published.py FOLDER [--files …] [--seconds 30] [--jobs 2]

FOLDER has the matrices as npz files: ``shape``, ``bits`` (packed entries) and possibly ``mask``
(packed: which are known). The published figures, with their sources, are in published.csv.

Of every row's seconds of one core, a part goes to chains of the finite model: the draw with the
fewest wrong known entries, and the point estimate. The rest goes to the local search
(local_search.py) from that draw, or from a greedy start if that has fewer. Rows done at the same
budget are not done again.
"""

from __future__ import annotations

import argparse
import csv
import json
from contextlib import closing
from pathlib import Path
from time import process_time

import numpy as np
from _runs import results_of
from local_search import cold_target, greedy, n_wrong, search

from thali.model import Model
from thali.posterior.estimate import point_estimate
from thali.sampler import Target, chain
from thali.streams import chain_key
from thali.trace import Draw

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "experiments" / "published.csv"
CHAINS, SHARE = 4, 0.2  # chains of the finite model, and the part of the seconds they get
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
    path, k, seconds = task
    tensor = read(path)
    start = process_time()
    target = Target.prepare(tensor, Model(k, "equal"), threads=1)
    drawn, estimate = sampled(target, SHARE * seconds)
    cold = cold_target(target.engine.tensor, k)
    # With many components, the draws of so short a chain can be worse than a greedy start.
    state = min(drawn, greedy(cold), key=lambda state: n_wrong(state, cold))
    found = search(cold, state, seconds - (process_time() - start))
    line = {"file": path.stem, "k": k, "budget": seconds, "draw": n_wrong(drawn, target)}
    line |= {"estimate": estimate, "polished": found.error, "swaps": found.swaps}
    return line | {"seconds": round(process_time() - start, 1)}


def compile_kernels():
    """Use everything once, so that no row's seconds go to the compiler."""
    tensor = np.random.default_rng(0).random((300, 20)) < 0.5
    for part in (tensor, np.where(tensor, tensor, np.nan), tensor.T[:, :9]):
        target = cold_target(part, 2)
        search(target, sampled(target, 0.1)[0], 0.1)


# --- the table -------------------------------------------------------------------------------

HEAD = """# Errors at a fixed number of components

The figures are numbers of known entries that contradict the components. Lower is better; unknown
entries are not counted. They were made by `experiments/published.py`, with {budget:g} seconds of
one core per row. *Draw* is the draw of the finite model with the fewest errors, *estimate* its
point estimate, and *polished* the result of a local search from that draw, or from a greedy
start if that has fewer errors. Methods without false positives (undercovers) solve a narrower
problem and have a column of their own. The rank is that of *polished* among all methods of a
row, ours included.

Where we are behind: with many components, a minute is enough for some dozens of swaps per
component, and more time helps (with 15 seconds, we were behind in 15 rows). With few components,
runs of annealing end in different places: a shorter run found 419 in `cg_heart` at k = 10.
`uci_wine` at k = 90 ended at 1183 in every run: there the search lacks a step.

"""


def fewest(methods, kind):
    """Return the lowest published error of a kind of method, and whose it is."""
    of_kind = [(error, name) for name, (its, error) in methods.items() if its == kind]
    return min(of_kind, default=None)


def tell(row, methods):
    """Return a row of the table."""
    best = [fewest(methods, kind) for kind in ("free", "undercover")]
    cells = [f"{part[0]} ({part[1]})" if part else "" for part in best]
    rank = 1 + sum(error < row["polished"] for _, error in methods.values())
    own = [f"`{row['file']}`", row["k"], row["draw"], row["estimate"], f"**{row['polished']}**"]
    return [*own, *cells, f"{rank} of {len(methods) + 1}", row["seconds"]]


def summarize(rows, published):
    """Return sentences: in how many rows lowest, and where not."""
    text = []
    for what in ("draw", "polished"):
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
        if row["polished"] > error:
            text.append(
                f"- Behind in `{row['file']}` at k = {row['k']}: {row['polished']} against "
                f"{error} ({name}, {methods[name][0]}), after {row['swaps'] / row['k']:.0f} "
                "swaps per component."
            )
    return "\n".join(text)


def table(rows, published, sources):
    """Return the page."""
    names = ["file", "k", "draw", "estimate", "polished", "best free", "best undercover"]
    lines = [[*names, "rank", "seconds"], ["---"] * 9]
    lines += [tell(row, published[row["file"], row["k"]]) for row in rows]
    grid = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    cited = "\n".join(f"- {source}" for source in sources)
    head = HEAD.format(budget=rows[0]["budget"])
    return f"{head}{summarize(rows, published)}\n\n{grid}\n\nSources of the figures:\n\n{cited}\n"


def main():
    """Measure what is not measured yet; write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", help="names without .npz; default: all published")
    parser.add_argument("--seconds", type=float, default=30.0, help="of one core, a row")
    parser.add_argument("--jobs", type=int, default=2)
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
    done = {(r["file"], r["k"]): r for r in lines if r["budget"] == options.seconds}
    for name in dict.fromkeys(name for name, _ in wanted):
        if not (options.folder / f"{name}.npz").exists():
            print(f"{name}.npz is not in {options.folder}; its rows are left out.")
            wanted = [row for row in wanted if row[0] != name]
    tasks = [
        (options.folder / f"{name}.npz", k, options.seconds)
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
