"""Is thali right about real tables? ``./dev python experiments/real_data.py FOLDER``.

Every matrix of a folder, with 5% of its known entries hidden: how many components each chain
finds, whether chains agree, and how well hidden entries are predicted, beside simple baselines.
And the same for a table without components, drawn from the rates of its rows and columns.
"""

import warnings
from functools import partial
from pathlib import Path
from time import perf_counter
from zlib import crc32

import numpy as np
from _baselines import best_low_rank, log_score, nmf, rows_and_columns
from _runs import carry_out, compile_samplers, how_it_was_run, options, table, write_page
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import expit
from sklearn.metrics import adjusted_rand_score

import thali
from thali.errors import NotConverged
from thali.posterior.answer import answer

HIDDEN = 0.05
MOST_ROWS = 2000  # of tables whose rows are compared with each other
LARGE = 3_000_000  # entries beyond which there is no null, and no low-rank model
SLOW = 300_000  # entries beyond which two error rates are not sampled: components multiply


def read(path):
    """Return the entries, which of them are known, and labels of the rows by name.

    A file has packed ``bits`` in C order, their ``shape``, and perhaps a ``mask`` of known ones.
    """
    with np.load(path) as file:
        shape = tuple(int(n) for n in file["shape"])
        values, known = (
            np.unpackbits(file[name], count=int(np.prod(shape))).reshape(shape).astype(bool)
            if name in file.files
            else np.ones(shape, bool)
            for name in ("bits", "mask")
        )
        return values, known, {n: file[n] for n in file.files if n.startswith("labels")}


def work(folder, settings, task):
    """Sample one table, or its null, and compare."""
    values, known, labels = read(folder / f"{task['table']}.npz")
    rng = np.random.default_rng(crc32(task["table"].encode()))
    if task["null"]:
        values = rng.random(values.shape) < expit(rows_and_columns(values * 1.0, known))
    hidden = (rng.random(values.shape) < HIDDEN) & known
    seen = known & ~hidden
    data = np.where(seen, values, np.nan)
    odds = rows_and_columns(values * 1.0, seen)
    found = {
        "shape": list(values.shape),
        "rows and columns": log_score(expit(odds), values, hidden),
    }
    found |= sampled(data, values, hidden, labels if not task["null"] else {}, settings)
    if not task["null"]:
        if values.size <= LARGE:
            found["low rank"] = best_low_rank(values * 1.0, seen, hidden, odds)
            rank = round(np.mean(found["components"]))
            found["NMF"] = nmf(values * 1.0, seen, hidden, rank)
        if values.size <= SLOW:
            without = settings | {"noise": "unequal"}
            found["two rates"] = sampled(data, values, hidden, {}, without)["score"]
        found["zeros"] = int((values & seen).sum())
    return found


def sampled(data, values, hidden, labels, settings):
    """Sample as a user would, and say what came out."""
    began = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        posterior = thali.sample(data, chains=2, seed=1, progress=False, threads=1, **settings)
    seconds = perf_counter() - began
    told = answer(posterior)
    chance = np.zeros(values.shape)
    chance[hidden] = posterior.predict_entries(np.argwhere(hidden))
    similar = [similarities(posterior, chain) for chain in (0, 1)]
    estimate = posterior.point_estimate()
    seen = ~np.isnan(data)
    found = {
        "components": posterior.n_components.mean(axis=1).round(1).tolist(),
        "mode": told["n_components"]["mode"],
        "agree": told["agree"],
        "R-hat": max((v for v in told["r_hat"].values() if v is not None), default=None),
        "score": log_score(chance, values, hidden),
        "wrong": round(estimate.error * seen.sum()),
        "wrong product": estimate.confusion.fp + estimate.confusion.fn,
        "seconds": round(seconds, 1),
    }
    if similar[0] is not None:
        one, other = (s[np.triu_indices(len(s), 1)] for s in similar)
        if one.std() > 0 and other.std() > 0:
            found["correlation"] = float(np.corrcoef(one, other)[0, 1])
        for name, given in labels.items():
            found[f"ARI {name}"] = ari(posterior.memberships().to_numpy(float), given)
    return found


