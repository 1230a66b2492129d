"""Sweeps of tensors: ``python benchmarks/tensors.py [--lom FOLDER]``, or ``[--gpu]``.

On one thread of the CPU by default. A chain goes on while it is measured, so that nothing is
reused from one sweep to the next. Times are those of the processor, which other work on the
machine disturbs less than those of a clock. With ``--lom``, a folder that holds a copy of the
paper's authors' package `lom` that runs with the installed NumPy and Numba, its three-way sampler
takes turns with ours on the same data.

With ``--gpu``, sweeps of a larger tensor on a GPU instead, with and without levels, by a clock.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import sys
from time import perf_counter, process_time

if "--gpu" not in sys.argv:
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
LARGE, N_LARGE, GOAL_GPU = (1_000, 1_000, 1_000), 20, 40


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


def on_cpu(rounds, lom):
    """Print the times of sweeps on one thread, and ratios to those of lom."""
    data = thali.simulate(SHAPE, N_COMPONENTS, spurious=0.1, seed=0)
    jobs = {
        "finite sweep": going_on(data.tensor, Model(N_COMPONENTS), STILL, data.factors),
        "buffet sweep": going_on(data.tensor, Model(), STILL, data.factors),
        "buffet sweep with moves": going_on(data.tensor, Model(), Schedule(), data.factors),
    }
    if lom:
        jobs["finite sweep of lom"] = of_lom(lom, data.tensor)
    times = {name: [] for name in jobs}
    for job in jobs.values():
        for _ in range(10):
            job()
    for _ in range(rounds):
        for name, job in jobs.items():
            start = process_time()
            for _ in range(TURN):
                job()
            times[name].append(1e3 * (process_time() - start) / TURN)
    print(f"\n{' x '.join(map(str, SHAPE))}, {N_COMPONENTS} components, one thread, milliseconds")
    for name, found in times.items():
        print(f"  {name:26} best {min(found):8.3f}, median {np.median(found):8.3f}")
    if lom:
        for kind, of in (("best", min), ("median", np.median)):
            ratio = of(times["finite sweep of lom"]) / of(times["finite sweep"])
            print(f"  finite sweep, lom / thali, {kind}: {ratio:.1f} (at least {GOAL})")


def large(spread, seed=0):
    """Return a large tensor with or without levels of lines, and its factors."""
    rng = np.random.default_rng(seed)
    density = (1 - 0.5 ** (1 / N_LARGE)) ** (1 / 3)
    rows, *others = factors = [rng.random((n, N_LARGE)) < density for n in LARGE]
    levels = [rng.normal(0, spread, n).astype(np.float32) for n in LARGE]
    tensor = np.empty(LARGE, np.uint8)
    for i, taken in enumerate(rows):
        chosen = [factor[:, taken].astype(np.float32) for factor in others]
        covered = chosen[0] @ chosen[1].T > 0
        odds = levels[0][i] + levels[1][:, None] + levels[2] + np.where(covered, 2.2, -2.2)
        tensor[i] = rng.random(LARGE[1:], dtype=np.float32) < 1 / (1 + np.exp(-odds))
    return tensor, factors


def on_gpu(rounds, *, is_profiled):
    """Print the times of sweeps on a GPU, which copies to the host what the sampler decides on."""
    quiet = Schedule(blocks=4, **dict.fromkeys(MOVES, 0))
    for spread in (0.0, 0.5):
        tensor, factors = large(spread)
        for name, model, schedule in (
            ("two rates", Model(noise="unequal"), quiet),
            ("levels", Model(noise="effects"), quiet),
            ("levels, all moves", Model(noise="effects"), Schedule()),
        ):
            target = Target.prepare(tensor, model, schedule, engine="gpu")
            state = target.initial(KEY, factors)
            times = []
            for number in range(20 + rounds):
                start = perf_counter()
                state, _ = step(KEY, state, target)
                state.factors[0].words.sum()  # waits for the device
                if number >= 20:
                    times.append(1e3 * (perf_counter() - start))
            print(
                f"  spread {spread}, {name:18} median {np.median(times):7.1f}, mean "
                f"{np.mean(times):7.1f}, slowest {max(times):7.1f} (mean below {GOAL_GPU}); "
                f"{state.n_components} components",
                flush=True,
            )
            if is_profiled:
                profile = cProfile.Profile()
                for _ in range(16):
                    state, _ = profile.runcall(step, KEY, state, target)
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lom", metavar="FOLDER", help="folder that holds the package lom")
    parser.add_argument("--gpu", action="store_true", help="a large tensor on a GPU instead")
    parser.add_argument("--profile", action="store_true", help="with --gpu: where the host waits")
    given = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Numba {numba.__version__}, thali {thali.__version__}"
    )
    if given.gpu:
        print(f"{' x '.join(map(str, LARGE))}, {N_LARGE} components, milliseconds")
        on_gpu(given.rounds, is_profiled=given.profile)
    else:
        on_cpu(given.rounds, given.lom)


if __name__ == "__main__":
    main()
