"""Is the number of components of a tensor found? ``./dev python experiments/tensors.py [FOLDER]``.

Tensors of three and four modes drawn from the model, and the real tensors of a folder, with 5% of
their known entries hidden: how many components each chain finds, and how well hidden entries are
predicted, beside a logistic model of one level per line and the same plus a sum of products.
Tensors drawn from that model of levels, as fitted to each real tensor, have no component at all.
"""

import warnings
from collections import defaultdict
from functools import partial, reduce
from pathlib import Path
from zlib import crc32

import numpy as np
from _baselines import log_score
from _runs import carry_out, how_it_was_run, most_frequent, one_chain, options, table, write_page
from real_data import HIDDEN, ari, read, shape_of
from scipy.special import expit, logit

import thali
from thali.errors import NotConverged

RANKS = (1, 2, 4, 8, 16)
SMALL, LARGE, FOUR = (60, 50, 40), (100, 100, 100), (20, 18, 16, 14)


def prepare():
    """Do what a process does only once, so that it is not timed."""
    one_chain(thali.simulate((12, 9, 10), 2, seed=1).tensor, 5, 5, 1)


# --- one run ---------------------------------------------------------------------------------


def work(folder, settings, task):
    if "table" in task:
        return predict(folder, settings, task)
    shape, n = task["shape"], task["components"]
    # Of the entries before bit flips, the share that is one is that of the task.
    density = (1.0 - (1.0 - task["ones"]) ** (1.0 / n)) ** (1.0 / len(shape))
    data = thali.simulate(shape, n, density=density, spurious=task["flips"], seed=task["seed"])
    numbers = sampled(data.tensor, settings, task["seed"]).n_components.ravel()
    return {"mode": most_frequent(numbers), "mean": round(float(numbers.mean()), 2)}


def sampled(data, settings, seed):
    """Sample as a user would, but on one thread, and without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return thali.sample(data, seed=seed, threads=1, **settings)


def predict(folder, settings, task):
    """Sample a real tensor and predict what is hidden."""
    values, known, labels = read(folder / f"{task['table']}.npz")
    if "null" in task:
        rng = np.random.default_rng(task["null"])
        drawn = rng.random(values.shape) < expit(mode_effects(values, known))
        found = sampled(np.where(known, drawn, np.nan), settings | {"chains": 1}, task["null"])
        return {"mean": round(float(found.n_components.mean()), 2)}
    rng = np.random.default_rng(crc32(task["table"].encode()))
    hidden = (rng.random(values.shape) < HIDDEN) & known
    seen = known & ~hidden
    data = np.where(seen, values, np.nan)
    chains = [sampled(data, settings | {"chains": 1}, seed) for seed in (1, 2)]
    chance = np.zeros(values.shape)
    places = np.argwhere(hidden)
    chance[hidden] = np.mean([chain.predict_entries(places) for chain in chains], axis=0)
    odds = mode_effects(values, seen)
    found = {
        "shape": list(values.shape),
        "components": [round(float(chain.n_components.mean()), 1) for chain in chains],
        "score": log_score(chance, values, hidden),
        "effects": log_score(expit(odds), values, hidden),
        "products": max(
            log_score(expit(with_products(values, seen, odds, rank)), values, hidden)
            for rank in RANKS
        ),
    }
    for name, given in labels.items():
        memberships = chains[0].memberships().to_numpy(float)
        found[f"ARI {name}"] = ari(memberships, given)
    return found


# --- baselines -------------------------------------------------------------------------------


def mode_effects(values, seen, steps=40):
    """Fit log odds that are a sum of one level per mode, whose variances are fitted as well."""
    arity = values.ndim
    mean = float(logit(np.clip(values[seen].mean(), 1e-4, 1.0 - 1e-4)))
    levels, variances = [np.zeros(n) for n in values.shape], [1.0] * arity
    for _ in range(steps):
        for mode in range(arity):
            chance = expit(mean + reduce(np.add.outer, levels))
            others = tuple(m for m in range(arity) if m != mode)
            slope = ((values - chance) * seen).sum(others) - levels[mode] / variances[mode]
            curve = (chance * (1.0 - chance) * seen).sum(others) + 1.0 / variances[mode]
            levels[mode] = levels[mode] + np.clip(slope / curve, -1.0, 1.0)
            variances[mode] = max(1e-3, (levels[mode] ** 2).mean() + (1.0 / curve).mean())
        chance = expit(mean + reduce(np.add.outer, levels))
        mean += ((values - chance) * seen).sum() / (chance * (1.0 - chance) * seen).sum()
    return mean + reduce(np.add.outer, levels)


def with_products(values, seen, odds, rank, steps=150, rate=0.05, decay=0.3):
    """Add a sum of products of one number per mode to the log odds, by gradient (Adam)."""
    rng = np.random.default_rng(rank)
    parts = [rng.normal(0.0, 0.3, (n, rank)) for n in values.shape]
    first, second = ([np.zeros_like(part) for part in parts] for _ in range(2))
    letters = "abcdefg"[: values.ndim]
    whole = ",".join(f"{letter}r" for letter in letters) + f"->{letters}"
    for step in range(1, steps + 1):
        error = (expit(odds + np.einsum(whole, *parts, optimize=True)) - values) * seen
        for mode in range(values.ndim):
            others = [m for m in range(values.ndim) if m != mode]
            to_one = ",".join([letters, *(f"{letters[m]}r" for m in others)])
            slope = np.einsum(
                f"{to_one}->{letters[mode]}r", error, *(parts[m] for m in others), optimize=True
            )
            slope += decay * parts[mode]
            first[mode] = 0.9 * first[mode] + 0.1 * slope
            second[mode] = 0.99 * second[mode] + 0.01 * slope**2
            mean, square = first[mode] / (1.0 - 0.9**step), second[mode] / (1.0 - 0.99**step)
            parts[mode] = parts[mode] - rate * mean / (np.sqrt(square) + 1e-8)
    return odds + np.einsum(whole, *parts, optimize=True)


# --- page ------------------------------------------------------------------------------------


def tell(runs):
    """Describe the simulated and the real tensors."""
    real = [run for run in runs if "table" in run and "null" not in run]
    nulls = defaultdict(list)
    for run in runs:
        if "null" in run:
            nulls[run["table"]].append(run["mean"])
    groups = defaultdict(list)
    for run in runs:
        if "table" not in run:
            groups[tuple(run["shape"]), run["ones"], run["flips"]].append(run)
    rows = []
    for (shape, ones, flips), group in groups.items():
        numbers = sorted({run["components"] for run in group})
        is_right = [run["mode"] == run["components"] for run in group]
        of = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else numbers[0]
        size = " x ".join(map(str, shape))
        rows.append([size, of, f"{ones:.0%}", f"{flips:.0%}", f"{sum(is_right)}/{len(group)}"])
    n_right = sum(run["mode"] == run["components"] for group in groups.values() for run in group)
    n_all = sum(map(len, groups.values()))
    head = ["shape", "components", "ones before flips", "flips", "right number"]
    told = f"""## Simulated tensors

