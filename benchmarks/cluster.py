"""Sweeps shared by MPI processes: time per sweep, the part of it that is communication, memory.

    python benchmarks/cluster.py                        # 1 and 2 processes of one thread
    python benchmarks/cluster.py --ranks 1,2,4,8,16
    python benchmarks/cluster.py --ranks 1,2 --kind gpu # processes that share GPUs
    python benchmarks/cluster.py --noise effects --ranks 1,2,4,8,16
    python benchmarks/cluster.py --ranks 1,16 --mpiexec "mpiexec --bind-to core" --rounds 3
    python benchmarks/cluster.py --memory --ranks 1,2,4 --shape 40000,40000
    python benchmarks/cluster.py --memory --ranks 1,2,4 --shape 40000,40000 --form npy

A row of the table is a job of its own, started with mpiexec; before them, one process samples
without MPI. On a machine whose cores are disturbed, jobs should take turns for some rounds; a row
is then the job whose sweeps are in the middle. Times are medians over sweeps of the slowest
process; the processor's time is that of its main thread without messages, which other programs on
the machine disturb less. ``bytes`` is what a process receives per sweep, and ``predicted`` what
the docs ("Beyond one machine") say.
Digests of the last state must be equal in all rows.

Memory is the largest that any process has had (VmHWM) while it loaded the data and did some
sweeps, less that of the same job with tiny data: Python, libraries and compiled code.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

import numpy as np
from made import make
from mpi4py import MPI

from thali.bits import PackedTensor, unpack
from thali.data import BinaryTensor, Packed
from thali.data.readers.packed import write_packed
from thali.engines.cluster.engine import ClusterEngine
from thali.engines.cluster.ranks import Ranks
from thali.engines.cluster.reading import read_shared
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu.engine import GpuEngine
from thali.model import Model
from thali.sampler import Schedule, Target, step
from thali.sampler.moves import at_once
from thali.streams import chain_key


def predicted(shape, n_components, n_ranks, blocks=4):
    """Return the bytes that a process receives per sweep; those for moves are a rough guess."""
    if n_ranks == 1:
        return 0
    lines = [-(-n // 64) * 8 * n_components for n in shape]
    moves = shape[0] * n_components
    return (blocks * lines[0] + lines[1]) * (n_ranks - 1) // n_ranks + moves


def timed(ranks):
    """Let the processes of a job add up the processor time of their messages."""
    ranks.processor = 0.0

    def measured(send):
        def wrapped(*arguments):
            began = thread_time()
            try:
                return send(*arguments)
            finally:
                ranks.processor += thread_time() - began

        return wrapped

    for name in ("gather", "exchange", "add", "largest"):
        setattr(ranks, name, measured(getattr(ranks, name)))
    return ranks


def engine_of(options, ranks):
    """Return the engine of this job: processes, or one engine without MPI."""
    if not options.plain:
        return ClusterEngine(ranks, options.threads, options.kind)
    return (GpuEngine if options.kind == "gpu" else CpuEngine)(threads=options.threads)


def begun(options, ranks):
    """Load the data of this job; return where its chain begins."""
    (path,) = Path(options.work).glob("data.*")
    tensor = PackedTensor.from_tensor(read_shared(path, ranks))
    with np.load(Path(options.work) / "factors.npz") as found:
        factors = found["users"], found["codes"]
    model = Model(noise=options.noise)
    target = Target.prepare(tensor, model, Schedule(starts=0), engine_of(options, ranks))
    key = chain_key(1)
    return key, target.initial(key, factors), target


def work(options):
    """Run a chain on the processes of this job; the first writes what it took."""
    at_once.PATIENCE = at_once.Patience(0)  # as in processes that have compiled everything
    ranks = timed(Ranks())
    key, state, target = begun(options, ranks)
    seconds, waited, received, messages, computed = [], [], [], [], []
    for number in range(options.warmup + options.sweeps):
        before = ranks.seconds, ranks.n_bytes, ranks.n_messages
        began, used = perf_counter(), thread_time() - ranks.processor
        state, _ = step(key, state, target)
        took = perf_counter() - began
        if number >= options.warmup:
            seconds.append(took)
            computed.append(thread_time() - ranks.processor - used)
            waited.append(ranks.seconds - before[0])
            received.append(ranks.n_bytes - before[1])
            messages.append(ranks.n_messages - before[2])
    digest = sha256(b"".join(f.words.tobytes() for f in state.factors)).hexdigest()[:12]
    own = {
        "sweep": median(seconds), "waited": median(waited), "bytes": median(received),
        "messages": median(messages), "digest": digest, "components": state.n_components,
        "computed": median(computed),
    }  # fmt: skip
    everyone = MPI.COMM_WORLD.gather(own)
    if ranks.number == 0:
        slowest = max(everyone, key=lambda one: one["sweep"])
        slowest["computed"] = max(one["computed"] for one in everyone)
        slowest["waited"] = min(one["waited"] for one in everyone)
        assert len({one["digest"] for one in everyone}) == 1
        sys.stdout.write(json.dumps(slowest) + "\n")


def memory(options):
    """Load the data and sweep; write the largest memory of the processes, and their share."""
    ranks = Ranks()
    key, state, target = begun(options, ranks)
    loaded = peak()
    for _ in range(2):
        state, _ = step(key, state, target)
    held = sum(part.ones.nbytes for part in target.engine._parts)
    everyone = MPI.COMM_WORLD.gather((loaded, peak(), held))
    if ranks.number == 0:
        names = "loaded", "peak", "held"
        largest = dict(zip(names, map(max, zip(*everyone, strict=True)), strict=True))
        sys.stdout.write(json.dumps(largest) + "\n")


def peak():
    """Return the largest memory that this process has had so far, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--shape", default="20000,20000")
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--noise", default="unequal")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kind", default="cpu", choices=["cpu", "gpu", "auto"])
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--mpiexec", default=usual_mpiexec(), help="with its options")
    parser.add_argument("--rounds", type=int, default=1, help="how often every job is started")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--form", default="packed", choices=["packed", "npy"])
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        (memory if options.memory else work)(options)
        return
    shape = tuple(map(int, options.shape.split(",")))
    print(f"{shape[0]:,} x {shape[1]:,}, {options.components} components, noise {options.noise}, "
          f"{options.threads} threads, {options.kind}; load {os.getloadavg()[0]:.1f}")  # fmt: skip
    numbers = list(map(int, options.ranks.split(",")))
    with TemporaryDirectory() as folder:
        (show_memory if options.memory else show_times)(options, shape, numbers, Path(folder))


