"""Started by mpiexec: chains on some of the processes, told as digests that must be equal."""

import json
import sys
import traceback
from hashlib import sha256

import numpy as np

import thali
from support.chains import BROAD
from thali.model import Effects, Model, PerComponent
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

FEW = {"starts": 1, "regrow": 1}

CASES = {
    "buffet": ((330, 200), Model(noise="unequal"), Schedule(warmup=3, **FEW), 8),
    "effects": ((330, 200), Model(noise=Effects()), Schedule(warmup=3, starts=0), 6),
    "windows": ((200, 700), Model(noise="unequal"), Schedule(starts=0), 6),
    "windows with effects": ((150, 700), Model(noise=Effects()), Schedule(starts=0), 6),
    "tiny": ((50, 40), Model(noise="unequal"), Schedule(starts=0, hold=0), 12),
    "own densities": (
        (140, 70), Model(alpha=BROAD, density=PerComponent()), Schedule(starts=0, hold=2), 8,
    ),
    "finite": ((200, 330), Model(4, "unequal"), Schedule(warmup=2), 5),
    "tensor": ((130, 70, 9), Model(noise="unequal"), Schedule(warmup=2, **FEW), 4),
    "finite tensor": ((9, 130, 70), Model(3, "unequal"), Schedule(starts=0), 4),
    "tensor with effects": (
        (66, 40, 5), Model(noise=Effects(jumps=False)), Schedule(starts=0), 4,
    ),
    "start on some rows": (
        (600, 70), Model(noise="unequal"), Schedule(first_rows=130, **FEW), 3,
    ),
}  # fmt: skip
"""Shape of the data, model, schedule and number of sweeps of chains."""


def data_of(shape, *, unknown):
    return thali.simulate(shape, 4, spurious=0.05, dropped=0.1, unknown=unknown, seed=5).tensor


def told(engine, name, *, unknown=0.0):
    """Return a digest of all states of a chain, and what its end looks like."""
    shape, model, schedule, n_sweeps = CASES[name]
    target = Target.prepare(data_of(shape, unknown=unknown), model, schedule, engine)
    seen = sha256()
    for state, info in chain(chain_key(7), target, n_sweeps):
        for factor in state.factors:
            seen.update(factor.words.tobytes())
        scalars = [state.alpha, *state.noise.values(), *state.covered, info.log_joint]
        seen.update(np.array(scalars, np.float64).tobytes())
    return seen.hexdigest(), state.n_components


def main(kind, *names):
    """Run chains on all processes, and write their digests."""
    from mpi4py import MPI

    from thali.engines.cluster.engine import ClusterEngine
    from thali.engines.cluster.ranks import Ranks

    world = MPI.COMM_WORLD
    if kind == "mixed":
        kind = "gpu" if world.rank % 2 else "cpu"
    engine = ClusterEngine(Ranks(), 1, kind)
    found = {name: told(engine, name, unknown=0.1) for name in names}
    everyone = world.gather(found)
    if world.rank == 0:
        assert all(one == found for one in everyone)
        sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:  # noqa: BLE001 - the others must not wait
        from mpi4py import MPI

        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
