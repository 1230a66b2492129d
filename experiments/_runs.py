"""What experiments share: runs side by side that go on where they were stopped; pages; looks."""

import argparse
import json
import os
import platform
import shlex
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import matplotlib as mpl
import numba
import numpy as np
from tqdm import tqdm

import thali
from thali.errors import NotConverged
from thali.model.model import noise_for, usual_noise
from thali.sampler import Schedule

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
SHAPE = (200, 500)
WITHOUT_MOVES = Schedule(
    "serial-integrated", split_merge=0, anchored=0, guided=0, compound=0, reseat=0, residual=0,
    toggle=0, seeded=0, starts=0,
)  # fmt: skip
"""From nothing, row by row and bit by bit: the corrected sampler as far as the paper goes."""

NOISES = {
    "effects": "levels of rows and columns",
    "unequal": "both error rates",
    "equal": "one error rate",
}
"""What thali learns under each noise."""

GREY = "#808080"  # this and the colours below are readable on white and on black
BLUE, GREEN, ORANGE, PURPLE = "#3b8ede", "#17a589", "#e8590c", "#9b6bdf"
STYLE = {
    "svg.hashsalt": "thali",  # the same file every time
    "font.size": 9,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "lines.linewidth": 1.5,
}


# --- runs ------------------------------------------------------------------------------------


def options(description, name):
    """Return a parser with the options that all experiments have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--jobs", type=int, default=2, help="processes, one run each at a time")
    out = RESULTS / f"{name}.jsonl"
    parser.add_argument("--out", type=Path, default=out, help="a line a run; its runs are kept")
    parser.add_argument(
        "--noise", type=_noise, choices=list(NOISES), default="auto",
        help="of thali; auto is what a user gets",
    )  # fmt: skip
    return parser


def _noise(given):
    return usual_noise(None) if given == "auto" else given


def with_noise(task, noise):
    """Return a task that names its noise; tasks that name none have two error rates."""
    return task if noise == "unequal" else task | {"noise": noise}


def noise_of(task, shape=SHAPE):
    """Return the noise of a task, as `thali.sample` would give it to data of that shape."""
    return noise_for(task.get("noise", "unequal"), shape, None)


def carry_out(work, tasks, chosen, prepare):
    """Do the tasks that a file does not hold yet; return settings and result of all, in order.

    A task is a dictionary of settings, as is its result. Every result is written when it is
    there, so that an interrupted experiment goes on where it was.
    """
    path = chosen.out
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a line may have been cut off
    path.write_text(whole)
    done = {_key(line["task"]): line["result"] for line in map(json.loads, whole.splitlines())}
    missing = [task for task in tasks if _key(task) not in done]
    if missing:
        results = results_of(work, missing, chosen.jobs, prepare)
        with path.open("a") as file, closing(results):
            for task, result in tqdm(results, path.stem, len(missing)):
                done[_key(task)] = result
                file.write(json.dumps({"task": task, "result": result}) + "\n")
                file.flush()
    return [task | done[_key(task)] for task in tasks]


def results_of(work, tasks, jobs, prepare):
    """Yield every task with its result, when it is there; a single job needs no other process."""
    if jobs == 1:
        prepare()
        yield from ((task, work(task)) for task in tasks)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), prepare)
    futures = {pool.submit(work, task): task for task in tasks}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _key(task):
    return json.dumps(task, sort_keys=True)


def one_chain(tensor, warmup, draws, seed, **settings):
    """Sample as a user would, but one chain on one thread, and without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return thali.sample(
            tensor, chains=1, warmup=warmup, draws=draws, seed=seed, threads=1, **settings
        )


def compile_samplers(noise):
    """Do what a process does only once, so that it is not timed; moves of all kinds included."""
    tensor = thali.simulate(SHAPE, 3, spurious=0.2, seed=1).tensor
    for schedule in ("parallel", WITHOUT_MOVES):
        posterior = one_chain(tensor, 10, 5, 1, schedule=schedule, noise=noise)
        posterior.predict(noise_free=True)


def most_frequent(numbers):
    """Return the most frequent of some non-negative integers."""
    return int(np.bincount(np.asarray(numbers).ravel()).argmax())


def level_of(log_joints):
    """Return what counts as the log joint density of a mode that a chain was in."""
    return np.quantile(log_joints, 0.05)


def first_at(log_joints, level):
    """Return the first sweep at a level, counted from 1, or None."""
    at_level = np.flatnonzero(log_joints >= level)
    return int(at_level[0]) + 1 if at_level.size else None


# --- pages -----------------------------------------------------------------------------------


def table(head, rows):
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def how_it_was_run(threads="one thread"):
    """Return the command, the machine, and how many threads a run used, for a page."""
    command = shlex.join(
        ["./dev", "python", f"experiments/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    )
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    versions += f", Numba {numba.__version__}, thali {thali.__version__}"
    machine = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores; {versions}"
    return f"```sh\n{command}\n```\n\nMachine: {machine}. A run uses {threads}.\n"


def write_page(path, *parts):
    """Write a page of the documentation."""
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    print(f"wrote {path}")


def draw(path, plot, *arguments):
    """Make a figure in the style of all figures and save it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        plot(*arguments).savefig(path, transparent=True, metadata={"Date": None})
    print(f"wrote {path}")
