"""Simulated data on which chains once made far too many components, and how chains do on them."""

import warnings
from time import perf_counter

import numpy as np
from _runs import most_frequent, noise_of, table

import thali
from thali.errors import NotConverged
from thali.model import Model
from thali.sampler import Target, chain
from thali.sampler.grow.densities import look
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.sides import log_evidence
from thali.sampler.start import first_state
from thali.streams import chain_key

DENSE, RATES = (249, 6982), {"spurious": 0.43, "dropped": 0.07}
TALL, SPARSE, MANY = (12_000, 300), (20_000, 2000), (3000, 2000)


def dense(seed):
    """Draw 30 components that cover 64% of the entries, so that three quarters are ones."""
    density = float(np.sqrt(1.0 - 0.36 ** (1 / 30)))
    data = thali.simulate(DENSE, 30, density=density, seed=seed, **RATES)
    return data.tensor, data.factors


def unequal_sizes(seed):
    """Draw 30 components with 2 to 178 rows, a third of them fewer than ten."""
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(2, 178, 30).astype(int)
    users = np.column_stack([rng.permutation(DENSE[0]) < size for size in sizes])
    return _read(rng, users, rng.random((DENSE[1], 30)) < 0.262)


FITTED = (
    (178, 0.48), (65, 0.15), (56, 0.25), (48, 0.37), (48, 0.35), (43, 0.10), (39, 0.17),
    (39, 0.27), (38, 0.24), (37, 0.23), (31, 0.16), (26, 0.37), (24, 0.27), (21, 0.35), (21, 0.30),
    (20, 0.28), (20, 0.27), (19, 0.22), (17, 0.21), (14, 0.28), (12, 0.27), (11, 0.25), (10, 0.32),
    (9, 0.26), (5, 0.24), (5, 0.24), (5, 0.26), (4, 0.22), (3, 0.25), (2, 0.26),
)  # fmt: skip
"""Rows, and share of the columns, of components fitted to cells of Pollen et al. (2014)."""


def as_fitted(seed):
    """Draw 30 components with 2 to 178 rows and 10 to 48% of the columns, as fitted to cells."""
    rng = np.random.default_rng(seed)
    users = np.column_stack([rng.permutation(DENSE[0]) < size for size, _ in FITTED])
    codes = np.column_stack([rng.random(DENSE[1]) < density for _, density in FITTED])
    return _read(rng, users, codes)


def _read(rng, users, codes):
    covered = users.astype(int) @ codes.T.astype(int) > 0
    chance = np.where(covered, 1.0 - RATES["dropped"], RATES["spurious"])
    return rng.random(DENSE) < chance, (users, codes)


def tall(seed):
    """Draw 8 components in many short rows, with 20% of the entries flipped."""
    data = thali.simulate(TALL, 8, spurious=0.2, seed=seed)
    return data.tensor, data.factors


def nothing(seed):
    """Draw a table of the same size without any component."""
    return np.random.default_rng(seed).random(TALL) < 0.5, None


def sparse(seed, spread=0.0):
    """Draw 24 components in 20,000 rows, 40% of whose ones are dropped."""
    data = thali.simulate(
        SPARSE, 24, density=0.12, spurious=0.02, dropped=0.4, row_spread=spread,
        column_spread=1.5 * spread, seed=seed,
    )  # fmt: skip
    return data.tensor, data.factors


def sparse_with_effects(seed):
    """Draw the same, with rows and columns that are fuller than others."""
    return sparse(seed, 1.0)


def many(seed):
    """Draw 300 components, with 5% of the entries flipped."""
    data = thali.simulate(MANY, 300, spurious=0.05, seed=seed)
    return data.tensor, data.factors


CONTROLS = {  # what is drawn, and how many components there are
    "dense": (dense, 30),
    "dense, unequal sizes": (unequal_sizes, 30),
    "dense, as fitted": (as_fitted, 30),
    "tall": (tall, 8),
    "tall, noise only": (nothing, 0),
    "sparse, many rows": (sparse, 24),
    "sparse, many rows, effects": (sparse_with_effects, 24),
    "many components": (many, 300),
}
ONLY_STARTS = {"many components"}  # a whole run takes an hour


