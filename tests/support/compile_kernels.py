"""Compile most kernels before anything else needs them: `python tests/support/compile_kernels.py`.

With an empty cache, tests, documents and all the processes that they start would compile the same
kernels at the same time. Two processes share the work here: one goes through the jobs forwards,
the other backwards until they meet, and each waits for a kernel that the other is compiling. So
jobs at the two ends of the list should need different kernels: the first samples, and the last ask
about draws that are made up, not sampled. What is missing in the list is compiled later; that
costs time, nothing else.
"""

import sys
import warnings
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np

import thali
from thali import inference
from thali.errors import NotConverged
from thali.sampler import levels, small
from thali.sampler.moves import at_once

sys.path.append(str(Path(__file__).parents[1]))
from support.compile_once import compile_once
from support.made import data as made_data
from support.made import made, with_effects

FEW = {"chains": 2, "warmup": 30, "draws": 10, "seed": 0, "progress": False}


def data(shape, unknown=0.1, **spreads):
    return thali.simulate(shape, 3, spurious=0.1, unknown=unknown, seed=0, **spreads).tensor


def answer(shape, **settings):
    # Without effects in the data, kernels for several classes of rows and columns are not needed.
    has_effects = settings.get("noise", "unequal") != "unequal"
    uneven = {"row_spread": 1.0, "column_spread": 1.0} if has_effects else {}
    ask(thali.sample(data(shape, **uneven), **FEW | settings))


def ask(posterior):
    assert posterior.n_that_matter.size
    posterior.point_estimate()
    posterior.predict()
    posterior.align()


def transform(n_components, noise="unequal"):
    settings = {"noise": noise, "chains": 1, "warmup": 10, "draws": 10, "random_state": 0}
    model = thali.BooleanFactorization(n_components, **settings)
    model.fit_transform(data((40, 20), unknown=0.0))


def place_rows(posterior):
    with patch.object(inference, "sample", lambda *_, **__: posterior):
        model = thali.BooleanFactorization().fit(made_data())
    model.transform(made_data())
    model.score(made_data())


JOBS = [
    lambda: answer((40, 20), noise="unequal"),
    lambda: answer((40, 20), noise="effects"),
    lambda: answer((400, 40), noise="unequal"),
    lambda: answer((40, 20), noise="unequal", density=thali.model.PerComponent()),
    lambda: answer((40, 20), noise=thali.model.Effects(jumps=False)),
    lambda: answer((300, 20), n_components=3, noise="effects"),  # the vertical form by class
    lambda: answer((40, 20), noise="unequal", schedule="serial-integrated"),
    lambda: transform(None),
    lambda: transform(3, noise="effects"),
    lambda: answer((8, 6, 7), n_components=2),
    lambda: transform(3),
    lambda: answer((400, 40), n_components=3),
    lambda: transform(15, noise="effects"),  # too many to enumerate
    lambda: place_rows(made()),
    lambda: ask(made()),
    lambda: place_rows(with_effects(made())),
    lambda: ask(with_effects(made())),
]


def work(step, is_taken):
    """Do jobs from either end, until the other process has taken the next one."""
    compile_once()
    # Tests take so long together that it pays.
    for part in (at_once, small, levels):
        part.PATIENCE = at_once.Patience(0)
    warnings.simplefilter("ignore", NotConverged)
    for number in range(len(JOBS))[::step]:
        with is_taken.get_lock():
            if is_taken[number]:
                return
            is_taken[number] = True
        with np.errstate(all="ignore"):
            JOBS[number]()


if __name__ == "__main__":
    context = get_context("spawn")
    is_taken = context.Array("b", len(JOBS))
    processes = [context.Process(target=work, args=(step, is_taken)) for step in (1, -1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