The most frequent number of components is right in **{n_right} of {n_all}** data sets.

{table(head, rows)}"""
    if not real:
        return told
    lines = [
        [
            run["table"], " x ".join(map(str, run["shape"])),
            ", ".join(map(str, run["components"])), f"{run['score']:.4f}",
            f"{run['effects']:.4f}", f"{run['products']:.4f}",
            ", ".join(f"{k[4:]} {v:.2f}" for k, v in run.items() if k.startswith("ARI")),
        ]
        for run in real
    ]  # fmt: skip
    better = [sum(run["score"] > run[name] for run in real) for name in ("effects", "products")]
    names = ["table", "shape", "components, by chain", "thali", "mode effects", "products", "ARI"]
    none = [[name, ", ".join(map(str, means))] for name, means in nulls.items()]
    is_none = [mean < 0.5 for means in nulls.values() for mean in means]
    return f"""{told}

## Real tensors

Scores are mean log probabilities of the hidden entries (higher is better). *Mode effects* is a
logistic model with one level per line of every mode; *products* adds a sum of products of one
number per mode to it, of the rank among {", ".join(map(str, RANKS))} that predicts the hidden
entries best. thali predicts better than mode effects on **{better[0]} of {len(real)}**, and than
products on {better[1]}.

{table(names, lines)}

## Tensors without components

Tensors were drawn from the model of mode effects, as fitted to each real tensor. Right is no
component: fewer than 0.5 on average in **{sum(is_none)} of {len(is_none)}**.

{table(["fitted to", "mean number of components"], none)}"""


def main():
    parser = options(__doc__, "tensors")
    parser.add_argument("folder", type=Path, nargs="?", help="with one file per real tensor")
    parser.add_argument("--seeds", type=int, default=5, help="data sets of each kind")
    parser.add_argument("--components", type=int, nargs="+", default=list(range(2, 9)))
    parser.add_argument("--shapes", choices=["small", "large", "four"], nargs="*",
                        default=["small", "large", "four"])  # fmt: skip
    parser.add_argument("--nulls", type=int, default=3, help="tensors without components, each")
    parser.add_argument("--chains", type=int, default=4, help="of simulated tensors")
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=400)
    chosen = parser.parse_args()
    kinds = []
    if "small" in chosen.shapes:
        kinds += [
            (SMALL, n, ones, flips, chosen.seeds)
            for n in chosen.components for ones in (0.5, 0.1) for flips in (0.0, 0.1, 0.2)
        ]  # fmt: skip
    if "large" in chosen.shapes:
        kinds.append((LARGE, 5, 0.5, 0.1, 4 * chosen.seeds))
    if "four" in chosen.shapes:
        some = [n for n in (2, 4, 6) if n in chosen.components]
        kinds += [(FOUR, n, 0.5, 0.1, chosen.seeds) for n in some]
    tasks = [
        {"shape": list(shape), "components": n, "ones": ones, "flips": flips, "seed": seed}
        for shape, n, ones, flips, n_seeds in kinds
        for seed in range(n_seeds)
    ]
    if chosen.folder:
        paths = sorted(chosen.folder.glob("*.npz"))
        names = [path.stem for path in paths if len(shape_of(path)) > 2]
        nulls = [{"table": name, "null": 1 + k} for name in names for k in range(chosen.nulls)]
        tasks = [{"table": name} for name in names] + nulls + tasks  # the longest first
    settings = {"chains": chosen.chains, "warmup": chosen.warmup, "draws": chosen.draws}
    runs = carry_out(partial(work, chosen.folder, settings), tasks, chosen, prepare)
    write_page(chosen.out.with_suffix(".md"), "# Tensors", how_it_was_run(), tell(runs))


if __name__ == "__main__":
    main()