def show_times(options, shape, numbers, folder):
    """Show how long a sweep takes without MPI, and with so many processes."""
    write(folder, shape, options)
    kinds = {(1, "--plain"): []} | {(n,): [] for n in numbers}
    for _ in range(options.rounds):
        for (n, *more), found in kinds.items():
            found.append(job(options.mpiexec, n, folder, *more))
    middle = {
        kind: sorted(found, key=lambda one: one["sweep"])[len(found) // 2]
        for kind, found in kinds.items()
    }
    plain, first = middle[1, "--plain"], middle[numbers[0],]
    print(f"    without MPI: {plain['sweep'] * 1e3:9.1f} ms per sweep, {plain['digest']}")
    for n in numbers:
        found = middle[n,]
        expected = predicted(shape, found["components"], n)
        print(
            f"{n:4d} processes: {found['sweep'] * 1e3:9.1f} ms per sweep, "
            f"{first['sweep'] / found['sweep']:5.2f} times as fast as the first row, "
            f"{plain['sweep'] / found['sweep']:5.2f} as without MPI; "
            f"{found['waited'] / found['sweep']:5.1%} waiting, {found['messages']:.0f} messages, "
            f"{found['bytes']:.3g} bytes (predicted {expected:.3g}); "
            f"its processor computes {found['computed'] * 1e3:.1f} ms "
            f"({first['computed'] / found['computed']:.2f} times as fast); "
            f"{found['components']} components, {found['digest']}",
            flush=True,
        )


def show_memory(options, shape, numbers, folder):
    """Show the largest memory of so many processes."""
    folders = folder / "tiny", folder / "whole"
    for place, size in zip(folders, ((64 * max(numbers),) * 2, shape), strict=True):
        place.mkdir()
        write(place, size, options)
    for n in numbers:
        tiny, found = (job(options.mpiexec, n, place) for place in folders)
        megabytes = {name: (found[name] - tiny[name]) / 1e6 for name in found}
        print(
            f"{n:4d} processes: one holds {megabytes['held']:.0f} MB of data; its memory grows "
            f"by at most {megabytes['loaded']:.0f} MB until they are loaded, and by "
            f"{megabytes['peak']:.0f} MB until the end of the second sweep",
            flush=True,
        )


def write(folder, shape, options):
    """Write data and the factors behind them."""
    tensor, (users, codes) = make(shape, options.components)
    first = tensor.unfoldings[0]
    if options.form == "npy":
        place = folder / "data.npy"
        dense = np.lib.format.open_memmap(place, "w+", np.uint8, shape)
        for i in range(0, shape[0], 1000):
            dense[i : i + 1000] = unpack(first.ones[i : i + 1000], shape[1])
    else:
        names = BinaryTensor(Packed(first.ones, shape), None, ("r", "c"), (None, None))
        with (folder / "data.packed").open("wb") as file:
            write_packed(file, names, *first)
    np.savez(folder / "factors.npz", users=users, codes=codes)


def usual_mpiexec():
    """Return the program that starts processes: the one beside Python, or another."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else "mpiexec"


def job(mpiexec, n, folder, *more):
    """Start this program in n processes; return what the first of them tells."""
    command = [*shlex.split(mpiexec), "-n", str(n), sys.executable, *sys.argv]
    command += ["--work", str(folder), *more]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    # Open MPI adds codes for terminals.
    return json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]


if __name__ == "__main__":
    main()
