"""Where the vertical kernel beats the horizontal one: ``./dev python benchmarks/forms.py``.

Prints time of the horizontal form / time of the vertical form for one update of a factor of 10
components, by number of rows and words a row. `engines/cpu/draw_rows.py` chooses by this table.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

import thali
from thali.engines.cpu.engine import CpuEngine
from thali.model import Model
from thali.sampler import Target, step
from thali.sampler.step import update_mode
from thali.streams import Stream, chain_key

ROWS = (64, 128, 256, 512, 1024, 4096)
WORDS = (1, 4, 16, 64, 128)
KEY = chain_key(0)


def best_of(job, rounds=7):
    times = []
    for _ in range(rounds):
        start = perf_counter()
        job()
        times.append(perf_counter() - start)
    return min(times)


def main():
    stream = Stream(KEY, np.uint64(99))
    print("horizontal / vertical; above 1 the vertical form is faster")
    print("rows \\ words" + "".join(f"{w:>8}" for w in WORDS))
    for n_rows in ROWS:
        ratios = []
        for width in WORDS:
            data = thali.simulate((n_rows, 64 * width), 10, seed=1)
            times = []
            for form in ("horizontal", "vertical"):
                target = Target.prepare(data.tensor, Model(10), engine=CpuEngine(1, form))
                state, _ = step(KEY, target.initial(KEY, data.factors), target)
                times.append(best_of(lambda t=target, s=state: update_mode(stream, s, t, 0)))
            ratios.append(times[0] / times[1])
        print(f"{n_rows:>12}" + "".join(f"{r:>8.2f}" for r in ratios), flush=True)


if __name__ == "__main__":
    main()
