"""How many sweeps until the chain is where it belongs? ``./dev python experiments/mixing.py``.

Four parts. *starts*: chains from bad states, with and without moves of whole components, until
their log joint density is that of a chain which started at the truth. *unequal*: is the number of
components right when ones are dropped ten times as often as zeros are raised? *wide*: how soon are
all components of a large matrix found? *controls*: data on which a chain that starts from nothing
makes far too many components; they have a page of their own (``--parts controls --out
docs/results/controls.jsonl``).
"""

from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
from _controls import CONTROLS, follow, tell_controls
from _runs import (
    BLUE,
    GREEN,
    GREY,
    NOISES,
    SHAPE,
    WITHOUT_MOVES,
    carry_out,
    compile_samplers,
    draw,
    first_at,
    how_it_was_run,
    level_of,
    most_frequent,
    noise_of,
    one_chain,
    options,
    table,
    with_noise,
    write_page,
)
from matplotlib.figure import Figure

import thali
from thali.bits import PackedTensor, khatri_rao
from thali.data import BinaryTensor
from thali.engines.cpu.engine import CpuEngine
from thali.model import Model
from thali.model.simulate import balanced_density
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

N_COMPONENTS = 5
SWEEPS, SOON = 400, 100  # followed from a bad start; wanted
SETTLE, REFERENCE = 50, 200  # sweeps from the truth: until all but the factors has settled; used
SHOWN = np.unique(np.geomspace(1, SWEEPS, 30).astype(int))  # sweeps in the figure

SPURIOUS, DROPPED = 0.03, 0.3
UNEQUAL_SWEEPS = 200  # of warm-up, and as many draws

WIDE_SHAPE, WIDE_COMPONENTS = (301, 21_000), 10
WIDE_SWEEPS, WIDE_SOON = 100, 60
WIDE_FLIPS, WIDE_ERROR = 0.1, 0.001

SAMPLERS = {
    "with moves": (Schedule(), {"color": BLUE, "ls": "-"}),
    "without moves": (WITHOUT_MOVES, {"color": GREEN, "ls": "--"}),
}


# --- one run ---------------------------------------------------------------------------------


def work(task):
    return PARTS[task["part"]][0](task)


def all_rows_in_one(data, rng):  # noqa: ARG001
    """Give every row one component: the columns that are mostly ones."""
    return np.ones((SHAPE[0], 1), np.bool_), (data.tensor.mean(axis=0) > 0.5)[:, None]


def random_components(data, rng):  # noqa: ARG001
    """Draw 20 components that have nothing to do with the data but cover half of them."""
    return tuple(rng.random((n, 20)) < balanced_density(20) for n in SHAPE)


def split_and_merged(data, rng):
    """Halve the users of one true component; make one of two others."""
    users, codes = data.factors
    is_left = rng.random(SHAPE[0]) < 0.5
    return (
        np.column_stack(
            [
                users[:, 0] & is_left,
                users[:, 0] & ~is_left,
                users[:, 1] | users[:, 2],
                users[:, 3:],
            ]
        ),
        np.column_stack([codes[:, 0], codes[:, 0], codes[:, 1] | codes[:, 2], codes[:, 3:]]),
    )


STARTS = {
    "all rows in one component": all_rows_in_one,
    "20 random components": random_components,
    "one split, two merged": split_and_merged,
}


def arrive(task):
    """Count the sweeps from a bad start to the log joint density of a chain from the truth."""
    data = thali.simulate(SHAPE, N_COMPONENTS, spurious=task["flips"], seed=task["seed"])
    key = chain_key(task["seed"])
    target = Target.prepare(data.tensor, Model(noise=noise_of(task)), Schedule(), threads=1)
    reference = log_joints(key, target, data.factors, SETTLE + REFERENCE)[SETTLE:]
    level = level_of(reference)
    factors = STARTS[task["start"]](data, np.random.default_rng(task["seed"]))
    found = {}
    for name, (schedule, _) in SAMPLERS.items():
        # The rates need not be held: unlike the empty state these have components.
        schedule = replace(schedule, warmup=SWEEPS, hold=0)
        told = log_joints(key, target._replace(schedule=schedule), factors, SWEEPS)
        found[name] = {
            "sweeps": first_at(told, level),
            "above": [round(float(value)) for value in told[SHOWN - 1] - level],
        }
    return found


def log_joints(key, target, factors, n_sweeps):
    state = target.initial(key, factors)
    return np.array([info.log_joint for _, info in chain(key, target, n_sweeps, state)])