def similarities(posterior, chain):
    """Return how many components every pair of rows shares, on average over some draws."""
    if posterior.shape[0] > MOST_ROWS:
        return None
    shared = np.zeros((posterior.shape[0],) * 2)
    for draw in range(0, posterior.n_draws, max(1, posterior.n_draws // 40)):
        users = posterior.draw(chain, draw).state.factors[0].dense().astype(np.float32)
        users = users[:, users.sum(axis=0) > 1]
        shared += users @ users.T
    return shared


def ari(memberships, labels):
    """Cluster the rows by their memberships (Ward), and compare with labels."""
    clusters = fcluster(linkage(memberships, "ward"), len(np.unique(labels)), "maxclust")
    return float(adjusted_rand_score(labels, clusters))


# --- page ------------------------------------------------------------------------------------


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}f}"


def tell(runs):
    """Describe all tables."""
    tables = [run for run in runs if not run["null"]]
    nulls = {run["table"]: run for run in runs if run["null"]}
    rows = [
        [
            run["table"], " x ".join(map(str, run["shape"])),
            ", ".join(map(str, run["components"])), "yes" if run["agree"] else "no",
            number(run.get("correlation"), 2), number(run["score"]),
            number(run["rows and columns"]), number(run.get("low rank")), number(run.get("NMF")),
            number(run.get("two rates")),
            ", ".join(f"{k[4:]} {v:.2f}" for k, v in run.items() if k.startswith("ARI")),
            nulls[run["table"]]["mode"] if run["table"] in nulls else "",
            f"{run['seconds']:.0f}",
        ]
        for run in tables
    ]  # fmt: skip
    head = [
        "table", "shape", "components, by chain", "agree", "correlation of rows", "thali",
        "rows + columns", "low rank", "NMF", "two rates", "ARI", "null", "s",
    ]  # fmt: skip
    better = {
        name: f"{sum(run['score'] > run[name] for run in tables if name in run)} of "
        f"{sum(name in run for run in tables)}"
        for name in ("rows and columns", "low rank", "NMF", "two rates")
    }
    n_agree = sum(run["agree"] for run in tables)
    n_none = sum(run["mode"] == 0 for run in nulls.values())
    n_worse, n_worse_product = (
        sum(run[name] > run["zeros"] for run in tables) for name in ("wrong", "wrong product")
    )
    return f"""Of every table, {HIDDEN:.0%} of the known entries are hidden; scores are mean log
probabilities of these entries (higher is better). *Null* is the most probable number of components
of a table drawn from the fitted rates of rows and columns, which has none.

Chains agree on **{n_agree} of {len(tables)}** tables. thali predicts better than rows and columns
on **{better["rows and columns"]}**, than the best low-rank logistic model on
**{better["low rank"]}**, than NMF of similar rank on {better["NMF"]}, and than two error rates on
{better["two rates"]}. No component is found in **{n_none} of {len(nulls)}** nulls. What the
point estimate makes likely has more errors than a table of zeros on **{n_worse} of {len(tables)}**
tables. Its product alone has more on {n_worse_product}: components there make ones more probable,
but not likely.

{table(head, rows)}"""


def main():
    parser = options(__doc__, "real_data")
    parser.add_argument("folder", type=Path, help="with one file per matrix")
    parser.add_argument("--tables", nargs="+", help="names without endings; by default all")
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    chosen = parser.parse_args()
    sizes = {path.stem: shape_of(path) for path in sorted(chosen.folder.glob("*.npz"))}
    names = [n for n in chosen.tables or sizes if len(sizes[n]) == 2]
    tasks = [{"table": name, "null": False} for name in names]
    tasks += [{"table": n, "null": True} for n in names if np.prod(sizes[n]) <= LARGE]
    settings = {"noise": chosen.noise, "warmup": chosen.warmup, "draws": chosen.draws}
    job = partial(work, chosen.folder, settings)
    runs = carry_out(job, tasks, chosen, partial(compile_samplers, chosen.noise))
    write_page(chosen.out.with_suffix(".md"), "# Real tables", how_it_was_run(), tell(runs))


def shape_of(path):
    with np.load(path) as file:
        return tuple(int(n) for n in file["shape"])


if __name__ == "__main__":
    main()
