"""Is the true number of components found? ``./dev python experiments/recovery.py``.

The experiment of section 3.1 of Rukat & Yau (2018): 200 x 500 entries, half of them ones before
bit flips, 200 sweeps of one chain of which 100 are warm-up. Four methods on the same data:
Algorithm 1 as printed, the corrected sampler without moves of whole components, ``thali.sample``
as it is, and with a broad prior of the concentration. Every failure of ``thali.sample`` as it is
is looked into.
"""

from functools import partial
from itertools import combinations, product
from math import isnan
from time import process_time

import as_printed
import numpy as np
from _runs import (
    BLUE,
    GREEN,
    GREY,
    NOISES,
    ORANGE,
    PURPLE,
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
from thali.model import Model
from thali.model.simulate import boolean_product
from thali.posterior.diagnostics import diagnose
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

WARMUP = DRAWS = 100
SETTINGS = ("components", "flips", "seed")  # of a data set
FROM_TRUTH, LONG = 400, 2000  # sweeps of the chains that look into a failure
METHODS = {
    "as printed": {"color": ORANGE, "marker": "s", "ls": ":"},
    "without moves": {"color": GREEN, "marker": "^", "ls": "--"},
    "thali": {"color": BLUE, "marker": "o", "ls": "-"},
    "thali, broad alpha": {"color": PURPLE, "marker": "v", "ls": "-"},
}
PRIORS = {
    "thali, broad alpha": {"alpha": thali.model.Gamma(1.0, 1.0)},
}


# --- one run ---------------------------------------------------------------------------------


def prepare(noise):
    compile_samplers(noise)
    as_printed.run(simulated({"components": 2, "flips": 0.1, "seed": 0}).tensor, 2, 1, 0)


def simulated(task):
    return thali.simulate(SHAPE, task["components"], spurious=task["flips"], seed=task["seed"])


def work(task):
    return look_into(task) if task["method"] == "failure" else recover(task)


def recover(task):
    """Run one method on one data set."""
    data = simulated(task)
    start = process_time()
    if task["method"] == "as printed":
        told = as_printed.run(data.tensor, WARMUP + DRAWS, WARMUP, task["seed"])
        seconds = process_time() - start
        number, log_joint = told.n_components[WARMUP:], told.log_joint[WARMUP:]
        prediction, shared = told.prediction, None
    else:
        schedule = WITHOUT_MOVES if task["method"] == "without moves" else "parallel"
        model = {"noise": noise_of(task)} | PRIORS.get(task["method"], {})
        posterior = one_chain(data.tensor, WARMUP, DRAWS, task["seed"], schedule=schedule, **model)
        seconds = process_time() - start
        number, log_joint = posterior.n_components[0], posterior.log_joint[0]
        prediction = posterior.predict(noise_free=True)
        shared = int(posterior.n_components_table(least_users=2).idxmax())
    traces = {"number": number[None], "log_joint": log_joint[None]}
    effective = diagnose(traces)["ess_bulk"]
    return {
        "mode": most_frequent(number),
        "shared": shared,
        "mean": round(float(number.mean()), 3),
        "seconds": round(seconds, 3),
        "error": round(float(((prediction > 0.5) != data.noise_free).mean()), 6),
        "ess": {
            name: None if isnan(value) else round(value, 1) for name, value in effective.items()
        },
        "redundant": redundant(data.factors),
    }


def redundant(factors):
    """Say why fewer components have the same product, so that data cannot tell; or say nothing."""
    whole = boolean_product(factors)
    for component in range(factors[0].shape[1]):
        rest = tuple(np.delete(factor, component, axis=1) for factor in factors)
        if (boolean_product(rest) == whole).all():
            return f"component {component} covers nothing alone"
    for one, other in combinations(range(factors[0].shape[1]), 2):
        if any((factor[:, one] == factor[:, other]).all() for factor in factors):
            return f"components {one} and {other} are one"
    return None


def look_into(task):
    """Follow a failing chain further, and one that starts at the truth."""
    data = simulated(task)
    model = Model(noise=noise_of(task))
    target = Target.prepare(data.tensor, model, Schedule(warmup=WARMUP), threads=1)
    key = chain_key(task["seed"])  # that of the run which failed
    starts = {"truth": (target.initial(key, data.factors), FROM_TRUTH), "long": (None, LONG)}
    found, log_joints = {}, {}
    for name, (state, n_sweeps) in starts.items():
        told = [info for _, info in chain(key, target, n_sweeps, state)]
        log_joints[name] = np.array([info.log_joint for info in told])
        late = slice(n_sweeps // 2, None)
        found[name] = most_frequent([info.n_components for info in told[late]])
        found[f"{name}_log_joint"] = round(float(log_joints[name][late].mean()), 1)
    level = level_of(log_joints["truth"][FROM_TRUTH // 2 :])
    return found | {"arrived": first_at(log_joints["long"], level)}


def verdict(run):
    """Say in words whether the wrong answer is more probable than the truth."""
    gap = run["long_log_joint"] - run["truth_log_joint"]
    if run["truth"] != run["components"]:
        return "yes: a chain from the truth leaves it"
    if run["long"] == run["components"]:
        return "no: more sweeps find the truth"
    answer, side = ("yes", "above") if gap > 0 else ("no", "below")
    return f"{answer}: its mean log joint is {abs(gap):.0f} {side}"


# --- page ------------------------------------------------------------------------------------


def plot(runs, chosen):
    """Draw inferred against true numbers: means and standard deviations over data sets."""
    figure = Figure(figsize=(9.0, 2.9), layout="constrained")
    panels = figure.subplots(1, len(chosen.flips), sharey=True, squeeze=False)[0]
    numbers = np.array(chosen.components)
    for panel, flips in zip(panels, chosen.flips, strict=True):
        panel.plot(numbers, numbers, color=GREY, lw=0.8, zorder=0)
        for shift, method in enumerate(chosen.methods):
            means = [
                [r["mean"] for r in select(runs, flips=flips, method=method, components=number)]
                for number in chosen.components
            ]
            centre, spread = np.array(
                [(np.mean(m), np.std(m)) if m else (np.nan,) * 2 for m in means]
            ).T
            panel.errorbar(
                numbers + 0.16 * (shift - 1),
                centre,
                spread,
                label=method,
                ms=4,
                lw=1,
                elinewidth=1.2,
                **METHODS[method],
            )
        panel.set(title=f"{flips:.0%} of entries flipped", xticks=numbers)
    panels[0].set_ylabel("inferred number of components")
    panels[0].legend(frameon=False)
    figure.supxlabel("true number of components", fontsize=9)
    return figure


def select(runs, **wanted):
    return [run for run in runs if all(run[name] == value for name, value in wanted.items())]


def share_right(runs, number="mode"):
    return f"{sum(r[number] == r['components'] for r in runs)}/{len(runs)}" if runs else "-"


def median(values, digits):
    values = [value for value in values if value is not None]
    return f"{np.median(values):.{digits}f}" if values else "-"


def tables(runs, chosen):
    """Return the table of right numbers, and that of everything else."""
    right, other = [], []
    for flips in chosen.flips:
        for method in chosen.methods:
            of_row = select(runs, flips=flips, method=method)
            if not of_row:
                continue
            name = [f"{flips:.0%}", method]
            by_number = [select(of_row, components=number) for number in chosen.components]
            right.append([*name, *map(share_right, by_number), f"**{share_right(of_row)}**"])
            if method == "thali":
                right_shared = [share_right(runs, "shared") for runs in [*by_number, of_row]]
                right.append([f"{flips:.0%}", "thali, shared", *right_shared])
            settled = [r for r in of_row if r["mode"] == r["components"]]
            speed = {
                quantity: [
                    r["ess"][quantity] and r["ess"][quantity] / r["seconds"] for r in settled
                ]
                for quantity in ("number", "log_joint")
            }
            n_constant = sum(value is None for value in speed["number"])
            errors = [100.0 * r["error"] for r in of_row]
            other.append(
                [
                    *name,
                    f"{np.mean([r['mean'] - r['components'] for r in of_row]):+.2f}",
                    f"{median(errors, 3)} ({max(errors):.2f})",
                    median([r["seconds"] for r in of_row], 2),
                    median(speed["log_joint"], 0),
                    f"{median(speed['number'], 0)} ({n_constant}/{len(settled)})",
                ]
            )
    numbers = [str(number) for number in chosen.components]
    return (
        table(["flips", "method", *numbers, "all"], right),
        table(
            [
                "flips",
                "method",
                "too large by",
                "% wrong (worst)",
                "seconds",
                "ESS/s, log joint",
                "ESS/s, number (constant)",
            ],
            other,
        ),
    )


WHY = """A buffet of concentration $\\alpha$ expects $\\alpha$ components of a single row each, and
the noisier the data, the less they can say against them: a component of its own fits the errors of
one row. The default prior therefore expects $\\alpha$ to be small, so that a component must earn
its place; *broad alpha* shows the difference. Where a chain leaves the truth, that is what the
posterior asks for; it is not stuck."""


def failure_table(failures):
    columns = {
        **{name: name for name in SETTINGS},
        "mode": "number found",
        "truth": "from the truth",
        "truth_log_joint": "mean log joint",
        "long": "in the long run",
        "long_log_joint": "mean log joint",
        "arrived": "there at sweep",
    }
    rows = [[*(failure[name] for name in columns), verdict(failure)] for failure in failures]
    return table([*columns.values(), "more probable than the truth?"], rows)


def write(chosen, runs, failures, unidentifiable):
    """Write the page and draw its figure."""
    figure = chosen.out.with_suffix(".svg")
    draw(figure, plot, runs, chosen)
    right, other = tables(runs, chosen)
    write_page(
        chosen.out.with_suffix(".md"),
        f"""# Is the true number of components found?

This is the experiment of section 3.1 of Rukat & Yau (2018): {SHAPE[0]} by {SHAPE[1]} entries,
half of them ones before bit flips; {chosen.seeds} data sets for every number of components and
share of flips; one chain of {WARMUP + DRAWS} sweeps, of which the first {WARMUP} are warm-up.
*As printed* is their Algorithm 1 with its mistakes; *without moves* samples the right posterior,
row by row and bit by bit (`serial-integrated`); *thali* is `thali.sample` with
`noise="{chosen.noise}"`, which learns {NOISES[chosen.noise]} and the density of the codes, and
*thali, shared* its number of components that at least two rows use
(`n_components_table(least_users=2)`); *broad alpha* is `alpha=Gamma(1.0, 1.0)`, under which a
few components more or less are nearly as probable a priori. All but *as printed* have the same
noise.""",
        how_it_was_run(),
        f"![Inferred against true numbers]({figure.name})",
        """Posterior means of the number of components: mean and standard deviation over data
sets; the grey line is the truth.

## How often the most probable number is the true one""",
        right,
        "## Errors, time and effective draws",
        other,
        f"""*Too large by*: posterior mean of the number minus the truth, averaged. *Wrong*:
posterior mean of the product, cut at one half, against the product before bit flips; median, and
the worst.
*ESS/s*: effective draws (of {DRAWS}) per second of the whole run, medians over the runs
with the right number; a number that never changed has no ESS, in brackets how often.
*Seconds* are of one core.

## Every failure of thali""",
        f"""For each, the failing chain went on to {LONG} sweeps, and another one started at the
truth for {FROM_TRUTH}; numbers and mean log joint densities are those of the second
halves. It is *there* when its log joint density is that of the chain from the truth (5 %
quantile)."""
        if failures
        else "There was none.",
        WHY if failures else "",
        failure_table(failures) if failures else "",
        "## Data sets that cannot be identified",
        "Left out above, because fewer components have the same product:"
        if unidentifiable
        else "There was none: no component can be left out, and no two can be joined, without\n"
        "changing the product.",
        table([*SETTINGS, "why"], unidentifiable) if unidentifiable else "",
    )


def main():
    parser = options(__doc__, "recovery")
    parser.add_argument("--seeds", type=int, default=20, help="data sets of each kind")
    parser.add_argument("--components", type=int, nargs="+", default=list(range(2, 11)))
    parser.add_argument("--flips", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.3])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    chosen = parser.parse_args()
    kinds = product(chosen.components, chosen.flips, range(chosen.seeds), chosen.methods)
    tasks = [dict(zip((*SETTINGS, "method"), kind, strict=True)) for kind in kinds]
    tasks = [t if t["method"] == "as printed" else with_noise(t, chosen.noise) for t in tasks]
    ready = partial(prepare, chosen.noise)
    all_runs = carry_out(work, tasks, chosen, ready)
    runs = [run for run in all_runs if run["redundant"] is None]
    wrong = [r for r in runs if r["method"] == "thali" and r["mode"] != r["components"]]
    causes = [{name: run[name] for name in SETTINGS} | {"method": "failure"} for run in wrong]
    causes = [with_noise(cause, chosen.noise) for cause in causes]
    followed = carry_out(work, causes, chosen, ready)
    failures = [f | {"mode": run["mode"]} for f, run in zip(followed, wrong, strict=True)]
    for failure in failures:
        print({name: failure[name] for name in (*SETTINGS, "mode")}, verdict(failure))
    names = (*SETTINGS, "redundant")
    unidentifiable = sorted({tuple(r[n] for n in names) for r in all_runs if r["redundant"]})
    write(chosen, runs, failures, unidentifiable)


if __name__ == "__main__":
    main()
