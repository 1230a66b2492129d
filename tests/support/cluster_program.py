"""Started by mpiexec: chains on some of the processes, told as digests that must be equal."""

import json
import sys
import traceback
from hashlib import sha256
from time import sleep

import numpy as np

import thali
from support.chains import BROAD
from thali.engines.cpu.engine import CpuEngine
from thali.model import Effects, Model, PerComponent
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

FEW = {"starts": 1, "regrow": 1}


def cases():
    """Return data, model, schedule and number of sweeps by name."""
    return {
        "buffet": ((330, 200), Model(noise="unequal"), Schedule(warmup=3, **FEW), 8),
        "effects": ((330, 200), Model(noise=Effects()), Schedule(warmup=3, starts=0), 6),
        "own densities": ((140, 70), Model(alpha=BROAD, density=PerComponent()),
                          Schedule(starts=0, hold=2), 8),
        "finite": ((200, 330), Model(4, "unequal"), Schedule(warmup=2), 5),
        "tensor": ((130, 70, 9), Model(noise="unequal"), Schedule(warmup=2, **FEW), 4),
        "finite tensor": ((9, 130, 70), Model(3, "unequal"), Schedule(warmup=2), 4),
        "tensor with effects": ((66, 40, 5), Model(noise=Effects(jumps=False)),
                                Schedule(starts=0), 4),
        "subset": ((600, 70), Model(noise=Effects()), Schedule(first_rows=130, **FEW), 3),
    }  # fmt: skip


def data_of(shape, *, unknown):
    return thali.simulate(shape, 4, spurious=0.05, dropped=0.1, unknown=unknown, seed=5).tensor


def told(engine, name, *, unknown=0.0):
    """Return a digest of all states of a chain, and what its end looks like."""
    shape, model, schedule, n_sweeps = cases()[name]
    target = Target.prepare(data_of(shape, unknown=unknown), model, schedule, engine)
    seen = sha256()
    for state, info in chain(chain_key(7), target, n_sweeps):
        for factor in state.factors:
            seen.update(factor.words.tobytes())
        scalars = [state.alpha, *state.noise.values(), *state.covered, info.log_joint]
        seen.update(np.array(scalars, np.float64).tobytes())
    return seen.hexdigest(), state.n_components


def alone(unknown_too=True):
    return {
        f"{name}, {unknown} unknown": told(CpuEngine(1), name, unknown=unknown)
        for name in cases()
        for unknown in (0.0, 0.1)
    }


def main():
    from mpi4py import MPI

    from thali.engines.cluster.engine import ClusterEngine
    from thali.engines.cluster.ranks import Ranks

    world = MPI.COMM_WORLD
    wanted = [int(n) for n in sys.argv[1].split(",")]
    found = {}
    for n in wanted:
        part = world.Split(0 if world.rank < n else 1)
        if world.rank < n:
            engine = ClusterEngine(Ranks(part), 1)
            for name in cases():
                for unknown in (0.0, 0.1):
                    found[f"{n}: {name}, {unknown} unknown"] = told(engine, name, unknown=unknown)
        waiting = world.Ibarrier()
        while not waiting.Test():
            sleep(0.01)
    everyone = world.gather(found)
    if world.rank == 0:
        assert all(one == found for one in everyone[: min(wanted)])
        sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 - the others must not wait
        from mpi4py import MPI

        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
