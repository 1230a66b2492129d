"""Where the vertical kernel beats the horizontal one: ``./dev python benchmarks/forms.py``.

Prints time of the horizontal form / time of the vertical form for one update of a factor of 10
components, by number of rows and words a row, without and with row and column effects.
`engines/cpu/draw_rows.py` chooses by these tables.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

import thali
from thali.engines.cpu.engine import CpuEngine
from thali.model import Effects, Levels, Model
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


def uneven(noise):
    """Return levels of some 20 classes of rows and of columns, and one jump."""
    rng = np.random.default_rng(0)
    grids, hyper = noise.prior.grids, noise.hyper
    rows, columns = (
        np.searchsorted(grid, rng.normal(mean, 1.0, len(levels)))
        for grid, mean, levels in (
            (grids.rows, 0.0, noise.rows),
            (grids.columns, grids.columns[hyper.column_mean], noise.columns),
        )
    )
    return Levels(noise.prior, rows, columns, noise.jumps, hyper)


def main():
    stream = Stream(KEY, np.uint64(99))
    print("horizontal / vertical; above 1 the vertical form is faster")
    for has_effects in (False, True):
        print("with row and column effects" if has_effects else "without effects")
        print("rows \\ words" + "".join(f"{w:>8}" for w in WORDS))
        for n_rows in ROWS:
            ratios = []
            for width in WORDS:
                data = thali.simulate((n_rows, 64 * width), 10, seed=1)
                model = Model(10, noise=Effects()) if has_effects else Model(10)
                times = []
                for form in ("horizontal", "vertical"):
                    target = Target.prepare(data.tensor, model, engine=CpuEngine(1, form))
                    state = target.initial(KEY, data.factors)
                    if has_effects:
                        state = state._replace(noise=uneven(state.noise))
                    else:
                        state, _ = step(KEY, state, target)
                    times.append(best_of(lambda t=target, s=state: update_mode(stream, s, t, 0)))
                ratios.append(times[0] / times[1])
            print(f"{n_rows:>12}" + "".join(f"{r:>8.2f}" for r in ratios), flush=True)


if __name__ == "__main__":
    main()