def follow(task):
    """Follow the first chain of a run, and sample as a user would."""
    make, expected = CONTROLS[task["control"]]
    tensor, truth = make(task["seed"])
    noise = noise_of(task, tensor.shape)
    target = with_chosen_density(Target.prepare(tensor, Model(noise=noise), threads=2))
    key = chain_key(task["seed"], 0)
    began = perf_counter()
    state = first_state(key, target)
    found = {"start": state.n_components, "start_seconds": round(perf_counter() - began, 1)}
    if truth is not None:
        found["wrong"] = round(share_wrong(state.factors, truth), 4)
        at_truth = target.initial(key, [f[:, truth[0].any(axis=0)] for f in truth])
        found["gap"] = round(evidence(target, state) - evidence(target, at_truth), 1)
    most, slowest = state.n_components, 0.0
    sweeps = chain(key, target, 20, state)
    for _ in range(20):
        began = perf_counter()
        state, info = next(sweeps)
        slowest = max(slowest, perf_counter() - began)
        most = max(most, info.n_components)
    found |= {"most": most, "slowest": round(slowest, 2)}
    if task["control"] not in ONLY_STARTS:
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            posterior = thali.sample(
                tensor, noise=noise, seed=task["seed"], threads=2, progress=False
            )
        found["seconds"] = round(perf_counter() - began, 1)
        found["modes"] = [most_frequent(numbers) for numbers in posterior.n_components]
        found["first"] = posterior.n_components[:, 0].tolist()
        if truth is not None:
            n_chains, n_draws = posterior.n_components.shape
            last = [posterior.draw(number, n_draws - 1).state for number in range(n_chains)]
            found["last_gap"] = round(
                min(evidence(target, s) for s in last) - evidence(target, at_truth), 1
            )
    return found | {"expected": expected}


def share_wrong(factors, truth, n_rows=5000):
    """Return the share of entries of the first rows whose cover is not that of the truth."""
    (users, codes), (true_users, true_codes) = (
        [np.asarray(f.dense() if hasattr(f, "dense") else f, np.float32) for f in both]
        for both in (factors, truth)
    )
    found, true = users[:n_rows] @ codes.T, true_users[:n_rows] @ true_codes.T
    return float(((found > 0) != (true > 0)).mean())


def with_chosen_density(target):
    """Return the target that `thali.sample` would have, if nothing is said about the density."""
    own = None

    def looking():
        nonlocal own
        own = yield from look(target)

    for _ in looking():
        pass
    return target if own is None else target.with_density(own)


def evidence(target, state):
    """Estimate the evidence of a state, after a few sweeps of memberships and codes."""
    growth = Growth(chain_key(0), target)
    growth.state = state
    for _ in range(5):
        growth.settle()
        growth.sweep()
    return log_evidence(growth)


def tell_controls(runs, out):  # noqa: ARG001
    """Describe the runs on the controls."""
    rows = []
    for name, (make, expected) in CONTROLS.items():
        chosen = [run for run in runs if run["control"] == name]
        if not chosen:
            continue
        chains = [mode for run in chosen for mode in run.get("modes", ())]
        wrong = [run["wrong"] for run in chosen if "wrong" in run]
        rows.append(
            [
                f"{name}: {make.__doc__.split('Draw ')[1].rstrip('.')}",
                expected,
                ", ".join(str(run["start"]) for run in chosen),
                f"{sum(m == expected for m in chains)} of {len(chains)}" if chains else "",
                min((run["last_gap"] for run in chosen if "last_gap" in run), default=""),
                f"{max(wrong):.2%}" if wrong else "",
                max(run["most"] for run in chosen),
                f"{max(run['start_seconds'] for run in chosen):.1f}",
                f"{max(run.get('seconds', 0.0) for run in chosen) or '':}",
            ]
        )
    head = [
        "data", "components", "after the start, by seed", "chains whose mode is right",
        "least evidence, minus that from the truth",
        "entries wrong after the start", "most components in 20 sweeps",
        "start, s", "whole call, s",
    ]  # fmt: skip
    return f"""## Controls

On these data, a chain that begins without components makes far too many. They are sampled with
the default settings on two threads (for 300 components, only the start of one chain is run). The
evidence is the log joint density of data and users, with the codes summed out, of the last draw
of each of four chains. Times are those of the slowest run; runs side by side (`--jobs`) slow
each other down.

{table(head, rows)}"""
