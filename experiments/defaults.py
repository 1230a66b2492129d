"""How the defaults of ``thali.sample`` were chosen: ``./dev python experiments/defaults.py``.

For simulated data of several sizes, and for several lengths of warm-up: how often is the most
probable number of components the true one, and how often do the chains say that they cannot be
trusted? What must not happen is a wrong number without a warning.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from time import perf_counter

import thali
from thali.errors import NotConverged

CASES = [  # shape, components, flips
    ((50, 50), 3, 0.1),
    ((200, 500), 5, 0.1),
    ((200, 500), 5, 0.2),
    ((1000, 200), 6, 0.1),
    ((301, 21_000), 10, 0.1),
]


def outcome(data, truth, warmup, draws, seed):
    """Return what a user would see, and the time it takes."""
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConverged)
        posterior = thali.sample(data, warmup=warmup, draws=draws, seed=seed)
    seconds = perf_counter() - start
    is_right = int(posterior.n_components_table().idxmax()) == truth
    return ("right" if is_right else "wrong") + (", warned" if caught else ""), seconds


def main():
    """Run all cases; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--warmup", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)))
    options = parser.parse_args()
    for number in options.cases:
        shape, truth, flips = CASES[number]
        for warmup in options.warmup:
            counts, seconds = Counter(), 0.0
            for seed in range(options.seeds):
                data = thali.simulate(shape, truth, spurious=flips, seed=100 + seed).tensor
                told, time = outcome(data, truth, warmup, options.draws, seed)
                counts[told] += 1
                seconds += time / options.seeds
            line = {"shape": shape, "components": truth, "flips": flips, "warmup": warmup}
            line |= {"draws": options.draws, "seconds": round(seconds, 1), **counts}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