def unequal(task):
    """Sample data of unequal error rates as a user would, with one chain."""
    data = thali.simulate(
        SHAPE, N_COMPONENTS, spurious=SPURIOUS, dropped=DROPPED, seed=task["seed"]
    )
    start = perf_counter()
    posterior = one_chain(
        data.tensor, UNEQUAL_SWEEPS, UNEQUAL_SWEEPS, task["seed"], noise=noise_of(task)
    )
    return {
        "mode": most_frequent(posterior.n_components),
        "spurious": round(float(posterior.spurious.mean()), 4),
        "dropped": round(float(posterior.dropped.mean()), 4),
        "seconds": round(perf_counter() - start, 1),
    }


def wide(task):
    """Note when a chain, after its start, has found all components and nothing else."""
    data = thali.simulate(WIDE_SHAPE, WIDE_COMPONENTS, spurious=WIDE_FLIPS, seed=task["seed"])
    truth = PackedTensor.from_tensor(BinaryTensor.from_any(data.noise_free))
    start = perf_counter()
    model = Model(noise=noise_of(task, WIDE_SHAPE))
    schedule = Schedule(warmup=WIDE_SWEEPS)
    target = Target.prepare(data.tensor, model, schedule, threads=1)
    is_found, checking = [], 0.0
    for state, _ in chain(chain_key(task["seed"]), target, WIDE_SWEEPS):
        before = perf_counter()
        is_found.append(state.n_components == WIDE_COMPONENTS and error(state, truth) < WIDE_ERROR)
        checking += perf_counter() - before
    first = is_found.index(True) if any(is_found) else None
    return {
        "sweeps": None if first is None else first + 1,
        "stays": None if first is None else round(float(np.mean(is_found[first:])), 3),
        "number": state.n_components,
        "seconds": round(perf_counter() - start - checking, 1),
    }


def error(state, truth):
    """Return the fraction of entries before bit flips that a state predicts wrongly."""
    codes = khatri_rao(state.factors, 0)
    tp, fp = CpuEngine(1).load(truth).count(0, None, codes, state.factors[0]).sum(axis=0)
    return (truth.n_ones - tp + fp) / truth.n_known


PARTS = {  # and seeds
    "starts": (arrive, 50),
    "unequal": (unequal, 20),
    "wide": (wide, 20),
    "controls": (follow, 5),
}


# --- page ------------------------------------------------------------------------------------


def plot(runs):
    """Draw log joint densities against sweeps, a panel a start, a line a run."""
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    panels = figure.subplots(1, len(STARTS), sharey=True)
    for panel, start in zip(panels, STARTS, strict=True):
        panel.axhline(0.0, color=GREY, lw=0.8)
        for name, (_, style) in SAMPLERS.items():
            lines = np.array([run[name]["above"] for run in runs if run["start"] == start])
            if len(lines):
                panel.plot(SHOWN, lines.T, alpha=0.3, lw=0.7, **style)
                panel.plot(SHOWN, np.median(lines, axis=0), lw=2.0, label=name, **style)
        panel.set(xscale="log", title=start)
        panel.set_yscale("symlog", linthresh=100.0)
    panels[0].set_ylabel("log joint density above that of the mode")
    panels[0].legend(frameon=False)
    figure.supxlabel("sweeps", fontsize=9)
    return figure


def spread(sweeps, soon, most):
    """Return in how many runs it was soon, the median and the largest number of sweeps."""
    counted = [most + 1 if value is None else value for value in sweeps]
    middle = np.quantile(counted, 0.5, method="higher")  # a number that was counted
    told = [f"{n:.0f}" if n <= most else f"over {most}" for n in (middle, max(counted))]
    return [f"{sum(n <= soon for n in counted)}/{len(counted)}", *told]


def tell_starts(runs, out):
    """Describe the chains from bad starts."""
    rows = []
    for flips in sorted({run["flips"] for run in runs}):
        of_flips = [run for run in runs if run["flips"] == flips]
        for start in [*STARTS, "all"]:
            chosen = [run for run in of_flips if start in (run["start"], "all")]
            for name in SAMPLERS if chosen else ():
                sweeps = [run[name]["sweeps"] for run in chosen]
                rows.append([f"{flips:.0%}", start, name, *spread(sweeps, SOON, SWEEPS)])
        draw(out.with_suffix(".svg"), plot, of_flips)
    return f"""## From bad starts

Data of {SHAPE[0]} by {SHAPE[1]} entries with {N_COMPONENTS} components. The level of the mode is
the 5 % quantile of the log joint density over {REFERENCE} sweeps of a chain that started at the
truth, after {SETTLE} sweeps in which rates and densities settle. A chain has arrived at the first
sweep at which it is at that level; each was followed for {SWEEPS} sweeps. *With moves* is the
default schedule, *without moves* the schedule `serial-integrated` with no moves of whole
components; error rates are drawn from the first sweep on.

{table(["flips", "start", "sampler", f"within {SOON} sweeps", "median", "most"], rows)}

![Log joint density against sweeps]({out.with_suffix(".svg").name})

Zero is the level of the mode; thin lines are runs, thick ones their medians."""


def tell_unequal(runs, out):  # noqa: ARG001
    """Describe the runs with unequal rates."""
    n_right = sum(run["mode"] == N_COMPONENTS for run in runs)
    wrong = {run["seed"]: run["mode"] for run in runs if run["mode"] != N_COMPONENTS}
    told = f" (wrong, by seed: {wrong})" if wrong else ""
    (low, low_dropped), (high, high_dropped) = (
        [end(run[name] for run in runs) for name in ("spurious", "dropped")] for end in (min, max)
    )
    of_whom = ", those of an average row and column," if noise_of(runs[0]) == "effects" else ""
    return f"""## Unequal rates

Data of the same size with {SPURIOUS:.0%} of the zeros raised and {DROPPED:.0%} of the ones
dropped; one chain of {UNEQUAL_SWEEPS} sweeps of warm-up and {UNEQUAL_SWEEPS} draws,
`noise="{noise_of(runs[0])}"`. The most probable number of components is the true one in
**{n_right} of {len(runs)}** runs{told}. Posterior
means of the rates{of_whom} lie between {low:.3f} and {high:.3f}, and between {low_dropped:.3f} and
{high_dropped:.3f}. Median time: {median_seconds(runs):.1f} s."""


def tell_wide(runs, out):  # noqa: ARG001
    """Describe the runs on large data."""
    soon, middle, most = spread([run["sweeps"] for run in runs], WIDE_SOON, WIDE_SWEEPS)
    stays = np.mean([run["stays"] or 0.0 for run in runs])
    return f"""## A wide matrix

{WIDE_SHAPE[0]} by {WIDE_SHAPE[1]} entries, {WIDE_COMPONENTS} components, {WIDE_FLIPS:.0%} of
entries flipped, the number not given. All components are found when there are
{WIDE_COMPONENTS} and fewer than {WIDE_ERROR:.1%} of the entries before bit flips are predicted
wrongly. That was so within {WIDE_SOON} sweeps in **{soon}** runs (median {middle}, most {most}, of
{WIDE_SWEEPS} sweeps), and in {stays:.1%} of the sweeps from then on. Median time of the start and
{WIDE_SWEEPS} sweeps: {median_seconds(runs):.0f} s."""


def median_seconds(runs):
    return np.median([run["seconds"] for run in runs])


def main():
    parser = options(__doc__, "mixing")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, help="of every part")
    parser.add_argument("--flips", type=float, default=0.1, help="of the part starts")
    chosen = parser.parse_args()
    tasks = []
    for part in chosen.parts:
        for seed in range(chosen.seeds or PARTS[part][1]):
            task = with_noise({"part": part, "seed": seed}, chosen.noise)
            if part == "starts":
                task |= {"start": list(STARTS)[seed % len(STARTS)], "flips": chosen.flips}
            if part == "controls":
                tasks += [task | {"control": name} for name in CONTROLS]
            else:
                tasks.append(task)
    runs = carry_out(work, tasks, chosen, partial(compile_samplers, chosen.noise))
    tell = {
        "starts": tell_starts,
        "unequal": tell_unequal,
        "wide": tell_wide,
        "controls": tell_controls,
    }
    title, threads = "How many sweeps does it take?", "one thread"
    if chosen.parts == ["controls"]:
        title, threads = "Dense data, noise and many components", "two threads"
    write_page(
        chosen.out.with_suffix(".md"),
        f"# {title}",
        how_it_was_run(threads),
        f'The model has `noise="{chosen.noise}"`: it learns {NOISES[chosen.noise]}.',
        *(tell[part]([r for r in runs if r["part"] == part], chosen.out) for part in chosen.parts),
    )


if __name__ == "__main__":
    main()
